"""Read single cells of the data: texts, lists of scores, missing values."""

from __future__ import annotations

import json
import math
from collections.abc import Hashable
from typing import Any

from attnfaith.errors import InputError
from attnfaith.parameter_names import parameter
from attnfaith.validation import short_repr


def plain(value: Any) -> Any:
    """Convert an array, tensor or numpy number to plain Python values."""
    return value.tolist() if hasattr(value, "tolist") else value


def missing(value: Any) -> bool:
    """True for None, NaN, and the NA of pandas.

    Example:
        >>> missing(None), missing(float("nan")), missing(""), missing(0)
        (True, True, False, False)
    """
    if value is None:
        return True
    if isinstance(value, float):
        return math.isnan(value)
    return type(value).__name__ in ("NAType", "NaTType")


def text_of(value: Any, row: int, column: Hashable) -> str | None:
    """Read a text; None if it is missing. Anything else is refused."""
    where = row_of_column(row, column)
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise InputError(
                f"{where} holds half a character (a lone surrogate), which no tokenizer reads. Repair it.",
                code="not-a-text",
            ) from None
        return str(value)
    if missing(value):
        return None
    raise InputError(
        f"{where} holds {short_repr(value)}, of type {type(value).__name__}; expected a text. Name the column "
        f"of texts with {parameter('input_column')}.",
        code="not-a-text",
    )


def scores_of(value: Any, row: int, column: Hashable) -> tuple[float, ...]:
    """Read a list of scores, one for each item; empty for an empty cell, NaN for a missing entry.

    Example:
        >>> scores_of([1, None], 0, "mine"), scores_of("[0.5]", 1, "mine"), scores_of(None, 2, "mine")
        ((1.0, nan), (0.5,), ())
    """
    where, cell = row_of_column(row, column), plain(value)
    try:
        cell = json.loads(cell) if isinstance(cell, str) else cell
        if missing(cell):
            return ()
        if isinstance(cell, list | tuple):
            return tuple(math.nan if missing(score := plain(entry)) else float(score) for entry in cell)
    except (TypeError, ValueError):
        pass
    raise InputError(
        f"{where} holds {short_repr(value)}; expected a list of numbers, one for each item of the text.",
        code="mismatched-scores",
    )


def is_number(value: Any) -> bool:
    """True if the value can be read as a number."""
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def row_of_column(row: int, column: Hashable) -> str:
    """A cell's row and column, for error messages."""
    return f"Row {row} (counted from 0) of the column {column!r}"
