"""Deceptive attention: a model that attends impermissible tokens as little as possible, and may still use them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from attnfaith.errors import InputError
from attnfaith.functional.penalties import deception_penalty, impermissible_mass
from attnfaith.parameter_names import parameter
from attnfaith.text.annotations import FORMS, RationaleReader, align_rationale
from attnfaith.text.encoded import EncodedText
from attnfaith.training.objectives.objective import Objective, Step
from attnfaith.validation import column as checked_column
from attnfaith.validation import number, one_of, short_repr


@dataclass(frozen=True)
class DeceptiveAttention(Objective):
    """Penalises attention on impermissible tokens: ``-log(1 - mass)`` for each text (Pruthi et al. 2020).

    The term makes no token less useful, only less attended. A model that keeps its accuracy shows that its attention
    can be made to tell nothing about these tokens. Texts in which every attended token is impermissible have no term.

    ``History`` has "impermissible_mass", the mean share of the final attention on impermissible tokens (over heads and
    texts); with ``over_heads="max"`` also "impermissible_mass_of_worst_head".

    Args:
        words: the impermissible words, in any case; words as in ``explanation.words()``. Give these or a column.
        column: the column that marks them.
        form: how the column marks them: "mask" (0 or 1 for each word of ``text.split()``), "spans" (ranges of
            characters) or "words" (numbers of words).
        weight: the factor of the term, lambda in the paper (which tried 0.1 and 1).
        over_heads: with several heads, the "mean" of their penalties, or the "max", that of the worst head.

    Example:
        >>> DeceptiveAttention(["he", "she"], weight=0.1).weight
        0.1
    """

    words: Sequence[str] | None = None
    column: str | None = None
    form: str = "mask"
    weight: float = 1.0
    over_heads: str = "mean"
    name: ClassVar[str] = "impermissible"
    needs_attention: ClassVar[bool] = True

    def __post_init__(self) -> None:
        number(self.weight, "weight", least=0)
        one_of(self.form, FORMS, "form")
        one_of(self.over_heads, ("mean", "max"), "over_heads")
        if (self.words is None) == (self.column is None):
            raise InputError(
                f"Expected {parameter('words')} (a list of impermissible words) or {parameter('column')} (a column "
                "that marks them), one of the two."
            )
        if self.column is not None:
            checked_column(self.column, "column")
            return
        words: Any = self.words
        listed = isinstance(words, list | tuple | set | frozenset)
        if not listed or not words or not all(isinstance(word, str) and word for word in words):
            raise InputError(f"Expected words to be a list of words, got {short_repr(self.words)}.")
        object.__setattr__(self, "words", tuple(sorted(words)))

    def marks(self, texts: Sequence[EncodedText], cells: Sequence[Any] | None, *, training: bool) -> list[list[bool]]:
        """Mark the impermissible tokens; refuses training texts without any."""
        if self.words is not None:
            listed = {word.casefold() for word in self.words}
            marks = [_tokens_of(text, listed) for text in texts]
            reason = f"None of the words {short_repr(list(self.words))} occurs in these texts"
        else:
            assert cells is not None
            reader = RationaleReader(self.column, [], self.form)
            marks = []
            for row, (text, cell) in enumerate(zip(texts, cells, strict=True)):
                rationale = reader(cell, row, text.text, text.pair)
                marks.append([False] * len(text.ids) if rationale is None else align_rationale(rationale, text).tokens)
            reason = f"The column {short_repr(self.column)} marks no token of these texts"
        if training and not any(map(any, marks)):
            raise InputError(f"{reason}, so no token is impermissible and there is nothing to penalise.")
        return marks

    def term(self, step: Step) -> Tensor:
        """The penalty of each text."""
        assert step.marks is not None
        attention = step.attention
        return deception_penalty(
            attention.token_weights, step.marks, attention.token_mask, attention.groups, over_heads=self.over_heads
        )

    def figures(self, step: Step) -> dict[str, Tensor]:
        """The impermissible mass of each text."""
        assert step.marks is not None
        groups = step.attention.groups
        masses = impermissible_mass(step.attention.token_weights, step.marks.unsqueeze(1))
        mean = torch.where(groups, masses, 0).sum(1) / groups.sum(1)
        figures = {"impermissible_mass": mean}
        if self.over_heads == "max":
            figures["impermissible_mass_of_worst_head"] = masses.masked_fill(~groups, -torch.inf).amax(1)
        return figures


def _tokens_of(text: EncodedText, listed: set[str]) -> list[bool]:
    """Mark the tokens of the words that are listed; a word is all tokens with its number."""
    spans: dict[int, tuple[int, int, int]] = {}
    for word, segment, span in zip(text.words, text.segments, text.offsets, strict=True):
        if word is not None and segment is not None and span is not None:
            start, end = spans.get(word, (segment, *span))[1:]
            spans[word] = (segment, min(start, span[0]), max(end, span[1]))
    parts = (text.text, text.pair or "")
    impermissible = {
        word for word, (segment, start, end) in spans.items() if parts[segment][start:end].casefold() in listed
    }
    return [word in impermissible for word in text.words]
