"""Cutting attnfaith's own models, which are open by design: ``attend`` before the final weights, ``decide`` after."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torch import Tensor

from attnfaith.adapters.adapter import Adapter, Affine
from attnfaith.types import Capture, Items


@dataclass(frozen=True)
class AffineState:
    """What the tail needs.

    Attributes:
        values: ``[B, N, D]``.
        offset: ``[B, C]``, what a query adds to the logits.
        head: ``[C, D]`` and ``[C]``, the linear layer.
    """

    values: Tensor
    offset: Tensor | None
    head: tuple[Tensor, Tensor]

    @cached_property
    def affine(self) -> Affine:
        """The linear layer on each value by itself; the bias with the query's part."""
        weight, bias = self.head
        offset = bias.expand(len(self.values), -1) if self.offset is None else bias + self.offset
        return Affine(self.values @ weight.T, offset)


class AffineAdapter(Adapter):
    """A model that averages its items once, with one distribution, and classifies the average by a linear layer."""

    model: Any
    mechanism = "pooled"
    path = "affine"

    def capture(self, **inputs: Any) -> Capture:
        """Run the encoder and the attention; the logits follow from them."""
        seen = self.model.attend(**inputs)
        return Capture(
            weights=seen.weights.unsqueeze(1),
            mask=seen.mask,
            logits=self.model.decide(seen.context, seen.offset),
            items=Items("sentences" if self.model.config.by_sentences else "tokens", seen.spans),
            log_weights=seen.log_weights.double().unsqueeze(1),
            state=AffineState(
                seen.values.detach(),
                None if seen.offset is None else seen.offset.detach(),
                self.model.head_weight_bias(),
            ),
        )

    def rerun(self, capture: Capture, weights: Tensor) -> Tensor:
        """Average the values by other weights, and classify."""
        state: AffineState = capture.state
        return self.model.decide(weights.squeeze(2).to(state.values.dtype) @ state.values, state.offset)

    def affine(self, capture: Capture) -> Affine:
        """Computed once for each capture."""
        state: AffineState = capture.state
        return state.affine

    def attended(self, capture: Capture) -> Tensor:
        """The values, ``[B, 1, N, D]``."""
        state: AffineState = capture.state
        return state.values.unsqueeze(1)

    def vectors(self, inputs: Mapping[str, Any]) -> Tensor:
        """The word vectors, looked up position by position."""
        return self.model.get_input_embeddings()(inputs["input_ids"])

    def forward_on(self, vectors: Tensor, inputs: Mapping[str, Any]) -> Tensor:
        """The model reads vectors itself; the ids beside them say where sentences end."""
        return self.forward({**inputs, "inputs_embeds": vectors})

    def word_weights(self, inputs: Mapping[str, Any]) -> Tensor:
        """The weights of the first of the two attentions."""
        return self.model.attend(**inputs).word_weights

    def candidate_bytes(self, capture: Capture) -> int:
        """One attended vector, the weights behind it, and the logits."""
        state: AffineState = capture.state
        return 4 * (4 * capture.shape[2] + 2 * state.values.shape[2]) + super().candidate_bytes(capture)
