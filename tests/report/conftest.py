"""Runs that the tests of reports share; made once."""

import pytest
from transformers import AutoModelForSequenceClassification

import attnfaith as af
from tests.helpers import commands, small_runs
from tests.helpers.reading_pages import HOSTILE

FOLDER = "<script>alert(4)<\x1b[2J\u202e'\""


@pytest.fixture(scope="session")
def results(tmp_path_factory):
    """A run of every test, with labels, marks, a text set aside, and one that is too short."""
    evaluator, _ = small_runs.evaluator_of("multiclass")
    folder = tmp_path_factory.mktemp("runs") / "all"
    return small_runs.computed(evaluator, small_runs.ROWS * 3, rationale_column="marks", output_dir=folder)


@pytest.fixture(scope="session")
def hostile(tmp_path_factory):
    """A run whose labels, texts, columns, folders and rankings are hostile."""
    model = commands.save_flan(tmp_path_factory.mktemp("models") / FOLDER)
    loaded = AutoModelForSequenceClassification.from_pretrained(model)
    names = {0: HOSTILE, 1: HOSTILE + "2"}
    loaded.config.id2label, loaded.config.label2id = names, {name: number for number, name in names.items()}
    loaded.save_pretrained(model)
    rows = [{HOSTILE: f"{text} {HOSTILE}", "gold": int("fine" in text)} for text in commands.texts(24)]
    return af.Evaluator(str(model)).compute(
        rows,
        input_column=HOSTILE,
        label_column="gold",
        explanations={HOSTILE: lambda encoded: [float(len(token)) for token in encoded.tokens]},
        rankings=["attention", "gradient"],
        n_resamples=50,
        output_dir=tmp_path_factory.mktemp("runs") / "hostile",
        quiet=True,
    )
