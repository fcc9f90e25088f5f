"""Show an explanation: highlighted text in a terminal, else a plain table."""

from __future__ import annotations

import math

from rich.console import Console
from rich.text import Text

from attnfaith.attribution.coloured_text import (
    AGAINST,
    FAINT,
    FOR,
    coloured_pieces,
    explained,
    format_score,
    largest_score,
    meanings,
    one_line,
    piece_lines,
    predicted,
    ranked,
    strength,
)
from attnfaith.attribution.explanation import Explanation, Piece
from attnfaith.cli.terminal import print_lines

STRONGEST = 10
"""So many items are listed under a text in a terminal; a table has all."""


def pieces_of(explanation: Explanation, *, words: bool = False) -> list[Piece]:
    """The items with their positions in the text, in text order; tokens are merged to words on request."""
    if words:
        return explanation.words(special=True)
    if explanation.unit == "sentence":
        return explanation.sentences()
    encoded, pieces = explanation.encoded, []
    for (start, end), score, token in zip(explanation.spans, explanation.scores, explanation.tokens, strict=True):
        spans = [span for span in encoded.offsets[start:end] if span]
        first, last = (min(span[0] for span in spans), max(span[1] for span in spans)) if spans else (None, None)
        pieces.append(Piece(token, score, first, last, encoded.segments[start] if spans else None))
    return pieces


def show(explanation: Explanation, *, words: bool = False) -> None:
    """Write an explanation to standard output: highlighted in a terminal, else as a table."""
    console = Console(highlight=False)
    pieces = pieces_of(explanation, words=words)
    if not console.is_terminal:
        print_lines("\n".join(table(explanation, pieces)))
        return
    for line in highlighted(explanation, pieces, _signs(console)):
        console.print(line)


def table(explanation: Explanation, pieces: list[Piece]) -> list[str]:
    """The lines of a table: the decision, then the pieces in text order."""
    return [*(f"{name}: {value}" for name, value in _facts(explanation)), *piece_lines(explanation, pieces)]


def highlighted(explanation: Explanation, pieces: list[Piece], signs: tuple[str, str]) -> list[Text]:
    """Lines for a terminal: the text with its items in orange (for) and blue (against), then the strongest items.

    Signs stand beside the colours, for terminals and readers without them.
    """
    size, signed = largest_score(pieces), explanation.signed
    lines = []
    for parts in coloured_pieces(explanation, pieces):
        line = Text()
        for part in parts:
            visible_text = one_line(part.text, "\n")
            if part.score is None:
                line.append(visible_text, "strike dim" if part.unread else "")
            else:
                line.append_text(_marked(visible_text, part.score, size, signs if signed else None))
        lines += [line, Text()]
    for name, value in _decision_facts(explanation):
        lines.append(Text(f"{name}: ").append(value, "bold" if name == "predicted" else ""))
    if signed:
        lines.append(_key(explanation, signs))
    order = [index for index in ranked(pieces) if math.isfinite(pieces[index].score)]
    if signed:
        order.sort(key=lambda index: -abs(pieces[index].score))
    lines.append(Text())
    for index in order[:STRONGEST]:
        piece = pieces[index]
        marked = _marked(one_line(piece.text), piece.score, size, None)
        lines.append(Text(f"{format_score(explanation, piece.score):>11}  ").append_text(marked))
    if len(order) > STRONGEST:
        lines.append(Text(f"{'':>11}  the {STRONGEST} strongest of {len(order)}; --json gives all", "dim"))
    return lines


def _facts(explanation: Explanation) -> list[tuple[str, str]]:
    """The lines that name the text, the decision and what is explained."""
    encoded = explanation.encoded
    texts = (
        [("text", encoded.text)] if encoded.pair is None else [("text", encoded.text), ("second text", encoded.pair)]
    )
    return [*((name, one_line(text)) for name, text in texts), *_decision_facts(explanation)]


def _decision_facts(explanation: Explanation) -> list[tuple[str, str]]:
    facts = [("predicted", predicted(explanation)), ("explained", explained(explanation))]
    return [(name, one_line(value)) for name, value in (*facts, *(("note", note) for note in explanation.notes))]


def _key(explanation: Explanation, signs: tuple[str, str]) -> Text:
    high, low = (one_line(meaning) for meaning in meanings(explanation))
    key = Text("marked: ").append_text(_marked(high, 1.0, 1.0, signs)).append("  ")
    return key.append_text(_marked(low, -1.0, 1.0, signs))


def _marked(text: str, score: float, size: float, signs: tuple[str, str] | None) -> Text:
    """Text on its background colour, readable on light and dark terminals, followed by its sign."""
    if not math.isfinite(score):
        return Text(text, "underline")
    share = strength(score, size)
    if share < FAINT:
        return Text(text)
    mixed = (round(255 + (part - 255) * 0.8 * share) for part in (AGAINST if score < 0 else FOR))
    sign = "" if signs is None else signs[score < 0]
    return Text(text + sign, f"black on rgb({','.join(map(str, mixed))})")


def _signs(console: Console) -> tuple[str, str]:
    """The signs after items for and against the target."""
    return ("⁺", "⁻") if console.encoding.startswith("utf") else ("(+)", "(-)")
