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
    ordinary = [place for place, own in enumerate(encoded.segments) if own is not None]
    if sentences is not None and len(values) == sentences:
        return values
    if len(values) == len(encoded.ids):
        return values
    by_split = _split_words(encoded)
    places: list[tuple[int, Callable[[int], int | None]]] = [
        (len(ordinary), {place: number for number, place in enumerate(ordinary)}.get),
        (1 + max((word for word in encoded.words if word is not None), default=-1), lambda place: encoded.words[place]),
        (1 + max((word for word in by_split if word is not None), default=-1), lambda place: by_split[place]),
    ]
    whole = len(encoded.text.split()) + len((encoded.pair or "").split())
    for count, number_of in places:
        fits = len(values) == count or (encoded.truncated > 0 and len(values) == whole and number_of is places[-1][1])
        if fits:
            numbers = [number_of(place) for place in range(len(encoded.ids))]
            return [SPECIAL if number is None else values[number] for number in numbers]
    counts = f"{len(encoded.ids)} tokens, {len(ordinary)} of them not special, {places[1][0]} words"
    raise InputError(f"{where}: got {len(values)} scores for a text of {counts} ({whole} by white space).")


def _numbers(scores: Any, where: str) -> list[float]:
    try:
        values = scores.tolist() if hasattr(scores, "tolist") else list(scores)
        return [math.nan if value is None else float(value) for value in values]
    except (TypeError, ValueError) as error:
        raise InputError(f"{where}: expected a list of numbers, got {type(scores).__name__} ({error}).") from error


def _split_words(encoded: Encoded) -> Sequence[int | None]:
    """The number of the white-space word that each token starts in, running on over the pair."""
    found: list[int | None] = []
    words = [[match.span() for match in re.finditer(r"\S+", text)] for text in (encoded.text, encoded.pair or "")]
    for segment, span in zip(encoded.segments, encoded.offsets, strict=True):
        number = None
        if segment is not None and span is not None:
            start = 0 if segment == 0 else len(words[0])
            inside = [place for place, (_, end) in enumerate(words[segment]) if span[1] > span[0] and span[0] < end]
            number = start + inside[0] if inside else None
        found.append(number)
    return found
