"""What an `Attributor` says about one text, for a notebook, a terminal, a figure, and a file."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Any

import torch

from attnfaith.attribution.texts import BLANKS, Encoded, Span, sentence_starts
from attnfaith.errors import InputError
from attnfaith.functional.ranking import order_of

FOR, AGAINST = (230, 97, 1), (33, 113, 240)  # orange and blue: told apart by colour-blind readers
_STRONGEST = 0.72  # opacity: the text over it can be read on white and on black
_EXPLAINED = {"probability": "probability", "logit": "logit", "log_odds": "log-odds"}
_MERGES: dict[str, Callable[[list[float]], float]] = {
    "sum": math.fsum,
    "mean": lambda scores: math.fsum(scores) / len(scores),
    "max": lambda scores: math.nan if any(map(math.isnan, scores)) else max(scores),
}


@dataclass(frozen=True)
class Piece:
    """A word or a sentence with its score.

    Attributes:
        text: as it stands in the original.
        score: merged from its tokens.
        start: the first character in its text; None where the tokens have no place there.
        end: one past the last character.
        segment: 0 for the text, 1 for the pair, None for a special token.
    """

    text: str
    score: float
    start: int | None
    end: int | None
    segment: int | None


@dataclass(frozen=True, repr=False)
class Explanation:
    """The scores of one text's items. In a notebook it shows itself as highlighted text.

    Attributes:
        encoded: the text as the model read it.
        spans: the half-open run of tokens that each item covers.
        scores: of the items; higher speaks more for ``target``. NaN where undefined.
        unit: "token" or "sentence", what the items are.
        method: the ranking's name.
        level: "attention" or "input".
        signed: whether scores below zero speak against the target.
        output: what is explained: "probability", "logit" or "log_odds" of the target.
        prediction: the name of the class predicted.
        target: the name of the class explained.
        probability: the target's; None for a regression.
        gap: how far the scores are from summing to what they should, for methods with such a law.
        note: why scores are undefined, where some are.
    """

    encoded: Encoded
    spans: tuple[Span, ...]
    scores: tuple[float, ...]
    unit: str
    method: str
    level: str
    signed: bool
    output: str
    prediction: str
    target: str
    probability: float | None = None
    gap: float | None = None
    note: str = ""

    def __post_init__(self) -> None:
        if len(self.spans) != len(self.scores):
            raise InputError(f"Got {len(self.spans)} items and {len(self.scores)} scores; expected one for each.")

    @property
    def text(self) -> str | tuple[str, str]:
        """What was explained, as it was given."""
        return self.encoded.text if self.encoded.pair is None else (self.encoded.text, self.encoded.pair)

    @property
    def tokens(self) -> tuple[str, ...]:
        """The scored items: tokens as their characters in the text, or sentences cut from the text."""
        if self.unit == "sentence":
            return tuple(self._piece(range(*span), 0.0).text for span in self.spans)
        return tuple("".join(self.encoded.tokens[slice(*span)]) for span in self.spans)

    @property
    def truncated(self) -> int:
        """How many tokens were cut off before the model read the text."""
        return self.encoded.truncated

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know: what was cut off, empty, or undefined."""
        undefined = sum(not math.isfinite(score) for score in self.scores)
        reason = [f"{undefined} scores are undefined: {self.note or 'the method gave no number'}"] if undefined else []
        return (*self.encoded.notes, *reason)

    def ranking(self) -> tuple[int, ...]:
        """Positions of the items, the most important first, ties in text order, undefined scores last."""
        scores = torch.tensor([self.scores], dtype=torch.float64).reshape(1, -1)
        return tuple(order_of(scores, torch.ones_like(scores, dtype=torch.bool))[0].tolist())

    def words(self, merge: str | None = None, *, special: bool = False) -> list[Piece]:
        """The scores of words, those of their tokens merged; equal words at two places stay two.

        Args:
            merge: "sum", "max" or "mean" over a word's tokens. By default signed scores are summed, so that nothing is
                lost, and unsigned ones, such as attention, take the largest.
            special: also list special tokens, each for itself, with segment None.
        """
        if self.unit == "sentence":
            raise InputError(
                f"The scores of {self.method!r} at the {self.level} of this model are of whole sentences: see "
                "sentences(). For words use level='input'."
            )
        return self._merged(self.encoded.words, merge, special)

    def sentences(self, merge: str | None = None, *, special: bool = False, language: str = "en") -> list[Piece]:
        """The scores of sentences: a HAN's own items, or the scores of a sentence's tokens merged.

        Where the tokenizer marks sentences for the model, those are used, elsewhere the rules of `sentencex`.

        Args:
            merge: as in `words`; ignored where the items are sentences.
            special: also list special tokens, each for itself, with segment None.
            language: whose abbreviations and quotation marks the rules should know.
        """
        if self.unit == "sentence":
            return [self._piece(range(*span), score) for span, score in zip(self.spans, self.scores, strict=True)]
        return self._merged(self._sentence_numbers(language), merge, special)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values for JSON: undefined scores are None, their reason stands under "notes"."""
        encoded = self.encoded
        return {
            "text": encoded.text,
            "pair": encoded.pair,
            "unit": self.unit,
            "tokens": list(self.tokens),
            "scores": [_finite(score) for score in self.scores],
            "ranking": list(self.ranking()),
            "spans": [list(span) for span in self.spans],
            "token_ids": list(encoded.ids),
            "offsets": [None if span is None else list(span) for span in encoded.offsets],
            "segments": list(encoded.segments),
            "words": list(encoded.words),
            "method": self.method,
            "level": self.level,
            "signed": self.signed,
            "output": self.output,
            "prediction": self.prediction,
            "target": self.target,
            "probability": _finite(self.probability),
            "gap": _finite(self.gap),
            "truncated": self.truncated,
            "notes": list(self.notes),
        }

    def plot(self, axis: Any = None, *, top: int = 30) -> Any:
        """Draw bars of the words (or a HAN's sentences) in text order, and return the matplotlib axis.

        Args:
            axis: where to draw; a new figure by default.
            top: of a longer text, only so many, those of the largest size.
        """
        import matplotlib.pyplot as plt

        pieces = self._pieces()
        count = len(pieces)
        if count > top:
            kept = sorted(range(len(pieces)), key=lambda place: -abs(_finite(pieces[place].score) or 0))[:top]
            pieces = [pieces[place] for place in sorted(kept)]
        if axis is None:
            _, axis = plt.subplots(figsize=(6, 1.2 + 0.26 * max(len(pieces), 1)), layout="constrained")
        scores = [_finite(piece.score) for piece in pieces]
        colours = [_rgb(AGAINST if (score or 0) < 0 else FOR) for score in scores]
        axis.barh(range(len(pieces)), [score or 0.0 for score in scores], color=colours)
        labels = [
            _short(piece.text) + ("" if score is not None else " (undefined)")
            for piece, score in zip(pieces, scores, strict=True)
        ]
        axis.set_yticks(range(len(pieces)), labels)
        axis.invert_yaxis()
        axis.axvline(0, color="grey", linewidth=0.8)
        axis.set_xlabel(self._source() + (f": the {top} largest of {count}" if count > top else ""))
        axis.set_title(self._headline())
        return axis

    def visualization_record(self) -> Any:
        """The record that ``captum.attr.visualization.visualize_text`` draws, with scores scaled to [-1, 1]."""
        from captum.attr import visualization

        scores = torch.tensor([_finite(score) or 0.0 for score in self.scores], dtype=torch.float64)
        known = self.prediction == self.target and self.probability is not None
        return visualization.VisualizationDataRecord(
            word_attributions=scores / scores.abs().max().clamp_min(1e-300) if len(scores) else scores,
            pred_prob=self.probability if known else math.nan,
            pred_class=self.prediction,
            true_class="-",
            attr_class=self.target,
            attr_score=float(scores.sum()),
            raw_input_ids=[escape(token) for token in self.tokens],
            convergence_score=math.nan if self.gap is None else self.gap,
        )

    def __repr__(self) -> str:
        pieces = [piece for piece in self._pieces() if math.isfinite(piece.score)]
        strongest = sorted(pieces, key=lambda piece: -abs(piece.score))[:3]
        listed = ", ".join(f"{_short(piece.text, 24)} {self._number(piece.score)}" for piece in strongest)
        text = _short(self.encoded.text, 40)
        return f"<Explanation {text!r}: {self._headline()}; {self._source()}: {listed}>"

    def _repr_html_(self) -> str:
        """The original text with its words (or a HAN's sentences) highlighted; for notebooks."""
        pieces = self._pieces()
        size = max((abs(piece.score) for piece in pieces if math.isfinite(piece.score)), default=0.0)
        paired = self.encoded.pair is not None
        blocks = []
        for segment, text in enumerate([self.encoded.text, self.encoded.pair][: 1 + paired]):
            title = f'<div style="{_MUTED}">{("First text", "Second text")[segment]}</div>' if paired else ""
            inside = [piece for piece in pieces if piece.segment == segment and piece.start is not None]
            shown = self._marked(text or "", inside, size, segment)
            blocks.append(f'{title}<div dir="auto" style="{_TEXT}">{shown}</div>')
        chips = [piece for piece in self._unplaced() if _finite(piece.score)]
        if chips:
            marked = " ".join(self._mark(escape(piece.text), piece.score, size, number=True) for piece in chips)
            blocks.append(f'<div style="{_MUTED}; margin-top:6px">Besides the text: {marked}</div>')
        notes = "".join(f'<div style="{_MUTED}">Note: {escape(note)}.</div>' for note in self.notes)
        head = f"<div>{self._headline(bold=True)}</div>"
        return f'<div style="{_BOX}">{head}{"".join(blocks)}{self._legend(size)}{notes}</div>'

    def _pieces(self) -> list[Piece]:
        return self.sentences() if self.unit == "sentence" else self.words()

    def _unplaced(self) -> list[Piece]:
        if self.unit == "sentence":
            return []
        return [piece for piece in self.words(special=True) if piece.start is None]

    def _headline(self, *, bold: bool = False) -> str:
        def name(label: str) -> str:
            return f"<b>{escape(label)}</b>" if bold else label

        chance = "" if self.probability is None else f" (probability {self.probability:.2f})"
        if self.prediction == self.target:
            return f"predicted {name(self.prediction)}{chance}"
        return f"predicted {name(self.prediction)}, explained {name(self.target)}{chance}"

    def _source(self) -> str:
        return f"{self.method} ({self.level} level)"

    def _legend(self, size: float) -> str:
        steps = (-1, -0.5, 0, 0.5, 1) if self.signed else (0, 0.25, 0.5, 0.75, 1)
        boxes = "".join(self._mark("&nbsp;&nbsp;&nbsp;", step * size, size) for step in steps)
        target = escape(self.target)
        ends = (f"against {target}", f"for {target}") if self.signed else ("less important", "more important")
        of = f"{_EXPLAINED.get(self.output, self.output)} of {target}"
        merged = "" if self.unit == "sentence" else f" · sub-words: {self._merge()}"
        gap = "" if self.gap is None else f" · completeness gap {self.gap:+.2g}"
        limits = [self._number(-size), self._number(size)] if self.signed else ["0", self._number(size)]
        return (
            f'<div style="{_MUTED}; margin-top:6px">{ends[0]} {limits[0]} {boxes} {limits[1]} {ends[1]}<br>'
            f"{escape(self._source())}, explaining the {of}{merged}{gap}</div>"
        )

    def _marked(self, text: str, pieces: Sequence[Piece], size: float, segment: int) -> str:
        """A text with its pieces highlighted; what the model did not read is struck out."""
        parts, at = [], 0
        first, last = self._read_range(text, segment)
        for piece in sorted(pieces, key=lambda piece: piece.start or 0):
            start, end = max(at, piece.start or 0), piece.end or 0
            if start >= end:
                continue
            parts += [self._plain(text, at, start, first, last), self._mark(escape(text[start:end]), piece.score, size)]
            at = end
        return "".join([*parts, self._plain(text, at, len(text), first, last)])

    def _plain(self, text: str, start: int, end: int, first: int, last: int) -> str:
        cuts = sorted({start, min(max(first, start), end), min(max(last, start), end), end})
        parts = []
        for a, b in pairwise(cuts):
            unread = (b <= first or a >= last) and text[a:b].strip()
            parts.append(
                f'<s style="opacity:.5" title="not read">{escape(text[a:b])}</s>' if unread else escape(text[a:b])
            )
        return "".join(parts)

    def _read_range(self, text: str, segment: int) -> Span:
        encoded = self.encoded
        spans = [span for span, own in zip(encoded.offsets, encoded.segments, strict=True) if span and own == segment]
        if not encoded.truncated:
            return 0, len(text)
        return min((span[0] for span in spans), default=0), max((span[1] for span in spans), default=0)

    def _mark(self, html: str, score: float, size: float, *, number: bool = False) -> str:
        if not math.isfinite(score):
            return f'<span title="undefined" style="border-bottom:1px dotted currentColor">{html}</span>'
        strength = min(1.0, abs(score) / size) if size else 0.0
        red, green, blue = AGAINST if score < 0 else FOR
        line = "; box-shadow:inset 0 -2px rgb(33,113,240)" if score < 0 and strength >= 0.05 else ""
        style = f"background:rgba({red},{green},{blue},{_STRONGEST * strength:.3f}){line}; {_MARK}"
        after = f"&nbsp;{self._number(score)}" if number else ""
        return f'<span title="{self._number(score)}" style="{style}">{html}{after}</span>'

    def _number(self, score: float) -> str:
        return f"{score:+.3g}" if self.signed else f"{score:.3g}"

    def _merge(self, merge: str | None = None) -> str:
        merge = ("sum" if self.signed else "max") if merge is None else merge
        if merge not in _MERGES:
            raise InputError(f"Expected merge to be one of {', '.join(_MERGES)}, got {merge!r}.")
        return merge

    def _merged(self, numbers: Sequence[int | None], merge: str | None, special: bool) -> list[Piece]:
        """Items put together by number; those without one each for itself, or left out."""
        join = _MERGES[self._merge(merge)]
        groups: dict[Any, list[int]] = {}
        for item, (start, _) in enumerate(self.spans):
            if numbers[start] is not None:
                groups.setdefault(numbers[start], []).append(item)
            elif special:
                groups[("special", item)] = [item]
        return [
            self._piece([self.spans[item][0] for item in items], join([self.scores[item] for item in items]))
            for items in groups.values()
        ]

    def _piece(self, places: Iterable[int], score: float) -> Piece:
        """What tokens cover in the text they stand in."""
        encoded, places = self.encoded, list(places)
        segment = next((encoded.segments[place] for place in places if encoded.segments[place] is not None), None)
        spans = [span for place in places if (span := encoded.offsets[place]) and encoded.segments[place] == segment]
        if segment is None or not spans:
            return Piece("".join(encoded.tokens[place] for place in places), score, None, None, segment)
        start, end = min(span[0] for span in spans), max(span[1] for span in spans)
        text = (encoded.text, encoded.pair or "")[segment][start:end]
        if text.strip():
            start, end = start + len(text) - len(text.lstrip()), end - len(text) + len(text.rstrip())
            text = text.strip()
        return Piece(text, score, start, end, segment)

    def _sentence_numbers(self, language: str) -> list[int | None]:
        """The sentence of each token, running on over the pair; a word is in the sentence it begins in."""
        encoded = self.encoded
        if encoded.sentences is not None:
            return [
                None if own is None else number for own, number in zip(encoded.segments, encoded.sentences, strict=True)
            ]
        starts = [sentence_starts(text, language) for text in (encoded.text, encoded.pair or "")]
        begins: dict[int | None, int] = {}
        for word, span in zip(encoded.words, encoded.offsets, strict=True):
            if span is not None:
                begins.setdefault(word, span[0])
        numbers: list[int | None] = []
        last = 0
        for own, word in zip(encoded.segments, encoded.words, strict=True):
            if own is None:
                numbers.append(None)
                continue
            if word in begins:
                before = sum(start <= begins[word] for start in starts[own])
                last = before + (len(starts[0]) + 1 if own else 0)
            numbers.append(last)
        return numbers


_BOX = "max-width:60em; padding:8px 2px; line-height:1.5; font-family:sans-serif"
_TEXT = "line-height:1.9; white-space:pre-wrap; overflow-wrap:anywhere; margin-top:4px"
_MUTED = "font-size:85%; opacity:.8"
_MARK = "border-radius:3px; padding:2px 0; box-decoration-break:clone; -webkit-box-decoration-break:clone"


def _finite(number: float | None) -> float | None:
    return None if number is None or not math.isfinite(number) else number


def _short(text: str, length: int = 40) -> str:
    text = " ".join(text.split()) or text.translate(BLANKS)
    return text if len(text) <= length else text[: length - 1] + "…"


def _rgb(colour: tuple[int, int, int]) -> tuple[float, ...]:
    return tuple(part / 255 for part in colour)
