"""Diversity: hidden states that point in different directions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from attnfaith.functional.penalties import conicity
from attnfaith.training.objectives.objective import Objective, Step
from attnfaith.validation import number


@dataclass(frozen=True)
class Diversity(Objective):
    """Penalises the conicity of the vectors that the final attention averages (Mohankumar et al. 2020).

    Where all vectors point the same way, any attention gives nearly the same average, and says little. In a Transformer
    these are the value vectors of each head, and the term is the mean over heads. A text of a single item has a
    conicity of 1 whatever the model does.

    ``History`` has "conicity", the mean over texts.

    Args:
        weight: the factor of the term, lambda in the paper.

    Example:
        >>> Diversity(0.5).weight
        0.5
    """

    weight: float = 0.5
    name: ClassVar[str] = "conicity"
    needs_attention: ClassVar[bool] = True

    def __post_init__(self) -> None:
        number(self.weight, "weight", least=0)

    def term(self, step: Step) -> Tensor:
        """The conicity of each text."""
        values, mask = step.attention.values, step.attention.mask
        return conicity(values, mask.unsqueeze(1).expand(values.shape[:3])).mean(1)

    def figures(self, step: Step) -> dict[str, Tensor]:
        """The conicity of each text."""
        return {"conicity": self.term(step)}
