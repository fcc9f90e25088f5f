"""Importing attnfaith is light, and every public name can be reached."""

import json
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

import attnfaith
from attnfaith.cli import known_names
from attnfaith.cli.app import app
from attnfaith.evaluation.tests.base import tests
from tests.helpers import commands, light_imports

HEAVY = ("captum", "datasets", "matplotlib", "pandas", "sklearn")


def run(program: str) -> str:
    """Run a program in an interpreter of its own, where nothing has been imported yet."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_import_is_light():
    assert light_imports.of_attnfaith("import attnfaith", HEAVY) == set()


def test_the_check_for_light_import_can_fail():
    assert light_imports.of_attnfaith("import pandas", HEAVY) == {"pandas"}


def test_import_draws_nothing_from_the_global_generators():
    program = """
import random, torch
random.seed(0), torch.manual_seed(0)
before = random.getstate(), torch.get_rng_state()
import attnfaith
print(random.getstate() == before[0], torch.equal(torch.get_rng_state(), before[1]))
"""
    assert run(program) == "True True"


def test_public_names_resolve():
    missing = [name for name in attnfaith.__all__ if not hasattr(attnfaith, name)]
    assert missing == []


def test_public_names_are_unique_and_listed():
    assert len(set(attnfaith.__all__)) == len(attnfaith.__all__)
    assert set(attnfaith.__all__) <= set(dir(attnfaith))


def test_unknown_name_is_an_attribute_error():
    assert not hasattr(attnfaith, "no_such_name")


def test_version_is_the_installed_one():
    from importlib.metadata import version

    assert attnfaith.__version__ == version("attnfaith")


NOT_FOR_HELP = (*HEAVY, "accelerate", "numpy", "pyarrow", "scipy", "tokenizers", "torch", "transformers")
COMMAND = """
import json, runpy, sys
sys.argv = ["attnfaith", *{arguments!r}]
try:
    runpy.run_module("attnfaith", run_name="__main__")
except SystemExit as ended:
    print(json.dumps([ended.code, [name for name in {heavy!r} if name in sys.modules]]), file=sys.stderr)
"""


def command_and_imports(*arguments):
    """The exit code of a command, what it wrote, and the heavy packages that it imported."""
    program = COMMAND.format(arguments=list(arguments), heavy=NOT_FOR_HELP)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    code, imported = json.loads(done.stderr.splitlines()[-1])
    return code, done.stdout + done.stderr, imported


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--help"], 0, "evaluate"),
        (["--version"], 0, attnfaith.__version__),
        *(([name, "--help"], 0, f"attnfaith {name} ") for name in typer.main.get_command(app).commands),
        (["evalute"], 2, "evaluate"),
        (["evaluate", "model", "data", "--ranking", "lrp"], 2, "--rankings"),
        (["evaluate", "model", "data", "--level", "atention"], 2, "Did you mean"),
        (["evaluate"], 2, "MODEL"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_help_and_misspelt_options_import_nothing_heavy(arguments, code, message):
    result, output, imported = command_and_imports(*arguments)
    assert (result, imported) == (code, [])
    assert message in output


def test_the_check_for_a_light_command_can_fail(tmp_path):
    code, _, imported = command_and_imports("compare", str(tmp_path), str(tmp_path))
    assert code == 2
    assert "torch" in imported


def test_importing_registers_the_models(tmp_path):
    """`import attnfaith` is enough. For the command, `test_evaluate.py` shows it in a process of its own."""
    folder = str(commands.save_flan(tmp_path / "flan"))
    loading = f"import transformers as t; print(type(t.AutoModelForSequenceClassification.from_pretrained({folder!r})))"
    assert "AttentionClassifier" in run(f"import attnfaith; {loading}")


def test_names_for_help_are_those_of_the_registries():
    program = """
import sys
sys.argv = ["attnfaith"]
from attnfaith.cli import known_names
print(*known_names.names_of_tests(), *known_names.names_of_rankings())
assert "torch" not in sys.modules
"""
    names = {name for _, name in attnfaith.attribution.methods}
    assert run(program).split() == [*tests, *sorted(names)]


def test_what_a_user_registers_is_in_the_help(monkeypatch):
    assert "own_ranking" not in known_names.names_of_rankings()
    monkeypatch.setitem(attnfaith.attribution.methods, ("input", "own_ranking"), None)
    monkeypatch.setitem(tests, "own_test", None)
    shown = CliRunner().invoke(app, ["evaluate", "--help"], env={"COLUMNS": "400"}).stdout
    assert "own_ranking" in shown
    assert "own_test" in shown


def test_modules_of_estimates_and_tests_can_be_imported_first():
    """Each in a fork of a process that has imported torch and Transformers, and nothing of attnfaith."""
    program = """
import os, torch, transformers
for name in ("estimates.lookup", "evaluation.tests.erasure.plot"):
    if not os.fork():
        exec(f"import attnfaith.{name}, attnfaith; print(name, attnfaith.tests.Erasure.name, flush=True)")
        os._exit(0)
    os.wait()
"""
    assert run(program).splitlines() == ["estimates.lookup erasure", "evaluation.tests.erasure.plot erasure"]
