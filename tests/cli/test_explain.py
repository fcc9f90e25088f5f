"""``attnfaith explain``."""

import math
import re

import pytest
from typer.testing import CliRunner

import attnfaith as af
from attnfaith.attribution.method import default_method
from attnfaith.cli.app import app
from tests.helpers import commands
from tests.helpers.commands import refused, run, strictly

TEXT = "a fine film with a dull plot"
COLOURED = {"FORCE_COLOR": "1", "COLORTERM": "truecolor", "COLUMNS": "100"}
PLAIN = re.compile(r"\x1b\[[0-9;]*m")


def test_into_a_pipe_it_is_a_table_of_every_item(flan):
    result = run("explain", flan, TEXT)
    assert (result.exit_code, result.stderr) == (0, "")
    expected = af.Attributor(str(flan))(TEXT)
    assert f"predicted: {expected.prediction} (probability {expected.probability:.3f})" in result.stdout
    table = [line.split() for line in result.stdout.splitlines()[-7:]]
    assert [line[0] for line in table] == list("0123456")
    assert [line[3] for line in table] == TEXT.split()
    assert [float(line[2]) for line in table] == pytest.approx(expected.scores, rel=1e-3)
    order = sorted(range(7), key=lambda index: int(table[index][1]))
    assert tuple(order) == expected.ranking()


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        (["--method", "attention"], {"method": "attention"}),
        (["--method", "integrated_gradients", "--steps", "5"], {"method": "integrated_gradients", "steps": 5}),
        (["--level", "input", "--method", "gradient_x_input"], {"level": "input", "method": "gradient_x_input"}),
        (["--method", "random", "--seed", "3"], {"method": "random", "seed": 3}),
        (["--target", "bad"], {"target": "bad"}),
        (["--target", "1"], {"target": 1}),
        (["--explain", "logit"], {"output": "logit"}),
        (["--max-length", "3"], {"max_length": 3}),
    ],
)
def test_options_reach_the_attributor(asked, named, flan):
    result = run("explain", flan, TEXT, "--json", *asked)
    assert (result.exit_code, result.stderr) == (0, "")
    expected = af.Attributor(str(flan), **named)(TEXT).to_dict()
    results = strictly(result.stdout)
    assert {name: results[name] for name in expected} == expected


def test_the_default_ranking_is_named_in_the_output_and_in_the_help(flan, bert):
    shown = " ".join(run("explain", "--help").stdout.replace("│", " ").split())
    for folder, affine in ((flan, True), (bert, False)):
        method = default_method(affine=affine)
        assert f"by {method.display_name} at the {method.level} level" in run("explain", folder, TEXT).stdout
        assert method.name in shown.partition("By default ")[2].partition(" models.")[0]


def test_words_are_put_together(bert):
    result = run("explain", bert, "superb acting", "--method", "attention", "--words", "--json")
    assert result.exit_code == 0, result.stderr
    expected = af.Attributor(str(bert), method="attention")("superb acting").words(special=True)
    results = strictly(result.stdout)
    assert [item["text"] for item in results["word_scores"]] == [piece.text for piece in expected]
    assert [item["score"] for item in results["word_scores"]] == pytest.approx([piece.score for piece in expected])
    assert len(results["tokens"]) > len(results["word_scores"])
    assert "superb" in run("explain", bert, "superb acting", "--words").stdout


def test_pairs(bert):
    result = strictly(run("explain", bert, "a film", "--second-text", "a plot", "--json").stdout)
    assert (result["text"], result["pair"]) == ("a film", "a plot")


def test_standard_input_is_a_text_per_line(flan):
    lines = ["a fine film", "", "a dull plot"]
    result = CliRunner().invoke(app, ["explain", str(flan), "-", "--json"], input="\n".join(lines) + "\n")
    assert result.exit_code == 0, result.stderr
    assert [strictly(line)["text"] for line in result.stdout.splitlines()] == ["a fine film", "a dull plot"]
    nothing = CliRunner().invoke(app, ["explain", str(flan), "-"], input="\n")
    refused(nothing, 2, "Standard input has no text")


@pytest.mark.parametrize("locale", ["utf-8", "ascii"])
def test_in_a_terminal_it_is_highlighted_with_signs(locale, flan, monkeypatch):
    from attnfaith.cli import explanation_view

    signs = ("⁺", "⁻") if locale == "utf-8" else ("(+)", "(-)")
    monkeypatch.setattr(explanation_view, "_signs", lambda console: signs)
    result = CliRunner().invoke(app, ["explain", str(flan), TEXT], env=COLOURED)
    assert result.exit_code == 0, result.stderr
    assert "\x1b[" in result.stdout
    shown = PLAIN.sub("", result.stdout)
    text = shown.splitlines()[0]
    scores = af.Attributor(str(flan))(TEXT).scores
    strongest = max(scores, key=abs)
    word = TEXT.split()[scores.index(strongest)]
    assert f"{word}{signs[strongest < 0]}" in text
    assert re.sub("|".join(map(re.escape, signs)), "", text) == TEXT


def test_a_page(flan, tmp_path):
    result = run("explain", flan, TEXT, "--html", tmp_path / "page.html", "--json")
    assert result.exit_code == 0
    assert strictly(result.stdout)["text"] == TEXT  # the page is spoken of elsewhere
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "background" in page
    refused_page = run("explain", flan, TEXT, "--html", tmp_path / "no" / "page.html", "--quiet")
    assert refused_page.exit_code == 3
    assert "cannot be written" in commands.error_text(refused_page)


def test_truncation_is_noted(flan):
    assert "cut off" in run("explain", flan, " ".join(["fine"] * 20), "--max-length", "4").stdout


def test_undefined_scores_are_null(flan, monkeypatch):
    from attnfaith.attribution.explanation import Explanation

    whole = Explanation.__post_init__

    def undefined(self):
        object.__setattr__(self, "scores", (math.nan, *self.scores[1:]))
        whole(self)

    monkeypatch.setattr(Explanation, "__post_init__", undefined)
    assert strictly(run("explain", flan, TEXT, "--json").stdout)["scores"][0] is None
    assert "undefined" in run("explain", flan, TEXT).stdout


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (["--method", "gradiend"], ["Did you mean 'gradient'"]),
        (["--level", "words"], ["attention, input"]),
        (["--target", "great"], ["great", "bad"]),
        (["--target", "5"], ["5"]),
        (["--explain", "chance"], ["probability"]),
        (["--steps", "0"], ["--steps"]),
        (["--max-length", "0"], ["--max-length"]),
        (["--decision", "binary"], ["multiclass"]),
    ],
)
def test_arguments_that_cannot_be_used(asked, words, flan):
    refused(run("explain", flan, TEXT, *asked), 2, *words)


def test_models_and_texts_that_cannot_be_used(flan, tmp_path):
    refused(run("explain", flan.parent / "flam", TEXT), 2, "Did you mean 'flan'?")
    refused(run("explain", tmp_path, TEXT), 2, str(tmp_path))
    refused(run("explain", flan), 2, "Missing argument 'TEXT'")
    refused(run("explain", flan, ""), 2, "empty")
    broken = commands.break_word(commands.save_flan(tmp_path / "flan"))
    refused(run("explain", broken, f"a {commands.BOOM} film"), 1, "NaN or infinite")


def test_only_a_line_feed_ends_a_text(flan):
    """Not a form feed, not what ends a paragraph; and a carriage return only before a line feed."""
    lines = ["a fine\u2028film", "a dull\x0c plot\x85 thin", "a\rcast"]
    given = "\ufeff" + "\r\n".join(lines) + "\r\n"
    result = CliRunner().invoke(app, ["explain", str(flan), "-", "--json"], input=given.encode())
    assert result.exit_code == 0, result.stderr
    assert [strictly(line)["text"] for line in result.stdout.split("\n") if line] == lines
    assert result.stderr == ""


@pytest.mark.parametrize("columns", ["0", "1", "-3", "abc", "", "\u00b2", "99999999999999999999", "7"])
@pytest.mark.parametrize("command", ["explain", "refused"])
def test_a_size_that_no_terminal_has(columns, command, flan):
    """An explanation, or a message, that is there."""
    more = [] if command == "explain" else ["--no-such-option"]
    asked = ["explain", str(flan), TEXT, *more]
    result = CliRunner().invoke(app, asked, env={**COLOURED, "COLUMNS": columns, "LINES": columns})
    shown = " ".join(PLAIN.sub("", result.stdout + result.stderr).split())
    if command == "explain":
        assert result.exit_code == 0, result.stderr
        assert re.sub("[⁺⁻]|\\([+-]\\)", "", shown).startswith(TEXT)
        assert "predicted: " in shown
    else:
        assert result.exit_code == 2
        assert "--no-such-option" in shown
