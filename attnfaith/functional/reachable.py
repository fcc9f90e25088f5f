"""How far attention can go for an output that hardly moves, where the logits are affine in it.

An output within epsilon (total variation distance) keeps some differences of logits within limits. Two classes, one
sigmoid logit or one number are nothing else but one such difference, and the farthest attention is known exactly. More
classes imply a pair of limits for each two of them: each by itself bounds the divergence from above.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from attnfaith.functional.decision import Decision
from attnfaith.functional.farthest import farthest_anywhere, farthest_between, farthest_on_edges


@dataclass(frozen=True)
class Limits:
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


def limits_of(decision: Decision, before: Tensor, epsilon: float) -> Limits:
    """The limits of the logits of an output within epsilon of that of ``before``, ``[C]``.

    Example:
        >>> limits_of(Decision("regression"), torch.tensor([3.0]), 0.5)
        Limits(directions=tensor([[1.]], dtype=torch.float64), low=tensor([2.5000], dtype=torch.float64),
            high=tensor([3.5000], dtype=torch.float64), exact=True)
    """
    before = before.double()
    each = torch.eye(len(before), dtype=torch.float64, device=before.device)
    single = len(before) == 1
    if decision.kind == "regression":
        return Limits(each, before - epsilon, before + epsilon, single)
    if decision.kind in ("sigmoid", "multilabel"):  # where the mean over labels is within epsilon, each is within more
        on, off = torch.sigmoid(before - decision.threshold), torch.sigmoid(decision.threshold - before)
        low, high = (decision.threshold + _log_ratio(on, off, side * epsilon * len(before)) for side in (-1, 1))
        return Limits(each, low, high, single)
    shares = decision.probabilities(before)
    one, two = torch.triu_indices(len(shares), len(shares), 1, device=before.device)
    telling = (shares[one] > epsilon) | (shares[two] > epsilon)
    one, two = one[telling], two[telling]
    low, high = _log_ratio(shares[one], shares[two], -epsilon), _log_ratio(shares[one], shares[two], epsilon)
    return Limits(each[one] - each[two], low, high, len(shares) == 2)


def _log_ratio(one: Tensor, other: Tensor, shift: float) -> Tensor:
    """The logarithm of the ratio of two shares when ``shift`` goes from the other to the one."""
    return ((one + shift).clamp_min(0) / (other - shift).clamp_min(0)).log()


@dataclass(frozen=True)
class Reach:
    """How far attention can go, in nats.

    Attributes:
        low: there is a distribution as far as this.
        high: there is none farther; equal to ``low`` where that is known exactly.
        weights: ``[N]``, the distribution at ``low``.
    """

    low: float
    high: float
    weights: Tensor


def reach_of(shares: Tensor, corners: Tensor, decision: Decision, epsilon: float) -> Reach:
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
        return Reach(bound.js, bound.js, _spread(shares, bound.items, bound.share))

    def allowed(share: Tensor, one: Tensor, two: Tensor) -> Tensor:
        after = share.unsqueeze(-1) * corners[one] + (1 - share).unsqueeze(-1) * corners[two]
        return decision.distance(before, after) <= epsilon

    found = farthest_on_edges(shares, values, limits.low, limits.high, allowed)
    if found.js <= 0:
        return Reach(0.0, bound.js, shares)
    return Reach(min(found.js, bound.js), bound.js, _spread(shares, found.items, found.share))


def _spread(shares: Tensor, items: tuple[int, int], share: float) -> Tensor:
    weights = torch.zeros_like(shares)
    weights[items[1]] += 1 - share
    weights[items[0]] += share
    return weights
