"""Imports run one way: a room imports from its own layer and from those below, never from above."""

import ast
from collections.abc import Iterator
from pathlib import Path

import attnfaith

PACKAGE = Path(attnfaith.__file__).parent
LAYERS = (
    ("functional",),
    ("adapters",),
    ("text", "data", "storage", "models"),  # a text encoder tries how a model pads; our models register an adapter
    ("attribution", "explanations"),
    ("estimates",),
    ("plots",),
    ("metrics",),
    ("evaluation",),
    ("report",),
    ("training", "diagnostics", "demo", "cli", "survey"),
)
"""Lowest first. Below all of them are the modules of the package's root; ``survey`` is one, but an application."""
LEVEL = {room: level for level, rooms in enumerate(LAYERS, 1) for room in rooms}
EXCEPTIONS = {
    # The doors of the package: they name what users import from them, and import it when it is used.
    ("__init__", "attribution"),
    ("__init__", "adapters"),
    ("__init__", "diagnostics"),
    ("__init__", "evaluation"),
    ("__init__", "explanations"),
    ("__init__", "metrics"),
    ("__init__", "models"),
    ("__init__", "training"),
    ("__main__", "cli"),
    ("metrics.__init__", "evaluation"),
    ("plots.__init__", "evaluation"),
    ("evaluation.results", "report"),  # results.to_html
}
"""A module, and the higher room that it may import from."""


def imported(source: str) -> Iterator[str]:
    """The full names that a module imports, anywhere in it."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def room(name: str) -> str:
    """The room of a module: ``attnfaith.text.encoder`` is in text. The root's own modules have none."""
    return next((part for part in name.split(".")[1:2] if part in LEVEL), "")


def upward(module: str, source: str) -> set[tuple[str, str]]:
    """The higher rooms that a module imports from."""
    level = LEVEL.get(room(f"attnfaith.{module}"), 0)
    rooms = {room(name) for name in imported(source) if name.partition(".")[0] == "attnfaith"}
    return {(module, other) for other in rooms if LEVEL.get(other, 0) > level}


def test_every_folder_has_a_layer():
    folders = {file.parent.name for file in PACKAGE.glob("*/__init__.py")}
    assert folders | {"survey"} == set(LEVEL)


def test_imports_run_downwards():
    result = set()
    for file in PACKAGE.rglob("*.py"):
        module = ".".join(file.relative_to(PACKAGE).with_suffix("").parts)
        result |= upward(module, file.read_text(encoding="utf-8"))
    assert result - EXCEPTIONS == set(), "imports from a higher room"
    assert EXCEPTIONS - result == set(), "exceptions that nothing needs any more"


def test_an_import_from_above_is_noticed():
    assert upward("functional.ranking", "def f():\n    from attnfaith.evaluation import runner") == {
        ("functional.ranking", "evaluation")
    }
    assert upward("errors", "from attnfaith import models") == {("errors", "models")}
    assert upward("evaluation.runner", "import torch\nfrom attnfaith.functional.ranking import order_of") == set()
    assert upward("text.encoder", "from attnfaith.data import source\nimport attnfaith.errors") == set()
