"""Scores that a user brings, laid on the tokens that the model reads."""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from attnfaith.data.cell_values import missing, plain
from attnfaith.errors import InputError
from attnfaith.text.encoded import EncodedText
from attnfaith.validation import short_repr

SPECIAL = -math.inf  # what nobody gave a score comes last


def align_scores(scores: Any, encoded: EncodedText, where: str, *, sentences: int | None = None) -> list[float]:
    """One score for each token (or each sentence, where there are as many scores as sentences).

    Scores may be given for every token that the model reads, for every token but the special ones, for every word as
    the tokenizer splits words, or for every word of ``text.split()``. Of a text that was cut off, what the model does
    not read is left out.

    Args:
        scores: as many numbers as one of these; NaN where undefined.
        encoded: the text.
        where: what the scores are, for errors.
        sentences: the number of sentences, where they are the items.

    Example:
        >>> from attnfaith.text.encoded import EncodedText
        >>> two = EncodedText(
        ...     "not bad", None, (1, 2, 3), {}, ("not", "ba", "d"), ((0, 3), (4, 6), (6, 7)), (0, 0, 0), (0, 1, 1)
        ... )
        >>> align_scores([0.5, 2.0], two, "x")
        [0.5, 2.0, 2.0]
    """
    values = _numbers(scores, where)
    if sentences is not None and len(values) == sentences:
        return values
    numbers = token_entries(len(values), encoded)
    if numbers is None:
        raise InputError(f"{where}: got {len(values)} scores for a text of {counts_in(encoded)}.")
    return [SPECIAL if number is None else values[number] for number in numbers]


def token_entries(count: int, encoded: EncodedText) -> list[int | None] | None:
    """Which of so many entries each token has; None for all where a text has nothing that there are so many of.

    Example:
        >>> from attnfaith.text.encoded import EncodedText
        >>> two = EncodedText(
        ...     "a b", None, (1, 2, 3), {}, ("x", "a", "b"), (None, (0, 1), (2, 3)), (None, 0, 0), (None, 0, 1)
        ... )
        >>> token_entries(3, two), token_entries(2, two), token_entries(7, two)
        ([0, 1, 2], [None, 0, 1], None)
    """
    if count == len(encoded.ids):
        return list(range(count))
    ordinary = non_special_tokens(encoded)
    by_split = _split_words(encoded)
    places: list[tuple[int, Callable[[int], int | None]]] = [
        (len(ordinary), {place: number for number, place in enumerate(ordinary)}.get),
        (_words_in(encoded), lambda place: encoded.words[place]),
        (1 + max((word for word in by_split if word is not None), default=-1), lambda place: by_split[place]),
    ]
    for known, number_of in places:
        whole = encoded.truncated > 0 and count == len(split_words(encoded)) and number_of is places[-1][1]
        if count == known or whole:
            return [number_of(place) for place in range(len(encoded.ids))]
    return None


def non_special_tokens(encoded: EncodedText) -> list[int]:
    """The places of the tokens that are not special."""
    return [place for place, own in enumerate(encoded.segments) if own is not None]


def split_words(encoded: EncodedText) -> list[tuple[int, int, int]]:
    """The words of ``text.split()``, running on over the pair: the segment of each, and its half-open range there.

    Example:
        >>> from attnfaith.text.encoded import EncodedText
        >>> split_words(EncodedText("not bad", "no", (), {}, (), (), (), ()))
        [(0, 0, 3), (0, 4, 7), (1, 0, 2)]
    """
    texts = enumerate((encoded.text, encoded.pair or ""))
    return [(segment, *match.span()) for segment, text in texts for match in re.finditer(r"\S+", text)]


def counts_in(encoded: EncodedText) -> str:
    """How many there are of everything that entries could be of, in words."""
    counts = (
        f"{len(encoded.ids)} tokens, {len(non_special_tokens(encoded))} of them not special, {_words_in(encoded)} words"
    )
    return f"{counts} ({len(split_words(encoded))} by white space)"


def _words_in(encoded: EncodedText) -> int:
    return 1 + max((word for word in encoded.words if word is not None), default=-1)


def _numbers(scores: Any, where: str) -> list[float]:
    try:
        values = scores.tolist() if hasattr(scores, "tolist") else list(scores)
        return [math.nan if value is None else float(value) for value in values]
    except (TypeError, ValueError) as error:
        raise InputError(f"{where}: expected a list of numbers, got {type(scores).__name__} ({error}).") from error


def _split_words(encoded: EncodedText) -> Sequence[int | None]:
    """The number of the white-space word that each token starts in, running on over the pair."""
    words = split_words(encoded)
    found: list[int | None] = []
    for segment, span in zip(encoded.segments, encoded.offsets, strict=True):
        number = None
        if segment is not None and span is not None and span[1] > span[0]:
            own = (place for place, (of, _, end) in enumerate(words) if of == segment and span[0] < end)
            number = next(own, None)
        found.append(number)
    return found


FORMS = ("mask", "spans", "word_spans", "words", "tokens", "sentences")
"""0 or 1 for each word; ranges of characters or of words; or the numbers of marked words, tokens or sentences."""
_EXPECTED = (
    "expected a list: 0 or 1 for each word, [start, end] for each range of characters, or the numbers of the words "
    "that are marked, from 0"
)


@dataclass(frozen=True, slots=True)
class Rationale:
    """The marks of one text, as the data have them.

    Attributes:
        values: numbers, or pairs of them.
        form: one of `FORMS`; None where the data do not tell.
    """

    values: tuple[int, ...] | tuple[tuple[int, int], ...]
    form: str | None = None


def marks_of(value: Any, row: int, column: Hashable) -> Rationale | None:
    """The marks in a cell, in the form that this cell alone gives away; None where it is empty.

    Example:
        >>> marks_of([0, 0, 1], 0, "mine"), marks_of("[[0, 4]]", 1, "mine"), marks_of([4, 5], 2, "mine").form
        (Rationale(values=(0, 0, 1), form='mask'), Rationale(values=((0, 4),), form='spans'), 'words')
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
            return Rationale(tuple(_pair(entry) for entry in entries), "spans")
        numbers = tuple(_whole(entry) for entry in entries)
    except (TypeError, ValueError):
        raise InputError(f"{_where(row, column)} holds {short_repr(value)}; {_EXPECTED}.") from None
    truths = all(number in (0, 1) for number in numbers)
    repeated = len(set(numbers)) < len(numbers)
    if truths:
        sure = repeated or any(isinstance(entry, bool) for entry in entries)
        return Rationale(numbers, "mask" if sure else None)
    if repeated:
        raise InputError(
            f"{_where(row, column)} holds {short_repr(value)}: more than 0 and 1, so no mask; and a number twice: no "
            f"numbers of words; {_EXPECTED}."
        )
    return Rationale(numbers, "words")


class RationaleReader:
    """The marks in a column of the data, which are of one form in all its rows.

    Args:
        column: its name.
        cells: row numbers and what stands there, as many as can be looked at.

    Attributes:
        column: its name.
        form: one of `FORMS`; None where no cell tells.

    Example:
        >>> column = RationaleReader("mine", [(0, [0, 1]), (1, [0, 0, 1])])
        >>> column([0, 1], 0)
        Rationale(values=(0, 1), form='mask')
    """

    def __init__(self, column: Hashable, cells: Iterable[tuple[int, Any]]) -> None:
        self.column = column
        self.form: str | None = None
        self._row = 0
        for row, value in cells:
            self._settle(marks_of(value, row, column), row)

    def __call__(self, value: Any, row: int) -> Rationale | None:
        """The marks in a cell, in the form of the column."""
        found = marks_of(value, row, self.column)
        self._settle(found, row)
        return None if found is None else replace(found, form=self.form)

    def _settle(self, found: Rationale | None, row: int) -> None:
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


_Unit = tuple[int, int, int]  # a segment, and a half-open range of its characters


@dataclass(frozen=True)
class TokenMarks:
    """The marks of one text on the tokens that the model reads.

    Attributes:
        tokens: whether each is marked; special tokens never are.
        spans: the tokens of each range, for marks that are ranges; else None.
        unread: how many of the marked words, ranges, tokens or sentences the model reads nothing of.
    """

    tokens: list[bool]
    spans: list[list[bool]] | None = None
    unread: int = 0


def align_marks(marks: Rationale, encoded: EncodedText, where: str, form: str | None = None) -> TokenMarks:
    """Marks on the tokens that the model reads: a token is marked where it overlaps something that is.

    A mask may be as long as ``text.split()`` (running on over a pair), or as anything that scores may be given for, see
    `align_scores`. What the model does not read is counted.

    Args:
        marks: of the text.
        encoded: the text.
        where: what they are, for errors.
        form: of the marks, where it is known better than they tell.

    Example:
        >>> two = EncodedText(
        ...     "not bad", None, (1, 2, 3), {}, ("not", "ba", "d"), ((0, 3), (4, 6), (6, 7)), (0, 0, 0), (0, 1, 1)
        ... )
        >>> [
        ...     align_marks(Rationale(values), two, "x", form).tokens
        ...     for values, form in (((0, 1), "mask"), (((2, 5),), "spans"))
        ... ]
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
        return TokenMarks([False] * len(encoded.ids))
    if values and (form in ("spans", "word_spans")) != isinstance(values[0], tuple):
        raise InputError(f"{where}: {short_repr(values)} is not of the form {form!r}.")
    if form == "mask":
        return _mask(values, encoded, where)
    if form == "spans":
        return _characters(values, encoded, where)
    if form == "word_spans":
        words = split_words(encoded)
        _check_numbers(sorted({end - 1 for start, end in values if start < end}), len(words), where, "words")
        return _ranges([words[start:end] for start, end in values], encoded)
    if form == "words":
        words = split_words(encoded)
        _check_numbers(values, len(words), where, "words by white space")
        return _covered([words[number] for number in sorted(values)], encoded)
    if form == "tokens":
        places = non_special_tokens(encoded)
        return _numbered(values, dict(zip(places, range(len(places)), strict=True)), encoded, where, "tokens")
    if encoded.sentences is None:
        raise InputError(f"{where}: there are no sentences, since this model reads none. Use another form of marks.")
    own = {place: encoded.sentences[place] for place in non_special_tokens(encoded)}
    return _numbered(values, own, encoded, where, "sentences")


def _mask(values: Sequence[Any], encoded: EncodedText, where: str) -> TokenMarks:
    if not set(values) <= {0, 1}:
        raise InputError(f"{where}: {short_repr(list(values))} is no mask of 0 and 1.")
    words = split_words(encoded)
    if len(values) == len(words):
        return _covered([word for word, marked in zip(words, values, strict=True) if marked], encoded)
    numbers: Sequence[int | None] | None = token_entries(len(values), encoded)
    if numbers is None and encoded.sentences is not None and len(values) == 1 + max(encoded.sentences):
        numbers = encoded.sentences
    if numbers is None:
        sentences = "" if encoded.sentences is None else f" and {1 + max(encoded.sentences)} sentences"
        raise InputError(f"{where}: a mask of {len(values)} for a text of {counts_in(encoded)}{sentences}.")
    ordinary = set(non_special_tokens(encoded))
    return TokenMarks(
        [place in ordinary and number is not None and bool(values[number]) for place, number in enumerate(numbers)]
    )


def _characters(values: Sequence[Any], encoded: EncodedText, where: str) -> TokenMarks:
    if encoded.pair is not None:
        raise InputError(f"{where}: ranges of characters of which text of a pair? Give a mask, or numbers of words.")
    over = next((end for _, end in values if end > len(encoded.text)), None)
    if over is not None:
        raise InputError(f"{where}: a range ends at character {over}; the text has {len(encoded.text)}.")
    return _ranges([[(0, start, end)] if start < end else [] for start, end in values], encoded)


def _ranges(lots: Sequence[Sequence[_Unit]], encoded: EncodedText) -> TokenMarks:
    """The tokens of each lot of units that is not empty, and of all together."""
    laid = [_covered(lot, encoded).tokens for lot in lots if lot]
    seen = [tokens for tokens in laid if any(tokens)]
    together = [any(column) for column in zip(*seen, strict=True)]
    return TokenMarks(together or [False] * len(encoded.ids), seen, len(laid) - len(seen))


def _covered(units: Sequence[_Unit], encoded: EncodedText) -> TokenMarks:
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
    return TokenMarks(tokens, unread=len(units) - len(seen))


def _numbered(values: Sequence[Any], own: dict[int, int], encoded: EncodedText, where: str, what: str) -> TokenMarks:
    """Marks by number; in a text that was cut off, numbers past its end are of what the model does not read."""
    count = 1 + max(own.values(), default=-1)
    _check_numbers(values, count + encoded.truncated, where, what)
    read = {number for number in values if number < count}
    return TokenMarks([own.get(place) in read for place in range(len(encoded.ids))], unread=len(values) - len(read))


def _check_numbers(values: Sequence[Any], count: int, where: str, what: str) -> None:
    if len(set(values)) < len(values):
        raise InputError(f"{where}: {short_repr(list(values))} names the same of the {what} twice.")
    over = max(values, default=-1)
    if over >= count:
        raise InputError(f"{where}: marks number {over} (counted from 0); the text has {count} {what}.")
