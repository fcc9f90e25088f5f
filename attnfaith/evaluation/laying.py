"""What people marked in a text, laid on the tokens that the model reads."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from attnfaith.arguments import short
from attnfaith.attribution.words import Encoded
from attnfaith.errors import InputError
from attnfaith.evaluation.brought import counts_in, entries_of, ordinary_of, split_words
from attnfaith.evaluation.marks import Marks

_Unit = tuple[int, int, int]  # a segment, and a half-open range of its characters


@dataclass(frozen=True)
class Laid:
    """The marks of one text on the tokens that the model reads.

    Attributes:
        tokens: whether each is marked; special tokens never are.
        spans: the tokens of each range, for marks that are ranges; else None.
        unread: how many of the marked words, ranges, tokens or sentences the model reads nothing of.
    """

    tokens: list[bool]
    spans: list[list[bool]] | None = None
    unread: int = 0


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
    if values and (form in ("spans", "word_spans")) != isinstance(values[0], tuple):
        raise InputError(f"{where}: {short(values)} is not of the form {form!r}.")
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


def _characters(values: Sequence[Any], encoded: Encoded, where: str) -> Laid:
    if encoded.pair is not None:
        raise InputError(f"{where}: ranges of characters of which text of a pair? Give a mask, or numbers of words.")
    over = next((end for _, end in values if end > len(encoded.text)), None)
    if over is not None:
        raise InputError(f"{where}: a range ends at character {over}; the text has {len(encoded.text)}.")
    return _ranges([[(0, start, end)] if start < end else [] for start, end in values], encoded)


def _ranges(lots: Sequence[Sequence[_Unit]], encoded: Encoded) -> Laid:
    """The tokens of each lot of units that is not empty, and of all together."""
    laid = [_covered(lot, encoded).tokens for lot in lots if lot]
    seen = [tokens for tokens in laid if any(tokens)]
    together = [any(column) for column in zip(*seen, strict=True)]
    return Laid(together or [False] * len(encoded.ids), seen, len(laid) - len(seen))


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
