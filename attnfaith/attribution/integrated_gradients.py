"""Integrated gradients (Sundararajan et al. 2017), at the attention and at the input."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnfaith.attribution.embedding_gradients import (
    baseline_vectors,
    pieces,
    token_vectors,
    values_on,
    vector_gradient,
)
from attnfaith.attribution.gradient import mean_gradient
from attnfaith.attribution.method import Request, Scores, method
from attnfaith.parameter_names import parameter

TAILS = 4  # a tail costs at most 1 / TAILS of a pass through the model
LARGE_GAP = 0.05  # relative to the difference explained
STEPS = {"attention": 20, "input": 50}
_LEGGAUSS = lru_cache(np.polynomial.legendre.leggauss)
_FACTS: dict[str, Any] = {
    "backward": True,
    "reference": "Sundararajan et al. 2017",
    "multiplies_by_inputs": True,
    "has_completeness_gap": True,
}


def gauss_legendre(steps: int) -> tuple[Tensor, Tensor]:
    """Gauss-Legendre points in (0, 1) and their weights; exact for polynomials of degree ``2 steps - 1``.

    Example:
        >>> points, weights = gauss_legendre(3)
        >>> (weights * points**5).sum()  # the integral of x^5 is 1/6
        tensor(0.1667, dtype=torch.float64)
    """
    points, weights = _LEGGAUSS(steps)
    return torch.from_numpy((points + 1) / 2), torch.from_numpy(weights / 2)


@method("attention", "integrated_gradients", passes=STEPS["attention"], **_FACTS)
def integrated_at_attention(request: Request) -> Scores:
    """The weight times the mean of dd/dw_i over the path from no attention, summed over distributions."""
    capture = request.capture
    steps = request.settings.steps or STEPS["attention"]
    points, parts = (tensor.to(capture.weights) for tensor in gauss_legendre(steps))
    size = max(1, TAILS * request.settings.chunk // capture.shape[0])
    values = (capture.weights * mean_gradient(request, points, parts, size)).sum(1)
    nothing = request.cut.rerun(capture, weights=torch.zeros_like(capture.weights).unsqueeze(1))[:, 0]
    whole = request.quantity(capture.logits) - request.quantity(nothing)
    return request.scores(values, **_completeness(whole, values, capture.mask, steps))


@method("input", "integrated_gradients", passes=STEPS["input"], **_FACTS)
def integrated_at_input(request: Request) -> Scores:
    """The difference of each token's vector from the baseline, times the mean gradient on the path between them."""
    vectors = token_vectors(request)
    start = baseline_vectors(request, vectors)
    difference = torch.where(request.tokens.unsqueeze(-1), vectors - start, 0)  # padding stays as it is
    steps = request.settings.steps or STEPS["input"]
    points, parts = (tensor.to(vectors) for tensor in gauss_legendre(steps))
    total = torch.zeros_like(vectors)
    for piece in pieces(request, len(points)):
        path = vectors.unsqueeze(1) - (1 - points[piece, None, None]) * difference.unsqueeze(1)
        total += (parts[piece, None, None] * vector_gradient(request, path)).sum(1)
    values = (difference * total).sum(-1)
    ends = values_on(request, torch.stack((vectors, vectors - difference), dim=1))
    completeness = _completeness(ends[:, 0] - ends[:, 1], values, request.tokens, steps)
    return request.scores(values, request.tokens, **completeness)


def _completeness(whole: Tensor, values: Tensor, mask: Tensor, steps: int) -> dict[str, Any]:
    """The completeness gap: the difference between the ends of the path minus the sum; and whether it is too large."""
    gap = (whole - (values * mask).sum(-1)).detach()
    large = gap.abs() > LARGE_GAP * whole.detach().abs().clamp_min(1e-2)
    note = (
        f"their sum is more than {100 * LARGE_GAP:.0f} % away from the difference that they explain; more steps than "
        f"{steps} ({parameter('steps')}, or n_steps in attribute) make the gap smaller"
    )
    return {"gap": gap, "inexact": large, "note": note if bool(large.any()) else ""}
