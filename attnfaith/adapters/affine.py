"""The adapter of attnfaith's own models, whose tail is affine: ``attend`` gives the weights, ``decide`` the logits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torch import Tensor

from attnfaith.adapters.adapter import Adapter, Affine
from attnfaith.adapters.pass_count import note_pass
from attnfaith.types import Capture, Items


@dataclass(frozen=True)
class AffineState:
    """What the tail needs from a capture.

    Attributes:
        values: ``[B, N, D]``, the vectors that attention averages.
        offset: ``[B, C]``, what a query adds to the logits; None without a query.
        head: ``[C, D]`` and ``[C]``, weight and bias of the linear layer.
    """

    values: Tensor
    offset: Tensor | None
    head: tuple[Tensor, Tensor]

    @cached_property
    def affine(self) -> Affine:
        """The linear layer applied to each value; the bias includes the offset of the query."""
        weight, bias = self.head
        offset = bias.expand(len(self.values), -1) if self.offset is None else bias + self.offset
        return Affine(self.values @ weight.T, offset)


class AffineAdapter(Adapter):
    """Cuts models that average their items with one distribution, and classify the average by a linear layer."""

    model: Any
    mechanism = "pooled"
    tail = "affine"

    def capture(self, **inputs: Any) -> Capture:
        """Run the encoder and the attention, and decide."""
        note_pass(inputs["input_ids"])
        attended = self.model.attend(**inputs)
        return Capture(
            weights=attended.weights.unsqueeze(1),
            mask=attended.mask,
            logits=self.model.decide(attended.context, attended.offset),
            items=Items("sentences" if self.model.config.by_sentences else "tokens", attended.spans),
            log_weights=attended.log_weights.double().unsqueeze(1),
            state=AffineState(
                attended.values.detach(),
                None if attended.offset is None else attended.offset.detach(),
                self.model.head_weight_bias(),
            ),
        )

    def rerun(self, capture: Capture, weights: Tensor) -> Tensor:
        """Average the values with other weights, and classify the average."""
        state: AffineState = capture.state
        return self.model.decide(weights.squeeze(2).to(state.values.dtype) @ state.values, state.offset)

    def affine(self, capture: Capture) -> Affine:
        """The affine form, computed once for each capture."""
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
        """Pass the vectors to the model; the ids beside them show where sentences end."""
        return self.forward({**inputs, "inputs_embeds": vectors})

    def word_weights(self, inputs: Mapping[str, Any]) -> Tensor:
        """The weights of the first of the two attentions, from words to sentences."""
        note_pass(inputs["input_ids"])
        return self.model.attend(**inputs).word_weights

    def candidate_bytes(self, capture: Capture) -> int:
        """Roughly the memory of one attended vector, its weights, and the logits."""
        state: AffineState = capture.state
        return 4 * (4 * capture.shape[2] + 2 * state.values.shape[2]) + super().candidate_bytes(capture)
