"""An explanation's text cut into coloured pieces, and the words and numbers beside it: for pages and for terminals."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from attnfaith.attribution.display_names import display_name
from attnfaith.escaping import visible

if TYPE_CHECKING:
    from attnfaith.attribution.explanation import Explanation, Piece
    from attnfaith.text.offsets import Span

FOR, AGAINST = (230, 97, 1), (33, 113, 240)  # orange and blue, which colour-blind readers can distinguish
FAINT = 0.05
"""Below this share of the largest score, an item is not marked."""
_QUANTITIES = {"probability": "probability", "logit": "logit", "log_odds": "log-odds"}


@dataclass(frozen=True)
class ColouredPiece:
    """A part of a text that is shown in one way.

    Attributes:
        text: its characters, as they are in the original.
        score: the score of the item; None for characters between items.
        unread: whether the model did not read it, because the text was cut off.
    """

    text: str
    score: float | None = None
    unread: bool = False


def coloured_pieces(explanation: Explanation, pieces: Sequence[Piece]) -> list[list[ColouredPiece]]:
    """The text, or both texts of a pair, each cut into pieces; together the pieces are the original text.

    Args:
        explanation: the explanation whose texts are shown.
        pieces: the items with their scores, in any order. Where items overlap, the earlier one is shown.
    """
    encoded = explanation.encoded
    texts = [encoded.text] if encoded.pair is None else [encoded.text, encoded.pair]
    return [list(_cut(explanation, text, pieces, segment)) for segment, text in enumerate(texts)]


def _cut(explanation: Explanation, text: str, pieces: Sequence[Piece], segment: int) -> Iterator[ColouredPiece]:
    read_range, at = _read_range(explanation, text, segment), 0
    inside = [piece for piece in pieces if piece.segment == segment and piece.start is not None]
    for piece in sorted(inside, key=lambda piece: piece.start or 0):
        start, end = max(at, piece.start or 0), piece.end or 0
        if start < end:
            yield from _between(text, at, start, read_range)
            yield ColouredPiece(text[start:end], piece.score)
            at = end
    yield from _between(text, at, len(text), read_range)


def _between(text: str, start: int, end: int, read_range: Span) -> Iterator[ColouredPiece]:
    """Characters that belong to no item, cut where the model began and stopped reading."""
    first, last = read_range
    cuts = sorted({start, min(max(first, start), end), min(max(last, start), end), end})
    for a, b in pairwise(cuts):
        yield ColouredPiece(text[a:b], unread=(b <= first or a >= last) and bool(text[a:b].strip()))


def _read_range(explanation: Explanation, text: str, segment: int) -> Span:
    encoded = explanation.encoded
    if not encoded.truncated:
        return 0, len(text)
    spans = [span for span, number in zip(encoded.offsets, encoded.segments, strict=True) if span and number == segment]
    return min((span[0] for span in spans), default=0), max((span[1] for span in spans), default=0)


def largest_score(pieces: Sequence[Piece]) -> float:
    """The largest absolute value of a score, which gets the full colour."""
    return max((abs(piece.score) for piece in pieces if math.isfinite(piece.score)), default=0.0)


def strength(score: float, largest: float) -> float:
    """How strongly a finite score is coloured, from 0 to 1.

    Example:
        >>> strength(-1.0, 4.0), strength(0.0, 0.0)
        (0.25, 0.0)
    """
    return min(1.0, abs(score) / largest) if largest else 0.0


def format_score(explanation: Explanation, score: float) -> str:
    """A score with four digits, and with its sign where signs mean something."""
    if math.isnan(score):
        return "undefined"
    return f"{score:+.4g}" if explanation.signed else f"{score:.4g}"


def ranked(pieces: Sequence[Piece]) -> list[int]:
    """Indices sorted by descending score, ties in text order, undefined scores last."""
    return sorted(
        range(len(pieces)), key=lambda at: -pieces[at].score if not math.isnan(pieces[at].score) else math.inf
    )


def piece_lines(explanation: Explanation, pieces: Sequence[Piece]) -> list[str]:
    """The lines of a plain table: index, rank (1 = most important), score and item, in text order."""
    ranks = {index: rank for rank, index in enumerate(ranked(pieces), 1)}
    lines = [f"{'place':>5}  {'rank':>4}  {'score':>11}  item"]
    for index, piece in enumerate(pieces):
        score = format_score(explanation, piece.score)
        lines.append(f"{index:>5}  {ranks[index]:>4}  {score:>11}  {one_line(piece.text)}")
    return lines


def one_line(text: str, kept: str = "") -> str:
    """A text in one line: line breaks and tabs are signs, control characters are escaped."""
    signs = {"\n": "↵", "\t": "⇥"}
    return visible("".join(sign if sign in kept else signs.get(sign, sign) for sign in text), kept)


def predicted(explanation: Explanation) -> str:
    """The decision: a class and its probability; for a regression the output and its value."""
    if explanation.probability is None:
        return f"{explanation.target} = {explanation.prediction}"
    return explanation.prediction + _in_brackets(explanation.probability)


def headline(explanation: Explanation) -> str:
    """The decision, and the class explained where that is another one."""
    if explanation.probability is None or explanation.prediction == explanation.target:
        return f"predicted {predicted(explanation)}"
    return f"predicted {predicted(explanation)}, explained {_target(explanation)}"


def explained(explanation: Explanation) -> str:
    """The number that is explained, and the ranking that explains it."""
    valued = explanation.probability is None
    quantity = "value" if valued else _QUANTITIES.get(explanation.output, explanation.output)
    method = display_name((explanation.level, explanation.method))
    return f"the {quantity} of {_target(explanation)}, by {method} at the {explanation.level} level"


def meanings(explanation: Explanation) -> tuple[str, str]:
    """What the colour of high scores says, and that of low ones."""
    if not explanation.signed:
        return "more important", "less important"
    valued = explanation.probability is None  # a regression has no classes to speak for
    verbs = ("raises", "lowers") if valued else ("for", "against")
    return f"{verbs[0]} {explanation.target}", f"{verbs[1]} {explanation.target}"


def _target(explanation: Explanation) -> str:
    if explanation.probability is None or explanation.prediction == explanation.target:
        return explanation.target
    return explanation.target + _in_brackets(explanation.target_probability)


def _in_brackets(probability: float | None) -> str:
    return "" if probability is None else f" (probability {probability:.3f})"
