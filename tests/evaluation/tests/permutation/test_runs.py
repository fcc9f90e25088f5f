"""The permutation test from end to end: a run, its summary, figure, sentences, its folder, and the command."""

import numpy as np
import pandas as pd
import pytest

import attnfaith as af
from attnfaith.errors import InputError
from tests.helpers import commands
from tests.helpers.small_runs import KINDS, ROWS, computed, evaluator_of


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return commands.save_flan(tmp_path_factory.mktemp("model") / "flan")


@pytest.fixture(scope="module")
def results(folder):
    return af.Evaluator(folder).compute(ROWS, tests=["permutation"], n_resamples=99, quiet=True)


def test_a_run_and_what_it_says(results):
    table = results.table("permutation")
    assert results.tests == {"permutation": {"permutations": 100}}
    assert table.text_id.tolist() == [*range(40), 42]  # one word is too short, none is set aside
    assert (table.median_tvd <= table.max_tvd).all()
    assert (table.mean_tvd <= table.max_tvd).all()
    assert ((table.flips == 0) == table.never_changes).all()
    assert table.max_tvd.max() > 0.1
    assert set(table.prediction) == {0, 1}
    summary = results.summary()
    overall = summary[(summary.other == "") & (summary.slice == "all")].set_index("figure")
    assert overall.value["median_tvd"] == pytest.approx(table.median_tvd.median())
    assert (overall.value["too_short"], overall.value["set_aside"]) == (1, 1)
    assert set(results.summary(by="class").slice) == {"class=0", "class=1"}
    assert len(results.verdict.parts["permutation"]) == 3


def test_another_seed_draws_other_shuffles(results, folder):
    seeded = computed(af.Evaluator(folder), ROWS, "permutation", seed=1)
    assert not np.allclose(seeded.table("permutation").mean_tvd, results.table("permutation").mean_tvd)


def test_its_figure_has_the_names_of_the_classes(results, tmp_path):
    figure = results.plot("permutation", path=tmp_path / "figure.png")
    assert [axis.get_title(loc="left").split(":")[0] for axis in figure.axes] == ["bad", "good"]
    assert (tmp_path / "figure.png").stat().st_size > 10_000
    with pytest.raises(InputError, match="Kinds: distances"):
        results.plot("permutation", kind="violins")


def test_results_are_kept_with_their_option(folder, tmp_path):
    asked = af.tests.Permutation(permutations=7)
    results = af.Evaluator(folder).compute(ROWS, tests=[asked], n_resamples=99, quiet=True, output_dir=tmp_path / "run")
    again = af.load_results(results.save(tmp_path / "copy"))
    assert again.tests == {"permutation": {"permutations": 7}}
    pd.testing.assert_frame_equal(again.summary(), results.summary())
    assert str(again) == str(results)
    assert set((results.table("permutation").flips * 7).round(9)) <= set(range(8))


def test_the_command(folder, tmp_path):
    data = commands.write_csv(tmp_path / "data.csv", [(row["text"], row["label"]) for row in ROWS[:40]])
    options = ("--tests", "permutation", "--option", "permutation.permutations=9", *commands.FEW)
    result = commands.run("evaluate", folder, data, "--output", tmp_path / "run", *options)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "Shuffling the weights of the final attention" in result.stdout
    assert af.load_results(tmp_path / "run").tests == {"permutation": {"permutations": 9}}
    wrong = commands.run("evaluate", folder, data, *options[:3], "permutation.permutations=0", *commands.FEW)
    commands.refused(wrong, 2, "Expected permutations to be a whole number of at least 1, got 0")


def test_a_transformer(tmp_path):
    folder = commands.save_bert(tmp_path / "bert")
    result = af.Evaluator(folder).compute(ROWS, tests=["permutation"], n_resamples=99, quiet=True)
    table = result.table("permutation")
    assert len(table) == 42  # without the empty text
    assert table["items"].min() == 3  # of a text of one word: special tokens are items
    protected = af.Evaluator(folder).compute(
        ROWS, tests=["permutation"], special_tokens="protect", n_resamples=99, quiet=True
    )
    fewer = protected.table("permutation").set_index("text_id")["items"]
    assert (table.set_index("text_id")["items"][fewer.index] - fewer == 2).all()
    assert result.plot("permutation").axes


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_decision(kind):
    results = computed(*evaluator_of(kind), "permutation")
    table = results.table("permutation")
    assert len(table) == 30
    assert table.max_tvd.max() > 0.01
    assert (table.max_tvd.max() <= 1) or kind == "regression"
    assert ("changes the value by a median" in str(results)) == (kind == "regression")
    assert len(results.plot("permutation").axes) == (
        len(set(table.prediction)) if kind in ("sigmoid", "multiclass") else 1
    )
