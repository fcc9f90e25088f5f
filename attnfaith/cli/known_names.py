"""The names of tests and rankings for help texts, without importing what they are made of (torch, Transformers).

Where the registries are loaded, they are asked. In the process of the command line they are not: there the names are
read from the folders of the tests, and from the source of the rankings.
"""

from __future__ import annotations

import pkgutil
import re
import sys
from pathlib import Path
from typing import Any

from typer.core import TyperCommand

PACKAGE = Path(__file__).parents[1]
_RANKING = re.compile(r'^@method\(\s*"(?:attention|input)",\s*"(\w+)"', re.MULTILINE)


def names_of_tests() -> list[str]:
    """The names of all tests.

    Example:
        >>> "erasure" in names_of_tests()
        True
    """
    loaded = sys.modules.get("attnfaith.evaluation.tests.base")
    if loaded is not None:
        return list(loaded.tests)
    return [entry.name for entry in pkgutil.iter_modules([str(PACKAGE / "evaluation" / "tests")]) if entry.ispkg]


def names_of_rankings() -> list[str]:
    """The names of all rankings, each once, in alphabetical order.

    Example:
        >>> "attention" in names_of_rankings()
        True
    """
    loaded = sys.modules.get("attnfaith.attribution.method")
    if loaded is not None:
        return sorted({name for _, name in loaded.methods})
    files = (PACKAGE / "attribution").rglob("*.py")
    return sorted({name for file in files for name in _RANKING.findall(file.read_text(encoding="utf-8"))})


class CommandWithNames(TyperCommand):
    """A command whose help has the names in the place of ``{tests}`` and ``{rankings}``; read when help is shown."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help; typer makes the command anew for every call, so its texts can be filled in."""
        for parameter in self.params:
            text = getattr(parameter, "help", None) or ""
            for field, names in (("{tests}", names_of_tests), ("{rankings}", names_of_rankings)):
                if field in text:
                    text = parameter.help = text.replace(field, ", ".join(names()))  # type: ignore[attr-defined]
        super().format_help(ctx, formatter)
