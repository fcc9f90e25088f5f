"""The data types shared by all rooms of the package: a batch captured at its attention, and the items it attends."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor


@dataclass(frozen=True)
class Items:
    """The items that the final attention attends, and the positions of the input that they cover.

    Attributes:
        kind: "tokens" (words of a FLAN, tokens of a Transformer), "sentences" (HAN), or "pooled" (a model that pools
            its positions before the final attention, so that an item represents several tokens).
        spans: ``[B, N, 2]`` half-open ranges of positions in ``input_ids``; a token covers one position. None for
            pooled items, which do not correspond to particular tokens.
    """

    kind: Literal["tokens", "sentences", "pooled"]
    spans: Tensor | None

    @classmethod
    def tokens(cls, mask: Tensor) -> Items:
        """Items that each cover one position of the input; ``mask`` is ``[B, N]``."""
        start = torch.arange(mask.shape[1], device=mask.device).expand(mask.shape)
        return cls("tokens", torch.stack((start, start + 1), dim=-1))


@dataclass(frozen=True)
class Capture:
    """A batch captured at its final attention.

    Attributes:
        weights: ``[B, G, N]``, the attention distributions that the decision reads.
        mask: ``[B, N]``, True for items; padding is never an item.
        logits: ``[B, C]``, the model's logits.
        items: what the N items are.
        groups: ``[B, G]``, True for distributions that exist (a text with fewer deciding rows than another text of the
            batch has fewer distributions); None if all exist.
        log_weights: ``[B, G, N]`` float64, the logarithm of ``weights`` before any underflow, -inf where the model
            itself forbids the item; None to use the logarithm of ``weights``.
        state: what the adapter needs to run the tail, private to the adapter.
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
