"""What people marked in a text, read from cells of the data."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from attnfaith.arguments import short
from attnfaith.errors import InputError
from attnfaith.evaluation.cells import missing, plain

FORMS = ("mask", "spans", "word_spans", "words", "tokens", "sentences")
"""0 or 1 for each word; ranges of characters or of words; or the numbers of marked words, tokens or sentences."""
_EXPECTED = (
    "expected a list: 0 or 1 for each word, [start, end] for each range of characters, or the numbers of the words "
    "that are marked, from 0"
)


@dataclass(frozen=True, slots=True)
class Marks:
    """The marks of one text, as the data have them.

    Attributes:
        values: numbers, or pairs of them.
        form: one of `FORMS`; None where the data do not tell.
    """

    values: tuple[int, ...] | tuple[tuple[int, int], ...]
    form: str | None = None


def marks_of(value: Any, row: int, column: Hashable) -> Marks | None:
    """The marks in a cell, in the form that this cell alone gives away; None where it is empty.

    Example:
        >>> marks_of([0, 0, 1], 0, "mine"), marks_of("[[0, 4]]", 1, "mine"), marks_of([4, 5], 2, "mine").form
        (Marks(values=(0, 0, 1), form='mask'), Marks(values=((0, 4),), form='spans'), 'words')
        >>> marks_of([0, 1], 3, "mine").form, marks_of(None, 4, "mine")
        (None, None)
    """
    given = plain(value)
    try:
        given = json.loads(given) if isinstance(given, str) else given
        if missing(given):
            return None
        if not isinstance(given, list | tuple):
            raise TypeError
        entries = [plain(entry) for entry in given]
        if any(isinstance(entry, list | tuple) for entry in entries):
            return Marks(tuple(_pair(entry) for entry in entries), "spans")
        numbers = tuple(_whole(entry) for entry in entries)
    except (TypeError, ValueError):
        raise InputError(f"{_where(row, column)} holds {short(value)}; {_EXPECTED}.") from None
    truths = all(number in (0, 1) for number in numbers)
    repeated = len(set(numbers)) < len(numbers)
    if truths:
        sure = repeated or any(isinstance(entry, bool) for entry in entries)
        return Marks(numbers, "mask" if sure else None)
    if repeated:
        raise InputError(
            f"{_where(row, column)} holds {short(value)}: more than 0 and 1, so no mask, and a number twice, so no "
            f"numbers of words; {_EXPECTED}."
        )
    return Marks(numbers, "words")


class MarksColumn:
    """The marks in a column of the data, which are of one form in all its rows.

    Args:
        column: its name.
        cells: row numbers and what stands there, as many as can be looked at.

    Attributes:
        column: its name.
        form: one of `FORMS`; None where no cell tells.

    Example:
        >>> column = MarksColumn("mine", [(0, [0, 1]), (1, [0, 0, 1])])
        >>> column([0, 1], 0)
        Marks(values=(0, 1), form='mask')
    """

    def __init__(self, column: Hashable, cells: Iterable[tuple[int, Any]]) -> None:
        self.column = column
        self.form: str | None = None
        self._row = 0
        for row, value in cells:
            self._settle(marks_of(value, row, column), row)

    def __call__(self, value: Any, row: int) -> Marks | None:
        """The marks in a cell, in the form of the column."""
        found = marks_of(value, row, self.column)
        self._settle(found, row)
        return None if found is None else replace(found, form=self.form)

    def _settle(self, found: Marks | None, row: int) -> None:
        if found is None or found.form is None:
            return
        if self.form is None:
            self.form, self._row = found.form, row
        if self.form != found.form:
            raise InputError(
                f"The column {self.column!r} mixes forms of rationales: {self.form} in row {self._row}, {found.form} "
                f"in row {row} (counted from 0). Use one for all rows."
            )


def _pair(entry: Any) -> tuple[int, int]:
    start, end = (_whole(plain(one)) for one in entry)
    if end < start:
        raise ValueError
    return start, end


def _whole(entry: Any) -> int:
    number = int(entry)
    if number != entry or number < 0:
        raise ValueError
    return number


def _where(row: int, column: Hashable) -> str:
    return f"Row {row} (counted from 0) of the column {column!r}"
