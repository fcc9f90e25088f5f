"""Integrals along straight paths, by Simpson's rule on pieces that are halved only where they are not exact enough."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

PIECES = 4
FEWEST_POINTS = 2 * PIECES + 1

Evaluate = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""From texts ``[M]`` and points ``[M]`` on their paths, 0 to 1, to a number ``[M]`` and its derivative ``[M, N]``.

The derivative is split into N parts, which sum to the derivative of the number along the path.
"""


@dataclass(frozen=True)
class PathIntegrals:
    """The integrals of the parts of a derivative, one path for each text.

    Attributes:
        values: ``[B, N]`` float64, one integral for each part.
        change: ``[B]`` float64, the number at the end of the path minus the number at its start; what ``values`` should
            sum to.
        points: ``[B]``, how many points were evaluated.
    """

    values: Tensor
    change: Tensor
    points: Tensor


def integrate_paths(
    evaluate: Evaluate,
    texts: int,
    *,
    tolerance: float,
    least_change: float,
    most_points: int,
    device: torch.device | None = None,
) -> PathIntegrals:
    """Integrate the parts of a derivative, with more points for the texts and the pieces that need them.

    The number is known wherever its derivative is. So the error of a piece of the path is known exactly, except for
    errors of parts that cancel: it is the change of the number over the piece, minus the sum of the integrals. A text
    is finished when the absolute errors of its pieces sum to no more than the tolerance. Until then, the pieces with
    more than an equal share of the tolerance are halved. Halving reuses all points of a piece.

    The points of a text depend on this text alone.

    Args:
        evaluate: computes the number and its derivative at points; it may be asked for any texts together.
        texts: the number of texts, B.
        tolerance: relative to the change of the number over the whole path.
        least_change: the change to which the tolerance is relative where the real one is smaller.
        most_points: a text never gets more points than this.
        device: the device of the points.

    Example:
        >>> def evaluate(texts, points):  # a number that is x + y, with the path x = t, y = t^2
        ...     return points + points**2, torch.stack((torch.ones_like(points), 2 * points), dim=-1)
        >>> integrals = integrate_paths(evaluate, 1, tolerance=0.01, least_change=0.0, most_points=99)
        >>> integrals.values.tolist(), integrals.points.tolist()
        ([[1.0, 1.0]], [9])
    """
    start = torch.linspace(0, 1, FEWEST_POINTS, dtype=torch.float64, device=device).repeat(texts)
    numbers, slopes = evaluate(torch.arange(texts, device=device).repeat_interleave(FEWEST_POINTS), start)
    rounding = 8 * torch.finfo(numbers.dtype).eps
    numbers, slopes = numbers.double(), slopes.to(torch.float64, copy=True)
    # A norm has no derivative at a zero vector. A single point does not count in an integral, but NaN would spread; the
    # error of the first piece shows what is missing, and halving makes it small.
    at_start = slopes[::FEWEST_POINTS]
    slopes[::FEWEST_POINTS] = torch.where(at_start.isfinite(), at_start, 0.0)

    first = torch.arange(texts * FEWEST_POINTS, device=device).view(texts, -1)[:, :-1:2].flatten()
    nodes = torch.stack((first, first + 1, first + 2), dim=-1)  # of each piece: its start, middle and end
    text = torch.arange(texts, device=device).repeat_interleave(PIECES)
    left, width = start[first], torch.full_like(start[first], 1 / PIECES)
    points = torch.full((texts,), FEWEST_POINTS, device=device)
    by_text = numbers.view(texts, -1)
    change = by_text[:, -1] - by_text[:, 0]
    allowed = (tolerance * change.abs().clamp_min(least_change)).maximum(rounding * by_text.abs().amax(-1))

    while True:
        integrals = (width / 6).unsqueeze(-1) * (slopes[nodes[:, 0]] + 4 * slopes[nodes[:, 1]] + slopes[nodes[:, 2]])
        errors = (numbers[nodes[:, 2]] - numbers[nodes[:, 0]] - integrals.sum(-1)).abs()
        unfinished = change.new_zeros(texts).index_add(0, text, errors) > allowed
        share = allowed / text.bincount(minlength=texts)
        halved = unfinished[text] & (errors > share[text])
        added = 2 * text[halved].bincount(minlength=texts)
        fits = points + added <= most_points
        halved &= fits[text]
        if not bool(halved.any()):
            values = change.new_zeros(texts, integrals.shape[-1]).index_add(0, text, integrals)
            return PathIntegrals(values, change, points)
        points = points + torch.where(fits, added, 0)
        owner, half = text[halved], width[halved] / 2
        between = torch.stack((left[halved] + half / 2, left[halved] + 3 * half / 2), dim=-1)
        new_numbers, new_slopes = evaluate(owner.repeat_interleave(2), between.flatten())
        new = len(numbers) + torch.arange(len(new_numbers), device=device).view(-1, 2)
        numbers, slopes = torch.cat((numbers, new_numbers.double())), torch.cat((slopes, new_slopes.double()))
        begin, middle, end = nodes[halved].unbind(-1)
        halves = [torch.stack((begin, new[:, 0], middle), dim=-1), torch.stack((middle, new[:, 1], end), dim=-1)]
        nodes = torch.cat((nodes[~halved], *halves))
        text = torch.cat((text[~halved], owner, owner))
        left = torch.cat((left[~halved], left[halved], left[halved] + half))
        width = torch.cat((width[~halved], half, half))
