"""Integrated gradients (Sundararajan et al. 2017), at the attention and at the input."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnfaith.adapters.positions import index_within_text, repeat_index
from attnfaith.attribution.attention_gradients import mean_gradient, tails_together, weight_derivatives
from attnfaith.attribution.embedding_gradients import (
    baseline_vectors,
    derivatives_on_path,
    values_of,
)
from attnfaith.attribution.method import method
from attnfaith.attribution.request import Request
from attnfaith.attribution.scores import Scores
from attnfaith.functional.path_integral import FEWEST_POINTS, Evaluate, integrate_paths
from attnfaith.parameter_names import parameter

TOLERANCE = 0.02  # points are added until the completeness gap is below this share of the difference explained
TOLERANCE_AT_INPUT = 0.05  # the same where each point is a pass through the whole model
LARGE_GAP = 0.05  # a gap above this share of the difference explained is reported as inexact
LEAST_DIFFERENCE = 1e-2  # both shares are of this number where the difference explained is smaller
MOST_POINTS = 129
POINTS = 256  # of each text, whose slopes are kept at once where the number of points is given
_LEGGAUSS = lru_cache(np.polynomial.legendre.leggauss)
_FACTS: dict[str, Any] = {
    "passes": FEWEST_POINTS,
    "most_passes": MOST_POINTS,
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


@method("attention", "integrated_gradients", erased_at_input=False, **_FACTS)
def integrated_at_attention(request: Request) -> Scores:
    """The weight times the mean of dd/dw_i over the path from no attention, summed over distributions."""
    capture, steps = request.capture, request.settings.steps
    size = tails_together(request)
    if steps is None:
        derivatives = partial(_derivatives_at_attention, request, size)
        return _as_needed(request, derivatives, capture.mask, capture.weights, TOLERANCE)
    points, parts = (tensor.to(capture.weights) for tensor in gauss_legendre(steps))
    values = (capture.weights * mean_gradient(request, points, parts, size)).sum(1)
    without_attention = request.cut.rerun(capture, weights=torch.zeros_like(capture.weights).unsqueeze(1))[:, 0]
    change = request.quantity(capture.logits) - request.quantity(without_attention)
    return request.scores(values, **_completeness(change, values, capture.mask, steps))


@method("input", "integrated_gradients", **_FACTS)
def integrated_at_input(request: Request) -> Scores:
    """The difference of each token's vector from the baseline, times the mean gradient on the path between them."""
    vectors, steps = request.token_vectors, request.settings.steps
    start = baseline_vectors(request, vectors)
    difference = torch.where(request.tokens.unsqueeze(-1), vectors - start, 0)  # padding stays as it is
    if steps is None:
        derivatives = partial(_derivatives_at_input, request, vectors, difference)
        return _as_needed(request, derivatives, request.tokens, vectors, TOLERANCE_AT_INPUT)
    points, parts = (tensor.to(vectors) for tensor in gauss_legendre(steps))
    values = torch.zeros_like(difference[..., 0])
    for some_points, some_parts in zip(points.split(POINTS), parts.split(POINTS), strict=True):
        texts = repeat_index(len(vectors), len(some_points), vectors.device)
        _, slopes = derivatives_on_path(request, vectors, difference, texts, some_points.repeat(len(vectors)))
        values += (some_parts[:, None] * slopes.unflatten(0, (len(vectors), -1))).sum(1)
    change = values_of(request, vectors) - values_of(request, vectors - difference)
    return request.scores(values, request.tokens, **_completeness(change, values, request.tokens, steps))


def _as_needed(request: Request, derivatives: Evaluate, mask: Tensor, reference: Tensor, tolerance: float) -> Scores:
    """Scores with as many points on the path of each text as completeness needs; ``reference`` has their dtype."""
    integrals = integrate_paths(
        derivatives,
        len(mask),
        tolerance=tolerance,
        least_change=LEAST_DIFFERENCE,
        most_points=MOST_POINTS,
        device=mask.device,
    )
    completeness = _completeness(integrals.change.to(reference), integrals.values.to(reference), mask, MOST_POINTS)
    return request.scores(integrals.values.to(reference), mask, passes=integrals.points, **completeness)


def _derivatives_at_input(
    request: Request, vectors: Tensor, difference: Tensor, texts: Tensor, points: Tensor
) -> tuple[Tensor, Tensor]:
    """See `derivatives_on_path`; the text itself, point 1, is known from the capture and the gradient at the input."""
    whole = points == 1
    numbers = request.quantity(request.capture.logits)[texts]
    derivatives = (request.token_gradients * difference).sum(-1)[texts]
    if not bool(whole.all()):
        inside = ~whole
        numbers[inside], derivatives[inside] = derivatives_on_path(
            request, vectors, difference, texts[inside], points[inside]
        )
    return numbers, derivatives


def _derivatives_at_attention(request: Request, size: int, texts: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
    """See `Evaluate`; the path leads from no attention to the model's. All texts run as many points as the neediest."""
    weights = request.capture.weights
    index = index_within_text(texts, len(weights))
    grid = torch.ones(len(weights), int(index.max()) + 1, dtype=weights.dtype, device=weights.device)
    grid[texts, index] = points.to(weights)  # texts with fewer points run their own attention again
    numbers, derivatives = [], []
    for part in grid.split(size, dim=1):
        number, gradient = weight_derivatives(request, part[..., None, None] * weights.unsqueeze(1))
        numbers.append(number)
        derivatives.append((gradient * weights.unsqueeze(1)).sum(2))
    return torch.cat(numbers, dim=1)[texts, index], torch.cat(derivatives, dim=1)[texts, index]


def _completeness(change: Tensor, values: Tensor, mask: Tensor, steps: int) -> dict[str, Any]:
    """The completeness gap (the change over the path minus the sum of the scores), and whether it is too large."""
    gap = (change - (values * mask).sum(-1)).detach()
    large = gap.abs() > LARGE_GAP * change.detach().abs().clamp_min(LEAST_DIFFERENCE)
    note = (
        f"their sum is more than {100 * LARGE_GAP:.0f} % away from the difference that they explain; more steps than "
        f"{steps} ({parameter('steps')}, or n_steps in attribute) make the gap smaller"
    )
    return {"gap": gap, "inexact": large, "note": note if bool(large.any()) else ""}
