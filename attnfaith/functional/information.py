"""Mutual information of discrete variables, its value under chance, and its agreement with attention by rank.

After Wen, Subbalakshmi & Yang (2022): information of cluster and output at each rank, p values from permutations, the
weighted Kendall's tau of information and mean attention, and the number of ranks that can be used.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special, stats  # type: ignore[import-untyped, unused-ignore]

Array = NDArray[np.float64]
Codes = NDArray[np.int64]

KENDALL = ("product", "additive", "hyperbolic")
NEGLIGIBLE = 1e-5
"""A weight that does not exceed this is negligible (Wen et al., 3.2.1)."""
ALIKE = 1e-6
"""Mean weights that differ by no more than this share of the largest are equal except for rounding."""
_SHARE, _PERCENTILE = 0.8, 10
_DIGITS = 12  # digits compared, relative to the largest value; rounding touches the last three or four of float64's 16
_CELLS = 2**21  # counts held at once: 16 MB


def joint_counts(left: ArrayLike, right: ArrayLike) -> Array:
    """Count how often each pair of values occurs: two arrays of codes from 0, ``[..., n]``, to ``[..., R, C]``.

    Example:
        >>> joint_counts([0, 0, 1], [1, 1, 0])
        array([[0., 2.],
               [1., 0.]])
    """
    first, second = np.broadcast_arrays(np.asarray(left, dtype=np.int64), np.asarray(right, dtype=np.int64))
    rows, columns = (int(codes.max(initial=-1)) + 1 for codes in (first, second))
    cells = (first * columns + second).reshape(math.prod(first.shape[:-1]), first.shape[-1])
    cells = cells + np.arange(len(cells))[:, None] * rows * columns
    counted = np.bincount(cells.ravel(), minlength=len(cells) * rows * columns)
    return counted.reshape(*first.shape[:-1], rows, columns).astype(np.float64)


def entropy(counts: ArrayLike) -> Array:
    """Plug-in entropy in nats, from counts ``[..., C]`` to ``[...]``; NaN where nothing was counted.

    Example:
        >>> float(entropy([3, 3]).round(4))
        0.6931
    """
    numbers = np.asarray(counts, dtype=np.float64)
    total = numbers.sum(-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.maximum(np.log(total) - special.xlogy(numbers, numbers).sum(-1) / total, 0.0)


def mutual_information(counts: ArrayLike) -> Array:
    """Plug-in mutual information in nats, from counts of pairs ``[..., R, C]`` to ``[...]``.

    The plug-in estimate is biased upwards, strongly where there are few pairs for each cell.

    Example:
        >>> mutual_information([[[5, 0], [0, 5]], [[4, 2], [6, 3]]]).round(4)
        array([0.6931, 0.    ])
    """
    numbers = np.asarray(counts, dtype=np.float64)
    joint = entropy(numbers.reshape(*numbers.shape[:-2], -1))
    return np.maximum(entropy(numbers.sum(-1)) + entropy(numbers.sum(-2)) - joint, 0.0)


def miller_madow(counts: ArrayLike) -> Array:
    """Mutual information with the Miller-Madow correction, in nats; it can be negative.

    Each of the three entropies is increased by (number of distinct values - 1) / 2n. The correction assumes many pairs
    in each cell; with few it is too small.

    Example:
        >>> float(miller_madow([[5, 5], [5, 5]]).round(4))
        -0.025
    """
    numbers = np.asarray(counts, dtype=np.float64)
    distinct = (numbers.sum(-1) > 0).sum(-1) + (numbers.sum(-2) > 0).sum(-1) - (numbers > 0).sum((-1, -2)) - 1
    with np.errstate(invalid="ignore", divide="ignore"):
        return mutual_information(numbers) + distinct / (2 * numbers.sum((-1, -2)))


def resampled_information(left: Codes, right: Codes, draws: NDArray[np.int64], *, shuffled: bool) -> Array:
    """Mutual information of resampled pairs: codes ``[n]`` twice and ``P`` resamples ``[P, m]``, to ``[P]``.

    Args:
        left: codes from 0.
        right: codes from 0.
        draws: indices of the n pairs.
        shuffled: resample ``right`` alone, which leaves only chance (``m`` is ``n``); otherwise resample whole pairs.

    Example:
        >>> left = right = np.array([0, 0, 1, 1])
        >>> draws = np.array([[0, 1, 2, 3], [0, 2, 1, 3]])
        >>> resampled_information(left, right, draws, shuffled=True).round(4)
        array([0.6931, 0.    ])
    """
    size = (int(left.max(initial=0)) + 1) * (int(right.max(initial=0)) + 1)
    step = max(1, _CELLS // max(size, draws.shape[1], 1))
    chunks = [draws[start : start + step] for start in range(0, len(draws), step)]
    values = [mutual_information(joint_counts(left if shuffled else left[chunk], right[chunk])) for chunk in chunks]
    return np.concatenate(values) if values else np.zeros(0)


def recentre(draws: Array, value: Array) -> Array:
    """Shift resampled estimates ``[P, ...]`` so that their mean is the estimate from all data ``[...]``.

    Information from half of the data is more biased than that from all, by about the same amount in each resample. The
    spread over random halves is what an interval needs; the shift takes the extra bias away.

    Example:
        >>> recentre(np.array([1.0, 3.0]), np.array(1.5))
        array([0.5, 2.5])
    """
    return draws - draws.mean(0) + value if len(draws) else draws


def corrected_p_values(values: Array, null: Array) -> Array:
    """P values of k values ``[k]`` under shared permutations ``[P, k]``, corrected for multiple testing (max-T).

    Each value is standardised by its own mean and deviation under chance, and compared with the largest of all k
    standardised values in each permutation.

    Example:
        >>> null = np.random.default_rng(0).normal(size=(99, 2))
        >>> corrected_p_values(np.array([0.0, 9.0]), null).round(2)
        array([0.73, 0.01])
    """
    middle, spread = null.mean(0), null.std(0)
    spread = np.where(spread == 0, np.inf, spread)  # a value that is equal in every permutation tests nothing
    largest = ((null - middle) / spread).max(1)
    observed = (values - middle) / spread - 1e-12  # a permutation equal to the data must count, whatever the rounding
    return (1 + (largest[:, None] >= observed).sum(0)) / (1 + len(null))


def weighted_kendall(weights: ArrayLike, values: ArrayLike, form: str = "product") -> float:
    """Weighted Kendall's tau of mean attention and information by rank; from -1 to 1.

    Each pair of ranks has the product of its mean weights as its own weight (Shieh 1998), so ranks with much attention
    count most. Undefined (NaN) with fewer than two ranks, and where all weights or all values are equal. Values that
    differ by rounding only are ties.

    Args:
        weights: ``[k]``, mean attention, the most attended rank first.
        values: ``[k]``, the information at the same ranks.
        form: the weight of a pair: "product" of mean weights; "additive", their sum; or "hyperbolic", the sum of
            1 / (1 + rank), as in ``scipy.stats.weightedtau(weights, values)``.

    Example:
        >>> weighted_kendall([0.6, 0.3, 0.1], [0.5, 0.4, 0.45]).__round__(4)
        0.7778
    """
    mean, scaled = np.asarray(weights, dtype=np.float64), np.asarray(values, dtype=np.float64)
    if len(mean) < 2 or not np.isfinite([*mean, *scaled]).all() or np.ptp(mean) <= ALIKE * np.abs(mean).max():
        return float("nan")
    scaled = np.round(scaled / max(float(np.abs(scaled).max()), np.finfo(np.float64).tiny), _DIGITS).astype(np.float64)
    if form == "hyperbolic":
        return float(stats.weightedtau(mean, scaled).statistic)
    additive = form == "additive"
    result = stats.weightedtau(mean, scaled, rank=False, weigher=lambda rank: mean[rank], additive=additive)
    return float(result.statistic)


class UsableRanks(NamedTuple):
    """The number of ranks with enough data: by the lengths of the texts, and by the weights at each rank."""

    by_length: int
    by_weight: int


def usable_ranks(lengths: ArrayLike, weights: ArrayLike) -> UsableRanks:
    """The number of ranks with enough texts and with enough attention (Wen et al., 3.2.1); k is the smaller of both.

    Args:
        lengths: ``[n]``, the number of items of each text.
        weights: ``[n, K]``, the weights of each text, the largest first; NaN after its last item.

    Returns:
        The 10th percentile of the lengths, rounded down; and the number of ranks up to the last at which at least 80 %
        of the weights exceed 1e-5.

    Example:
        >>> usable_ranks([2, 3], [[0.7, 0.3, np.nan], [0.9, 0.1, 0.0]])
        UsableRanks(by_length=2, by_weight=2)
    """
    count, table = np.asarray(lengths, dtype=np.float64), np.asarray(weights, dtype=np.float64)
    if not len(count):
        return UsableRanks(0, 0)
    present = (~np.isnan(table)).sum(0)
    enough = ((table > NEGLIGIBLE).sum(0) >= _SHARE * present) & (present > 0)
    return UsableRanks(int(np.percentile(count, _PERCENTILE)), int(np.flatnonzero(enough).max(initial=-1)) + 1)


def encode_values(values: Any) -> Codes:
    """Encode values as whole numbers from 0, equal values as equal numbers; lists (sets of labels) are values too.

    Example:
        >>> encode_values([[0, 2], [], [0, 2]])
        array([0, 1, 0])
    """
    codes: dict[Any, int] = {}
    return np.array([codes.setdefault(tuple(np.ravel(value).tolist()), len(codes)) for value in values], dtype=np.int64)
