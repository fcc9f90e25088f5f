"""Names of a package that are imported when they are first used, so that importing the package stays fast."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def lazy_exports(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` for a package.

    Args:
        package: its name, ``__name__``.
        homes: from each exported name to the full name of the module that defines it, or to the module itself;
            ``"module:name"`` where the module has it under another name.
    """

    def __getattr__(name: str) -> Any:  # noqa: N807
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home, _, attribute = homes[name].partition(":")
        module = importlib.import_module(home)
        value = module if home == f"{package}.{name}" else getattr(module, attribute or name)
        # A module that is imported later may share a lazy name (``attnfaith.metrics``), so the value is stored.
        setattr(sys.modules[package], name, value)
        return value

    def __dir__() -> list[str]:  # noqa: N807
        return sorted({*vars(sys.modules[package]), *homes})

    return __getattr__, __dir__
