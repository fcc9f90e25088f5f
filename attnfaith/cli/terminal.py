"""An explanation in a terminal, its text highlighted; elsewhere a plain table."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from attnfaith.attribution.rendering import AGAINST, FOR
from attnfaith.escaping import visible, visible_log

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from attnfaith.attribution.explanation import Explanation, Piece
    from attnfaith.evaluation.verdict import Verdict


STRONGEST = 10
"""So many items are listed under a text in a terminal; a table has all."""
_FAINT = 0.05  # of the largest score: below it nothing is marked
_EXPLAINED = {"probability": "probability", "logit": "logit", "log_odds": "log-odds"}


def pieces_of(explanation: Explanation, *, words: bool = False) -> list[Piece]:
    """The items in text order, as they lie in the text; tokens put together where words are asked for."""
    from attnfaith.attribution.explanation import Piece

    if words:
        return explanation.words(special=True)
    if explanation.unit == "sentence":
        return explanation.sentences()
    encoded, found = explanation.encoded, []
    for (start, end), score, token in zip(explanation.spans, explanation.scores, explanation.tokens, strict=True):
        spans = [span for span in encoded.offsets[start:end] if span]
        first, last = (min(span[0] for span in spans), max(span[1] for span in spans)) if spans else (None, None)
        found.append(Piece(token, score, first, last, encoded.segments[start] if spans else None))
    return found


def show(explanation: Explanation, *, words: bool = False) -> None:
    """Write an explanation to standard output: highlighted in a terminal, else as a table."""
    from rich.console import Console

    console = Console(highlight=False)
    pieces = pieces_of(explanation, words=words)
    if not console.is_terminal:
        print_lines("\n".join(table(explanation, pieces)))
        return
    for line in highlighted(explanation, pieces, _signs(console)):
        console.print(line)


def table(explanation: Explanation, pieces: list[Piece]) -> list[str]:
    """Lines: what was decided, then place, rank (1 = most important), score and item, for all items in text order."""
    ranks = {place: rank for rank, place in enumerate(_ranking(pieces), 1)}
    lines = [f"{name}: {value}" for name, value in _facts(explanation)]
    lines.append(f"{'place':>5}  {'rank':>4}  {'score':>11}  item")
    for place, piece in enumerate(pieces):
        lines.append(f"{place:>5}  {ranks[place]:>4}  {_number(explanation, piece.score):>11}  {_shown(piece.text)}")
    return lines


def highlighted(explanation: Explanation, pieces: list[Piece], signs: tuple[str, str]) -> list[Text]:
    """Lines for a terminal: the text with its items in orange (for) and blue (against), then the strongest items.

    Signs stand beside the colours, for terminals and readers without them.
    """
    from rich.text import Text

    size = max((abs(piece.score) for piece in pieces if math.isfinite(piece.score)), default=0.0)
    encoded, signed = explanation.encoded, explanation.signed
    lines = []
    for segment, text in enumerate((encoded.text, encoded.pair)):
        if text is None:
            continue
        line, at = Text(), 0
        inside = [piece for piece in pieces if piece.segment == segment and piece.start is not None]
        for piece in sorted(inside, key=lambda piece: piece.start or 0):
            start, end = max(at, piece.start or 0), piece.end or 0
            if start < end:
                line.append(_shown(text[at:start], "\n"))
                line.append_text(_marked(_shown(text[start:end], "\n"), piece.score, size, signs if signed else None))
                at = end
        cut = bool(encoded.truncated) and bool(text[at:].strip())
        lines += [line.append(_shown(text[at:], "\n"), "strike dim" if cut else ""), Text()]
    for name, value in _facts(explanation)[1 if encoded.pair is None else 2 :]:
        lines.append(Text(f"{name}: ").append(value, "bold" if name == "predicted" else ""))
    if signed:
        lines.append(_key(explanation, signs))
    order = [place for place in _ranking(pieces) if math.isfinite(pieces[place].score)]
    if signed:
        order.sort(key=lambda place: -abs(pieces[place].score))
    lines.append(Text())
    for place in order[:STRONGEST]:
        piece = pieces[place]
        marked = _marked(_shown(piece.text), piece.score, size, None)
        lines.append(Text(f"{_number(explanation, piece.score):>11}  ").append_text(marked))
    if len(order) > STRONGEST:
        lines.append(Text(f"{'':>11}  the {STRONGEST} strongest of {len(order)}; --json gives all", "dim"))
    return lines


def _facts(explanation: Explanation) -> list[tuple[str, str]]:
    """What was read, decided and explained."""
    encoded, valued = explanation.encoded, explanation.probability is None
    facts = [("text", encoded.text)]
    if encoded.pair is not None:
        facts.append(("second text", encoded.pair))
    facts.append(("predicted", explanation.prediction + _chance(explanation.probability)))
    of = f"the {'value' if valued else _EXPLAINED.get(explanation.output, explanation.output)} of {explanation.target}"
    if explanation.prediction != explanation.target and not valued:
        of += _chance(explanation.target_probability)
    facts.append(("explained", f"{of}, by {explanation.method} at the {explanation.level} level"))
    facts += [("note", note) for note in explanation.notes]
    return [(name, _shown(value)) for name, value in facts]


def _key(explanation: Explanation, signs: tuple[str, str]) -> Text:
    from rich.text import Text

    valued, target = explanation.probability is None, _shown(explanation.target)
    sides = (f"raises {target}", f"lowers {target}") if valued else (f"for {target}", f"against {target}")
    key = Text("marked: ").append_text(_marked(sides[0], 1.0, 1.0, signs)).append("  ")
    return key.append_text(_marked(sides[1], -1.0, 1.0, signs))


def _marked(text: str, score: float, size: float, signs: tuple[str, str] | None) -> Text:
    """Text on its colour, readable on light and dark terminals, and its sign after it."""
    from rich.text import Text

    if not math.isfinite(score):
        return Text(text, "underline")
    strength = min(1.0, abs(score) / size) if size else 0.0
    if strength < _FAINT:
        return Text(text)
    mixed = (round(255 + (part - 255) * 0.8 * strength) for part in (AGAINST if score < 0 else FOR))
    sign = "" if signs is None else signs[score < 0]
    return Text(text + sign, f"black on rgb({','.join(map(str, mixed))})")


def _signs(console: Console) -> tuple[str, str]:
    """What stands after an item that speaks for the target, and against it."""
    return ("⁺", "⁻") if console.encoding.startswith("utf") else ("(+)", "(-)")


def _ranking(pieces: list[Piece]) -> list[int]:
    """Places by score, the highest first, ties in text order, undefined ones last."""
    return sorted(
        range(len(pieces)), key=lambda at: -pieces[at].score if not math.isnan(pieces[at].score) else math.inf
    )


def _number(explanation: Explanation, score: float) -> str:
    if math.isnan(score):
        return "undefined"
    return f"{score:+.4g}" if explanation.signed else f"{score:.4g}"


def _chance(probability: float | None) -> str:
    return "" if probability is None else f" (probability {probability:.3f})"


def _shown(text: str, kept: str = "") -> str:
    """Text that leaves the terminal and the table as they are: no line breaks, no control characters."""
    signs = {"\n": "↵", "\t": "⇥"}
    return visible("".join(sign if sign in kept else signs.get(sign, sign) for sign in text), kept)


NARROWEST, WIDEST = 20, 1000


def print_lines(text: str = "", *, err: bool = False) -> None:
    """Write lines to standard output or error; names of labels, columns and files in them may hold anything."""
    typer.echo(visible(text, "\n"), err=err)


def print_verdict(verdict: Verdict) -> None:
    """Write a verdict to standard output: as wide as the terminal, elsewhere as `print` does."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    if not console.is_terminal:
        print_lines(str(verdict))
        return
    console.print(Text(visible(verdict.headline), "bold"))
    for sentence in verdict.parts.get("", ()):
        console.print(Text(visible(sentence)))
    for heading, table, sentences in verdict.sections:
        console.print()
        console.print(Text(visible(heading), "bold"))
        for sentence in sentences:
            console.print(Text(visible(sentence)))
        if table is not None:
            head, rows = table.fitted(console.width)
            console.print(Text("\n".join(head), "bold"))
            console.print(Text("\n".join(rows)))


@contextmanager
def usable_size() -> Iterator[None]:
    """Without ``COLUMNS`` and ``LINES`` where they are no size of a terminal: rich would write nothing in 0 columns."""
    removed = {name: os.environ[name] for name in ("COLUMNS", "LINES") if not _is_size(os.environ.get(name, "80"))}
    try:
        for name in removed:
            del os.environ[name]
        yield
    finally:
        os.environ.update(removed)


@contextmanager
def visible_logs() -> Iterator[None]:
    """What libraries log, made safe to show: Transformers names the weights that it finds in the files of a model."""
    usual = logging.getLogRecordFactory()

    def record(*arguments: Any, **more: Any) -> logging.LogRecord:
        made = usual(*arguments, **more)
        made.msg, made.args = visible_log(made.getMessage()), ()
        return made

    logging.setLogRecordFactory(record)
    try:
        yield
    finally:
        logging.setLogRecordFactory(usual)


def _is_size(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 6 and NARROWEST <= int(text) <= WIDEST
