"""From scores to an order of items: sorting, ranks, and ties."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

POSITION_BITS = 29
"""Of the 64 bits by which positions are sorted, those of the position itself: enough for half a billion."""


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
    scores = scores if scores.is_floating_point() else scores.double()
    undefined = scores.isnan() & mask
    groups = torch.zeros_like(mask, dtype=torch.long)
    for number, group in enumerate(rest or (~mask,), start=2):
        groups = torch.where(group, number, groups)
    return stable_order(scores.nan_to_num(0.0, torch.inf, -torch.inf), groups + undefined)


def stable_order(values: Tensor, groups: Tensor) -> Tensor:
    """Sort positions by group, then by descending value, then by position; faster than several stable sorts.

    Group, value and position are packed into one integer, and integers are sorted without their indices. There is room
    for a value in single precision only, so texts in which rounding hid a difference are sorted again in full.

    Args:
        values: ``[..., N]``, none undefined.
        groups: ``[..., N]``, from 0 to 3, of the same shape.

    Returns:
        ``[..., N]``, each row a permutation.

    Example:
        >>> stable_order(torch.tensor([0.5, 0.7, 0.5, 0.9]), torch.tensor([0, 0, 0, 1]))
        tensor([1, 0, 2, 3])
    """
    bits = (values.float() + 0.0).view(torch.int32)  # -0.0 becomes 0.0
    ascending = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    keys = ((groups << 32) + (2**31 - 1) - ascending) << POSITION_BITS
    keys += torch.arange(values.shape[-1], device=values.device)
    keys = sorted_values(keys)
    order = keys & (2**POSITION_BITS - 1)
    if values.dtype == torch.float64:
        in_order, group = values.gather(-1, order), keys >> (POSITION_BITS + 32)
        wrong = ((in_order[..., 1:] > in_order[..., :-1]) & (group[..., 1:] == group[..., :-1])).any(-1)
        if bool(wrong.any()):
            exact = values[wrong].argsort(dim=-1, descending=True, stable=True)
            by_group = groups[wrong].gather(-1, exact).argsort(dim=-1, stable=True)
            order[wrong] = exact.gather(-1, by_group)
    return order


def sorted_values(values: Tensor) -> Tensor:
    """The values in ascending order along the last dimension; several times as fast as a sort with indices.

    Example:
        >>> sorted_values(torch.tensor([3, 1, 2]))
        tensor([1, 2, 3])
    """
    if values.device.type == "cpu":  # torch moves indices along, also where nobody asks for them
        return torch.from_numpy(np.sort(values.detach().numpy()))
    return values.sort(dim=-1).values


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
