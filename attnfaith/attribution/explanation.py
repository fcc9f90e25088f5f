"""`Explanation`: the scores of one text, with views by word and sentence, HTML, a plot, and JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from attnfaith.attribution import rendering
from attnfaith.attribution.shown_lists import Pieces
from attnfaith.errors import InputError
from attnfaith.functional.ranking import order_of
from attnfaith.parameter_names import parameter
from attnfaith.text.encoded import EncodedText
from attnfaith.text.offsets import Span

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MERGES: dict[str, Callable[[list[float]], float]] = {
    "sum": math.fsum,
    "mean": lambda scores: math.fsum(scores) / len(scores),
    "max": lambda scores: math.nan if any(map(math.isnan, scores)) else max(scores),
}


@dataclass(frozen=True)
class Piece:
    """A word or a sentence with its score.

    Attributes:
        text: its characters in the original text.
        score: merged from the scores of its tokens.
        start: the index of its first character; None if its tokens have no offsets.
        end: the index after its last character.
        segment: 0 for the text, 1 for the pair, None for a special token.
    """

    text: str
    score: float
    start: int | None
    end: int | None
    segment: int | None


@dataclass(frozen=True, repr=False)
class Explanation:
    """The scores of one text's items; a notebook shows it as highlighted text.

    Attributes:
        encoded: the text as the model read it.
        spans: the half-open range of tokens of each item.
        scores: the scores of the items; higher speaks more for ``target``. NaN where undefined.
        unit: "token" or "sentence", the kind of items.
        method: the name of the ranking.
        level: "attention" or "input".
        signed: whether scores below zero speak against the target.
        output: the output explained: "probability", "logit" or "log_odds" of the target.
        prediction: the name of the class predicted; for a regression the predicted value.
        target: the name of the class explained; for a regression of the output.
        probability: the prediction's; None for a regression.
        target_probability: the target's; None for a regression.
        gap: the completeness gap, for methods whose scores should sum to a known number.
        absorbed: the part of the gap that biases absorbed, for methods that compute it.
        note: the reason why some scores are undefined.
    """

    encoded: EncodedText
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
    target_probability: float | None = None
    gap: float | None = None
    absorbed: float | None = None
    note: str = ""

    def __post_init__(self) -> None:
        if len(self.spans) != len(self.scores):
            raise InputError(f"Got {len(self.spans)} items and {len(self.scores)} scores; expected one for each.")

    @property
    def text(self) -> str | tuple[str, str]:
        """The text, or the pair of texts."""
        return self.encoded.text if self.encoded.pair is None else (self.encoded.text, self.encoded.pair)

    @property
    def tokens(self) -> tuple[str, ...]:
        """The scored items: tokens as their characters in the text, or sentences of the text."""
        if self.unit == "sentence":
            return tuple(self._piece(range(*span), 0.0).text for span in self.spans)
        return tuple("".join(self.encoded.tokens[slice(*span)]) for span in self.spans)

    @property
    def truncated(self) -> int:
        """The number of tokens that were cut off."""
        return self.encoded.truncated

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the reader: truncated or empty texts, undefined scores."""
        undefined = sum(not math.isfinite(score) for score in self.scores)
        reason = [f"{undefined} scores are undefined: {self.note or 'the method gave no number'}"] if undefined else []
        return (*self.encoded.notes, *reason)

    @property
    def merging(self) -> str:
        """The default way to merge the scores of a word's tokens: "sum" or "max"."""
        return "sum" if self.signed else "max"

    def ranking(self) -> tuple[int, ...]:
        """Positions of the items, the most important first, ties in text order, undefined scores last."""
        scores = torch.tensor([self.scores], dtype=torch.float64).reshape(1, -1)
        return tuple(order_of(scores, torch.ones_like(scores, dtype=torch.bool))[0].tolist())

    def words(self, merge: str | None = None, *, special: bool = False) -> Pieces:
        """The scores of words, merged from their tokens; a word that occurs twice is listed twice.

        The list shows itself as a table in a notebook.

        Args:
            merge: "sum", "max" or "mean" over a word's tokens. By default signed scores are summed, so that nothing is
                lost, and unsigned ones, such as attention, take the largest.
            special: also list special tokens one by one, with segment None.
        """
        if self.unit == "sentence":
            raise InputError(
                f"The scores of {self.method!r} at the {self.level} of this model are of whole sentences: see "
                f"sentences(). For words use {parameter('level', 'input')}."
            )
        return self._merged(self.encoded.words, merge, special)

    def sentences(self, merge: str | None = None, *, special: bool = False, language: str = "en") -> Pieces:
        """The scores of sentences: a HAN's own items, or the scores of a sentence's tokens merged.

        Sentences are those that the tokenizer marks for the model, else those of `sentencex`.

        Args:
            merge: as in `words`; ignored if the items are sentences.
            special: also list special tokens one by one, with segment None.
            language: for the abbreviations and quotation marks in the rules of `sentencex`.
        """
        if self.unit == "sentence":
            own = [self._piece(range(*span), score) for span, score in zip(self.spans, self.scores, strict=True)]
            return Pieces.of(self, own)
        return self._merged(self._sentence_numbers(language), merge, special)

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain values for JSON; undefined scores are None, with the reason under "notes"."""
        encoded = self.encoded
        return {
            "text": encoded.text,
            "pair": encoded.pair,
            "unit": self.unit,
            "tokens": list(self.tokens),
            "scores": [rendering.finite(score) for score in self.scores],
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
            "probability": rendering.finite(self.probability),
            "target_probability": rendering.finite(self.target_probability),
            "gap": rendering.finite(self.gap),
            "absorbed": rendering.finite(self.absorbed),
            "truncated": self.truncated,
            "notes": list(self.notes),
        }

    def plot(self, *, top: int = 30, ax: Axes | None = None) -> Figure:
        """A figure of the words (or a HAN's sentences) as bars, in text order.

        Args:
            top: the number of words that are drawn: those with the largest scores in size.
            ax: axes of your own to draw into; the figure that holds them is returned.
        """
        return rendering.plot(self, ax, top)

    def visualization_record(self) -> Any:
        """The record that ``captum.attr.visualization.visualize_text`` draws, with scores scaled to [-1, 1]."""
        return rendering.captum_record(self)

    def __repr__(self) -> str:
        return rendering.line(self)

    def _repr_html_(self) -> str:
        """HTML for notebooks: the text with its words (or a HAN's sentences) highlighted."""
        return rendering.html(self)

    def _merged(self, numbers: Sequence[int | None], merge: str | None, special: bool) -> Pieces:
        """Merge the items with the same number; items without a number are listed one by one, or left out."""
        merge = self.merging if merge is None else merge
        if merge not in _MERGES:
            raise InputError(f"Expected merge to be one of {', '.join(_MERGES)}, got {merge!r}.")
        join = _MERGES[merge]
        groups: dict[Any, list[int]] = {}
        for item, (start, _) in enumerate(self.spans):
            if numbers[start] is not None:
                groups.setdefault(numbers[start], []).append(item)
            elif special:
                groups[("special", item)] = [item]
        merged = [
            self._piece([self.spans[item][0] for item in items], join([self.scores[item] for item in items]))
            for items in groups.values()
        ]
        return Pieces.of(self, merged)

    def _piece(self, tokens: Iterable[int], score: float) -> Piece:
        """A piece of the text from its tokens."""
        encoded, tokens = self.encoded, list(tokens)
        segment = next((encoded.segments[token] for token in tokens if encoded.segments[token] is not None), None)
        spans = [span for token in tokens if (span := encoded.offsets[token]) and encoded.segments[token] == segment]
        if segment is None or not spans:
            return Piece("".join(encoded.tokens[token] for token in tokens), score, None, None, segment)
        start, end = min(span[0] for span in spans), max(span[1] for span in spans)
        text = (encoded.text, encoded.pair or "")[segment][start:end]
        if text.strip():
            start, end = start + len(text) - len(text.lstrip()), end - len(text) + len(text.rstrip())
            text = text.strip()
        return Piece(text, score, start, end, segment)

    def _sentence_numbers(self, language: str) -> list[int | None]:
        """The sentence number of each token, continuing through the pair; a word is in the sentence it begins in."""
        encoded = self.encoded
        if encoded.sentences is not None:
            return [
                None if segment is None else number
                for segment, number in zip(encoded.segments, encoded.sentences, strict=True)
            ]
        starts = [sentence_starts(text, language) for text in (encoded.text, encoded.pair or "")]
        word_starts: dict[int | None, int] = {}
        for word, span in zip(encoded.words, encoded.offsets, strict=True):
            if span is not None and word is not None:
                word_starts.setdefault(word, span[0])
        numbers: list[int | None] = []
        last = 0
        for segment, word in zip(encoded.segments, encoded.words, strict=True):
            if segment is None:
                numbers.append(None)
                continue
            if word in word_starts:
                before = sum(start <= word_starts[word] for start in starts[segment])
                last = before + (len(starts[0]) + 1 if segment else 0)
            numbers.append(last)
        return numbers


def sentence_starts(text: str, language: str = "en") -> list[int]:
    """The indices at which the sentences after the first begin, by the rules of `sentencex`.

    Example:
        >>> sentence_starts("Dr. Lee cried. It was good.")
        [15]
    """
    from sentencex import get_sentence_boundaries  # type: ignore[import-untyped]

    sentences = get_sentence_boundaries(language, text)
    return [sentence["start_index"] for sentence in sentences if sentence["text"].strip()][1:]
