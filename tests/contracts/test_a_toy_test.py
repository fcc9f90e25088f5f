"""A test is one folder: a toy test is written into a temporary one, and everything works with nothing else edited."""

import importlib
import subprocess
import sys

import pandas as pd
import pytest

import attnfaith as af
from attnfaith import metrics
from attnfaith.estimates.lookup import SummaryLookup, decimals
from attnfaith.evaluation import tests as package
from attnfaith.evaluation.comparison import compare, sentences
from attnfaith.evaluation.tests.base import Test, tests
from attnfaith.report.run_report import report_page
from tests.helpers import commands
from tests.helpers import tokenizers as tokenizers
from tests.helpers.reading_pages import Page

FILES = {
    "__init__.py": "",
    "test.py": '''
"""Is the text long?"""

from dataclasses import dataclass

import pyarrow as pa

from attnfaith.errors import InputError
from attnfaith.evaluation.tests.base import Test, tests
from attnfaith.evaluation.tests.toy.summary import quantities


@tests.register("toy")
@dataclass(frozen=True)
class Toy(Test):
    """Whether a text has many items.

    Attributes:
        least: how many are many.
    """

    name = "toy"
    ranked = False
    reads = ("rationale_column",)
    headline = {"mean_length": "length of a text (mean)"}
    level_name = "anywhere"
    metrics = ("Length",)
    citation = "@misc{toy}"
    question = "How long is a text?"
    reading = {"histogram": "Bars are texts."}
    caveats = ("Length is not depth.",)
    percentages = frozenset({"long"})
    reported = {"mean_length": "length (mean)", "long": "long texts"}
    least: int = 3

    def __post_init__(self):
        if self.least < 1:
            raise InputError(f"Expected least to be at least 1, got {self.least}.")

    def columns(self, outcome):
        return [("text_id", pa.int64()), ("length", pa.int64()), ("prediction", outcome)]

    def run(self, batch):
        mask = batch.capture.mask
        return {
            "text_id": [row.number for row in batch.rows],
            "length": mask.sum(1).tolist(),
            "prediction": batch.logits.argmax(1).tolist(),
        }

    def quantities(self, table):
        return [quantities(table("toy"), self.least)]

    @classmethod
    def sentences(cls, figures, facts):
        yield f"A text has {figures.get('', 'mean_length').value:.1f} items, and {figures.get('', 'long')} are long."

    @classmethod
    def sentences_on_two_runs(cls, rows, names):
        yield f"Texts are as long in {names[0]} as in {names[1]}."
''',
    "summary.py": """
import numpy as np

from attnfaith.estimates.quantities import Mean, Median, Quantities, Share


def lengths(length, least):
    return [Share("long", length >= least), Mean("mean_length", length), Median("median_length", length)]


def quantities(table, least):
    table = table.sort_values("text_id")
    every = lengths(table["length"].to_numpy(dtype=np.float64), least)
    ids = table["text_id"].to_numpy(dtype=np.int64)
    return Quantities(ids, lambda places: [one.take(places) for one in every], missing="there are none")
""",
    "plot.py": """
from attnfaith.paper_figure import PaperFigure
from attnfaith.plots.style import COLUMN


def draw(results):
    figure = PaperFigure.of_width(COLUMN, 2.6)
    figure.add_subplot().hist(results.table("toy")["length"])
    return figure


PLOTS = {"histogram": draw, "again": draw}
""",
    "metric.py": '''
import numpy as np

from attnfaith.evaluation.tests.toy.summary import lengths
from attnfaith.evaluation.tests.toy.test import Toy
from attnfaith.metrics.estimates import TextQuantities
from attnfaith.metrics.inputs import Input
from attnfaith.metrics.module import Metric


class Length(Metric):
    """How long are lists?"""

    inputs = {"predictions": Input(1)}
    options = {"least": 3}
    paper = Toy.citation

    def measure(self, columns, options):
        length = np.array([float(len(values)) for values in columns["predictions"]])
        return TextQuantities(np.isnan(length), lengths(length, options["least"]), each={"length": length})
''',
}
ROWS = [{"text": text, "label": int("fine" in text)} for text in commands.texts(40)]
OPTIONS = {"n_resamples": 50, "quiet": True, "rankings": ["attention", "random"]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the toy test's own, which is looked for tests from here on."""
    folder = tmp_path_factory.mktemp("more-tests")
    (folder / "toy").mkdir()
    for name, text in FILES.items():
        (folder / "toy" / name).write_text(text.lstrip("\n"), encoding="utf-8")
    package.__path__.append(str(folder))
    importlib.invalidate_caches()
    package.discover()
    yield folder
    package.__path__.remove(str(folder))
    del tests["toy"], package.Toy, package.toy
    for name in [name for name in sys.modules if name.startswith(f"{package.__name__}.toy")]:
        del sys.modules[name]


@pytest.fixture(scope="module")
def model(folder, tmp_path_factory):
    return commands.save_flan(tmp_path_factory.mktemp("model") / "flan")


@pytest.fixture(scope="module")
def results(model, folder, tmp_path_factory):
    chosen = ["erasure", af.tests.Toy(least=5)]
    path = tmp_path_factory.mktemp("run") / "run"
    return af.Evaluator(model).compute(ROWS, tests=chosen, output_dir=path, **OPTIONS)


def test_it_is_evaluated_and_summed_up(results):
    assert list(results.tests) == ["erasure", "toy"]
    assert results.tests["toy"] == {"least": 5}
    length = results.table("toy")["length"]
    mine = results.summary().query("test == 'toy'").set_index("figure")
    assert mine.loc["mean_length", "value"] == pytest.approx(length.mean())
    assert mine.loc["long", "value"] == (length >= 5).mean()
    assert mine.loc["median_length", "value"] == length.median()
    assert mine.loc["mean_length", "low"] < length.mean() < mine.loc["mean_length", "high"]
    assert mine.loc["too_short", "note"] == "there are none"


def test_slices(results):
    rows = results.summary(by="class").query("test == 'toy' and figure == 'mean_length'").set_index("slice")["value"]
    assert rows.to_dict() == pytest.approx(
        {f"class={label}": part["length"].mean() for label, part in results.table("toy").groupby("prediction")}
    )


def test_the_verdict_and_the_plots(results, tmp_path):
    assert results.verdict.parts["toy"][0].startswith("A text has ")
    assert "\n\nToy\nA text has " in str(results)
    results.plot("toy", path=tmp_path / "toy.png")
    assert (tmp_path / "toy.png").stat().st_size > 1000
    assert results.plot("toy", kind="again").axes
    with pytest.raises(af.InputError, match="Kinds: histogram, again"):
        results.plot("toy", kind="pie")


def test_the_report(results, monkeypatch):
    """What it declares is shown; what it does not declare is left out, and its first line stands for the question."""
    section = Page(report_page(results)).one("section", id="test-toy")
    figures = SummaryLookup(results.summary(), "toy")
    for words in ("How long is a text?", "Bars are texts.", "Length is not depth.", "@misc{toy}", "More figures"):
        assert words in section.text
    assert f"all texts{decimals(figures.get('', 'mean_length'))}{figures.get('', 'long')}40" in section.text
    kind = type(af.tests.Toy())
    for name in ("question", "reading", "caveats", "percentages", "reported", "citation"):
        monkeypatch.setattr(kind, name, getattr(Test, name))
    section = Page(report_page(results)).one("section", id="test-toy")
    assert "Whether a text has many items." in section.text
    assert "length of a text (mean)" in section.text
    assert "How to cite" not in section.text


def test_without_plots_nothing_is_drawn(results, monkeypatch):
    monkeypatch.setattr(type(af.tests.Toy()), "figures", lambda self, results: {})
    with pytest.raises(af.InputError, match="The test 'toy' has no figures"):
        results.plot("toy")


def test_saving_and_loading(results, tmp_path):
    again = af.load_results(results.save(tmp_path / "copy"))
    assert again.tests == results.tests
    pd.testing.assert_frame_equal(again.summary(), results.summary())
    assert str(again) == str(results)


def test_it_may_read_what_people_marked(model):
    """It has no option for the form of the column, so the cells decide."""
    rows = [{"text": row["text"], "marks": [1] * len(row["text"].split())} for row in ROWS]
    run = af.Evaluator(model).compute(rows, tests=["toy"], rationale_column="marks", **OPTIONS)
    assert run.manifest["run"]["columns"]["rationale"] == "marks"
    with pytest.raises(af.InputError, match="Only the test 'rationales' or 'toy' reads"):
        af.Evaluator(model).compute(rows, tests=["erasure"], rationale_column="marks", **OPTIONS)


def test_resuming(results, model, tmp_path, monkeypatch):
    monkeypatch.setattr(af.Evaluator, "shard_size", 16)
    kind, measured = type(af.tests.Toy()), []
    measure = kind.run

    def interrupted(self, batch):
        measured.extend(row.number for row in batch.rows)
        if len(measured) > 20:
            raise KeyboardInterrupt
        return measure(self, batch)

    def compute():
        chosen = ["erasure", af.tests.Toy(least=5)]
        return af.Evaluator(model).compute(ROWS, tests=chosen, output_dir=tmp_path / "run", **OPTIONS)

    with monkeypatch.context() as patched:
        patched.setattr(kind, "run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            compute()
    measured.clear()
    monkeypatch.setattr(kind, "run", lambda self, batch: (measured.append(len(batch.rows)), measure(self, batch))[1])
    pd.testing.assert_frame_equal(compute().summary(), results.summary())
    assert sum(measured) == 40 - 16 + 1  # without the first shard; the first text is tried once more


def test_two_runs_are_compared(results, folder, tmp_path):
    other = af.Evaluator(commands.save_flan(tmp_path / "flan", seed=1))
    second = other.compute(ROWS, tests=["toy"], **OPTIONS)
    result = compare(results.tables, second.tables, paired=True, n_resamples=50)
    mine = result[result.test == "toy"].set_index("figure")
    assert mine.loc["mean_length", ["a", "b", "difference", "low"]].tolist()[2:] == [0, 0]
    assert set(mine.index) == {"long", "mean_length", "median_length"}
    assert "Texts are as long in A as in B." in sentences(result)


def test_as_a_metric_module(results):
    assert {"Length", "DecisionFlip"} <= set(metrics.__all__)
    length = results.table("toy")["length"]
    result = metrics.Length(least=5, n_resamples=50).compute(predictions=[[0.0] * n for n in length])
    mine = results.summary().query("test == 'toy'").set_index("figure")
    for name in ("long", "mean_length", "median_length"):
        assert [result[name], result[f"{name}_low"], result[f"{name}_high"]] == mine.loc[
            name, ["value", "low", "high"]
        ].tolist()
    assert metrics.Length().citation == "@misc{toy}"


def test_the_commands(model, folder, tmp_path):
    data = commands.reviews(tmp_path / "reviews.csv", 20)
    runs = [tmp_path / name for name in ("one", "two")]
    for path in runs:
        chosen = ["--tests", "toy,erasure", "--option", "toy.least=4", "--output", path, *commands.FEW]
        result = commands.run("evaluate", model, data, *chosen)
        assert result.exit_code == 0, result.stderr
        assert "\nToy\nA text has " in result.stdout
    compared = commands.run("compare", *runs, *commands.FEW)
    assert compared.exit_code == 0, compared.stderr
    (line,) = [line for line in compared.stdout.splitlines() if "length of a text (mean)" in line]
    assert line.startswith("anywhere ")
    refused = commands.run("evaluate", model, data, "--tests", "toy", "--option", "toy.last=4")
    assert "Did you mean 'least'?" in commands.error_text(refused)


def test_help_names_it_before_it_is_imported(folder):
    program = f"""
import importlib.util, sys
from attnfaith.evaluation import tests
tests.__path__.append({str(folder)!r})
from attnfaith.cli.app import app
assert "attnfaith.evaluation.tests.toy" not in sys.modules
app(["evaluate", "--help"])
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=120,
        env={**commands.environment(), "COLUMNS": "200"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "single_weight, toy." in " ".join(done.stdout.split())
