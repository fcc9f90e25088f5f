"""The smallest set of items whose erasure changes an affine decision, exactly (PROTOCOLS: erasure, the gold standard).

After erasing, the logits are ``mass * sum_kept w_i h_i / sum_kept w_i + b``. With

    m_i^c = w_i ((mass * (H_ic - H_iy)) + (b_c - b_y))

the decision moves from y to c exactly when the kept items' m_i^c sum to more than 0, or to 0 with c before y (the first
class wins a tie). To move it to c with the fewest removals, remove the most negative m_i^c first: O(C N log N).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attnfaith.functional.decision import Decision


@dataclass(frozen=True)
class Optimum:
    """The smallest flipping set of each text.

    Attributes:
        size: ``[B]``, how many items; 0 where no set flips the decision.
        flips: ``[B]``, whether one does.
        label: ``[B]``, the class that overtakes the decided one (a third may overtake both); the runner-up where none
            does.
        order: ``[B, N]``, an order of removal that flips as early as can be; what stays last, then padding.
    """

    size: Tensor
    flips: Tensor
    label: Tensor
    order: Tensor


def optimum(
    weights: Tensor,
    contributions: Tensor,
    bias: Tensor,
    mask: Tensor,
    prediction: Tensor,
    *,
    fixed: Tensor | None = None,
) -> Optimum:
    """Find the smallest flipping sets.

    Only items with a positive weight take part. Removing all of them leaves the bias alone, at the price of their
    number.

    Args:
        weights: ``[B, N]``, not negative.
        contributions: ``[B, N, C]``, what each item would add to the logits at weight 1.
        bias: ``[B, C]``.
        mask: ``[B, N]``, True for items.
        prediction: ``[B]``, the class decided on.
        fixed: ``[B, N]``, items that are never erased.

    Example:
        >>> one = torch.ones(1, 2, dtype=torch.bool)
        >>> push = torch.tensor([[[3.0, 0.0], [0.0, 1.0]]])
        >>> best = optimum(torch.full((1, 2), 0.5), push, torch.zeros(1, 2), one, torch.tensor([0]))
        >>> best.size, best.label, best.order
        (tensor([1]), tensor([1]), tensor([[0, 1]]))
    """
    exact = torch.promote_types(weights.dtype, torch.float64)
    weights, contributions, bias = weights.to(exact), contributions.to(exact), bias.to(exact)
    mass = weights.sum(-1)
    weighty = mask & (weights > 0)
    staying = torch.zeros_like(mask) if fixed is None else weighty & fixed
    taking = weighty & ~staying
    index = prediction[:, None, None]
    against = contributions - contributions.gather(-1, index.expand(*contributions.shape[:-1], 1))
    offset = bias - bias.gather(-1, index[:, 0])
    margins = weights.unsqueeze(-1) * (mass[:, None, None] * against + offset.unsqueeze(1))  # m_i^c
    rest = margins.masked_fill(~staying.unsqueeze(-1), 0.0).sum(1, keepdim=True)
    margins = margins.masked_fill(~taking.unsqueeze(-1), torch.inf)
    ordered = margins.sort(dim=1, stable=True).values  # most negative first
    kept = ordered.masked_fill(ordered == torch.inf, 0.0).flip(1).cumsum(1).flip(1)  # kept after k removals
    count = taking.sum(-1)
    classes = torch.arange(bias.shape[-1], device=bias.device)
    earlier = classes < prediction.unsqueeze(-1)
    after = torch.cat((kept, torch.zeros_like(kept[:, :1])), dim=1) + rest
    moved = (after > 0) | ((after == 0) & earlier.unsqueeze(1))
    steps = torch.arange(after.shape[1], device=bias.device)
    alone = (offset > 0) | ((offset == 0) & earlier)  # everything removed: the bias decides
    nothing_left = (steps == count.unsqueeze(-1)) & ~staying.any(-1, keepdim=True)
    moved = torch.where(nothing_left.unsqueeze(-1), alone.unsqueeze(1), moved)
    moved &= (steps[:, None] > 0) & (steps[None, :, None] <= count[:, None, None])
    moved &= (classes != prediction.unsqueeze(-1)).unsqueeze(1)
    never = after.shape[1]
    sizes = torch.where(moved.any(1), moved.int().argmax(1), never)
    size, label = sizes.min(-1)
    flips = size < never
    runner_up = (bias + (weights.unsqueeze(-1) * contributions).sum(1)).scatter(-1, index[:, 0], -torch.inf).argmax(-1)
    label = torch.where(flips, label, runner_up)
    keyed = margins.gather(-1, label[:, None, None].expand(*margins.shape[:2], 1)).squeeze(-1)
    # items that take part by margin, then those without weight, those that stay, and padding
    stays = torch.zeros_like(mask) if fixed is None else mask & fixed
    group = (~taking).int() + stays.int() + 2 * (~mask).int()
    order = keyed.argsort(dim=-1, stable=True)
    order = order.gather(-1, group.gather(-1, order).argsort(dim=-1, stable=True))
    return Optimum(torch.where(flips, size, 0), flips, label, order)


def optimum_for(
    decision: Decision,
    weights: Tensor,
    contributions: Tensor,
    bias: Tensor,
    mask: Tensor,
    logits: Tensor,
    *,
    fixed: Tensor | None = None,
) -> Optimum:
    """Find the smallest sets that flip a decision of any kind; ``label`` is meaningless for a regression.

    Every kind is a few decisions between two classes: each label's for itself, and a regression's upwards and
    downwards. The easiest of them to flip counts.

    Args:
        decision: how logits decide.
        weights: as for `optimum`.
        contributions: as for `optimum`.
        bias: as for `optimum`.
        mask: as for `optimum`.
        logits: ``[B, C]``, with nothing removed.
        fixed: as for `optimum`.
    """
    if decision.kind == "multiclass":
        return optimum(weights, contributions, bias, mask, decision.predict(logits), fixed=fixed)
    exact = torch.promote_types(weights.dtype, torch.float64)
    contributions, bias, logits = contributions.to(exact), bias.to(exact), logits.to(exact)
    still = torch.zeros_like(contributions[..., :1])
    best: Optimum | None = None
    for column in range(bias.shape[-1]):
        push, start, now = contributions[..., column : column + 1], bias[:, column : column + 1], logits[:, column]
        if decision.kind == "regression":
            edge = decision.margin(logits[:, column : column + 1], logits[:, column : column + 1]).unsqueeze(-1)
            sides = [(sign * push, torch.cat((sign * now.unsqueeze(-1) + edge, sign * start), -1)) for sign in (1, -1)]
            decided = torch.zeros_like(now, dtype=torch.long)
        else:
            sides = [(push, torch.cat((torch.full_like(start, decision.threshold), start), -1))]
            decided = (now > decision.threshold).long()
        for moves, base in sides:
            found = optimum(weights, torch.cat((still, moves), -1), base, mask, decided, fixed=fixed)
            if decision.kind == "multilabel":
                found = replace(found, label=torch.full_like(found.label, column))
            best = found if best is None else _smaller(best, found)
    assert best is not None
    return best


def _smaller(one: Optimum, other: Optimum) -> Optimum:
    """The smaller set of each text; the first of two that are equal."""
    better = other.flips & (~one.flips | (other.size < one.size))
    return Optimum(
        torch.where(better, other.size, one.size),
        one.flips | other.flips,
        torch.where(better, other.label, one.label),
        torch.where(better.unsqueeze(-1), other.order, one.order),
    )
