"""What a method returns for a batch, and how exact it is."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Scores:
    """One score for each item.

    Attributes:
        values: ``[B, N]``, higher = more important; 0 at padding, NaN where undefined.
        mask: ``[B, N]``, True for items.
        gap: ``[B]``, how far the scores are from summing to what they should, for methods with such a law; else None.
        inexact: ``[B]``, True where that gap is too large for a reader not to be warned; None where nobody judges it.
        absorbed: ``[B]``, the part that biases took, for methods that know it; else None.
        passes: ``[B]``, how many passes each text took, for methods that take as many as needed; else None.
        note: why scores are undefined or inexact, where some are.
    """

    values: Tensor
    mask: Tensor
    gap: Tensor | None = None
    inexact: Tensor | None = None
    absorbed: Tensor | None = None
    passes: Tensor | None = None
    note: str = ""


@dataclass(frozen=True)
class InexactScores:
    """How many texts have scores that do not sum to what they should, and by how much.

    Attributes:
        texts: how many texts have inexact scores.
        of: how many texts were scored.
        gap: the largest completeness gap among them.
        note: what is wrong with the scores, and what helps.
    """

    texts: int
    of: int
    gap: float
    note: str

    @classmethod
    def of_scores(cls, scores: Scores) -> InexactScores | None:
        """Count in a batch; None where the method does not judge how exact its scores are."""
        if scores.inexact is None or scores.gap is None:
            return None
        gap = float(scores.gap.abs().masked_fill(~scores.inexact, 0.0).max())
        return cls(int(scores.inexact.sum()), len(scores.inexact), gap, scores.note)

    def __add__(self, other: InexactScores) -> InexactScores:
        note = self.note or other.note
        return InexactScores(self.texts + other.texts, self.of + other.of, max(self.gap, other.gap), note)

    def message(self, name: str) -> str:
        """The warning about a ranking, by its name in words."""
        return (
            f"The scores of {name} are inexact on {self.texts} of {self.of} texts (completeness gap up "
            f"to {self.gap:.2g}): {self.note}."
        )
