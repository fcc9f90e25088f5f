"""What passes between the parts: frozen records of tensors, without behaviour of their own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor


@dataclass(frozen=True)
class Items:
    """What the final attention attends, and where it stands in the input.

    Attributes:
        kind: "tokens" (words of a FLAN, tokens of a Transformer), "sentences" (HAN), or "pooled" (a model that pools
            its positions before the final attention, so that an item stands for several tokens).
        spans: ``[B, N, 2]`` half-open ranges of positions in ``input_ids``; a token covers one position. None for
            pooled items, which belong to no certain tokens.
    """

    kind: Literal["tokens", "sentences", "pooled"]
    spans: Tensor | None

    @classmethod
    def tokens(cls, mask: Tensor) -> Items:
        """Items that are the positions of the input, one each; ``mask`` is ``[B, N]``."""
        start = torch.arange(mask.shape[1], device=mask.device).expand(mask.shape)
        return cls("tokens", torch.stack((start, start + 1), dim=-1))


@dataclass(frozen=True)
class Capture:
    """A batch, cut at its final attention.

    Attributes:
        weights: ``[B, G, N]``, the attention distributions that the decision reads.
        mask: ``[B, N]``, True for items; padding is never an item.
        logits: ``[B, C]``, the model's own.
        items: what the N positions are.
        groups: ``[B, G]``, True for distributions that exist (a text with fewer deciding rows than the longest of its
            batch has fewer); None when all do.
        log_weights: ``[B, G, N]`` float64, the logarithm of ``weights`` before any underflow, -inf where the model
            itself forbids the item; None to take the logarithm of ``weights``.
        state: what the adapter needs to run the tail; nobody else looks inside.
    """

    weights: Tensor
    mask: Tensor
    logits: Tensor
    items: Items | None = None
    groups: Tensor | None = None
    log_weights: Tensor | None = None
    state: Any = field(default=None, repr=False)

    @property
    def shape(self) -> tuple[int, int, int]:
        """The sizes ``(B, G, N)``."""
        batch, groups, items = self.weights.shape
        return batch, groups, items

    @property
    def lengths(self) -> Tensor:
        """``[B]``, the number of items of each text."""
        return self.mask.sum(-1)
