"""Scores that a user brings, laid on the tokens that the model reads."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

from attnfaith.attribution.words import Encoded
from attnfaith.errors import InputError

SPECIAL = -math.inf  # what nobody gave a score comes last


def on_tokens(scores: Any, encoded: Encoded, where: str, *, sentences: int | None = None) -> list[float]:
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
        >>> from attnfaith.attribution.words import Encoded
        >>> two = Encoded(
        ...     "not bad", None, (1, 2, 3), {}, ("not", "ba", "d"), ((0, 3), (4, 6), (6, 7)), (0, 0, 0), (0, 1, 1)
        ... )
        >>> on_tokens([0.5, 2.0], two, "x")
        [0.5, 2.0, 2.0]
    """
    values = _numbers(scores, where)
    if sentences is not None and len(values) == sentences:
        return values
    numbers = entries_of(len(values), encoded)
    if numbers is None:
        raise InputError(f"{where}: got {len(values)} scores for a text of {counts_in(encoded)}.")
    return [SPECIAL if number is None else values[number] for number in numbers]


def entries_of(count: int, encoded: Encoded) -> list[int | None] | None:
    """Which of so many entries each token has; None for all where a text has nothing that there are so many of.

    Example:
        >>> from attnfaith.attribution.words import Encoded
        >>> two = Encoded(
        ...     "a b", None, (1, 2, 3), {}, ("x", "a", "b"), (None, (0, 1), (2, 3)), (None, 0, 0), (None, 0, 1)
        ... )
        >>> entries_of(3, two), entries_of(2, two), entries_of(7, two)
        ([0, 1, 2], [None, 0, 1], None)
    """
    if count == len(encoded.ids):
        return list(range(count))
    ordinary = ordinary_of(encoded)
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


def ordinary_of(encoded: Encoded) -> list[int]:
    """The places of the tokens that are not special."""
    return [place for place, own in enumerate(encoded.segments) if own is not None]


def split_words(encoded: Encoded) -> list[tuple[int, int, int]]:
    """The words of ``text.split()``, running on over the pair: the segment of each, and its half-open range there.

    Example:
        >>> from attnfaith.attribution.words import Encoded
        >>> split_words(Encoded("not bad", "no", (), {}, (), (), (), ()))
        [(0, 0, 3), (0, 4, 7), (1, 0, 2)]
    """
    texts = enumerate((encoded.text, encoded.pair or ""))
    return [(segment, *match.span()) for segment, text in texts for match in re.finditer(r"\S+", text)]


def counts_in(encoded: Encoded) -> str:
    """How many there are of everything that entries could be of, in words."""
    counts = f"{len(encoded.ids)} tokens, {len(ordinary_of(encoded))} of them not special, {_words_in(encoded)} words"
    return f"{counts} ({len(split_words(encoded))} by white space)"


def _words_in(encoded: Encoded) -> int:
    return 1 + max((word for word in encoded.words if word is not None), default=-1)


def _numbers(scores: Any, where: str) -> list[float]:
    try:
        values = scores.tolist() if hasattr(scores, "tolist") else list(scores)
        return [math.nan if value is None else float(value) for value in values]
    except (TypeError, ValueError) as error:
        raise InputError(f"{where}: expected a list of numbers, got {type(scores).__name__} ({error}).") from error


def _split_words(encoded: Encoded) -> Sequence[int | None]:
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
