"""Turn rows of a comparison of two runs into sentences."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from attnfaith.estimates.lookup import percent

OTHER_SEARCH = "the runs looked for the smallest flipping sets in different ways"


def with_values(sentence: str, row: Any, names: tuple[str, str], **fields: str) -> str:
    """Fill in a sentence: ``a`` and ``b`` (values), ``first`` and ``second`` (names of the runs), ``difference``."""
    a, b, difference = percent(row.a), percent(row.b), points_apart(row)
    return sentence.format(a=a, b=b, first=names[0], second=names[1], difference=difference, **fields)


def rows_of(table: pd.DataFrame, test: str, figure: str) -> list[Any]:
    """Select the rows of one estimate for which both runs have a value."""
    rows = table[(table["test"] == test) & (table["figure"] == figure) & table["difference"].notna()]
    return list(rows.itertuples(index=False))


def is_clear(row: Any) -> bool:
    """Whether the interval of the difference excludes 0."""
    return bool(row.low > 0 or row.high < 0)


def points_apart(row: Any) -> str:
    """Format a difference in percentage points, and say whether its interval excludes 0."""
    digits = 0 if abs(row.difference) >= 0.0995 else 1
    value, low, high = (f"{100 * number:+.{digits}f}" for number in (row.difference, row.low, row.high))
    interval = "" if math.isnan(row.low) else f" [{low}, {high}]"
    return f"{value} points{interval}{'' if is_clear(row) else ', no clear difference'}"
