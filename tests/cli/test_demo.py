"""``attnfaith demo``: arguments to the call; the demo itself has tests of its own."""

import sys
from types import ModuleType

import pytest

from attnfaith.errors import StorageError
from tests.helpers.commands import refused, run


@pytest.fixture
def asked(monkeypatch):
    """What `run_demo` is called with."""
    calls = []
    module = ModuleType("attnfaith.demo.pipeline")

    def run_demo(output, *, model=None, data=None, text_column="text", label_column="label", seed=0, quiet=False):
        given = (str(output), model, data, text_column, label_column, seed, quiet)
        calls.append(given)
        return output

    module.run_demo = run_demo
    monkeypatch.setitem(sys.modules, "attnfaith.demo.pipeline", module)
    return calls


def test_by_default(asked):
    result = run("demo")
    assert (result.exit_code, result.stderr) == (0, "")
    assert asked == [("attnfaith-demo", None, None, "text", "label", 0, False)]


def test_on_a_model_and_data_of_yours(asked, flan, reviews, tmp_path):
    names = ("--text-column", "review", "--label-column", "stars", "--seed", "3", "--quiet")
    result = run("demo", "--output", tmp_path / "demo", "--model", flan, "--data", reviews, *names)
    assert (result.exit_code, result.stderr) == (0, "")
    assert asked == [(str(tmp_path / "demo"), str(flan), reviews, "review", "stars", 3, True)]


def test_model_and_data_go_together(asked, flan, reviews):
    refused(run("demo", "--model", flan), 2, "--model goes with --data")
    refused(run("demo", "--data", reviews), 2, "--data goes with --model")
    refused(run("demo", "--model", flan.parent / "flam", "--data", reviews), 2, "Did you mean 'flan'?")
    assert asked == []


@pytest.mark.parametrize(("error", "code"), [(StorageError("No room."), 3), (KeyboardInterrupt(), 130)])
def test_how_it_ends(error, code, asked, monkeypatch):
    def failing(*arguments, **named):
        raise error

    monkeypatch.setattr(sys.modules["attnfaith.demo.pipeline"], "run_demo", failing)
    refused(run("demo"), code, "No room." if code == 3 else "Interrupted.")
