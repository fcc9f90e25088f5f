"""What people marked in a text: read from cells of the data, and laid on the tokens that the model reads."""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from attnfaith.attribution.words import Encoded
from attnfaith.errors import InputError
from attnfaith.evaluation.brought import counts_in, entries_of, ordinary_of, split_words
from attnfaith.evaluation.cells import missing, plain, short

FORMS = ("mask", "spans", "words", "tokens", "sentences")
"""0 or 1 for each word; ranges of characters; or the numbers of the words, tokens or sentences that are marked."""
_EXPECTED = (
    "expected a list: 0 or 1 for each word, [start, end] for each range of characters, or the numbers of the words "
    "that are marked, from 0"
)
_Unit = tuple[int, int, int]  # a segment, and a half-open range of its characters


@dataclass(frozen=True, slots=True)
class Marks:
    """The marks of one text, as the data have them.

    Attributes:
        values: numbers, or pairs of them.
        form: one of `FORMS`; None where the data do not tell.
    """

    values: tuple[int, ...] | tuple[tuple[int, int], ...]
    form: str | None = None


@dataclass(frozen=True)
class Laid:
    """The same on the tokens that the model reads.

    Attributes:
        tokens: whether each is marked; special tokens never are.
        spans: the tokens of each range of characters, for marks that are such; else None.
        unread: how many of the marked words, ranges, tokens or sentences the model reads nothing of.
    """

    tokens: list[bool]
    spans: list[list[bool]] | None = None
    unread: int = 0


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


def lay(marks: Marks, encoded: Encoded, where: str, form: str | None = None) -> Laid:
    """Marks on the tokens that the model reads: a token is marked where it overlaps something that is.

    A mask may be as long as ``text.split()`` (running on over a pair), or as anything that scores may be given for, see
    `on_tokens`. What the model does not read is counted.

    Args:
        marks: of the text.
        encoded: the text.
        where: what they are, for errors.
        form: of the marks, where it is known better than they tell.

    Example:
        >>> from attnfaith.attribution.words import Encoded
        >>> two = Encoded(
        ...     "not bad", None, (1, 2, 3), {}, ("not", "ba", "d"), ((0, 3), (4, 6), (6, 7)), (0, 0, 0), (0, 1, 1)
        ... )
        >>> [lay(Marks(values), two, "x", form).tokens for values, form in (((0, 1), "mask"), (((2, 5),), "spans"))]
        [[False, True, True], [True, True, False]]
    """
    form = form or marks.form
    values: list[Any] = list(marks.values)
    if form is None:
        if values:
            raise InputError(
                f"{where}: {values} could be a mask or the numbers of words, and no other row tells. Say "
                "which, as Rationales(form='mask') or form='words'."
            )
        return Laid([False] * len(encoded.ids))
    if values and (form == "spans") != isinstance(values[0], tuple):
        raise InputError(f"{where}: {short(values)} is not of the form {form!r}.")
    if form == "mask":
        return _mask(values, encoded, where)
    if form == "spans":
        return _spans(values, encoded, where)
    if form == "words":
        words = split_words(encoded)
        _check_numbers(values, len(words), where, "words by white space")
        return _covered([words[number] for number in sorted(values)], encoded)
    if form == "tokens":
        places = ordinary_of(encoded)
        return _numbered(values, dict(zip(places, range(len(places)), strict=True)), encoded, where, "tokens")
    if encoded.sentences is None:
        raise InputError(f"{where}: there are no sentences, since this model reads none. Use another form of marks.")
    own = {place: encoded.sentences[place] for place in ordinary_of(encoded)}
    return _numbered(values, own, encoded, where, "sentences")


def _mask(values: Sequence[Any], encoded: Encoded, where: str) -> Laid:
    if not set(values) <= {0, 1}:
        raise InputError(f"{where}: {short(list(values))} is no mask of 0 and 1.")
    words = split_words(encoded)
    if len(values) == len(words):
        return _covered([word for word, marked in zip(words, values, strict=True) if marked], encoded)
    numbers: Sequence[int | None] | None = entries_of(len(values), encoded)
    if numbers is None and encoded.sentences is not None and len(values) == 1 + max(encoded.sentences):
        numbers = encoded.sentences
    if numbers is None:
        sentences = "" if encoded.sentences is None else f" and {1 + max(encoded.sentences)} sentences"
        raise InputError(f"{where}: a mask of {len(values)} for a text of {counts_in(encoded)}{sentences}.")
    ordinary = set(ordinary_of(encoded))
    return Laid(
        [place in ordinary and number is not None and bool(values[number]) for place, number in enumerate(numbers)]
    )


def _spans(values: Sequence[Any], encoded: Encoded, where: str) -> Laid:
    if encoded.pair is not None:
        raise InputError(f"{where}: ranges of characters of which text of a pair? Give a mask, or numbers of words.")
    over = next((end for _, end in values if end > len(encoded.text)), None)
    if over is not None:
        raise InputError(f"{where}: a range ends at character {over}; the text has {len(encoded.text)}.")
    laid = [_covered([(0, start, end)], encoded) for start, end in values if start < end]
    together = [any(column) for column in zip(*(one.tokens for one in laid), strict=True)]
    return Laid(
        together or [False] * len(encoded.ids),
        [one.tokens for one in laid if not one.unread],
        sum(one.unread for one in laid),
    )


def _covered(units: Sequence[_Unit], encoded: Encoded) -> Laid:
    """The tokens that overlap some of the units, which are in order and apart; and how many units have none."""
    starts = [(segment, start) for segment, start, _ in units]
    ends = [(segment, end) for segment, _, end in units]
    tokens: list[bool] = []
    seen: set[int] = set()
    for segment, span in zip(encoded.segments, encoded.offsets, strict=True):
        first = last = 0
        if segment is not None and span is not None and span[1] > span[0]:
            first, last = bisect_right(ends, (segment, span[0])), bisect_left(starts, (segment, span[1]))
            seen.update(range(first, last))
        tokens.append(first < last)
    return Laid(tokens, unread=len(units) - len(seen))


def _numbered(values: Sequence[Any], own: dict[int, int], encoded: Encoded, where: str, what: str) -> Laid:
    """Marks by number; in a text that was cut off, numbers past its end are of what the model does not read."""
    count = 1 + max(own.values(), default=-1)
    _check_numbers(values, count + encoded.truncated, where, what)
    read = {number for number in values if number < count}
    return Laid([own.get(place) in read for place in range(len(encoded.ids))], unread=len(values) - len(read))


def _check_numbers(values: Sequence[Any], count: int, where: str, what: str) -> None:
    if len(set(values)) < len(values):
        raise InputError(f"{where}: {short(list(values))} names the same of the {what} twice.")
    over = max(values, default=-1)
    if over >= count:
        raise InputError(f"{where}: marks number {over} (counted from 0); the text has {count} {what}.")


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
