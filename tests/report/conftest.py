"""Runs that the tests of reports share; made once."""

import pytest
from transformers import AutoModelForSequenceClassification

import attnfaith as af
from attnfaith.evaluation.run_comparison import compare_runs
from attnfaith.report.comparison_report import comparison_page
from attnfaith.report.run_report import report_page
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


@pytest.fixture(scope="session")
def few():
    """A run of three texts without labels: no verdict, no intervals, no slices of what is not there."""
    evaluator, data = small_runs.evaluator_of("regression")
    rows = [{"text": row["text"]} for row in data[:3]]
    return small_runs.computed(evaluator, rows, "erasure", "single_weight", "agreement")


@pytest.fixture(scope="session")
def compared():
    """Two runs, of which the second has fewer tests and another seed."""
    evaluator, _ = small_runs.evaluator_of("multiclass")
    runs = [
        small_runs.computed(evaluator, small_runs.ROWS, *names, seed=seed)
        for seed, names in enumerate((("erasure", "permutation"), ("erasure",)))
    ]
    return compare_runs(*runs, ("one", "two"), n_resamples=50)


@pytest.fixture(scope="session")
def pages(results, compared, hostile):
    """Pages as text: of a run and of a comparison, each plain and hostile."""
    hostile_pair = compare_runs(hostile, hostile, (HOSTILE, HOSTILE + "2"), n_resamples=20)
    return {
        "run": report_page(results),
        "comparison": comparison_page(compared),
        "hostile run": report_page(hostile, title=HOSTILE, introduction=[HOSTILE]),
        "hostile comparison": comparison_page(hostile_pair, title=HOSTILE),
    }
