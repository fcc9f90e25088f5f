"""The public names are those of docs/api.md: a name that is added, renamed or removed changes the list there."""

import importlib
import re
from pathlib import Path

import pytest

import attnfaith
import attnfaith.errors
import attnfaith.training

API = Path(__file__).parents[2] / "docs" / "api.md"
MODULES = """attnfaith attnfaith.attribution attnfaith.demo.corpus attnfaith.diagnostics attnfaith.errors
attnfaith.explanations attnfaith.metrics attnfaith.models attnfaith.plots attnfaith.survey attnfaith.tests
attnfaith.training""".split()
"""What users import from. All other modules may change without notice."""


def listed(page):
    """From each heading that is the name of a module to its rows, by name."""
    sections = re.findall(r"^## `(\S+)`\n(.*?)(?=^## |\Z)", page, re.DOTALL | re.MULTILINE)
    return {module: dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", rows, re.MULTILINE)) for module, rows in sections}


def module_called(name):
    """A module by the name that users know; `attnfaith.tests` is an attribute only."""
    return attnfaith.tests if name == "attnfaith.tests" else importlib.import_module(name)


def public(name):
    """The names that a module exports; without a list of them, those that it defines."""
    module = module_called(name)
    if hasattr(module, "__all__"):
        return sorted(module.__all__)
    return sorted(key for key, value in vars(module).items() if key[0] != "_" and defined_in(value, name))


def defined_in(value, module):
    return getattr(value, "__module__", None) == module and hasattr(value, "__qualname__")


@pytest.fixture(scope="module")
def reference():
    return listed(API.read_text(encoding="utf-8"))


def test_the_modules_of_the_reference_are_the_public_ones(reference):
    assert sorted(reference) == MODULES


@pytest.mark.parametrize("module", MODULES)
def test_the_reference_lists_the_names_of_a_module(module, reference):
    """Does a public name change? Then docs/api.md changes with it, and CHANGELOG.md says so."""
    names = public(module)
    assert list(reference[module]) == names
    assert all(len(words) > 10 and words[-1] in ".?" for words in reference[module].values())
    assert [name for name in names if not hasattr(module_called(module), name)] == []


def test_a_name_that_is_not_listed_is_noticed(reference, monkeypatch):
    monkeypatch.setattr(attnfaith.training, "__all__", [*attnfaith.training.__all__, "new"])
    assert list(reference["attnfaith.training"]) != public("attnfaith.training")
    monkeypatch.delattr(attnfaith.errors, "StorageError")
    assert list(reference["attnfaith.errors"]) != public("attnfaith.errors")
