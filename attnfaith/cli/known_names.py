"""The names of tests and rankings for help texts, read from the source without importing torch.

Where the registries are loaded, they are asked. In the process of the command line they are not: there the names are
read from the folders of the tests, and from the source of the rankings.
"""

from __future__ import annotations

import ast
import pkgutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from typer.core import TyperCommand

PACKAGE = Path(__file__).parents[1]


def names_of_tests() -> list[str]:
    """The names of all tests.

    Example:
        >>> "erasure" in names_of_tests()
        True
    """
    package, base = (sys.modules.get(f"attnfaith.evaluation.tests{end}") for end in ("", ".base"))
    folders = [str(PACKAGE / "evaluation" / "tests")] if package is None else package.__path__
    names = [entry.name for entry in pkgutil.iter_modules(folders) if entry.ispkg]
    return list(dict.fromkeys([*names, *([] if base is None else base.tests)]))  # a test may be registered elsewhere


def names_of_rankings() -> list[str]:
    """The names of all rankings, each once, in alphabetical order.

    Example:
        >>> "attention" in names_of_rankings()
        True
    """
    loaded = sys.modules.get("attnfaith.attribution.method")
    if loaded is not None:
        return sorted({name for _, name in loaded.methods})
    trees = [ast.parse(file.read_bytes()) for file in (PACKAGE / "attribution").rglob("*.py")]
    assigned = [node for tree in trees for node in tree.body if isinstance(node, ast.Assign)]
    constants = {node.targets[0].id: node.value for node in assigned if isinstance(node.targets[0], ast.Name)}
    functions = [node for tree in trees for node in tree.body if isinstance(node, ast.FunctionDef)]
    decorators = [call for node in functions for call in node.decorator_list if isinstance(call, ast.Call)]
    return sorted({_name(call, constants) for call in decorators if getattr(call.func, "id", "") == "method"})


def _name(call: ast.Call, constants: Mapping[str, ast.expr]) -> str:
    """The name in ``@method(level, name)``; the arguments may be constants of another file, or one starred pair."""
    values: list[str] = []
    for argument in call.args:
        node = argument.value if isinstance(argument, ast.Starred) else argument
        value = ast.literal_eval(constants[node.id] if isinstance(node, ast.Name) else node)
        values += [value] if isinstance(value, str) else value
    return values[1]


def names_of_presets() -> list[str]:
    """The names of all presets.

    Example:
        >>> "HANrnn" in names_of_presets()
        True
    """
    from attnfaith.models.paper_presets import presets

    return presets()


class CommandWithNames(TyperCommand):
    """A command that fills ``{tests}`` and ``{rankings}`` into its help when the help is shown."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help with the names filled in; typer builds the command again for every call."""
        for parameter in self.params:
            text = getattr(parameter, "help", None) or ""
            for field, names in (
                ("{tests}", names_of_tests),
                ("{rankings}", names_of_rankings),
                ("{presets}", names_of_presets),
            ):
                if field in text:
                    text = parameter.help = text.replace(field, ", ".join(names()))  # type: ignore[attr-defined]
        super().format_help(ctx, formatter)
