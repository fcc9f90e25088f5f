"""Whoever uses the command line reads the names of its options; whoever uses Python, the names of parameters."""

import inspect
import re

import pytest
import typer

import attnfaith as af
from attnfaith.attribution.attributor import Attributor
from attnfaith.cli.app import app
from attnfaith.evaluation.evaluator import Evaluator
from attnfaith.option_names import OPTIONS
from attnfaith.tiny_models import tiny_model
from tests.helpers import commands
from tests.helpers.commands import FEW, error_text, run
from tests.helpers.tokenizers import word_piece

COMMANDS = typer.main.get_command(app).commands
KNOWN = {name for command in COMMANDS.values() for one in command.params for name in (*one.opts, *one.secondary_opts)}
OWN = sorted(name for name in OPTIONS if "_" in name and "=" not in name)
# A name as only Python has it: one with an underscore, or one before "=".
PYTHON = re.compile(rf"(?<![\w.'/-])(?:{'|'.join(OWN)})(?![\w'])|(?<![\w-])(?:{'|'.join(OPTIONS)})=(?!\w)")


@pytest.mark.parametrize("option", sorted(set(OPTIONS.values())))
def test_what_messages_name_can_be_given(option):
    assert option.partition(" ")[0] in KNOWN


def test_what_python_takes_can_be_given_to_the_command():
    """Every argument of the Evaluator is an option of ``evaluate``, but for those that no shell can give."""
    arguments = {*inspect.signature(Evaluator).parameters, *inspect.signature(Evaluator.compute).parameters}
    arguments -= {"self", "model", "tokenizer", "data", "random_state"}
    own = {name for one in COMMANDS["evaluate"].params for name in one.opts}
    assert {OPTIONS.get(name, name) for name in arguments} <= own
    shared = {*inspect.signature(Attributor).parameters} & {*OPTIONS} - {"device", "batch_size", "tolerance"}
    assert {OPTIONS[name] for name in shared} <= {name for one in COMMANDS["explain"].params for name in one.opts}


@pytest.fixture(scope="module")
def models(flan, bert, tmp_path_factory):
    """Models by name, one for each kind of refusal."""
    folder = tmp_path_factory.mktemp("kinds")
    tiny_model("bert", num_labels=1).save_pretrained(folder / "one")
    word_piece().save_pretrained(folder / "one")
    return {"flan": flan, "bert": bert, "one": folder / "one", "han": commands.save_han(folder / "han")}


DATA = {
    "reviews": [("a fine film", 1), ("a dull film", 0), ("fine acting", 1)],
    "words": [("a fine film", "good"), ("a dull film", "ghastly")],
    "numbers": [(1, 1), (2, 0)],
    "blank": [("", 1), ("", 0)],
}
REFUSED = [
    ("flan", "reviews", ["--text-column", "txt"], "no column 'txt' (--text-column)"),
    ("flan", "reviews", ["--label-column", "stars"], "no column 'stars' (--label-column)"),
    ("flan", "reviews", ["--second-text-column", "b"], "no column 'b' (--second-text-column)"),
    ("flan", "reviews", ["--explanation", "human=marks"], "no column 'marks' (--explanation)"),
    ("flan", "reviews", ["--rationale-column", "label"], "reads --rationale-column"),
    ("flan", "words", [], "--label-map CLASS=LABEL"),
    ("flan", "words", [], "--no-labels"),
    ("flan", "numbers", [], "--text-column"),
    ("flan", "reviews", ["--confidence", "95"], "Expected --confidence to be between 0 and 1"),
    ("flan", "reviews", ["--resamples", "0"], "Expected --resamples to be a whole number"),
    ("flan", "reviews", ["--steps", "0"], "Expected --steps to be a whole number"),
    ("flan", "reviews", ["--batch-size", "0"], "Expected --batch-size to be a whole number"),
    ("flan", "reviews", ["--max-length", "0"], "Expected --max-length to be a whole number"),
    ("flan", "reviews", ["--seed", "-1"], "Expected --seed to be a whole number"),
    ("flan", "reviews", ["--target", "2"], "Expected --target to be 'predicted'"),
    ("flan", "reviews", ["--target", "gold", "--no-labels"], "--target gold needs a column of labels"),
    (
        "flan",
        "reviews",
        ["--hide", "zero"],
        "--hide zero is a way of hiding tokens at the input level, and nothing is erased there. Use --level input or",
    ),
    ("flan", "reviews", ["--hide", "mask_token", "--level", "input"], "Use --hide zero"),
    ("flan", "reviews", ["--split", "test"], "no split 'test'"),
    ("flan", "reviews", ["--subset", "en"], "--subset en is for data sets"),
    ("flan", "reviews", ["--tolerance", "1"], "--tolerance is for regressions"),
    ("flan", "reviews", ["--tolerance", "0"], "Expected --tolerance to be a finite number"),
    ("bert", "reviews", ["--max-length", "1"], "--max-length 1 leaves no room"),
    ("one", "reviews", [], "(--decision sigmoid)"),
    ("one", "reviews", ["--decision", "regression"], "--tolerance"),
]


@pytest.mark.parametrize(("model", "data", "asked", "words"), REFUSED, ids=lambda value: " ".join(map(str, value))[:40])
def test_messages_name_options(model, data, asked, words, models, tmp_path):
    path = commands.write_csv(tmp_path / "data.csv", DATA[data])
    result = run("evaluate", models[model], path, "--output", tmp_path / "run", *FEW, *asked)
    assert result.exit_code == 2
    assert words in error_text(result)
    assert PYTHON.findall(error_text(result)) == []


def test_messages_of_explain_name_options(models):
    for model, asked, words in [
        ("han", ["--words"], "For words use --level input"),
        ("flan", ["--max-length", "0"], "Expected --max-length"),
        ("flan", ["--method", "omission"], "exists at --level input only"),
        ("one", [], "(--decision sigmoid)"),
    ]:
        result = run("explain", models[model], "a fine film", *asked)
        assert result.exit_code == 2
        assert words in error_text(result)
        assert PYTHON.findall(error_text(result)) == []


def test_messages_about_stored_runs_name_options(models, finished, reviews, tmp_path):
    result = run("evaluate", models["flan"], reviews, "--output", finished, *FEW, "--seed", "1")
    assert "Give another --output, or the same arguments" in error_text(result)
    assert PYTHON.findall(error_text(result)) == []
    with pytest.raises(af.InputError, match="Give another output_dir"):
        Evaluator(str(models["flan"])).compute(reviews, output_dir=finished, seed=1, n_resamples=20, quiet=True)


def test_the_check_for_pythons_names_can_fail():
    assert PYTHON.findall("no column 'txt' (input_column), or hide='zero'") == ["input_column", "hide="]
    assert PYTHON.findall("no column 'txt' (--text-column), or --hide='zero'; the folder '/tmp/output_dir'") == []
