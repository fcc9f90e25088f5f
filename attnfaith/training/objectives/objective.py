"""`Objective`: an intervention on training, and what it is given: a `Setting` at the start, a `Step` for each batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from attnfaith.adapters.attention_in_training import FinalAttention, Replace
from attnfaith.randomness import keyed_generator
from attnfaith.text.encoded import EncodedText
from attnfaith.text.encoder import TextEncoder


@dataclass(frozen=True)
class Setting:
    """What is trained.

    Attributes:
        model: the model.
        texts: encodes texts for it, with its tokenizer.
        seed: the seed of the training.
        example: model inputs of one text; None if no text has three tokens.
    """

    model: nn.Module
    texts: TextEncoder
    seed: int
    example: Mapping[str, Any] | None = None


@dataclass
class Step:
    """One batch, as an objective sees it.

    Attributes:
        setting: what is trained.
        inputs: the inputs of the forward pass, as the objectives before this one left them, with the labels.
        tokens: ``[B, L]`` bool, the tokens of the texts; hidden ones are among them.
        marks: ``[B, L]`` bool, what `Objective.marks` returned for these texts; None if it returned None.
        state: what `Objective.hold` yielded.
        training: whether this is a step of training, or of validation.
        key: what tells this batch from others; draws depend on it.
        original_inputs: the inputs as they were collated.
        memory: what `Objective.change` leaves for `Objective.term`.
        outputs: of the forward pass; None before.
        find_attention: returns the final attention of the forward pass.
    """

    setting: Setting
    inputs: dict[str, Any]
    tokens: Tensor
    marks: Tensor | None
    state: Any
    training: bool
    key: tuple[Any, ...]
    original_inputs: Mapping[str, Any]
    memory: Any = None
    outputs: Any = None
    find_attention: Callable[[], FinalAttention] | None = None

    @cached_property
    def attention(self) -> FinalAttention:
        """The final attention of the forward pass, in its graph; its masks leave out what `Objective.change` hid."""
        assert self.find_attention is not None, "set needs_attention"
        return self.find_attention()

    def generator(self, name: str) -> torch.Generator:
        """Random numbers for this batch and this purpose: the same in a training that was resumed."""
        return keyed_generator(self.setting.seed, name, *self.key)


class Objective:
    """Base class of interventions on training; a subclass overrides what it needs, and holds nothing but its options.

    What changes while a model is trained belongs into what `hold` yields, so that an objective serves any number of
    trainings.

    Attributes:
        name: names its draws, and begins the names of its figures.
        weight: the factor of its term in the loss; 0 leaves the training as it would be without the term.
        needs_attention: whether ``step.attention`` is used.
        replaces_loss: whether the terms of the objectives take the place of the model's own loss, which reads the
            labels.
        column: the column of the data that `marks` reads; None for none.

    Example:
        >>> import torch
        >>> from attnfaith.training import Objective
        >>> class Entropy(Objective):
        ...     name, needs_attention = "entropy", True
        ...
        ...     def __init__(self, weight):
        ...         self.weight = weight
        ...
        ...     def term(self, step):
        ...         return torch.special.entr(step.attention.weights).sum(-1).mean(1)
        >>> Entropy(0.1).weight
        0.1
    """

    name: ClassVar[str] = "objective"
    needs_attention: ClassVar[bool] = False
    replaces_loss: ClassVar[bool] = False
    weight: float = 0.0
    column: str | None = None

    def identity(self) -> str:
        """The objective with its options, the same in every process: checkpoints of another training are refused."""
        return f"{self.name} {dict(sorted(vars(self).items()))}"

    def marks(
        self, texts: Sequence[EncodedText], cells: Sequence[Any] | None, *, training: bool
    ) -> list[list[bool]] | None:
        """Mark tokens of the texts of a data set, one list for each text; None if the objective marks none.

        Args:
            texts: the texts.
            cells: the cells of ``column``; None without one.
            training: whether these are the texts to train on, or those of the validation.
        """
        return None

    def hold(self, setting: Setting) -> AbstractContextManager[Any]:
        """A context that is entered before the optimizer is made, and left after training, also after an error.

        It checks that the model can be trained with this objective, switches on what stays on, and yields the state
        that steps carry.
        """
        return nullcontext()

    def replacement(self, state: Any) -> Replace | None:
        """The function that replaces the final attention; None to leave it. Only one objective may replace it."""
        return None

    def deletes(self, state: Any) -> bool:
        """Whether `change` deletes tokens, which no objective can mark then."""
        return False

    def change(self, step: Step) -> Mapping[str, Any]:
        """The inputs for the forward pass; called for steps of training only."""
        return step.inputs

    def term(self, step: Step) -> Tensor | None:
        """What the objective penalises, ``[B]`` for each text, in the graph; NaN where it is undefined.

        ``weight`` times the mean over the texts with a value is added to the loss.
        """
        return None

    def figures(self, step: Step) -> dict[str, Tensor]:
        """What is reported of a batch of validation, ``[B]`` each; the mean over all texts stands in the `History`."""
        return {}
