"""Logits of texts with one token deleted from the ids, without decoding and tokenising again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from attnfaith.adapters.cut import Cut
from attnfaith.adapters.inference_state import inference_state
from attnfaith.adapters.pass_groups import groups_by_length


def logits_when_shorter(cut: Cut, inputs: Mapping[str, Any], leave: Tensor, chunk: int | None) -> tuple[Tensor, Tensor]:
    """The logits of texts as they are, ``[B, C]``, and without each of their tokens, ``[B, L, C]``.

    Args:
        cut: the model, cut.
        inputs: the model's inputs.
        leave: ``[B, L]``, the tokens to delete, one at a time; for the others the logits are NaN.
        chunk: the largest number of texts in one pass; None for as many as its speed wants.
    """
    adapter, mask = cut.adapter, inputs["attention_mask"]
    with inference_state(cut.model, gradients=False):
        full = adapter.forward(inputs)
        without = torch.full((*leave.shape, full.shape[-1]), torch.nan, dtype=full.dtype, device=full.device)
        texts, tokens = leave.nonzero(as_tuple=True)
        for some in groups_by_length(mask.sum(1)[texts] - 1, cut.model, most=chunk):
            text, index = texts[some], tokens[some]
            positions = torch.arange(leave.shape[1] - 1, device=leave.device)
            positions = positions + (positions >= index.unsqueeze(1)).long()  # [K, L - 1], the positions that stay
            used = mask[text.unsqueeze(1), positions].bool().any(0).nonzero()
            positions = positions[:, : int(used.max()) + 1]  # left padding stays: some models count positions from it
            shorter = {name: _pick(value, text, positions, leave.shape) for name, value in inputs.items()}
            without[text, index] = adapter.forward(shorter)
    return full, without


def _pick(value: Any, text: Tensor, positions: Tensor, shape: torch.Size) -> Any:
    """A model input of some texts at the positions that stay."""
    if not isinstance(value, Tensor) or not value.dim() or len(value) != shape[0]:
        return value
    return value[text.unsqueeze(1), positions] if value.shape[:2] == shape else value[text]
