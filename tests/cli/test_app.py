"""The command line."""

import json
import re
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

import attnfaith
from attnfaith import survey
from attnfaith.cli.app import app
from attnfaith.errors import InputError, NumericalError, StorageError, UnsupportedModelError
from tests.helpers import light_imports


def run(*arguments):
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"}, prog_name="attnfaith")


def test_version():
    result = run("--version")
    assert (result.exit_code, result.stdout) == (0, f"attnfaith {attnfaith.__version__}\n")


def test_without_arguments_it_helps():
    assert "Usage: attnfaith" in run().output
    assert run("--help").exit_code == 0


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_shows_examples_and_exit_codes(flag):
    result = run("models", flag)
    assert result.exit_code == 0
    for words in ("attnfaith models --refused", "unknown model type", "--json", "--markdown", "Nothing is downloaded"):
        assert words in result.stdout


@pytest.mark.parametrize("name", sorted(typer.main.get_command(app).commands))
def test_every_command_teaches(name):
    result = run(name, "--help")
    assert (result.exit_code, result.stderr) == (0, "")
    for words in ("Examples", f"attnfaith {name} ", "Exit code", "wrong arguments", "130"):
        assert words in result.stdout
    assert f" {name} " in run("--help").stdout


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UnsupportedModelError("It has no attention."), 1),
        (NumericalError("It is NaN."), 1),
        (InputError("It is misspelt."), 2),
        (StorageError("It is full."), 3),
    ],
)
def test_errors_are_one_plain_message_and_an_exit_code(error, code, monkeypatch):
    def failing(*arguments):
        raise error

    monkeypatch.setattr("attnfaith.evaluation.results.load_results", failing)
    result = run("compare", "a", "b")
    assert (result.exit_code, result.stdout, result.stderr) == (code, "", f"Error: {error}\n")


@pytest.mark.parametrize(("command", "told"), [("evaluate", True), ("explain", False)])
def test_an_option_of_other_tools_is_answered_with_ours_where_the_command_has_it(command, told):
    refused = run(command, "model", "data", "--limit", "5")
    assert refused.exit_code == 2
    assert re.search(r"No such option:? .?--limit", refused.stderr)
    assert ("--max-texts" in refused.stderr) == told


def test_a_mistake_of_ours_keeps_its_traceback(monkeypatch):
    monkeypatch.setattr("attnfaith.evaluation.results.load_results", lambda path: 1 / 0)
    result = run("compare", "a", "b")
    assert result.exit_code == 1
    assert isinstance(result.exception, ZeroDivisionError)


def test_models_into_a_pipe_is_a_line_for_each_family():
    result = run("models", "bert", "fnet")
    assert result.exit_code == 0
    assert result.stderr == ""
    lines = result.stdout.splitlines()
    assert [line.split()[:2] for line in lines[:2]] == [["bert", "supported"], ["fnet", "refused"]]
    assert "one position" in lines[0]
    assert "No attention was seen" in lines[1]
    assert lines[2].startswith("1 of 2 model types of Transformers")


@pytest.mark.parametrize(("flag", "listed"), [("--supported", ["bert"]), ("--refused", ["fnet"])])
def test_models_can_be_filtered_and_all_are_counted(flag, listed):
    lines = run("models", "bert", "fnet", flag).stdout.splitlines()
    assert [line.split()[0] for line in lines[:-1]] == listed
    assert lines[-1].startswith("1 of 2 ")
    summary, _, *table = run("models", "bert", "fnet", flag, "--markdown").stdout.splitlines()
    assert summary == lines[-1]
    assert [line.split("`")[1] for line in table[2:]] == listed


def test_json():
    result = run("models", "bert", "fnet", "--json")
    assert result.exit_code == 0
    assert [(entry["model_type"], entry["status"]) for entry in json.loads(result.stdout)] == [
        ("bert", "supported"),
        ("fnet", "refused"),
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["brt"], "Did you mean 'bert'"),
        (["bert", "--json", "--markdown"], "choose one of --json and --markdown"),
        (["bert", "--jsn"], "No such option"),
    ],
)
def test_wrong_arguments(arguments, message):
    result = run("models", *arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert message in " ".join(result.stderr.replace("│", " ").split())


def test_a_mistake_of_ours_is_shown_and_is_an_exit_code(monkeypatch):
    monkeypatch.setattr(survey, "cut", lambda model: 1 / 0)
    result = run("models", "bert")
    assert result.exit_code == 1
    assert "ZeroDivisionError" in result.stdout
    assert "1 failed" in result.stdout


def test_as_a_module_in_a_process_of_its_own():
    # Longformer tells whoever runs it that it rounds lengths up.
    command = [sys.executable, "-m", "attnfaith", "models", "longformer"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("longformer ")
    assert done.stdout.splitlines()[-1].startswith("1 of 1 ")


def test_on_a_terminal_it_is_a_table(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # what rich takes for a terminal
    result = CliRunner().invoke(app, ["models", "bert", "fnet"], env={"COLUMNS": "80"})
    assert result.exit_code == 0
    assert "model type" in result.stdout
    assert max(len(line) for line in result.stdout.splitlines() if "\x1b" not in line) <= 80


def test_the_command_line_alone_loads_no_model_code():
    heavy = ("attnfaith.tiny_models", "attnfaith.survey", "captum", "datasets", "matplotlib", "pandas", "rich.table")
    assert light_imports.of_attnfaith("import attnfaith.cli.app", heavy) == set()
