"""The smallest set of items whose erasure changes a decision, exactly, where the logits are affine in the attention.

After erasing, the logits are ``mass * sum_kept w_i h_i / sum_kept w_i + b``. With

    m_i^c = w_i ((mass * (H_ic - H_iy)) + (b_c - b_y))

the decision moves from y to c exactly when the m_i^c of the kept items sum to more than 0, or to 0 with c before y (the
first class wins a tie). The sum is additive over items although the logits are not: multiplying the logits by the
positive ``sum_kept w_i`` does not change which class is larger. So the fewest removals that move the decision to c take
the most negative m_i^c first, and all classes together cost O(C N log N).

The argument breaks where nothing is kept: the attended vector is then zero by definition, not 0 / 0, and the bias
decides. That step is treated by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attnfaith.functional.decision import Decision
from attnfaith.functional.ranking import sorted_values, stable_order


@dataclass(frozen=True)
class Optimum:
    """The smallest flipping set of each text.

    Attributes:
        size: ``[B]``, the number of items; 0 where no set flips the decision.
        flips: ``[B]``, whether a set does.
        label: ``[B]``, the class that overtakes the decided one (a third class may overtake both); the runner-up where
            no set flips the decision.
        order: ``[B, N]``, an order of removal that flips as early as possible; items that are never erased come last,
            then padding.
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
    """Find the smallest flipping sets of decisions between classes.

    Only items with a positive weight are removed: others change nothing. Removing all of them leaves the bias alone.

    Args:
        weights: ``[B, N]``, not negative.
        contributions: ``[B, N, C]``, what each item would add to the logits at weight 1.
        bias: ``[B, C]``.
        mask: ``[B, N]``, True for items.
        prediction: ``[B]``, the class decided on.
        fixed: ``[B, N]``, items that are never erased.

    Example:
        >>> mask = torch.ones(1, 2, dtype=torch.bool)
        >>> contributions = torch.tensor([[[3.0, 0.0], [0.0, 1.0]]])
        >>> best = optimum(torch.full((1, 2), 0.5), contributions, torch.zeros(1, 2), mask, torch.tensor([0]))
        >>> best.size, best.label, best.order
        (tensor([1]), tensor([1]), tensor([[0, 1]]))
    """
    exact = torch.promote_types(weights.dtype, torch.float64)
    weights, contributions, bias = weights.to(exact), contributions.to(exact), bias.to(exact)
    texts = torch.arange(len(mask), device=bias.device)
    mass = weights.sum(-1)
    weighted = mask & (weights > 0)
    kept_always = torch.zeros_like(mask) if fixed is None else weighted & fixed
    removable = weighted & ~kept_always
    by_class = contributions.permute(2, 0, 1).contiguous()  # C first from here on: sums and sorts run over items
    against = by_class - by_class[prediction, texts]
    offset = (bias - bias.gather(-1, prediction.unsqueeze(-1))).T
    margins = weights * (mass.unsqueeze(-1) * against + offset.unsqueeze(-1))  # m_i^c
    margins_kept = margins.masked_fill(~removable, torch.inf)
    ordered = sorted_values(margins_kept)  # most negative first
    # summed from the end: the total minus what was removed would cancel, and the sign of a small remainder decides
    kept_sums = ordered.masked_fill(ordered == torch.inf, 0.0).flip(-1).cumsum(-1).flip(-1)  # after k removals
    count = removable.sum(-1)
    classes = torch.arange(bias.shape[-1], device=bias.device)
    earlier = (classes < prediction.unsqueeze(-1)).T
    after = torch.cat((kept_sums, torch.zeros_like(kept_sums[..., :1])), dim=-1)
    if bool(kept_always.any()):
        after += margins.masked_fill(~kept_always, 0.0).permute(1, 2, 0).contiguous().sum(1).T.unsqueeze(-1)
    moved = (after > 0) | ((after == 0) & earlier.unsqueeze(-1))
    by_bias = (offset > 0) | ((offset == 0) & earlier)  # everything removed: the sum of m is 0, but the bias decides
    nothing_left = ~kept_always.any(-1)
    at_end = moved[:, texts, count]
    moved[:, texts, count] = torch.where(nothing_left, by_bias, at_end)
    steps = torch.arange(after.shape[-1], device=bias.device)
    moved &= (steps > 0) & (steps <= count.unsqueeze(-1))
    moved[prediction, texts] = False
    never = after.shape[-1]
    sizes = torch.where(moved.any(-1), moved.int().argmax(-1), never)
    size, label = sizes.min(0)
    flips = size < never
    logits = (bias + (weights.unsqueeze(-1) * contributions).sum(1)).scatter(-1, prediction.unsqueeze(-1), -torch.inf)
    label = torch.where(flips, label, logits.argmax(-1))
    # removable items by margin, then items without weight, items that are never erased, and padding
    never_erased = torch.zeros_like(mask) if fixed is None else mask & fixed
    group = (~removable).long() + never_erased.long() + 2 * (~mask).long()
    order = stable_order(-margins_kept[label, texts], group)
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
    """Find the smallest flipping sets of a decision of any kind; ``label`` is meaningless for a regression.

    Multi-label and regression decisions are reduced to decisions between two classes: one for each label, and for a
    regression one upwards and one downwards. The smallest of their sets is the result.

    Args:
        decision: how logits decide.
        weights: as for `optimum`.
        contributions: as for `optimum`.
        bias: as for `optimum`.
        mask: as for `optimum`.
        logits: ``[B, C]``, the logits with nothing removed.
        fixed: as for `optimum`.
    """
    if decision.kind == "multiclass":
        return optimum(weights, contributions, bias, mask, decision.predict(logits), fixed=fixed)
    exact = torch.promote_types(weights.dtype, torch.float64)
    contributions, bias, logits = contributions.to(exact), bias.to(exact), logits.to(exact)
    # class 0 of each two-class decision is a constant (the threshold, or the edge of the tolerance): items add nothing
    constant = torch.zeros_like(contributions[..., :1])
    best: Optimum | None = None
    for column in range(bias.shape[-1]):
        added, start, current = contributions[..., column : column + 1], bias[:, column : column + 1], logits[:, column]
        if decision.kind == "regression":
            edge = decision.margin(logits[:, column : column + 1], logits[:, column : column + 1]).unsqueeze(-1)
            decisions = [
                (sign * added, torch.cat((sign * current.unsqueeze(-1) + edge, sign * start), -1)) for sign in (1, -1)
            ]
            decided = torch.zeros_like(current, dtype=torch.long)
        else:
            decisions = [(added, torch.cat((torch.full_like(start, decision.threshold), start), -1))]
            decided = (current > decision.threshold).long()
        for moves, base in decisions:
            result = optimum(weights, torch.cat((constant, moves), -1), base, mask, decided, fixed=fixed)
            if decision.kind == "multilabel":
                result = replace(result, label=torch.full_like(result.label, column))
            best = result if best is None else _smaller(best, result)
    assert best is not None
    return best


def _smaller(first: Optimum, second: Optimum) -> Optimum:
    """The smaller set of each text; the first where both are equal."""
    better = second.flips & (~first.flips | (second.size < first.size))
    return Optimum(
        torch.where(better, second.size, first.size),
        first.flips | second.flips,
        torch.where(better, second.label, first.label),
        torch.where(better.unsqueeze(-1), second.order, first.order),
    )
