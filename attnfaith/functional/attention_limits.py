"""How far attention can go from the original while the logits stay between limits, where they are affine in it.

JS(w, .) is convex, so over a polytope it is largest at a vertex. The vertices of a simplex between two parallel planes,
``low <= sum_i x_i values_i <= high``, are the corners between them and the points where an edge crosses one: points of
one or two items, O(N^2) of them, and all can be looked at. With more than two planes that is a bound from above; points
on the edges that are within all of them, one from below.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from attnfaith.functional.decision import Decision

Allowed = Callable[[Tensor, Tensor, Tensor], Tensor]
"""From shares ``[M]`` of a first item, and the numbers ``[M]`` of both items, to whether that is allowed."""
_PIECE = 2**21
_REFINED = 256
_HALVINGS = 40


@dataclass(frozen=True)
class Point:
    """A distribution on at most two items.

    Attributes:
        js: its divergence from the original, in nats.
        items: the two items; the same one twice for a corner.
        share: of the first of them; the second has the rest.
    """

    js: float
    items: tuple[int, int]
    share: float


NOWHERE = Point(-math.inf, (0, 0), 1.0)


def divergence_of_corner(original: Tensor) -> Tensor:
    """The divergence in nats of everything on one item, from a distribution in which it has these shares.

    Example:
        >>> divergence_of_corner(torch.tensor([0.0, 1.0]))
        tensor([0.6931, 0.0000])
    """
    return (_of_one(original, torch.ones_like(original)) + math.log(2) / 2).clamp(0, math.log(2))


def farthest_between(shares: Tensor, values: Tensor, low: float, high: float) -> Point:
    """The distribution farthest from the original among those whose mean value is between two limits: exactly.

    Args:
        shares: ``[N]`` float64, the original distribution.
        values: ``[N]`` float64.
        low: the lowest mean value allowed, inclusive; -inf for none.
        high: the highest.

    Returns:
        The farthest point; one at -inf where no distribution is between the limits.

    Example:
        >>> shares, values = torch.tensor([0.75, 0.25]), torch.tensor([1.0, 0.0])
        >>> farthest_between(shares, values, 0.25, 0.875)
        Point(js=0.13..., items=(1, 0), share=0.75)
        >>> farthest_between(shares, values, -math.inf, math.inf).items
        (1, 1)
    """
    shares, values = shares.double(), values.double()
    best = NOWHERE
    inside = ((values >= low) & (values <= high)).nonzero().flatten()
    if len(inside):
        best = _corner(shares, inside)
    for limit in (low, high):
        if not math.isfinite(limit):
            continue
        under, over = (values < limit).nonzero().flatten(), (values > limit).nonzero().flatten()
        for piece in under.split(max(1, _PIECE // len(over))) if len(under) and len(over) else ():
            share = (values[over] - limit) / (values[over] - values[piece].unsqueeze(1))
            first, second = shares[piece].unsqueeze(1), shares[over]
            js = _of_two(first, second, share).flatten()
            top = int(js.argmax())
            if float(js[top]) > best.js:
                items = int(piece[top // len(over)]), int(over[top % len(over)])
                best = Point(float(js[top]), items, float(share.flatten()[top]))
    return best


def farthest_anywhere(shares: Tensor) -> Point:
    """The distribution farthest from the original of all there are: everything on the item that has least.

    Example:
        >>> farthest_anywhere(torch.tensor([0.5, 0.0, 0.5], dtype=torch.float64)).js == math.log(2)
        True
    """
    return _corner(shares.double(), torch.arange(len(shares), device=shares.device))


def farthest_on_edges(
    shares: Tensor,
    values: Tensor,
    low: Tensor,
    high: Tensor,
    allowed: Allowed,
    *,
    points: int = 9,
) -> Point:
    """A distribution on two items far from the original, among those that are allowed: not surely the farthest.

    Each edge of the simplex is looked at where all mean values are between their limits, at some points; the best are
    then moved outwards until they are no longer allowed.

    Args:
        shares: ``[N]`` float64, the original distribution.
        values: ``[N, S]`` float64, several values of each item.
        low: ``[S]``, below which the mean of each is never allowed.
        high: ``[S]``.
        allowed: see `Allowed`.
        points: on each edge.
    """
    count = len(shares)
    first, second = torch.triu_indices(count, count, device=shares.device)
    best, ends = NOWHERE, torch.linspace(0, 1, points, dtype=torch.float64, device=shares.device)
    for edge in torch.arange(len(first), device=first.device).split(max(1, _PIECE // (points + values.shape[1]))):
        one, two = first[edge], second[edge]
        start, stop = _between(values[one], values[two], low, high)
        there = (start <= stop).nonzero().flatten()
        one, two, start, stop = one[there], two[there], start[there], stop[there]
        if not len(there):
            continue
        at = start.unsqueeze(1) + (stop - start).unsqueeze(1) * ends
        one, two = (items.unsqueeze(1).expand_as(at) for items in (one, two))
        fits = allowed(at.flatten(), one.flatten(), two.flatten()).view_as(at)
        js = torch.where(fits, _of_two(shares[one], shares[two], at), -torch.inf)
        top, place = js.max(1)
        chosen = top.topk(min(_REFINED, len(top))).indices
        chosen = chosen[top[chosen] > -torch.inf]
        inner = at[chosen, place[chosen]]
        for step in (-1, 0, 1):
            outer = at[chosen, (place[chosen] + step).clamp(0, points - 1)]
            best = max(best, _outwards(shares, one[chosen, 0], two[chosen, 0], inner, outer, allowed), key=_js)
    return best


def _js(point: Point) -> float:
    return point.js


def _corner(shares: Tensor, items: Tensor) -> Point:
    least = int(items[shares[items].argmin()])
    return Point(float(divergence_of_corner(shares[least])), (least, least), 1.0)


def _of_one(original: Tensor, share: Tensor) -> Tensor:
    """What giving an item this share adds to the divergence of a distribution that has nothing of what there was."""
    both = original + share
    lost = torch.xlogy(original, original / both.clamp_min(1e-300))
    return (lost + torch.xlogy(share, 2 * share / both.clamp_min(1e-300))) / 2


def _of_two(first: Tensor, second: Tensor, share: Tensor) -> Tensor:
    """The divergence in nats of ``share`` on one item and the rest on another, from what they have originally."""
    return (_of_one(first, share) + _of_one(second, 1 - share) + math.log(2) / 2).clamp(0, math.log(2))


def _between(one: Tensor, two: Tensor, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """From which to which share of the first item all mean values ``[M, S]`` are between the limits, ``[M]`` twice."""
    slope = one - two
    bounds = torch.stack(((low - two) / slope, (high - two) / slope))
    flat = slope == 0
    within = (two >= low) & (two <= high)
    start = torch.where(flat, torch.where(within, 0.0, torch.inf), bounds.amin(0))
    stop = torch.where(flat, torch.where(within, 1.0, -torch.inf), bounds.amax(0))
    return start.amax(-1).clamp_min(0), stop.amin(-1).clamp_max(1)


def _outwards(shares: Tensor, one: Tensor, two: Tensor, inner: Tensor, outer: Tensor, allowed: Allowed) -> Point:
    """The farthest allowed points found between allowed ones and others by halving."""
    for _ in range(_HALVINGS):
        middle = (inner + outer) / 2
        fits = allowed(middle, one, two)
        inner, outer = torch.where(fits, middle, inner), torch.where(fits, outer, middle)
    js = _of_two(shares[one], shares[two], inner)
    if not len(js):
        return NOWHERE
    top = int(js.argmax())
    return Point(float(js[top]), (int(one[top]), int(two[top])), float(inner[top]))


@dataclass(frozen=True)
class LogitLimits:
    """What an output within epsilon implies of the logits, ``low <= directions @ logits <= high``.

    Attributes:
        directions: ``[S, C]``.
        low: ``[S]``, -inf for none.
        high: ``[S]``.
        exact: whether it implies an output within epsilon.
    """

    directions: Tensor
    low: Tensor
    high: Tensor
    exact: bool


def limits_of(decision: Decision, before: Tensor, epsilon: float) -> LogitLimits:
    """The limits of the logits of an output within epsilon of that of ``before``, ``[C]``.

    Example:
        >>> limits_of(Decision("regression"), torch.tensor([3.0]), 0.5)
        LogitLimits(directions=tensor([[1.]], dtype=torch.float64), low=tensor([2.5000], dtype=torch.float64),
            high=tensor([3.5000], dtype=torch.float64), exact=True)
    """
    before = before.double()
    each = torch.eye(len(before), dtype=torch.float64, device=before.device)
    single = len(before) == 1
    if decision.kind == "regression":
        return LogitLimits(each, before - epsilon, before + epsilon, single)
    if decision.kind in ("sigmoid", "multilabel"):  # where the mean over labels is within epsilon, each is within more
        on, off = torch.sigmoid(before - decision.threshold), torch.sigmoid(decision.threshold - before)
        low, high = (decision.threshold + _log_ratio(on, off, side * epsilon * len(before)) for side in (-1, 1))
        return LogitLimits(each, low, high, single)
    shares = decision.probabilities(before)
    one, two = torch.triu_indices(len(shares), len(shares), 1, device=before.device)
    telling = (shares[one] > epsilon) | (shares[two] > epsilon)
    one, two = one[telling], two[telling]
    low, high = _log_ratio(shares[one], shares[two], -epsilon), _log_ratio(shares[one], shares[two], epsilon)
    return LogitLimits(each[one] - each[two], low, high, len(shares) == 2)


def _log_ratio(one: Tensor, other: Tensor, shift: float) -> Tensor:
    """The logarithm of the ratio of two shares when ``shift`` goes from the other to the one."""
    return ((one + shift).clamp_min(0) / (other - shift).clamp_min(0)).log()


@dataclass(frozen=True)
class DivergenceRange:
    """How far attention can go, in nats.

    Attributes:
        low: there is a distribution as far as this.
        high: there is none farther; equal to ``low`` where that is known exactly.
        weights: ``[N]``, the distribution at ``low``.
    """

    low: float
    high: float
    weights: Tensor


def reach_of(shares: Tensor, corners: Tensor, decision: Decision, epsilon: float) -> DivergenceRange:
    """How far from the original a distribution can be whose output is within epsilon.

    Args:
        shares: ``[N]``, the original distribution.
        corners: ``[N, C]``, the logits when all weight is on one item; those of a distribution are the mean of them.
        decision: how logits become an output.
        epsilon: how far the output may move, by `Decision.distance`.

    Example:
        >>> shares = torch.tensor([0.5, 0.25, 0.25], dtype=torch.float64)
        >>> corners = torch.tensor([[0.0, 0.0], [3.0, 0.0], [-3.0, 0.0]], dtype=torch.float64)
        >>> reach = reach_of(shares, corners, Decision(), 0.01)  # without the first item the two others must balance
        >>> reach.low == reach.high, reach.weights.round(decimals=2)
        (True, tensor([0.0000, 0.4900, 0.5100], dtype=torch.float64))
    """
    shares, corners = shares.double(), corners.double()
    before = shares @ corners
    limits = limits_of(decision, before, epsilon)
    values = corners @ limits.directions.T
    sides = zip(values.T, limits.low.tolist(), limits.high.tolist(), strict=True)
    points = [farthest_between(shares, value, low, high) for value, low, high in sides]
    bound = min([*points, farthest_anywhere(shares)], key=lambda point: point.js)
    if limits.exact:
        return DivergenceRange(bound.js, bound.js, _spread(shares, bound.items, bound.share))

    def allowed(share: Tensor, one: Tensor, two: Tensor) -> Tensor:
        after = share.unsqueeze(-1) * corners[one] + (1 - share).unsqueeze(-1) * corners[two]
        return decision.distance(before, after) <= epsilon

    found = farthest_on_edges(shares, values, limits.low, limits.high, allowed)
    if found.js <= 0:
        return DivergenceRange(0.0, bound.js, shares)
    return DivergenceRange(min(found.js, bound.js), bound.js, _spread(shares, found.items, found.share))


def _spread(shares: Tensor, items: tuple[int, int], share: float) -> Tensor:
    weights = torch.zeros_like(shares)
    weights[items[1]] += 1 - share
    weights[items[0]] += share
    return weights
