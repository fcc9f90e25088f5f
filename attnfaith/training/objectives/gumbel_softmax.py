"""Gumbel-softmax attention: noise on the scores and a temperature, so that weights become nearly discrete."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from attnfaith.adapters.attention_in_training import AttentionInTraining, Replace, ReplaceableAttention
from attnfaith.errors import InputError
from attnfaith.training.objectives.objective import Objective, Setting
from attnfaith.validation import number


@dataclass(frozen=True)
class GumbelSoftmax(Objective):
    """Trains with a Gumbel-softmax as the final attention (Wen et al. 2022, who set the temperature to 0.8).

    While training, ``softmax((scores + noise) / temperature)`` replaces the softmax of each head; in validation there
    is no noise. After `fit` the model has its plain softmax again; `on` gives it the temperature as long as a ``with``
    lasts. attnfaith's own models keep the form for good with the option ``normaliser="gumbel"``, as the presets
    ``Wen-...-gumbel`` do, and are refused here then.

    Args:
        temperature: lower is nearer to a choice of one item.

    Example:
        >>> GumbelSoftmax().temperature
        0.8
    """

    temperature: float = 0.8
    name: ClassVar[str] = "gumbel_softmax"

    def __post_init__(self) -> None:
        number(self.temperature, "temperature", above=0)

    @contextmanager
    def hold(self, setting: Setting) -> Iterator[None]:
        """Refuse a model whose attention is no softmax."""
        _check(setting.model)
        yield

    def replacement(self, state: Any) -> Replace:
        """The Gumbel-softmax."""
        return self._weights

    @contextmanager
    def on(self, model: nn.Module) -> Iterator[nn.Module]:
        """Give the final attention of a model this form while the context lasts."""
        _check(model)
        with AttentionInTraining(model).watching(self._weights):
            yield model

    def _weights(self, attention: ReplaceableAttention) -> Tensor:
        scores = attention.scores
        if attention.training:
            noise = torch.empty_like(scores, dtype=torch.float32).exponential_().clamp(min=1e-30).log()
            scores = scores - noise.to(scores.dtype)
        nothing = ~attention.attended.any(-1, keepdim=True)
        weights = torch.softmax((scores / self.temperature).masked_fill(nothing, 0.0), -1)
        return weights.masked_fill(nothing, 0.0)


def _check(model: nn.Module) -> None:
    normaliser = getattr(getattr(model, "config", None), "normaliser", "softmax")
    if normaliser != "softmax":
        raise InputError(
            f"The model's own attention has the normaliser {normaliser!r}, which GumbelSoftmax would replace. Train it "
            "without GumbelSoftmax, or make it with normaliser='softmax'."
        )
