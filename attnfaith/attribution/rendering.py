"""Render an `Explanation`: as HTML, as a bar plot, as captum's record, and as one line of text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from attnfaith.attribution.coloured_text import (
    AGAINST,
    FAINT,
    FOR,
    ColouredPiece,
    coloured_pieces,
    explained,
    format_score,
    headline,
    largest_score,
    meanings,
    ranked,
    strength,
)
from attnfaith.attribution.display_names import display_name
from attnfaith.escaping import visible
from attnfaith.notebook import MUTED, box, muted, safe, table
from attnfaith.text.encoded import BLANKS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from attnfaith.attribution.explanation import Explanation, Piece

MOST, MOST_PIECES = 20, 200
"""So many explanations of a list, and pieces of one, are shown."""
_STRONGEST = 0.72  # opacity: the text over it can be read on white and on black
_TEXT = "line-height:1.9; white-space:pre-wrap; overflow-wrap:anywhere; margin-top:4px"
_BETWEEN = '<div style="border-top:1px solid rgba(128,128,128,.3)"></div>'
_MARK = "border-radius:3px; padding:2px 0; box-decoration-break:clone; -webkit-box-decoration-break:clone"


def line(explanation: Explanation) -> str:
    """One line: the text, the decision, and the three strongest items."""
    pieces = [piece for piece in _pieces(explanation) if math.isfinite(piece.score)]
    strongest = sorted(pieces, key=lambda piece: -abs(piece.score))[:3]
    listed = ", ".join(f"{_short(piece.text, 24)} {format_score(explanation, piece.score)}" for piece in strongest)
    text = _short(explanation.encoded.text, 40)
    return visible(f"<Explanation {text!r}: {headline(explanation)}; {_source(explanation)}: {listed}>")


def html(explanation: Explanation) -> str:
    """The original text with its words (or a HAN's sentences) highlighted."""
    pieces = _pieces(explanation)
    size, texts = largest_score(pieces), coloured_pieces(explanation, pieces)
    blocks = []
    for number, parts in enumerate(texts):
        title = muted(("First text", "Second text")[number]) if len(texts) > 1 else ""
        highlighted = "".join(_shown(explanation, part, size) for part in parts)
        blocks.append(f'{title}<div dir="auto" style="{_TEXT}">{highlighted}</div>')
    chips = [piece for piece in _unplaced(explanation) if finite(piece.score)]
    if chips:
        marked = " ".join(_mark(explanation, safe(piece.text), piece.score, size, number=True) for piece in chips)
        blocks.append(f'<div style="{MUTED}; margin-top:6px">Besides the text: {marked}</div>')
    notes = "".join(muted(f"Note: {safe(note)}.") for note in explanation.notes)
    head = f"<div><b>{safe(headline(explanation))}</b></div>"
    return box(head, *blocks, _legend(explanation, size), notes)


def lines(explanations: Sequence[Explanation]) -> str:
    """A line for each of the first explanations, in brackets as a list has."""
    more = f"\n... and {len(explanations) - MOST:,} more" if len(explanations) > MOST else ""
    return f"[{(',' + chr(10) + ' ').join(map(line, explanations[:MOST]))}{more}]"


def list_html(explanations: Sequence[Explanation]) -> str:
    """The first texts, highlighted, below each other with their indices."""
    shown = [muted(f"[{number}]") + html(explanation) for number, explanation in enumerate(explanations[:MOST])]
    if len(explanations) > MOST:
        shown.append(muted(f"and {len(explanations) - MOST:,} more: a slice of the list shows others"))
    return _BETWEEN.join(shown) if shown else muted("no explanations")


def pieces_html(explanation: Explanation, pieces: Sequence[Piece]) -> str:
    """A table of pieces in text order: rank (1 = most important), score, and text, highlighted."""
    size, order = largest_score(pieces), ranked(pieces)
    ranks = {index: rank for rank, index in enumerate(order, 1)}
    rows = []
    for index, piece in enumerate(pieces[:MOST_PIECES]):
        marked = _mark(explanation, safe(piece.text), piece.score, size)
        rows.append((str(ranks[index]), format_score(explanation, piece.score), marked))
    high, low = (safe(meaning) for meaning in meanings(explanation))
    signs = f"orange: {high}" + f", blue: {low}" * explanation.signed
    more = muted(f"and {len(pieces) - MOST_PIECES:,} more") if len(pieces) > MOST_PIECES else ""
    caption = f"{signs}; explained: {safe(explained(explanation))}"
    return box(table(("rank", "score", "text"), rows), more, muted(caption))


def plot(explanation: Explanation, axis: Axes | None, top: int) -> Figure:
    """Bars of the ``top`` words (or a HAN's sentences) of the largest size, in text order."""
    pieces = _pieces(explanation)
    count = len(pieces)
    if count > top:
        largest = sorted(range(count), key=lambda index: -abs(finite(pieces[index].score) or 0))[:top]
        pieces = [pieces[index] for index in sorted(largest)]
    from attnfaith.paper_figure import PaperFigure, figure_of  # it imports matplotlib

    if axis is None:
        axis = PaperFigure.of_width(6, 1.2 + 0.26 * max(len(pieces), 1)).add_subplot()
    scores = [finite(piece.score) for piece in pieces]
    colours = [_rgb(AGAINST if (score or 0) < 0 else FOR) for score in scores]
    axis.barh(range(len(pieces)), [score or 0.0 for score in scores], color=colours)
    labels = [
        _short(piece.text) + ("" if score is not None else " (undefined)")
        for piece, score in zip(pieces, scores, strict=True)
    ]
    axis.set_yticks(range(len(pieces)), labels)
    for label in axis.get_yticklabels():
        label.set_parse_math(False)  # or matplotlib would read dollar signs as formulas
    axis.invert_yaxis()
    axis.axvline(0, color="grey", linewidth=0.8)
    source = visible(_source(explanation)) + (f": the {top} largest of {count}" if count > top else "")
    axis.set_xlabel(source, parse_math=False)
    axis.set_title(visible(headline(explanation)), parse_math=False)
    return figure_of(axis)


def captum_record(explanation: Explanation) -> Any:
    """The record that ``captum.attr.visualization.visualize_text`` draws, with scores scaled to [-1, 1]."""
    from captum.attr import visualization

    scores = torch.tensor([finite(score) or 0.0 for score in explanation.scores], dtype=torch.float64)
    return visualization.VisualizationDataRecord(
        word_attributions=scores / scores.abs().max().clamp_min(1e-300) if len(scores) else scores,
        pred_prob=math.nan if explanation.probability is None else explanation.probability,
        pred_class=safe(explanation.prediction),  # captum does not escape names
        true_class="-",
        attr_class=safe(explanation.target),
        attr_score=float(scores.sum()),
        raw_input_ids=[safe(token) for token in explanation.tokens],
        convergence_score=math.nan if explanation.gap is None else explanation.gap,
    )


def finite(number: float | None) -> float | None:
    """The number, or None if it is not finite: JSON and plots cannot hold NaN."""
    return None if number is None or not math.isfinite(number) else number


def _pieces(explanation: Explanation) -> list[Piece]:
    return explanation.sentences() if explanation.unit == "sentence" else explanation.words()


def _unplaced(explanation: Explanation) -> list[Piece]:
    if explanation.unit == "sentence":
        return []
    return [piece for piece in explanation.words(special=True) if piece.start is None]


def _source(explanation: Explanation) -> str:
    name = display_name((explanation.level, explanation.method))
    return f"{name} ({explanation.level} level)"


def _legend(explanation: Explanation, size: float) -> str:
    signed = explanation.signed
    steps = (-1, -0.5, 0, 0.5, 1) if signed else (0, 0.25, 0.5, 0.75, 1)
    boxes = "".join(_mark(explanation, "&nbsp;&nbsp;&nbsp;", step * size, size) for step in steps)
    high, low = (safe(meaning) for meaning in meanings(explanation))
    limits = [format_score(explanation, -size) if signed else "0", format_score(explanation, size)]
    merged = "" if explanation.unit == "sentence" else f" · sub-words: {explanation.merging}"
    gap = "" if explanation.gap is None else f" · completeness gap {explanation.gap:+.2g}"
    return (
        f'<div style="{MUTED}; margin-top:6px">{low} {limits[0]} {boxes} {limits[1]} {high}<br>'
        f"explained: {safe(explained(explanation))}{merged}{gap}</div>"
    )


def _shown(explanation: Explanation, piece: ColouredPiece, size: float) -> str:
    """A piece of a text, highlighted; what the model did not read is struck out."""
    text = safe(piece.text)
    if piece.score is not None:
        return _mark(explanation, text, piece.score, size)
    return f'<s style="opacity:.5" title="not read">{text}</s>' if piece.unread else text


def _mark(explanation: Explanation, html: str, score: float, size: float, *, number: bool = False) -> str:
    if not math.isfinite(score):
        return f'<span title="undefined" style="border-bottom:1px dotted currentColor">{html}</span>'
    opacity = strength(score, size)
    red, green, blue = AGAINST if score < 0 else FOR
    line = "; box-shadow:inset 0 -2px rgb(33,113,240)" if score < 0 and opacity >= FAINT else ""
    style = f"background:rgba({red},{green},{blue},{_STRONGEST * opacity:.3f}){line}; {_MARK}"
    after = f"&nbsp;{format_score(explanation, score)}" if number else ""
    return f'<span title="{format_score(explanation, score)}" style="{style}">{html}{after}</span>'


def _short(text: str, length: int = 40) -> str:
    text = visible(" ".join(text.split()) or text.translate(BLANKS))
    return text if len(text) <= length else text[: length - 1] + "…"


def _rgb(colour: tuple[int, int, int]) -> tuple[float, ...]:
    return tuple(part / 255 for part in colour)
