"""What stands in one cell of the data."""

from __future__ import annotations

import json
import math
from collections.abc import Hashable
from typing import Any

from attnfaith.errors import InputError
from attnfaith.validation import short_repr


def plain(value: Any) -> Any:
    """A value without its array or tensor around it."""
    return value.tolist() if hasattr(value, "tolist") else value


def missing(value: Any) -> bool:
    """Is it None, NaN, or the NA of pandas?

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
    """A text, or None where it is missing; anything else is refused."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise InputError(
                f"{_where(row, column)} holds half a character (a lone surrogate), which no tokenizer reads. Repair it."
            ) from None
        return str(value)
    if missing(value):
        return None
    raise InputError(
        f"{_where(row, column)} holds {short_repr(value)}, of type {type(value).__name__}; expected a text. "
        "input_column= names the column of the texts."
    )


def scores_of(value: Any, row: int, column: Hashable) -> tuple[float, ...]:
    """A score for each item; none where the cell is empty, NaN where one of them is missing.

    Example:
        >>> scores_of([1, None], 0, "mine"), scores_of("[0.5]", 1, "mine"), scores_of(None, 2, "mine")
        ((1.0, nan), (0.5,), ())
    """
    given = plain(value)
    try:
        given = json.loads(given) if isinstance(given, str) else given
        if missing(given):
            return ()
        if isinstance(given, list | tuple):
            return tuple(math.nan if missing(one := plain(entry)) else float(one) for entry in given)
    except (TypeError, ValueError):
        pass
    raise InputError(
        f"{_where(row, column)} holds {short_repr(value)}; expected a list of numbers, one for each item of the text."
    )


def is_number(value: Any) -> bool:
    """Can it be read as a number?"""
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def _where(row: int, column: Hashable) -> str:
    return f"Row {row} (counted from 0) of the column {column!r}"
