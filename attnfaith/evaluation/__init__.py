"""Tests of faithfulness over whole data sets: what is read, run, stored and summed up."""

from typing import TYPE_CHECKING

from attnfaith._lazy import lazy_exports

if TYPE_CHECKING:
    from attnfaith.evaluation import tests as tests

__all__ = ["tests"]
__getattr__, __dir__ = lazy_exports(__name__, {"tests": "attnfaith.evaluation.tests"})  # it imports modules from here
