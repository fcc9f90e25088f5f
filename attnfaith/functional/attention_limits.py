"""How far attention can move from the original while an affine output stays within epsilon.

The module holds, in this order: the farthest distribution between two limits (`farthest_between`), a search on the
edges of the simplex (`farthest_on_edges`), what "output within epsilon" means for the logits (`logit_limits`), and the
range of the largest divergence that follows (`divergence_range`).

JS(w, .) is convex, so over a polytope it is largest at a vertex. The vertices of a simplex between two parallel planes,
``low <= sum_i x_i values_i <= high``, are the corners between them and the points where an edge crosses a plane. These
are distributions on one or two items: there are O(N^2) of them, and all are tried. With more than two planes the result
is an upper bound only; points on the edges that lie between all planes give a lower bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from attnfaith.functional.decision import Decision

Allowed = Callable[[Tensor, Tensor, Tensor], Tensor]
"""From shares ``[M]`` of a first item and the indices ``[M]`` of both items, to whether each is allowed, ``[M]``."""
_PIECE = 2**21  # numbers held at once
_REFINED = 256  # of the points on the edges, the best that are moved outwards
_HALVINGS = 40


@dataclass(frozen=True)
class Point:
    """A distribution on at most two items.

    Attributes:
        js: the divergence from the original, in nats.
        items: the two items; for a corner the same item twice.
        share: the share of the first item; the second item has the rest.
    """

    js: float
    items: tuple[int, int]
    share: float


NOWHERE = Point(-math.inf, (0, 0), 1.0)


def divergence_of_corner(original: Tensor) -> Tensor:
    """Divergence in nats between a distribution and all weight on one item, given that item's original share.

    Example:
        >>> divergence_of_corner(torch.tensor([0.0, 1.0]))
        tensor([0.6931, 0.0000])
    """
    return (_item_term(original, torch.ones_like(original)) + math.log(2) / 2).clamp(0, math.log(2))


def farthest_between(shares: Tensor, values: Tensor, low: float, high: float) -> Point:
    """Find the distribution farthest from the original whose mean value lies between two limits (exact).

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
        below, above = (values < limit).nonzero().flatten(), (values > limit).nonzero().flatten()
        for piece in below.split(max(1, _PIECE // len(above))) if len(below) and len(above) else ():
            share = (values[above] - limit) / (values[above] - values[piece].unsqueeze(1))
            first, second = shares[piece].unsqueeze(1), shares[above]
            js = _divergence_of_pair(first, second, share).flatten()
            top = int(js.argmax())
            if float(js[top]) > best.js:
                items = int(piece[top // len(above)]), int(above[top % len(above)])
                best = Point(float(js[top]), items, float(share.flatten()[top]))
    return best


def farthest_anywhere(shares: Tensor) -> Point:
    """Find the distribution farthest from the original without any limit: all weight on the item that has least.

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
    """Search the edges of the simplex for an allowed distribution far from the original: a lower bound.

    Each edge is tried at some points where all mean values lie between their limits. The best points are then moved
    outwards by bisection, up to where they are no longer allowed.

    Args:
        shares: ``[N]`` float64, the original distribution.
        values: ``[N, S]`` float64, several values of each item.
        low: ``[S]``, the lowest mean of each value that can be allowed.
        high: ``[S]``, the highest.
        allowed: see `Allowed`.
        points: the number of points tried on each edge.
    """
    count = len(shares)
    first, second = torch.triu_indices(count, count, device=shares.device)
    best, ends = NOWHERE, torch.linspace(0, 1, points, dtype=torch.float64, device=shares.device)
    for edge in torch.arange(len(first), device=first.device).split(max(1, _PIECE // (points + values.shape[1]))):
        left, right = first[edge], second[edge]
        start, stop = _allowed_interval(values[left], values[right], low, high)
        crossing = (start <= stop).nonzero().flatten()
        left, right, start, stop = left[crossing], right[crossing], start[crossing], stop[crossing]
        if not len(crossing):
            continue
        share = start.unsqueeze(1) + (stop - start).unsqueeze(1) * ends
        left, right = (items.unsqueeze(1).expand_as(share) for items in (left, right))
        fits = allowed(share.flatten(), left.flatten(), right.flatten()).view_as(share)
        js = torch.where(fits, _divergence_of_pair(shares[left], shares[right], share), -torch.inf)
        top, index = js.max(1)
        chosen = top.topk(min(_REFINED, len(top))).indices
        chosen = chosen[top[chosen] > -torch.inf]
        inner = share[chosen, index[chosen]]
        for step in (-1, 0, 1):
            outer = share[chosen, (index[chosen] + step).clamp(0, points - 1)]
            point = _bisect_outwards(shares, left[chosen, 0], right[chosen, 0], inner, outer, allowed)
            best = max(best, point, key=lambda point: point.js)
    return best


def _corner(shares: Tensor, items: Tensor) -> Point:
    smallest = int(items[shares[items].argmin()])
    return Point(float(divergence_of_corner(shares[smallest])), (smallest, smallest), 1.0)


def _item_term(original: Tensor, share: Tensor) -> Tensor:
    """The term of one item in the divergence, less what the item adds when its new share is 0.

    A distribution that gives an item nothing has the term ``original * ln 2 / 2``; over all items these sum to
    ``ln 2 / 2``, which the callers add once. So only the items with a new share have to be computed.
    """
    total = original + share
    lost = torch.xlogy(original, original / total.clamp_min(1e-300))
    return (lost + torch.xlogy(share, 2 * share / total.clamp_min(1e-300))) / 2


def _divergence_of_pair(first: Tensor, second: Tensor, share: Tensor) -> Tensor:
    """Divergence in nats of ``share`` on one item and the rest on another, given the original shares of both."""
    return (_item_term(first, share) + _item_term(second, 1 - share) + math.log(2) / 2).clamp(0, math.log(2))


def _allowed_interval(left: Tensor, right: Tensor, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """The lowest and highest share of the first item, ``[M]`` each, with all mean values between the limits.

    ``left`` and ``right`` are the values ``[M, S]`` of the two items.
    """
    slope = left - right
    bounds = torch.stack(((low - right) / slope, (high - right) / slope))
    flat = slope == 0  # 0 / 0 above: the mean is the same all along the edge, so the edge is inside or outside
    within = (right >= low) & (right <= high)
    start = torch.where(flat, torch.where(within, 0.0, torch.inf), bounds.amin(0))
    stop = torch.where(flat, torch.where(within, 1.0, -torch.inf), bounds.amax(0))
    return start.amax(-1).clamp_min(0), stop.amin(-1).clamp_max(1)


def _bisect_outwards(
    shares: Tensor, left: Tensor, right: Tensor, inner: Tensor, outer: Tensor, allowed: Allowed
) -> Point:
    """Bisect between allowed points and their neighbours; return the farthest allowed point reached."""
    for _ in range(_HALVINGS):
        middle = (inner + outer) / 2
        fits = allowed(middle, left, right)
        inner, outer = torch.where(fits, middle, inner), torch.where(fits, outer, middle)
    js = _divergence_of_pair(shares[left], shares[right], inner)
    if not len(js):
        return NOWHERE
    top = int(js.argmax())
    return Point(float(js[top]), (int(left[top]), int(right[top])), float(inner[top]))


@dataclass(frozen=True)
class LogitLimits:
    """Linear limits that an output within epsilon puts on the logits: ``low <= directions @ logits <= high``.

    Attributes:
        directions: ``[S, C]``.
        low: ``[S]``, -inf for no limit.
        high: ``[S]``, inf for no limit.
        exact: whether the limits also suffice: logits within them have an output within epsilon.
    """

    directions: Tensor
    low: Tensor
    high: Tensor
    exact: bool


def logit_limits(decision: Decision, before: Tensor, epsilon: float) -> LogitLimits:
    """The limits on the logits of an output within epsilon of the output of ``before``, ``[C]``.

    Example:
        >>> logit_limits(Decision("regression"), torch.tensor([3.0]), 0.5)
        LogitLimits(directions=tensor([[1.]], dtype=torch.float64), low=tensor([2.5000], dtype=torch.float64),
            high=tensor([3.5000], dtype=torch.float64), exact=True)
    """
    before = before.double()
    axes = torch.eye(len(before), dtype=torch.float64, device=before.device)
    single = len(before) == 1
    if decision.kind == "regression":
        return LogitLimits(axes, before - epsilon, before + epsilon, single)
    if decision.kind in ("sigmoid", "multilabel"):
        # If the mean over C labels moves by at most epsilon, a single label moves by at most C times epsilon. These
        # limits on each label are necessary; with several labels they are not sufficient.
        positive, negative = torch.sigmoid(before - decision.threshold), torch.sigmoid(decision.threshold - before)
        low, high = (
            decision.threshold + _log_ratio(positive, negative, sign * epsilon * len(before)) for sign in (-1, 1)
        )
        return LogitLimits(axes, low, high, single)
    shares = decision.probabilities(before)
    first, second = torch.triu_indices(len(shares), len(shares), 1, device=before.device)
    limited = (shares[first] > epsilon) | (shares[second] > epsilon)  # two probabilities up to epsilon give no limit
    first, second = first[limited], second[limited]
    low, high = _log_ratio(shares[first], shares[second], -epsilon), _log_ratio(shares[first], shares[second], epsilon)
    return LogitLimits(axes[first] - axes[second], low, high, len(shares) == 2)


def _log_ratio(numerator: Tensor, denominator: Tensor, shift: float) -> Tensor:
    """The logarithm of the ratio of two shares after moving ``shift`` from the second to the first."""
    return ((numerator + shift).clamp_min(0) / (denominator - shift).clamp_min(0)).log()


@dataclass(frozen=True)
class DivergenceRange:
    """Bounds of the largest divergence that attention can have, in nats.

    Attributes:
        low: a distribution this far exists.
        high: no distribution is farther; equal to ``low`` where the largest divergence is known exactly.
        weights: ``[N]``, the distribution at ``low``.
    """

    low: float
    high: float
    weights: Tensor


def divergence_range(shares: Tensor, corners: Tensor, decision: Decision, epsilon: float) -> DivergenceRange:
    """Bound how far a distribution can be from the original while its output stays within epsilon.

    Args:
        shares: ``[N]``, the original distribution.
        corners: ``[N, C]``, the logits with all weight on one item; a distribution's logits are the mean of these.
        decision: how logits become an output.
        epsilon: how far the output may move, by `Decision.distance`.

    Example:
        >>> shares = torch.tensor([0.5, 0.25, 0.25], dtype=torch.float64)
        >>> corners = torch.tensor([[0.0, 0.0], [3.0, 0.0], [-3.0, 0.0]], dtype=torch.float64)
        >>> reach = divergence_range(
        ...     shares, corners, Decision(), 0.01
        ... )  # without the first item the two others must balance
        >>> reach.low == reach.high, reach.weights.round(decimals=2)
        (True, tensor([0.0000, 0.4900, 0.5100], dtype=torch.float64))
    """
    shares, corners = shares.double(), corners.double()
    before = shares @ corners
    limits = logit_limits(decision, before, epsilon)
    values = corners @ limits.directions.T
    bands = zip(values.T, limits.low.tolist(), limits.high.tolist(), strict=True)
    points = [farthest_between(shares, value, low, high) for value, low, high in bands]
    bound = min([*points, farthest_anywhere(shares)], key=lambda point: point.js)
    if limits.exact:
        return DivergenceRange(bound.js, bound.js, _weights_at(bound, shares))

    def allowed(share: Tensor, first: Tensor, second: Tensor) -> Tensor:
        after = share.unsqueeze(-1) * corners[first] + (1 - share).unsqueeze(-1) * corners[second]
        return decision.distance(before, after) <= epsilon

    point = farthest_on_edges(shares, values, limits.low, limits.high, allowed)
    if point.js <= 0:
        return DivergenceRange(0.0, bound.js, shares)
    return DivergenceRange(min(point.js, bound.js), bound.js, _weights_at(point, shares))


def _weights_at(point: Point, shares: Tensor) -> Tensor:
    """The distribution ``[N]`` of a point, like ``shares``."""
    weights = torch.zeros_like(shares)
    weights[point.items[1]] += 1 - point.share
    weights[point.items[0]] += point.share
    return weights
