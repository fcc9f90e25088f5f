"""Fitting classifiers. Everything is loaded when it is first asked for: Transformers' Trainer is heavy."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attnfaith.training.fitting import History as History
    from attnfaith.training.fitting import fit as fit
    from attnfaith.training.random_labels import shuffled as shuffled
    from attnfaith.training.recipes import recipe as recipe

_HOME = {"History": "fitting", "fit": "fitting", "recipe": "recipes", "shuffled": "random_labels"}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    return value


def __dir__() -> list[str]:
    return __all__
