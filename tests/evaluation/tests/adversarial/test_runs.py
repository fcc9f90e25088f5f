"""The adversarial test from end to end: a run, its summary, figure, sentences, its folder, and the command."""

import numpy as np
import pandas as pd
import pytest

import attnfaith as af
from attnfaith.errors import InputError
from tests.helpers import commands
from tests.helpers.small_runs import KINDS, QUICK, ROWS, computed, evaluator_of


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return commands.save_flan(tmp_path_factory.mktemp("model") / "flan")


@pytest.fixture(scope="module")
def results(folder):
    return af.Evaluator(folder).compute(ROWS, tests=["adversarial"], n_resamples=99, quiet=True)


def test_a_run_and_what_it_says(results):
    table = results.table("adversarial")
    assert results.tests["adversarial"]["steps"] == 500
    assert table.text_id.tolist() == [*range(40), 42]  # one word is too short, none is set aside
    assert (table.tvd <= table.epsilon).all()
    assert (table.epsilon == 0.01).all()
    assert (table.js <= table.js_low + 1e-12).all()
    assert (table.js_low == table.js_high).all()  # two classes: exact
    assert (table.js_high <= table.js_most + 1e-12).all()
    assert (table.js > 0.5 * table.js_high).mean() > 0.8
    summary = results.summary()
    overall = summary[(summary.other == "") & (summary.slice == "all")].set_index("figure")
    assert overall.value["js_mean"] == pytest.approx(table.js.mean())
    assert overall.value["gap_exact"] == pytest.approx((table.js_high - table.js).mean())
    assert (overall.value["too_short"], overall.value["set_aside"]) == (1, 1)
    assert set(results.summary(by="class").slice) == {"class=0", "class=1"}
    assert len(results.verdict.parts["adversarial"]) == 4


def test_another_seed_searches_elsewhere_and_what_is_exact_stays(results, folder):
    seeded = computed(af.Evaluator(folder), ROWS, "adversarial", seed=1)
    assert not np.allclose(seeded.table("adversarial").js, results.table("adversarial").js, atol=1e-3)
    np.testing.assert_allclose(seeded.table("adversarial").js_high, results.table("adversarial").js_high)


def test_its_figure_has_the_names_of_the_classes(results, tmp_path):
    figure = results.plot("adversarial", path=tmp_path / "figure.png")
    assert [axis.get_title(loc="left").split(":")[0] for axis in figure.axes] == ["bad", "good"]
    assert (tmp_path / "figure.png").stat().st_size > 10_000
    with pytest.raises(InputError, match="Kinds: divergences"):
        results.plot("adversarial", kind="violins")


def test_results_are_kept_with_their_options(folder, tmp_path):
    asked = af.tests.Adversarial(steps=20, candidates=2, epsilon=0.2, near=0.5)
    results = af.Evaluator(folder).compute(ROWS, tests=[asked], n_resamples=99, quiet=True, output_dir=tmp_path / "run")
    again = af.load_results(results.save(tmp_path / "copy"))
    assert again.tests["adversarial"] == asked.options
    pd.testing.assert_frame_equal(again.summary(), results.summary())
    assert str(again) == str(results)
    assert "at least 50 % of ln 2" in str(again)
    assert results.table("adversarial").satisfied.max() <= 2


def test_the_command(folder, tmp_path):
    data = commands.write_csv(tmp_path / "data.csv", [(row["text"], row["label"]) for row in ROWS[:40]])
    options = ("--tests", "adversarial", "--option", "adversarial.steps=30", *commands.FEW)
    result = commands.run(
        "evaluate", folder, data, "--output", tmp_path / "run", "--option", "adversarial.epsilon=0.1", *options
    )
    assert (result.exit_code, result.stderr) == (0, "")
    assert "a total variation distance of at most 0.1." in result.stdout
    kept = af.load_results(tmp_path / "run").tests["adversarial"]
    assert (kept["steps"], kept["epsilon"]) == (30, 0.1)
    wrong = commands.run("evaluate", folder, data, *options[:3], "adversarial.steps=0", *commands.FEW)
    commands.refused(wrong, 2, "Expected the adversarial test's steps to be a whole number of at least 1, got 0")


def test_a_transformer(tmp_path):
    folder = commands.save_bert(tmp_path / "bert")
    result = af.Evaluator(folder).compute(ROWS, tests=[QUICK["adversarial"]], n_resamples=99, quiet=True)
    table = result.table("adversarial")
    assert len(table) == 42  # without the empty text
    assert table.js_high.isna().all()
    assert table.js.max() > 0.05
    assert (table.tvd <= table.epsilon).all()
    assert result.plot("adversarial").axes
    figures = result.summary().figure
    assert not figures.str.endswith(("_exact", "_low", "_high")).any()


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_decision(kind):
    results = computed(*evaluator_of(kind), "adversarial")
    table = results.table("adversarial")
    assert len(table) == 30
    assert table.js.max() > 0.01
    assert (table.js <= table.js_high + 1e-9).all()
    assert (table.js_low <= table.js_high).all()
    assert ("a value that moves by at most" in str(results)) == (kind == "regression")
    classes = len(set(table.prediction)) if kind in ("sigmoid", "multiclass") else 1
    assert len(results.plot("adversarial").axes) == classes
    exact = kind in ("sigmoid", "regression")
    assert ("js_mean_exact" in set(results.summary().figure)) == exact
