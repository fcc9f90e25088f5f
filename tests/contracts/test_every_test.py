"""What every test must do, drawn from the registry: a new one is tested because it exists."""

import importlib

import numpy as np
import pandas as pd
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import attnfaith as af
from attnfaith.errors import InputError
from attnfaith.estimates.summary_table import COLUMNS
from attnfaith.evaluation import stored_texts
from attnfaith.evaluation.tests.base import tests
from attnfaith.tiny_models import model_types, tiny_model
from tests.helpers import commands
from tests.helpers import tokenizers as tokenizers
from tests.helpers.installed_families import and_others
from tests.helpers.small_runs import KINDS, QUICK, ROWS, TEXTS, computed, evaluator_of

CLOSE = {"atol": 1e-6, "rtol": 1e-6}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return commands.save_flan(tmp_path_factory.mktemp("model") / "flan")


@pytest.fixture(scope="module")
def evaluator(folder):
    """In double precision: in single precision, scores that rounding makes equal depend on the batch."""
    model, tokenizer = (kind.from_pretrained(folder) for kind in (AutoModelForSequenceClassification, AutoTokenizer))
    return af.Evaluator(model.double(), tokenizer)


@pytest.fixture(scope="module")
def results(evaluator, tmp_path_factory):
    """Of all tests, in one run."""
    more = {"rationale_column": "marks", "output_dir": tmp_path_factory.mktemp("run") / "run"}
    return computed(evaluator, ROWS, **more)


@pytest.fixture(scope="module")
def by_erasure_alone(evaluator):
    """The verdict of a run of no other test."""
    return computed(evaluator, ROWS * 3, "erasure").verdict


def tables_of(results, name):
    """The tables that a test makes when it is run by itself."""
    return [table for table in results.tables if table.startswith(name) and (table == name or table not in tests)]


@pytest.mark.parametrize("name", tests)
def test_it_is_the_same_by_itself_text_by_text(name, results, evaluator):
    more = {"rationale_column": "marks"} if name == "rationales" else {}
    alone = computed(evaluator, ROWS, name, batch_size=1, **more)
    stored = stored_texts.SCHEMAS if name == "erasure" else ()
    assert set(alone.tables) == {"texts", *tables_of(alone, name), *stored}
    for table in tables_of(alone, name):
        assert len(results.table(table)) > 0
        pd.testing.assert_frame_equal(results.table(table), alone.table(table), **CLOSE)


@pytest.mark.parametrize("name", tests)
def test_its_summary_has_intervals_and_counts(name, results):
    summary = results.summary()
    assert summary.columns.tolist() == list(COLUMNS)
    mine = summary[summary["test"] == name]
    counts = mine.set_index("figure")["value"]
    assert (counts["texts"], counts["set_aside"]) == (len(TEXTS), 1)
    known = mine[mine["low"].notna()]
    assert len(known) > 0
    assert (known["low"] <= known["high"]).all()
    assert (mine["texts"] <= len(TEXTS)).all()
    index = ["erase_level", "ranking_level", "ranking", "other", "slice", "figure", "note"]
    assert not mine.duplicated(index).any()
    parts = results.summary(by="class")
    assert {"class=0", "class=1"} <= set(parts[parts["test"] == name]["slice"])


@pytest.mark.parametrize("name", tests)
def test_every_figure_of_it_is_drawn(name, results, tmp_path):
    kinds = list(QUICK[name].figures(results))
    assert kinds
    for kind in kinds if name != "information" else kinds[:1]:  # there are no heads to draw
        results.plot(name, kind=kind, path=tmp_path / f"{kind}.png")
        assert (tmp_path / f"{kind}.png").stat().st_size > 10_000
    with pytest.raises(InputError, match="Kinds: "):
        results.plot(name, kind="pie")


@pytest.mark.parametrize("name", [name for name in tests if name != "erasure"])  # whose sentences are the verdict's own
def test_it_says_something_and_only_where_it_was_run(name, evaluator, by_erasure_alone):
    rows = ROWS * 3  # some conclude nothing from few texts
    more = {"rationale_column": "marks"} if name == "rationales" else {}
    verdict = computed(evaluator, rows, name, **more).verdict
    sentences = verdict.parts[name]
    assert sentences
    assert f"\n\n{name.replace('_', ' ').capitalize()}\n{sentences[0]}\n" in str(verdict)
    assert list(by_erasure_alone.parts) == ["", "other rankings", "texts"]
    assert all(sentence.endswith((".", ":")) and not sentence[0].islower() for sentence in sentences)
    assert not any("nan" in sentence.split() or "-0.00 " in sentence for sentence in sentences)


def test_results_are_kept_with_their_options(results, tmp_path):
    again = af.load_results(results.save(tmp_path / "copy"))
    assert again.tests == results.tests == {name: dict(again.tests[name]) for name in QUICK}
    assert list(again.tables) == list(results.tables)
    pd.testing.assert_frame_equal(again.summary(), results.summary())
    assert str(again) == str(results)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", tests)
def test_every_kind_of_decision(name, kind):
    result = computed(*evaluator_of(kind), name)
    assert result.table(name)["text_id"].nunique() == 30
    figures = result.summary()
    assert np.isfinite(figures[figures["test"] == name]["value"]).any()
    assert result.plot(name).axes
    assert str(result)


@pytest.mark.parametrize("name", tests)
def test_a_transformer_and_a_network_of_sentences(name, tmp_path):
    han = commands.save_han(tmp_path / "han")
    rows = [
        {"text": ". ".join((first, other, first)) + "."}
        for first, other in zip(commands.texts(12), commands.texts(12, seed=1), strict=True)
    ]
    for model, data in ((commands.save_bert(tmp_path / "bert"), ROWS[:12]), (han, rows)):
        result = computed(af.Evaluator(model), data, name, rankings=["attention", "gradient"])
        assert result.table(name)["text_id"].nunique() == 12
        assert str(result)


@pytest.mark.parametrize("name", ["erasure", "rationales"])
@pytest.mark.parametrize("kept", [{"protect_deciding": True}, {"special_tokens": "protect"}])
def test_a_level_does_not_depend_on_the_other(name, kept, tmp_path):
    """A ranking that both have in common is ordered for each: what may be taken away differs."""
    evaluator = af.Evaluator(commands.save_bert(tmp_path / "bert"))
    shared = {"rankings": ["attention/gradient", "attention/lrp"], **kept}
    both = computed(evaluator, ROWS[:12], name, level="both", **shared).table(name)
    for level in ("attention", "input"):
        alone = computed(evaluator, ROWS[:12], name, level=level, **shared).table(name)
        assert set(alone.ranking_level) >= {"attention"}
        assert len(alone) > 12
        mine = both[both.erase_level == level].reset_index(drop=True)
        pd.testing.assert_frame_equal(mine, alone, **CLOSE)


def test_all_of_them_are_run_by_one_word_and_named_by_the_help(evaluator, folder, tmp_path):
    few = evaluator.compute(ROWS[:12], tests="all", rankings=["attention"], n_resamples=20, quiet=True)
    assert list(few.tests) == list(tests)
    data = commands.write_csv(tmp_path / "data.csv", [(row["text"], row["label"]) for row in ROWS[:12]])
    asked = ["--tests", "all", "--rankings", "attention", "--option", "adversarial.steps=20"]
    done = commands.run("evaluate", folder, data, "--output", tmp_path / "run", *asked, *commands.FEW)
    assert (done.exit_code, done.stderr) == (0, "")
    result = af.load_results(tmp_path / "run")
    assert list(result.tests) == list(tests)
    assert result.tests["adversarial"]["steps"] == 20
    told = commands.run("evaluate", "--help").stdout
    assert all(name in told for name in tests)


@pytest.mark.parametrize("name", tests)
def test_from_a_shell(name, folder, tmp_path):
    data = commands.write_csv(tmp_path / "data.csv", [(row["text"], row["label"]) for row in ROWS[:40]])
    options = [f"{name}.{option}={value}" for option, value in {"adversarial": {"steps": 20}}.get(name, {}).items()]
    asked = ["--tests", name, *commands.FEW, *(part for option in options for part in ("--option", option))]
    done = commands.run("evaluate", folder, data, "--output", tmp_path / "run", *asked)
    assert (done.exit_code, done.stderr) == (0, "")
    assert list(af.load_results(tmp_path / "run").tests) == [name]
    wrong = commands.run("evaluate", folder, data, "--tests", name, "--option", f"{name}.colour=red")
    commands.refused(wrong, 2, f"There is no option '{name}.colour'.")


@pytest.mark.filterwarnings("ignore:The scores of .* are inexact")
@pytest.mark.parametrize("family", and_others(["FLANnoenc", "HANrnn", "bert"], ["llama", "t5"]))
def test_a_model_that_asks_for_gradients_of_its_inputs_is_evaluated(family):
    """As Trainer and PEFT leave models, with checkpointing of activations: all default tests, the same numbers."""
    words = af.models.WordTokenizer.train([" ".join(commands.WORDS)], min_count=1)
    tokenizer = tokenizers.word_piece() if family in model_types() else words
    data = [{"text": text, "label": number % 3} for number, text in enumerate(commands.texts(6))]
    summaries = []
    for asks in (False, True):
        if family in model_types():
            model = tiny_model(family)
        else:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(0)
                model = af.models.from_preset(family, tokenizer=tokenizer, num_labels=3)
            commands.spread(model)
        if asks:
            if model.supports_gradient_checkpointing:
                model.gradient_checkpointing_enable()
            model.enable_input_require_grads()
            model.train()
        else:
            model.eval()
        result = af.Evaluator(model, tokenizer).compute(data, n_resamples=99, quiet=True)
        summaries.append(result.summary().select_dtypes("number"))
    assert len(summaries[0])
    pd.testing.assert_frame_equal(*summaries, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", tests)
def test_it_says_what_it_asks_and_how_to_read_it(name):
    """A report shows these; a test of this package without them would be a table without words."""
    kind = tests[name]
    advice = f"declare it as a ClassVar of {kind.__name__}; attnfaith.evaluation.tests.base.Test describes it"
    assert kind.question.endswith("?"), f"The test {name!r} has no question: {advice}."
    plots = importlib.import_module(f"{kind.__module__.rpartition('.')[0]}.plot").PLOTS
    assert set(kind.reading) == set(plots), f"'reading' of {name!r} must name each figure: {advice}."
    for text in (*kind.reading.values(), *kind.caveats):
        assert text.endswith("."), text
    assert kind.caveats, f"The test {name!r} has no caveats: {advice}."
    assert kind.percentages <= {*kind.reported, *kind.headline}
    assert kind.reported or kind.headline, f"A report has no table of {name!r}: {advice}."
