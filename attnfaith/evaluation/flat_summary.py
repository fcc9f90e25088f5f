"""A summary as one flat dict of names and numbers, as `evaluate` and loggers take it."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

_PLACE = ("test", "erase_level", "ranking_level", "ranking", "other", "figure")


def flat_summary(summary: pd.DataFrame) -> dict[str, float | None]:
    """The figures of all texts by name, each with the ends of its interval; None where undefined.

    Args:
        summary: of `Results.summary`.

    Example:
        >>> row = dict(zip(_PLACE, ("erasure", "input", "attention", "attention", "", "skill"), strict=True))
        >>> flat_summary(pd.DataFrame([{**row, "slice": "all", "value": 0.5, "low": 0.25, "high": math.nan}]))
        {'erasure/input/attention/attention/skill': 0.5, 'erasure/input/attention/attention/skill_low': 0.25}
    """
    figures: dict[str, float | None] = {}
    for row in summary[summary["slice"] == "all"].to_dict("records"):
        name = "/".join(part for part in (_text(row[column]) for column in _PLACE) if part)
        figures[name] = _number(row["value"])
        ends = {end: _number(row[end]) for end in ("low", "high")}
        figures |= {f"{name}_{end}": value for end, value in ends.items() if value is not None}
    return figures


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _number(value: Any) -> float | None:
    return float(value) if math.isfinite(value) else None
