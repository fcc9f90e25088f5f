"""How far rankings of the same items agree: Kendall's tau-b, Spearman's rho, and the overlap of their first items.

Two score vectors are compared on the items that both of them score: an item that either leaves undefined (NaN) is no
item of that pair. Every function takes R vectors for each of B texts, ``[B, R, N]``, and returns all pairs of them,
``[B, R, R]``, NaN where a pair has no value.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from attnfaith.functional.ranking import order_of, ranks_of

EXACT = 33
"""Without ties, and with at most so many items, p values are exact; so they are in scipy."""
_CELLS = 2**21  # signs, or ranks, held at once; their sums stay below 2**24, where float32 still counts every one


class Kendall(NamedTuple):
    """Kendall's tau-b of all pairs of vectors, each ``[B, R, R]``.

    Attributes:
        tau: from -1 to 1; NaN where either vector is constant on the items that both score.
        p: two-sided, of no association.
        items: how many items both vectors score.
    """

    tau: Tensor
    p: Tensor
    items: Tensor


class _Levels(NamedTuple):
    """Scores as whole numbers: 0 for the lowest score of a vector, 1 for the next ..., and where there is a score."""

    numbers: Tensor  # [B, R, N]
    scored: Tensor  # [B, R, N]


def kendall(scores: Tensor, mask: Tensor, *, near: float = 0.0) -> Kendall:
    """Kendall's tau-b and its p value, as `scipy.stats.kendalltau` computes them.

    Args:
        scores: ``[B, R, N]``; NaN is undefined.
        mask: ``[B, N]``, True for items.
        near: scores that differ by no more than this share of the larger one are tied.

    Example:
        >>> scores = torch.tensor([[[1.0, 2.0, 3.0, 4.0], [1.0, 3.0, 2.0, 4.0], [5.0, 5.0, 5.0, 5.0]]])
        >>> found = kendall(scores, torch.ones(1, 4, dtype=torch.bool))
        >>> found.tau[0, 0], found.p[0, 0]
        (tensor([1.0000, 0.6667,    nan], dtype=torch.float64), tensor([0.0833, 0.3333,    nan], dtype=torch.float64))
    """
    levels = _levels(scores, mask, near)
    defined = levels.scored.double()
    items = defined @ defined.mT
    pairs = items * (items - 1) / 2
    excess = _excess(levels)
    tied, third, fifth = _in_pieces(_ties, *levels).unbind(1)
    untied = pairs - tied
    spread = untied.sqrt() * untied.mT.sqrt()
    known = (untied > 0) & (untied.mT > 0)
    tau = (excess / spread).clamp(-1, 1).masked_fill(~known, torch.nan)
    variance = (
        (2 * pairs * (2 * items + 5) - fifth - fifth.mT) / 18
        + tied * tied.mT / pairs
        + third * third.mT / (18 * pairs * (items - 2))
    )
    p = torch.erfc(excess.abs() / (2 * variance).sqrt())
    fewest = (pairs - excess.abs()) / 2  # discordant, or concordant, pairs: without ties they are all of them
    exact = (tied + tied.mT == 0) & ((items <= EXACT) | (fewest <= 1))
    p = torch.where(exact, _exact(items, fewest), p).masked_fill(~known, torch.nan)
    return Kendall(tau, p, items.long())


def spearman(scores: Tensor, mask: Tensor, *, near: float = 0.0) -> Tensor:
    """Spearman's rho: the correlation of ranks, those of tied items averaged; ``[B, R, R]``, see `kendall`.

    Example:
        >>> scores = torch.tensor([[[1.0, 2.0, 3.0], [3.0, 2.0, 2.0]]])
        >>> spearman(scores, torch.ones(1, 3, dtype=torch.bool))[0, 0]
        tensor([ 1.0000, -0.8660], dtype=torch.float64)
    """
    return _in_pieces(_correlations, *_levels(scores, mask, near))


def overlap(scores: Tensor, mask: Tensor, top: float) -> Tensor:
    """The share of common items among the ``k`` highest of each vector; ``[B, R, R]``, see `kendall`.

    Equal scores go in the order of position, as in `order_of`.

    Args:
        scores: ``[B, R, N]``; NaN is undefined.
        mask: ``[B, N]``, True for items.
        top: k, at most all items; a number below 1 is a share of the items, rounded up.

    Example:
        >>> scores = torch.tensor([[[0.9, 0.8, 0.1, 0.0], [0.0, 0.7, 0.1, 0.9]]])
        >>> overlap(scores, torch.ones(1, 4, dtype=torch.bool), 2)[0, 0]
        tensor([1.0000, 0.5000], dtype=torch.float64)
    """
    scored = mask.unsqueeze(1) & ~scores.isnan()
    order = order_of(scores.flatten(0, 1), scored.flatten(0, 1))
    places = ranks_of(order).view(scores.shape)
    return _in_pieces(lambda places, scored: _common(places, scored, top), places, scored)


def _levels(scores: Tensor, mask: Tensor, near: float) -> _Levels:
    """Scores by their order; a step to the next level is where two neighbours are no longer tied."""
    scored = mask.unsqueeze(1) & ~scores.isnan()
    largest = torch.finfo(torch.float64).max
    values = scores.double().nan_to_num(0.0, largest, -largest).masked_fill(~scored, torch.inf)
    ordered, order = values.sort(-1)
    low, high = ordered[..., :-1], ordered[..., 1:]
    tied = (high == low) | (high - low <= near * torch.maximum(low.abs(), high.abs()))
    steps = F.pad((~tied).long().cumsum(-1), (1, 0))
    return _Levels(torch.empty_like(order).scatter_(-1, order, steps), scored)


def _excess(levels: _Levels) -> Tensor:
    """Concordant minus discordant pairs of items, ``[B, R, R]``: products of signs, summed up."""
    batch, vectors, length = levels.numbers.shape
    numbers = levels.numbers.float().masked_fill(~levels.scored, torch.nan)
    longer = F.pad(numbers, (0, length), value=torch.nan)
    total = torch.zeros(batch, vectors, vectors, dtype=torch.float64, device=numbers.device)
    step = max(1, _CELLS // max(1, numbers.numel()))
    for start in range(1, length, step):  # items that are ``start``, ``start + 1`` ... places apart
        width = length - start
        later = longer.unfold(-1, width, 1)[:, :, start : min(start + step, length)]
        signs = (later - numbers[:, :, None, :width]).clamp_(-1, 1).nan_to_num_(0.0).flatten(2)
        total += (signs @ signs.mT).double()
    return total


def _ties(numbers: Tensor, scored: Tensor) -> Tensor:
    """``[B, 3, R, R]``: t (t - 1) / 2, t (t - 1) (t - 2) and t (t - 1) (2 t + 5), over groups of t items that tie.

    Ties are those of the first vector of each pair.
    """
    groups = _groups(numbers, scored)
    ordered = groups * (groups - 1)
    return torch.stack((ordered.sum(-1) / 2, (ordered * (groups - 2)).sum(-1), (ordered * (2 * groups + 5)).sum(-1)), 1)


def _groups(numbers: Tensor, scored: Tensor) -> Tensor:
    """``[B, R, R, N]``: how many items of each level of the first vector both vectors score."""
    index = numbers.unsqueeze(2).expand(*numbers.shape[:2], *numbers.shape[1:])
    both = _both(scored).double()
    return torch.zeros_like(both).scatter_add_(-1, index, both)


def _both(scored: Tensor) -> Tensor:
    """``[B, R, R, N]``, where both vectors of a pair have a score."""
    return scored.unsqueeze(2) & scored.unsqueeze(1)


def _correlations(numbers: Tensor, scored: Tensor) -> Tensor:
    groups, both = _groups(numbers, scored), _both(scored)
    middle = groups.cumsum(-1) - (groups - 1) / 2  # the mean rank, from 1, of each level
    ranks = middle.gather(-1, numbers.unsqueeze(2).expand_as(both))
    centred = torch.where(both, ranks - (both.sum(-1, keepdim=True) + 1) / 2, 0.0)
    squares = centred.square().sum(-1)
    products = (centred * centred.transpose(1, 2)).sum(-1)
    return (products / (squares * squares.mT).sqrt()).clamp(-1, 1)  # 0 / 0 where a vector is constant


def _common(places: Tensor, scored: Tensor, top: float) -> Tensor:
    both = _both(scored)
    items = both.sum(-1, keepdim=True)
    count = items.clamp(max=int(top)) if top >= 1 else (items * top - 1e-9).ceil().clamp(min=1).minimum(items)
    order = places.argsort(-1).unsqueeze(2).expand_as(both)
    before = both.gather(-1, order).cumsum(-1)  # of the items that both score, in the first vector's order
    first = both & (torch.empty_like(before).scatter_(-1, order, before) <= count)
    return (first & first.transpose(1, 2)).sum(-1).double() / count.squeeze(-1)


def _in_pieces(compute: Callable[..., Tensor], *given: Tensor) -> Tensor:
    """Texts a few at a time, so that what is made of every pair of vectors fits."""
    _, vectors, length = given[0].shape
    size = max(1, _CELLS // max(1, vectors * vectors * length))
    pieces = zip(*(tensor.split(size) for tensor in given), strict=True)
    return torch.cat([compute(*piece) for piece in pieces])


def _exact(items: Tensor, fewest: Tensor) -> Tensor:
    """The probability of at most so few discordant (or concordant) pairs among orders without ties, twice."""
    table = _tails().to(items.device)
    column = fewest.round().clamp(0, table.shape[1] - 1).long()
    small = table[items.clamp(max=EXACT).long(), column]
    large = torch.exp(math.log(2) - torch.lgamma(items + 1 - (fewest >= 1).double()))  # 0 or 1 pair: 2 / n!, 2 / (n-1)!
    return torch.where(items <= EXACT, small, large)


@lru_cache(maxsize=1)
def _tails() -> Tensor:
    """``[EXACT + 1, pairs / 2 + 1]``: permutations by their inversions, cumulated, as two-sided p values."""
    width = EXACT * (EXACT - 1) // 4 + 1
    counts, table = [1], np.ones((EXACT + 1, width))
    for size in range(2, EXACT + 1):
        summed = np.cumsum(np.array([*counts, *[0] * (size - 1)], dtype=object))
        counts = [int(value) - int(summed[place - size] if place >= size else 0) for place, value in enumerate(summed)]
        tail = np.cumsum(np.array(counts[:width], dtype=object))
        shares = [min(1.0, 2 * int(value) / math.factorial(size)) for value in tail]
        table[size, : len(shares)] = shares
    return torch.from_numpy(table)
