"""From scores to an order."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def order_of(scores: Tensor, mask: Tensor, rest: Sequence[Tensor] = ()) -> Tensor:
    """Positions from the most important to the least, padding last.

    Higher scores come first, ties in the order of position; undefined scores (NaN) come after all others.

    Args:
        scores: ``[..., B, N]``.
        mask: ``[B, N]``, True for items.
        rest: ``[B, N]`` each, groups of what is no item, in the order in which they follow; by default one of all.

    Returns:
        ``[..., B, N]``, each row a permutation.

    Example:
        >>> order_of(torch.tensor([[0.1, 0.7, 0.1, 9.0]]), torch.tensor([[True, True, True, False]]))
        tensor([[1, 0, 2, 3]])
    """
    keyed = scores.double()
    undefined = keyed.isnan() & mask
    keyed = keyed.nan_to_num(0.0, torch.inf, -torch.inf)
    order = keyed.argsort(dim=-1, descending=True, stable=True)
    return order_by_group(order, (mask & ~undefined, undefined, *(rest or (~mask,))))


def order_by_group(order: Tensor, groups: Sequence[Tensor]) -> Tensor:
    """An order ``[..., N]`` with the items of the first group in front, then those of the second ..., else as it was.

    Example:
        >>> even = torch.tensor([[True, False, True, False]])
        >>> order_by_group(torch.tensor([[3, 2, 1, 0]]), (even, ~even))
        tensor([[2, 0, 3, 1]])
    """
    places = torch.empty_like(order)
    start = torch.zeros_like(order[..., :1])
    for group in groups:
        inside = group.expand_as(order).gather(-1, order)
        places = torch.where(inside, start + inside.cumsum(-1) - 1, places)
        start = start + inside.sum(-1, keepdim=True)
    return torch.empty_like(order).scatter_(-1, places, order)


def ranks_of(order: Tensor) -> Tensor:
    """The place of each item in an order: the inverse permutation, ``[B, N]`` to ``[B, N]``; 0 is removed first.

    Example:
        >>> ranks_of(torch.tensor([[2, 0, 1]]))
        tensor([[1, 2, 0]])
    """
    places = torch.arange(order.shape[-1], device=order.device).expand_as(order)
    return torch.empty_like(order).scatter_(-1, order, places)


def count_ties(scores: Tensor, mask: Tensor, order: Tensor | None = None) -> Tensor:
    """How many items of each text share their score with an earlier one, ``[..., B]``; NaN is like nothing.

    Args:
        scores: ``[..., B, N]``.
        mask: ``[B, N]``, True for items.
        order: the items by descending score, where it is known already.

    Example:
        >>> count_ties(torch.tensor([[0.5, 0.5, 0.1, 0.5]]), torch.ones(1, 4, dtype=torch.bool))
        tensor([2])
    """
    order = order_of(scores, mask) if order is None else order
    values, items = scores.gather(-1, order), mask.expand_as(order).gather(-1, order)
    return ((values[..., 1:] == values[..., :-1]) & items[..., 1:] & items[..., :-1]).sum(-1)
