"""Align annotations of a text (a user's scores, or what people marked) with the tokens that the model reads."""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from attnfaith.data.cell_values import missing, plain, row_of_column
from attnfaith.errors import InputError, message_of
from attnfaith.text.encoded import EncodedText
from attnfaith.validation import one_of, short_repr

UNSCORED = -math.inf
"""The score of a token that got none, such as a special token: it ranks last."""

FORMS = ("mask", "spans", "words")
"""The forms of a rationale: 0 or 1 for each word, character ranges, or word indices; words as in ``text.split()``."""
_EXPECTED = (
    "expected a list: 0 or 1 for each word, [start, end] for each range of characters, or the numbers of the words "
    "that are marked, from 0"
)
_Range = tuple[int, int, int]  # 0 for the text or 1 for its pair, and a half-open range of its characters


def align_scores(scores: Any, encoded: EncodedText, where: str, *, sentences: int | None = None) -> list[float]:
    """Convert a user's scores to one score for each token (or each sentence, if there are as many).

    Scores can be given for every token that the model reads, for every token except the special ones, for every word
    as the tokenizer splits words, or for every word of ``text.split()``. Scores past the end of a truncated text are
    dropped.

    Args:
        scores: numbers; NaN where undefined.
        encoded: the text.
        where: describes the scores in error messages.
        sentences: the number of sentences, if they are the items.

    Example:
        >>> text = EncodedText(
        ...     "not bad", None, (1, 2, 3), {}, ("not", "ba", "d"), ((0, 3), (4, 6), (6, 7)), (0, 0, 0), (0, 1, 1)
        ... )
        >>> align_scores([0.5, 2.0], text, "x")
        [0.5, 2.0, 2.0]
    """
    values = _numbers(scores, where)
    if sentences is not None and len(values) == sentences:
        return values
    indices = _score_indices(len(values), encoded)
    if indices is None:
        raise InputError(
            f"{where}: got {len(values)} scores for a text of {_unit_counts(encoded)}.", code="mismatched-scores"
        )
    return [UNSCORED if index is None else values[index] for index in indices]


def _score_indices(count: int, encoded: EncodedText) -> list[int | None] | None:
    """The index of each token's score among ``count`` scores; None if the text has no unit with this count."""
    if count == len(encoded.ids):
        return list(range(count))
    ordinary = _ordinary_tokens(encoded)
    tokenizer_words, split_words = encoded.words, _split_word_of_token(encoded)
    indices_by_unit: list[tuple[int, Callable[[int], int | None]]] = [
        (len(ordinary), {token: index for index, token in enumerate(ordinary)}.get),
        (_count(tokenizer_words), lambda token: tokenizer_words[token]),
        (_count(split_words), lambda token: split_words[token]),
    ]
    for units, index_of in indices_by_unit:
        if count == units:
            return [index_of(token) for token in range(len(encoded.ids))]
    if encoded.truncated > 0 and count == len(_split_words(encoded.text, encoded.pair)):
        return list(split_words)
    return None


def _ordinary_tokens(encoded: EncodedText) -> list[int]:
    """The indices of the tokens that are not special."""
    return [token for token, segment in enumerate(encoded.segments) if segment is not None]


def _split_word_of_token(encoded: EncodedText) -> Sequence[int | None]:
    """The index of the white-space word that each token starts in, continuing through the pair."""
    words = _split_words(encoded.text, encoded.pair)
    indices: list[int | None] = []
    for segment, span in zip(encoded.segments, encoded.offsets, strict=True):
        index = None
        if segment is not None and span is not None and span[1] > span[0]:
            containing = (i for i, (of, _, end) in enumerate(words) if of == segment and span[0] < end)
            index = next(containing, None)
        indices.append(index)
    return indices


def _split_words(text: str, pair: str | None) -> list[_Range]:
    """The words of ``text.split()``, continuing through the pair, as ranges of characters.

    Example:
        >>> _split_words("not bad", "no")
        [(0, 0, 3), (0, 4, 7), (1, 0, 2)]
    """
    return [
        (segment, *match.span())
        for segment, part in enumerate((text, pair or ""))
        for match in re.finditer(r"\S+", part)
    ]


def _unit_counts(encoded: EncodedText) -> str:
    """The number of tokens and words of a text, for error messages."""
    ordinary, words = len(_ordinary_tokens(encoded)), _count(encoded.words)
    by_space = len(_split_words(encoded.text, encoded.pair))
    return f"{len(encoded.ids)} tokens, {ordinary} of them not special, {words} words ({by_space} by white space)"


def _count(indices: Sequence[int | None]) -> int:
    return 1 + max((index for index in indices if index is not None), default=-1)


def _numbers(scores: Any, where: str) -> list[float]:
    try:
        values = scores.tolist() if hasattr(scores, "tolist") else list(scores)
        return [math.nan if value is None else float(value) for value in values]
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{where}: expected a list of numbers, got {type(scores).__name__} ({message_of(error)}).",
            code="mismatched-scores",
        ) from error


@dataclass(frozen=True, slots=True)
class Rationale:
    """What people marked in one text, as the data give it.

    Attributes:
        values: numbers, or pairs of them.
        form: one of `FORMS`; None if the values alone do not tell.
    """

    values: tuple[int, ...] | tuple[tuple[int, int], ...]
    form: str | None = None


def parse_rationale(value: Any, row: int, column: Hashable) -> Rationale | None:
    """Parse one cell, with the form that this cell alone implies; None for an empty cell.

    Example:
        >>> parse_rationale([0, 0, 1], 0, "marks")
        Rationale(values=(0, 0, 1), form='mask')
        >>> parse_rationale("[[0, 4]]", 1, "marks")
        Rationale(values=((0, 4),), form='spans')
        >>> parse_rationale([4, 5], 2, "marks").form, parse_rationale([0, 1], 3, "marks").form
        ('words', None)
    """
    cell = plain(value)
    try:
        cell = json.loads(cell) if isinstance(cell, str) else cell
        if missing(cell):
            return None
        if not isinstance(cell, list | tuple):
            raise TypeError
        entries = [plain(entry) for entry in cell]
        if any(isinstance(entry, list | tuple) for entry in entries):
            return Rationale(tuple(_pair(entry) for entry in entries), "spans")
        numbers = tuple(_index(entry) for entry in entries)
    except (TypeError, ValueError):
        raise InputError(
            f"{row_of_column(row, column)} holds {short_repr(value)}; {_EXPECTED}.", code="mismatched-scores"
        ) from None
    repeated = len(set(numbers)) < len(numbers)
    if all(number in (0, 1) for number in numbers):
        is_mask = repeated or any(isinstance(entry, bool) for entry in entries)
        return Rationale(numbers, "mask" if is_mask else None)
    if repeated:
        raise InputError(
            f"{row_of_column(row, column)} holds {short_repr(value)}: a mask has only 0 and 1, and numbers of words do "
            f"not repeat; {_EXPECTED}.",
            code="mismatched-scores",
        )
    return Rationale(numbers, "words")


class RationaleReader:
    """Reads a column of rationales. All rows have the same form, and each rationale must fit its text.

    Args:
        column: the name of the column.
        cells: row numbers and cells, as many as can be read before the run: one cell alone may not tell its form.
        form: one of `FORMS`, if the user names it; else it is read off the cells.

    Attributes:
        column: the name of the column.
        form: one of `FORMS`; None if all cells so far are empty.

    Example:
        >>> reader = RationaleReader("marks", [(0, [0, 1]), (1, [0, 0, 1])])
        >>> reader([0, 1], 0, "so so")
        Rationale(values=(0, 1), form='mask')
    """

    def __init__(self, column: Hashable, cells: Iterable[tuple[int, Any]], form: str | None = None) -> None:
        self.column = column
        self.form = one_of(form, (None, *FORMS), "form")
        self._named, self._first_row = form is not None, 0
        for row, value in cells:
            self._settle_form(parse_rationale(value, row, column), row)

    def __call__(self, value: Any, row: int, text: str | None, pair: str | None = None) -> Rationale | None:
        """Read a cell and check that it fits its text (None where the text is missing); None for an empty cell."""
        rationale = parse_rationale(value, row, self.column)
        if rationale is None:
            return None
        self._settle_form(rationale, row)
        where = row_of_column(row, self.column)
        if self.form is None and rationale.values:
            raise InputError(
                f"{where} holds {short_repr(list(rationale.values))}: this could be a mask or the numbers of words, "
                "and no other row tells which. Name the form: Rationales(form='mask') or Rationales(form='words').",
                code="mismatched-scores",
            )
        rationale = replace(rationale, form=self.form)
        if text is not None:
            _check_fit(rationale, text, pair, where)
        return rationale

    def _settle_form(self, rationale: Rationale | None, row: int) -> None:
        if rationale is None or not rationale.values:
            return
        if self._named and not _can_be(rationale, str(self.form)):
            raise InputError(
                f"{row_of_column(row, self.column)} holds {short_repr(list(rationale.values))}, which is not of the "
                f"form {self.form!r}.",
                code="mismatched-scores",
            )
        if self._named or rationale.form is None:
            return
        if self.form is None:
            self.form, self._first_row = rationale.form, row
        if self.form != rationale.form:
            raise InputError(
                f"The column {self.column!r} mixes forms of rationales: {self.form} in row {self._first_row}, "
                f"{rationale.form} in row {row} (counted from 0). Use one form in all rows.",
                code="mismatched-scores",
            )


def _can_be(rationale: Rationale, form: str) -> bool:
    """Whether values can be read in a form that the user named."""
    values = rationale.values
    if form == "spans" or isinstance(values[0], tuple):
        return (rationale.form == "spans") == (form == "spans")
    return set(values) <= {0, 1} if form == "mask" else len(set(values)) == len(values)


def _check_fit(rationale: Rationale, text: str, pair: str | None, where: str) -> None:
    """Refuse a rationale that is too short or too long for its text."""
    values: Sequence[Any] = rationale.values
    if rationale.form == "spans":
        if pair is not None and values:
            raise InputError(
                f"{where} holds ranges of characters. For a pair of texts they are ambiguous: give a mask, or the "
                "numbers of words.",
                code="mismatched-scores",
            )
        last = max((end for _, end in values), default=0)
        if last > len(text):
            raise InputError(
                f"{where} has a range that ends at character {last}; the text has {len(text)}.",
                code="mismatched-scores",
            )
        return
    words = len(_split_words(text, pair))
    if rationale.form == "mask" and len(values) != words:
        raise InputError(
            f"{where} holds a mask of {len(values)} entries for a text of {words} words (by white space).",
            code="mismatched-scores",
        )
    last = max(values, default=-1)
    if rationale.form == "words" and last >= words:
        advice = ""
        if last < len(text):
            ranges = [list(pair) for pair in _ranges_of(sorted(values))]
            advice = (
                " If these are the positions of single characters, give ranges of characters instead: "
                f"{short_repr(ranges)}."
            )
        raise InputError(
            f"{where} marks the word {last} (counted from 0); the text has {words} words (by white space).{advice}",
            code="mismatched-scores",
        )


def _ranges_of(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Consecutive numbers as half-open ranges.

    Example:
        >>> _ranges_of([3, 4, 5, 9])
        [(3, 6), (9, 10)]
    """
    ranges: list[tuple[int, int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number:
            ranges[-1] = (ranges[-1][0], number + 1)
        else:
            ranges.append((number, number + 1))
    return ranges


def _pair(entry: Any) -> tuple[int, int]:
    start, end = (_index(plain(bound)) for bound in entry)
    if end < start:
        raise ValueError
    return start, end


def _index(entry: Any) -> int:
    number = int(entry)
    if number != entry or number < 0:
        raise ValueError
    return number


@dataclass(frozen=True)
class TokenMarks:
    """The marked tokens of one text.

    Attributes:
        tokens: True for each token that is marked; special tokens never are.
        spans: the tokens of each range, for a rationale of ranges; else None.
        unread: how many of the marked words or ranges have no token, because the text was truncated.
    """

    tokens: list[bool]
    spans: list[list[bool]] | None = None
    unread: int = 0


def align_rationale(rationale: Rationale, encoded: EncodedText) -> TokenMarks:
    """Convert a rationale to marks on tokens: a token is marked if it overlaps a marked word or range.

    Args:
        rationale: from a `RationaleReader`, so that it fits the text.
        encoded: the text.

    Example:
        >>> text = EncodedText(
        ...     "not bad", None, (1, 2, 3), {}, ("not", "ba", "d"), ((0, 3), (4, 6), (6, 7)), (0, 0, 0), (0, 1, 1)
        ... )
        >>> align_rationale(Rationale((0, 1), "mask"), text).tokens
        [False, True, True]
        >>> align_rationale(Rationale(((2, 5),), "spans"), text).tokens
        [True, True, False]
    """
    values: Sequence[Any] = rationale.values
    words = _split_words(encoded.text, encoded.pair)
    if rationale.form == "spans":
        return _mark_spans([(0, start, end) for start, end in values if start < end], encoded)
    if rationale.form == "mask":
        return _mark([word for word, marked in zip(words, values, strict=True) if marked], encoded)
    return _mark([words[index] for index in sorted(values)], encoded)


def _mark_spans(ranges: Sequence[_Range], encoded: EncodedText) -> TokenMarks:
    """Mark the tokens of each range, and of all ranges together."""
    marks_by_range = [_mark([span], encoded).tokens for span in ranges]
    readable = [tokens for tokens in marks_by_range if any(tokens)]
    union = [any(column) for column in zip(*readable, strict=True)]
    return TokenMarks(union or [False] * len(encoded.ids), readable, len(marks_by_range) - len(readable))


def _mark(ranges: Sequence[_Range], encoded: EncodedText) -> TokenMarks:
    """Mark the tokens that overlap ranges, which must be in order and must not overlap."""
    starts = [(segment, start) for segment, start, _ in ranges]
    ends = [(segment, end) for segment, _, end in ranges]
    tokens: list[bool] = []
    marked: set[int] = set()
    for segment, span in zip(encoded.segments, encoded.offsets, strict=True):
        first = last = 0
        if segment is not None and span is not None and span[1] > span[0]:
            first, last = bisect_right(ends, (segment, span[0])), bisect_left(starts, (segment, span[1]))
            marked.update(range(first, last))
        tokens.append(first < last)
    return TokenMarks(tokens, unread=len(ranges) - len(marked))
