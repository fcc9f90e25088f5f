"""From scores to an order of items: sorting, ranks, and ties."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def order_of(scores: Tensor, mask: Tensor, rest: Sequence[Tensor] = ()) -> Tensor:
    """Sort positions by score, the highest first and padding last.

    Equal scores are in the order of position; undefined scores (NaN) come after all others.

    Args:
        scores: ``[..., B, N]``.
        mask: ``[B, N]``, True for items.
        rest: masks ``[B, N]`` of groups of positions that are no items, in the order in which they follow the items; by
            default one group of them all.

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
    """Reorder ``[..., N]`` so that the first group comes first, then the second ...; stable within each group.

    Example:
        >>> even = torch.tensor([[True, False, True, False]])
        >>> order_by_group(torch.tensor([[3, 2, 1, 0]]), (even, ~even))
        tensor([[2, 0, 3, 1]])
    """
    ranks = torch.empty_like(order)
    start = torch.zeros_like(order[..., :1])
    for group in groups:
        inside = group.expand_as(order).gather(-1, order)
        ranks = torch.where(inside, start + inside.cumsum(-1) - 1, ranks)
        start = start + inside.sum(-1, keepdim=True)
    return torch.empty_like(order).scatter_(-1, ranks, order)


def ranks_of(order: Tensor) -> Tensor:
    """The rank of each item in an order (0 is removed first): the inverse permutation, ``[B, N]`` to ``[B, N]``.

    Example:
        >>> ranks_of(torch.tensor([[2, 0, 1]]))
        tensor([[1, 2, 0]])
    """
    ranks = torch.arange(order.shape[-1], device=order.device).expand_as(order)
    return torch.empty_like(order).scatter_(-1, order, ranks)


def count_ties(scores: Tensor, mask: Tensor, order: Tensor | None = None) -> Tensor:
    """Count the items of each text whose score equals that of another item before them, ``[..., B]``; NaN equals none.

    Args:
        scores: ``[..., B, N]``.
        mask: ``[B, N]``, True for items.
        order: the items by descending score, if known already.

    Example:
        >>> count_ties(torch.tensor([[0.5, 0.5, 0.1, 0.5]]), torch.ones(1, 4, dtype=torch.bool))
        tensor([2])
    """
    order = order_of(scores, mask) if order is None else order
    values, items = scores.gather(-1, order), mask.expand_as(order).gather(-1, order)
    return ((values[..., 1:] == values[..., :-1]) & items[..., 1:] & items[..., :-1]).sum(-1)
