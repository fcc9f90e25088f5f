"""Agreement of rankings of the same items: Kendall's tau-b, Spearman's rho, and the overlap of the top items.

Two score vectors are compared on the items that both of them score: an item that is undefined (NaN) in one of them is
left out of that pair. Every function takes R vectors for each of B texts, ``[B, R, N]``, and returns all pairs of
vectors, ``[B, R, R]``, NaN where a pair has no value.
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
"""Up to this number of items, p values without ties are exact, as in scipy."""
_CELLS = 2**21  # signs or ranks held at once; sums below 2**24 are exact in float32


class Kendall(NamedTuple):
    """Kendall's tau-b of all pairs of vectors, each ``[B, R, R]``.

    Attributes:
        tau: from -1 to 1; NaN where one of the vectors is constant on the items that both score.
        p: the two-sided p value of no association.
        items: the number of items that both vectors score.
    """

    tau: Tensor
    p: Tensor
    items: Tensor


class _Levels(NamedTuple):
    """Scores as dense ranks (0 for the lowest score of a vector, 1 for the next ...), and where there is a score."""

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
        >>> result = kendall(scores, torch.ones(1, 4, dtype=torch.bool))
        >>> result.tau[0, 0], result.p[0, 0]
        (tensor([1.0000, 0.6667,    nan], dtype=torch.float64), tensor([0.0833, 0.3333,    nan], dtype=torch.float64))
    """
    levels = _levels(scores, mask, near)
    scored = levels.scored.double()
    items = scored @ scored.mT
    pairs = items * (items - 1) / 2
    excess = _excess(levels)
    tied, third, fifth = _in_chunks(_tie_terms, *levels).unbind(1)
    untied = pairs - tied
    spread = untied.sqrt() * untied.mT.sqrt()
    defined = (untied > 0) & (untied.mT > 0)
    tau = (excess / spread).clamp(-1, 1).masked_fill(~defined, torch.nan)
    variance = (
        (2 * pairs * (2 * items + 5) - fifth - fifth.mT) / 18
        + tied * tied.mT / pairs
        + third * third.mT / (18 * pairs * (items - 2))
    )
    p = torch.erfc(excess.abs() / (2 * variance).sqrt())
    fewest = (pairs - excess.abs()) / 2  # the smaller of the counts of concordant and discordant pairs, without ties
    exact = (tied + tied.mT == 0) & ((items <= EXACT) | (fewest <= 1))
    p = torch.where(exact, _exact(items, fewest), p).masked_fill(~defined, torch.nan)
    return Kendall(tau, p, items.long())


def spearman(scores: Tensor, mask: Tensor, *, near: float = 0.0) -> Tensor:
    """Spearman's rho, the correlation of ranks (averaged over ties); ``[B, R, R]``, arguments as for `kendall`.

    Example:
        >>> scores = torch.tensor([[[1.0, 2.0, 3.0], [3.0, 2.0, 2.0]]])
        >>> spearman(scores, torch.ones(1, 3, dtype=torch.bool))[0, 0]
        tensor([ 1.0000, -0.8660], dtype=torch.float64)
    """
    return _in_chunks(_correlations, *_levels(scores, mask, near))


def overlap(scores: Tensor, mask: Tensor, top: float) -> Tensor:
    """The share of items that two vectors have in common among the ``k`` highest of each; ``[B, R, R]``.

    Items with equal scores are taken in the order of position, as in `order_of`.

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
    ranks = ranks_of(order).view(scores.shape)
    return _in_chunks(lambda ranks, scored: _top_overlap(ranks, scored, top), ranks, scored)


def _levels(scores: Tensor, mask: Tensor, near: float) -> _Levels:
    """Scores as dense ranks; the rank goes up where two neighbours in the sorted scores are not tied."""
    scored = mask.unsqueeze(1) & ~scores.isnan()
    largest = torch.finfo(torch.float64).max
    values = scores.double().nan_to_num(0.0, largest, -largest).masked_fill(~scored, torch.inf)
    ordered, order = values.sort(-1)
    low, high = ordered[..., :-1], ordered[..., 1:]
    tied = (high == low) | (high - low <= near * torch.maximum(low.abs(), high.abs()))
    steps = F.pad((~tied).long().cumsum(-1), (1, 0))
    return _Levels(torch.empty_like(order).scatter_(-1, order, steps), scored)


def _excess(levels: _Levels) -> Tensor:
    """Concordant minus discordant pairs of items, ``[B, R, R]``.

    The sign of the difference of two items is taken once for each vector; the product of two vectors' signs is then 1
    for a concordant pair and -1 for a discordant one, so one matrix product sums all pairs of all vectors.
    """
    batch, vectors, length = levels.numbers.shape
    numbers = levels.numbers.float().masked_fill(~levels.scored, torch.nan)
    longer = F.pad(numbers, (0, length), value=torch.nan)
    total = torch.zeros(batch, vectors, vectors, dtype=torch.float64, device=numbers.device)
    step = max(1, _CELLS // max(1, numbers.numel()))
    for start in range(1, length, step):  # items whose positions differ by ``start``, ``start + 1`` ...
        width = length - start
        later = longer.unfold(-1, width, 1)[:, :, start : min(start + step, length)]
        signs = (later - numbers[:, :, None, :width]).clamp_(-1, 1).nan_to_num_(0.0).flatten(2)
        total += (signs @ signs.mT).double()
    return total


def _tie_terms(numbers: Tensor, scored: Tensor) -> Tensor:
    """Sums over groups of t tied items of t (t - 1) / 2, t (t - 1) (t - 2) and t (t - 1) (2 t + 5), ``[B, 3, R, R]``.

    Ties are those of the first vector of each pair.
    """
    groups = _groups(numbers, scored)
    ordered = groups * (groups - 1)
    return torch.stack((ordered.sum(-1) / 2, (ordered * (groups - 2)).sum(-1), (ordered * (2 * groups + 5)).sum(-1)), 1)


def _groups(numbers: Tensor, scored: Tensor) -> Tensor:
    """For each level of the first vector, the number of items that both vectors score, ``[B, R, R, N]``."""
    index = numbers.unsqueeze(2).expand(*numbers.shape[:2], *numbers.shape[1:])
    common = _common(scored).double()
    return torch.zeros_like(common).scatter_add_(-1, index, common)


def _common(scored: Tensor) -> Tensor:
    """Where both vectors of a pair have a score, ``[B, R, R, N]``."""
    return scored.unsqueeze(2) & scored.unsqueeze(1)


def _correlations(numbers: Tensor, scored: Tensor) -> Tensor:
    groups, common = _groups(numbers, scored), _common(scored)
    middle = groups.cumsum(-1) - (groups - 1) / 2  # the mean rank, from 1, of each level
    ranks = middle.gather(-1, numbers.unsqueeze(2).expand_as(common))
    centred = torch.where(common, ranks - (common.sum(-1, keepdim=True) + 1) / 2, 0.0)
    squares = centred.square().sum(-1)
    products = (centred * centred.transpose(1, 2)).sum(-1)
    return (products / (squares * squares.mT).sqrt()).clamp(-1, 1)  # 0 / 0 where a vector is constant


def _top_overlap(ranks: Tensor, scored: Tensor, top: float) -> Tensor:
    common = _common(scored)
    items = common.sum(-1, keepdim=True)
    count = items.clamp(max=int(top)) if top >= 1 else (items * top - 1e-9).ceil().clamp(min=1).minimum(items)
    order = ranks.argsort(-1).unsqueeze(2).expand_as(common)
    counted = common.gather(-1, order).cumsum(-1)  # the first vector's order, with only the items that both score
    first = common & (torch.empty_like(counted).scatter_(-1, order, counted) <= count)
    return (first & first.transpose(1, 2)).sum(-1).double() / count.squeeze(-1)


def _in_chunks(compute: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
    """Run ``compute`` on a few texts at a time: memory grows with the number of pairs of vectors."""
    _, vectors, length = tensors[0].shape
    size = max(1, _CELLS // max(1, vectors * vectors * length))
    chunks = zip(*(tensor.split(size) for tensor in tensors), strict=True)
    return torch.cat([compute(*chunk) for chunk in chunks])


def _exact(items: Tensor, fewest: Tensor) -> Tensor:
    """Exact two-sided p values without ties: twice the probability of at most ``fewest`` discordant pairs."""
    table = _two_sided_tails().to(items.device)
    column = fewest.round().clamp(0, table.shape[1] - 1).long()
    small = table[items.clamp(max=EXACT).long(), column]
    large = torch.exp(math.log(2) - torch.lgamma(items + 1 - (fewest >= 1).double()))  # 0 or 1 pair: 2 / n!, 2 / (n-1)!
    return torch.where(items <= EXACT, small, large)


@lru_cache(maxsize=1)
def _two_sided_tails() -> Tensor:
    """Two-sided p values by number of items and of inversions, ``[EXACT + 1, pairs / 2 + 1]``.

    Permutations of n items are counted by inversions with Python integers (33! has 37 digits): inserting the n-th item
    adds 0 to n - 1 inversions, so the counts for n are sums of n neighbours among the counts for n - 1.
    """
    width = EXACT * (EXACT - 1) // 4 + 1
    counts, table = [1], np.ones((EXACT + 1, width))
    for size in range(2, EXACT + 1):
        summed = np.cumsum(np.array([*counts, *[0] * (size - 1)], dtype=object))
        counts = [int(value) - int(summed[index - size] if index >= size else 0) for index, value in enumerate(summed)]
        tail = np.cumsum(np.array(counts[:width], dtype=object))
        shares = [min(1.0, 2 * int(value) / math.factorial(size)) for value in tail]
        table[size, : len(shares)] = shares
    return torch.from_numpy(table)
