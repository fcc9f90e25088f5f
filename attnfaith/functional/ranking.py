"""From scores to an order."""

from __future__ import annotations

import torch
from torch import Tensor


def order_of(scores: Tensor, mask: Tensor) -> Tensor:
    """Positions from the most important to the least, padding last.

    Higher scores come first, ties in the order of position; undefined scores (NaN) come after all others.

    Args:
        scores: ``[B, N]``.
        mask: ``[B, N]``, True for items.

    Returns:
        ``[B, N]``, each row a permutation.

    Example:
        >>> order_of(torch.tensor([[0.1, 0.7, 0.1, 9.0]]), torch.tensor([[True, True, True, False]]))
        tensor([[1, 0, 2, 3]])
    """
    keyed = scores.double()
    undefined = keyed.isnan() & mask
    keyed = keyed.nan_to_num(0.0, torch.inf, -torch.inf)
    order = keyed.argsort(dim=-1, descending=True, stable=True)
    group = mask.long() * 2 - undefined.long()  # 2 defined, 1 undefined, 0 padding
    return order.gather(-1, group.gather(-1, order).argsort(dim=-1, descending=True, stable=True))


def ranks_of(order: Tensor) -> Tensor:
    """The place of each item in an order: the inverse permutation, ``[B, N]`` to ``[B, N]``; 0 is removed first.

    Example:
        >>> ranks_of(torch.tensor([[2, 0, 1]]))
        tensor([[1, 2, 0]])
    """
    places = torch.arange(order.shape[-1], device=order.device).expand_as(order)
    return torch.empty_like(order).scatter_(-1, order, places)


def ties_in(scores: Tensor, mask: Tensor) -> Tensor:
    """How many items of each text share their score with an earlier one, ``[B]``.

    Example:
        >>> ties_in(torch.tensor([[0.5, 0.5, 0.1, 0.5]]), torch.ones(1, 4, dtype=torch.bool))
        tensor([2])
    """
    keyed = scores.double().masked_fill(~mask | scores.isnan(), torch.nan).sort(-1).values
    return (keyed[:, 1:] == keyed[:, :-1]).sum(-1)  # NaN sorts last and equals nothing
