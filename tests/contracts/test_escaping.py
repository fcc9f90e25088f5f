"""Hostile names at every door: what comes out holds no character that a terminal obeys or a reader cannot see."""

import csv
import io
import json
import re
import subprocess
import sys
import unicodedata
from xml.etree import ElementTree

import matplotlib.pyplot as plt
import pytest
from transformers import AutoModelForSequenceClassification
from typer.testing import CliRunner

import attnfaith as af
from attnfaith.cli.app import app
from attnfaith.escaping import visible, visible_json
from tests.faults.children import command_line, forked
from tests.helpers import commands

HOSTILE = "go\x1b]0;owned\x07od\x1b[2J\x9b31m\x7f\u202eevil\u2066\u200b\u2028[red]$x^{$\ud800\n\x85fake: line"
"""A window title, a wiped screen, C1, DEL, directions, no width, a line, markup, a formula, half a character."""
HOSTILE_TEXT = HOSTILE.replace("\ud800", "")
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
TERMINAL = {"FORCE_COLOR": "1", "COLORTERM": "truecolor", "COLUMNS": "120"}


def clean(text, kept="\n"):
    """Nothing in it can be obeyed or hidden; colours that rich makes itself may be."""
    result = COLOURS.sub("", text)
    kinds = ("Cc", "Cf", "Cs", "Zl", "Zp")
    hidden = {repr(sign) for sign in result if sign not in kept and unicodedata.category(sign) in kinds}
    assert not hidden, (hidden, result)
    return result


def written(result):
    """All that a command wrote."""
    clean(result.stdout)
    clean(result.stderr)
    return result.stdout + result.stderr


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A model whose labels are hostile."""
    folder = commands.save_flan(tmp_path_factory.mktemp("hostile") / "flan")
    model = AutoModelForSequenceClassification.from_pretrained(folder)
    names = {0: HOSTILE, 1: HOSTILE + "2"}
    model.config.id2label, model.config.label2id = names, {name: number for number, name in names.items()}
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def run_of_hostile(hostile, tmp_path_factory):
    """A run in a hostile folder, of a ranking with a hostile name."""
    folder = tmp_path_factory.mktemp("runs") / HOSTILE_TEXT.replace("/", "")
    rows = [{"text": text, HOSTILE_TEXT: [1.0] * len(text.split())} for text in commands.texts(12)]
    results = af.Evaluator(str(hostile)).compute(
        rows, explanations={HOSTILE_TEXT: HOSTILE_TEXT}, rankings=["attention"], n_resamples=20, output_dir=folder
    )
    return folder, results


# ---- the function


@pytest.mark.parametrize("number", [*range(0x20), *range(0x7F, 0xA0), 0xAD, 0x61C, 0x180E, *range(0x200B, 0x2010)])
def test_what_cannot_be_seen_is_escaped(number):
    assert visible(f"a{chr(number)}b") == (f"a\\x{number:02x}b" if number < 256 else f"a\\u{number:04x}b")


@pytest.mark.parametrize(
    "number", [*range(0x2028, 0x202F), *range(0x2060, 0x2070), 0xFEFF, 0xFFF9, 0xFFFE, 0xD800, 0xE0041]
)
def test_separators_and_directions_too(number):
    assert visible(chr(number)).isascii()


WRITTEN = {
    "German": "ein schöner Film",
    "Japanese": "素晴らしい\u3000映画",
    "Persian": "\u0646\u0645\u06cc\u200c\u062e\u0648",
    "Hindi": "\u0915\u094d\u200d\u0937",
    "emoji": "👩\u200d🚀 ok",
    "French": "5 000\xa0€",
}


@pytest.mark.parametrize("text", WRITTEN.values(), ids=WRITTEN)
def test_what_people_write_stays(text):
    assert visible(text) == text


def test_json_loses_nothing():
    told = visible_json({HOSTILE: [HOSTILE, 1.5]})
    clean(told, kept="")
    assert json.loads(told) == {HOSTILE: [HOSTILE, 1.5]}


# ---- doors


def test_model_cards(run_of_hostile, tmp_path):
    _, results = run_of_hostile
    path = results.to_card(tmp_path, dataset_name=HOSTILE, model_name=HOSTILE)
    shown = clean(path.read_text(encoding="utf-8"))
    assert shown.count("<!--") == 2  # around the section
    assert results.to_card(path, dataset_name=HOSTILE, model_name=HOSTILE).read_text(encoding="utf-8") == shown


@pytest.mark.parametrize("kind", [af.InputError, af.StorageError, af.NumericalError, af.UnsupportedModelError])
def test_errors(kind):
    assert "\\x1b]0;owned" in clean(str(kind(f"There is no {HOSTILE}.")))


@pytest.mark.parametrize("environment", [{}, TERMINAL])
@pytest.mark.parametrize("more", [[], ["--json"], ["--words"], ["--level", "input", "--method", "gradient_x_input"]])
def test_explain(environment, more, hostile):
    result = CliRunner().invoke(app, ["explain", str(hostile), f"a {HOSTILE_TEXT} film", *more], env=environment)
    assert result.exit_code == 0, result.stderr
    told = written(result)
    assert "[red]" in told  # no markup of rich is obeyed
    if "--json" not in more:
        assert "fake: line" in told
        assert "\nfake: line" not in told  # a name cannot forge a line


def test_a_page_and_a_notebook(hostile, tmp_path):
    page = tmp_path / "page.html"
    text = f"a {HOSTILE_TEXT} <script>film"
    result = commands.run("explain", hostile, text, "--html", page)
    assert result.exit_code == 0, result.stderr
    shown = clean(page.read_bytes().decode(), kept="\n\t\r")
    assert "\\x1b]0;owned" in shown
    assert "<script>" not in shown
    explanation = af.Attributor(str(hostile))(text)
    words, several = explanation.words(special=True), af.Attributor(str(hostile))([text, text])
    for shown in (explanation, words, words[:2], several, several[:1]):
        page = clean(shown._repr_html_(), kept="\n\t\r")
        assert "<script>" not in page
        clean(repr(shown))
    record = explanation.visualization_record()
    for name in (record.pred_class, record.attr_class, *record.raw_input_ids):
        assert "<" not in clean(name)


def test_bars_are_drawn_and_dollars_are_dollars(hostile):
    with plt.rc_context({"svg.fonttype": "none"}):
        explanation = af.Attributor(str(hostile))("from $x^{$ \x1b[2J and $\\frac$")
        figure = explanation.plot()
        page = io.BytesIO()
        figure.savefig(page, format="svg")
    texts = "".join(ElementTree.fromstring(page.getvalue().decode()).itertext())
    clean(texts, kept="\n\t")
    assert "$x^{$" in texts


@pytest.mark.parametrize(
    "asked",
    [
        ["--target", HOSTILE_TEXT + "3"],
        ["--method", HOSTILE_TEXT],
        ["--level", HOSTILE_TEXT],
        [f"--{HOSTILE_TEXT}"],
        ["--html", f"/no/{HOSTILE_TEXT}/page"],
    ],
)
def test_refusals_that_name_what_was_typed_or_known(asked, hostile):
    result = commands.run("explain", hostile, "a film", *asked)
    assert result.exit_code in (2, 3)
    assert "\\x1b" in written(result)


def test_a_model_that_is_not_there(tmp_path):
    assert "\\x1b" in written(commands.run("explain", tmp_path / HOSTILE_TEXT, "a film"))


def test_data_with_hostile_columns_and_labels(hostile, tmp_path):
    path = tmp_path / f"{HOSTILE_TEXT.replace('/', '')}.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["text", HOSTILE_TEXT], ["a fine film", HOSTILE_TEXT * 2]])
    output = ["--output", tmp_path / "run"]
    for asked in (["--label-column", HOSTILE_TEXT], ["--label-column", "lable"], ["--text-column", HOSTILE_TEXT + "x"]):
        result = commands.run("evaluate", hostile, path, *asked, *output)
        assert result.exit_code == 2
        assert "\\x1b" in written(result)


@pytest.mark.parametrize("environment", [{}, TERMINAL])
@pytest.mark.parametrize("more", [[], ["--json"]])
def test_compare(environment, more, run_of_hostile, finished_flan, tmp_path):
    folder, _ = run_of_hostile
    forged = tmp_path / "forged"
    af.load_results(folder).save(forged)
    result = CliRunner().invoke(
        app, ["compare", str(folder), str(finished_flan), "--resamples", "20", *more], env=environment
    )
    assert result.exit_code == 0, result.stderr
    assert "owned" in written(result)


def test_results(run_of_hostile, tmp_path):
    _, results = run_of_hostile
    assert "\\x1b" in clean(repr(results))
    assert "\\x1b" in clean(results._repr_html_())
    for shown in (results.verdict, results.verdict.rankings):
        assert "owned" in clean(shown._repr_html_())
        clean(str(shown))
    clean(str(results))
    figure = results.plot("erasure", kind="efficiency", path=tmp_path / "figure.svg")
    clean("".join(label.get_text() for axis in figure.axes for label in axis.get_yticklabels()))


def test_warnings_and_what_transformers_says(flan, tmp_path):
    from safetensors.torch import load_file, save_file

    folder = commands.save_flan(tmp_path / "flan")
    weights = load_file(folder / "model.safetensors")
    save_file({**weights, "extra\x1b]0;owned\x07": next(iter(weights.values())).clone()}, folder / "model.safetensors")
    done = forked(command_line, "explain", folder, "a fine film")
    assert done.code == 0, done.stderr
    assert "owned" in clean(done.stderr, kept="\n\t")


def test_bytes_of_a_real_process(hostile):
    """As they leave, into a pipe: also a path that is no UTF-8."""
    name = b"/no/such\xff\x1b]0;owned\x07folder"
    done = subprocess.run(
        [sys.executable.encode(), b"-m", b"attnfaith", b"explain", name, b"a film"],
        capture_output=True,
        env=commands.environment(),
        check=False,
    )
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr
    assert b"\\udcff\\x1b]0;owned\\x07" in done.stderr
    clean(done.stderr.decode())


@pytest.fixture(scope="module")
def finished_flan(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "plain"
    flan = commands.save_flan(tmp_path_factory.mktemp("models") / "flan")
    rows = [{"text": text} for text in commands.texts(12)]
    af.Evaluator(str(flan)).compute(rows, rankings=["attention"], n_resamples=20, output_dir=folder)
    return folder


@pytest.fixture(scope="module")
def flan(tmp_path_factory):
    return commands.save_flan(tmp_path_factory.mktemp("models") / "flan")
