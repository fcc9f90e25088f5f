"""Diagnostics that train: Wiegreffe & Pinter's four tests of whether attention could be otherwise.

`diagnose` trains a model again under other conditions (uniform attention, other seeds, an adversary that is trained for
other attention), imposes its attention on a classifier of single words, and compares. Each of the four has a folder:
what it trains and measures in ``diagnostic.py``, its figure in ``plot.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnfaith._lazy import lazy_exports

if TYPE_CHECKING:
    from attnfaith.diagnostics.diagnosis import Diagnosis as Diagnosis
    from attnfaith.diagnostics.diagnosis import load_diagnosis as load_diagnosis
    from attnfaith.diagnostics.running import diagnose as diagnose

_HOMES = {"Diagnosis": "diagnosis", "diagnose": "running", "load_diagnosis": "diagnosis"}
__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy_exports(__name__, {name: f"{__name__}.{module}" for name, module in _HOMES.items()})
