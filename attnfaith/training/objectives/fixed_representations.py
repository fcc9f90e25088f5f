"""Fixed representations: what the attention averages stays as it is, and only attention and classifier are trained."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import ClassVar

import torch

from attnfaith.adapters.attention_in_training import AttentionInTraining
from attnfaith.errors import InputError
from attnfaith.training.objectives.objective import Objective, Setting


@dataclass(frozen=True)
class FixedRepresentations(Objective):
    """Freezes every parameter on which the vectors that the final attention averages depend (Wen et al. 2022).

    In attnfaith's own models these are word vectors and encoder; attention and classifier are trained. In a Transformer
    all earlier layers are frozen, and the values of the last one; its queries, keys and what follows are trained.
    Dropout in frozen layers still draws.

    Example:
        >>> FixedRepresentations().weight
        0.0
    """

    name: ClassVar[str] = "fixed_representations"

    @contextmanager
    def hold(self, setting: Setting) -> Iterator[None]:
        """Freeze the parameters until training ends."""
        model = setting.model
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        attention = AttentionInTraining(model, setting.example).of_example()
        frozen = _behind(attention.values, trained)
        if len(frozen) == len(trained):
            raise InputError(
                "Every parameter of the model that is trained changes what its attention averages, so with "
                "FixedRepresentations there is nothing to train."
            )
        with ExitStack() as undo:
            for parameter in frozen:
                undo.callback(parameter.requires_grad_, True)
                parameter.requires_grad_(False)
            yield


def _behind(tensor: torch.Tensor, parameters: list[torch.nn.Parameter]) -> list[torch.nn.Parameter]:
    """The parameters on which a tensor depends."""
    if not tensor.requires_grad:
        return []
    gradients: tuple[torch.Tensor | None, ...] = torch.autograd.grad(tensor.sum(), parameters, allow_unused=True)
    return [parameter for parameter, gradient in zip(parameters, gradients, strict=True) if gradient is not None]
