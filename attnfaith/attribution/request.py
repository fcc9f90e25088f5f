"""What a method receives: a batch, what is explained, and what was chosen about methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from attnfaith.adapters.cut import Cut
from attnfaith.attribution.attention_gradients import weight_gradient
from attnfaith.attribution.embedding_gradients import token_vectors, vector_gradient
from attnfaith.attribution.scores import Scores
from attnfaith.attribution.token_deletion import logits_when_shorter
from attnfaith.errors import InputError
from attnfaith.functional.decision import Decision
from attnfaith.types import Capture


@dataclass(frozen=True)
class MethodOptions:
    """What can be chosen about methods; each uses what it knows.

    Attributes:
        steps: points of an integrated path; None for as many as each text needs.
        baseline: where an integrated path starts, or what an occluded token is replaced by: "zero", "pad", "mask", or a
            tensor of embeddings.
        layer: for "attention": "final", the one that was cut at, or "mean", all of them.
        epsilon: the stabiliser of LRP, relative to a layer's scale.
        seed: of random rankings.
        chunk: at most this many texts times candidates go through the model at once; None for as many as its speed
            wants, see `attnfaith.adapters.pass_groups`.
        pad_id: the padding token, where the model has one.
        mask_id: the mask token, where the tokenizer has one.
        special_ids: tokens that are no part of a text.
    """

    steps: int | None = None
    baseline: str | Tensor = "zero"
    layer: str = "final"
    epsilon: float = 1e-6
    seed: int = 0
    chunk: int | None = None
    pad_id: int | None = None
    mask_id: int | None = None
    special_ids: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Request:
    """One batch to be scored.

    Attributes:
        cut: the cut model.
        inputs: the model's inputs, checked.
        target: ``[B]`` class explained.
        output: "probability", "logit" or "log_odds".
        decision: how the model decides.
        settings: what was chosen.
        text_ids: ``[B]``, the texts' row numbers in their data, by which random draws are keyed.
        known_capture: the capture, where there is one already.
        rules: entered around every forward pass that a gradient is taken of; LRP has other rules than the derivative.
    """

    cut: Cut
    inputs: Mapping[str, Any]
    target: Tensor
    output: str
    decision: Decision
    settings: MethodOptions = field(default_factory=MethodOptions)
    text_ids: tuple[int, ...] = ()
    known_capture: Capture | None = None
    rules: Callable[[], AbstractContextManager[Any]] = nullcontext

    @cached_property
    def capture(self) -> Capture:
        """The batch, cut at its final attention; computed once for all methods that share the request."""
        return self.cut.capture(**self.inputs) if self.known_capture is None else self.known_capture

    @cached_property
    def without_each(self) -> Tensor:
        """The logits ``[B, N, C]`` when one item is erased at the final attention; see `Cut.without_each`."""
        return self.cut.without_each(self.capture)

    @cached_property
    def weight_gradients(self) -> Tensor:
        """``[B, G, N]``, the gradient of the explained number at the attention, one tail for several methods."""
        return weight_gradient(self, self.capture.weights.unsqueeze(1))[:, 0]

    @cached_property
    def token_vectors(self) -> Tensor:
        """``[B, L, E]``, the embedding vectors of the tokens."""
        return token_vectors(self)

    @cached_property
    def token_gradients(self) -> Tensor:
        """``[B, L, E]``, the gradient of the explained number at the token vectors, one pass for several methods."""
        return vector_gradient(self, self.token_vectors)

    @property
    def tokens(self) -> Tensor:
        """``[B, L]``, True for real tokens of the input."""
        mask: Tensor = self.inputs["attention_mask"]
        return mask.bool()

    @cached_property
    def removable(self) -> Tensor:
        """``[B, L]``, True for tokens that can be left out of their text: neither special, nor the only one."""
        special = sorted(self.settings.special_ids)
        ids: Tensor = self.inputs["input_ids"]
        free = self.tokens & ~torch.isin(ids, torch.tensor(special, dtype=ids.dtype, device=ids.device))
        return free & (self.tokens.sum(-1, keepdim=True) > 1)

    @cached_property
    def shortened(self) -> tuple[Tensor, Tensor]:
        """The logits ``[B, C]`` of the texts, and ``[B, L, C]`` without each token; see `logits_when_shorter`."""
        return logits_when_shorter(self.cut, self.inputs, self.removable, self.settings.chunk)

    def quantity(self, logits: Tensor) -> Tensor:
        """The explained number of logits ``[B, ..., C]``."""
        return self.decision.quantity(logits, self.target.to(logits.device), self.output)

    def scores(self, values: Tensor, mask: Tensor | None = None, **more: Any) -> Scores:
        """Wrap scores; ``mask`` is that of the capture's items by default."""
        mask = self.capture.mask if mask is None else mask
        if values.shape != mask.shape:
            raise InputError(
                f"A method returned scores of shape {tuple(values.shape)}; expected one for each item, "
                f"{tuple(mask.shape)}."
            )
        return Scores(torch.where(mask, values.detach(), 0.0), mask, **more)

    def with_settings(self, **changes: Any) -> Request:
        """The same request with other settings."""
        return replace(self, settings=replace(self.settings, **changes))
