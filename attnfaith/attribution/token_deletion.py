"""Texts with a token left out of the ids, and the rest moved up: never decoded and tokenised anew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from attnfaith.adapters.cut import Cut
from attnfaith.adapters.inference_state import inference_state


def logits_when_shorter(cut: Cut, inputs: Mapping[str, Any], leave: Tensor, chunk: int) -> tuple[Tensor, Tensor]:
    """The logits of texts as they are, ``[B, C]``, and without each of their tokens, ``[B, L, C]``.

    Args:
        cut: the model, cut.
        inputs: the model's.
        leave: ``[B, L]``, the tokens to be left out, one at a time; for the others the logits are NaN.
        chunk: at most this many texts go through the model at once.
    """
    adapter, mask = cut.adapter, inputs["attention_mask"]
    with inference_state(cut.model, gradients=False):
        whole = adapter.forward(inputs)
        without = torch.full((*leave.shape, whole.shape[-1]), torch.nan, dtype=whole.dtype, device=whole.device)
        longest = mask.sum(1).argsort(descending=True, stable=True)
        row, victim = leave[longest].nonzero(as_tuple=True)  # like lengths together: the shorter run without padding
        parts = zip(longest[row].split(chunk), victim.split(chunk), strict=True)
        for text, place in parts if len(victim) else ():  # nothing, split, is one part in which there is nothing
            rest = torch.arange(leave.shape[1] - 1, device=leave.device)
            rest = rest + (rest >= place.unsqueeze(1)).long()  # [K, L - 1], the positions that stay
            used = mask[text.unsqueeze(1), rest].bool().any(0).nonzero()
            rest = rest[:, : int(used.max()) + 1]  # padding on the left stays: some models count positions from it
            shorter = {name: _picked(value, text, rest, leave.shape) for name, value in inputs.items()}
            without[text, place] = adapter.forward(shorter)
    return whole, without


def _picked(value: Any, text: Tensor, rest: Tensor, shape: torch.Size) -> Any:
    """A model input of some texts at the positions that stay."""
    if not isinstance(value, Tensor) or not value.dim() or len(value) != shape[0]:
        return value
    return value[text.unsqueeze(1), rest] if value.shape[:2] == shape else value[text]
