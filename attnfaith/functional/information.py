"""How much one discrete variable says of another, in nats; what chance alone would say; and how ranks go together."""

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
"""Mean weights that differ by no more than this share of the largest are equal but for rounding."""
_SHARE, _PERCENTILE = 0.8, 10
_DIGITS = 12  # of the largest value; means over clusterings are rounded in the last three or four of float64's 16
_CELLS = 2**21  # counts held at once: 16 MB


def joint_counts(left: ArrayLike, right: ArrayLike) -> Array:
    """How often each pair of values occurs: codes from 0, ``[..., n]`` twice, to ``[..., R, C]``.

    Example:
        >>> joint_counts([0, 0, 1], [1, 1, 0])
        array([[0., 2.],
               [1., 0.]])
    """
    one, other = np.broadcast_arrays(np.asarray(left, dtype=np.int64), np.asarray(right, dtype=np.int64))
    rows, columns = (int(codes.max(initial=-1)) + 1 for codes in (one, other))
    cells = (one * columns + other).reshape(math.prod(one.shape[:-1]), one.shape[-1])
    cells = cells + np.arange(len(cells))[:, None] * rows * columns
    counted = np.bincount(cells.ravel(), minlength=len(cells) * rows * columns)
    return counted.reshape(*one.shape[:-1], rows, columns).astype(np.float64)


def entropy(counts: ArrayLike) -> Array:
    """The entropy of counted values in nats, ``[..., C]`` to ``[...]`` (plug-in); NaN where nothing was counted.

    Example:
        >>> float(entropy([3, 3]).round(4))
        0.6931
    """
    found = np.asarray(counts, dtype=np.float64)
    total = found.sum(-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.maximum(np.log(total) - special.xlogy(found, found).sum(-1) / total, 0.0)


def mutual_information(counts: ArrayLike) -> Array:
    """The mutual information of counted pairs in nats, ``[..., R, C]`` to ``[...]`` (plug-in).

    It is what the frequencies themselves say, and so biased upwards, by much where there are few pairs for each cell.

    Example:
        >>> mutual_information([[[5, 0], [0, 5]], [[4, 2], [6, 3]]]).round(4)
        array([0.6931, 0.    ])
    """
    found = np.asarray(counts, dtype=np.float64)
    both = entropy(found.reshape(*found.shape[:-2], -1))
    return np.maximum(entropy(found.sum(-1)) + entropy(found.sum(-2)) - both, 0.0)


def miller_madow(counts: ArrayLike) -> Array:
    """The same, each of the three entropies corrected by (values seen - 1) / 2n; it can fall below 0.

    Made for many pairs in each cell. With fewer it takes off too little.

    Example:
        >>> float(miller_madow([[5, 5], [5, 5]]).round(4))
        -0.025
    """
    found = np.asarray(counts, dtype=np.float64)
    seen = (found.sum(-1) > 0).sum(-1) + (found.sum(-2) > 0).sum(-1) - (found > 0).sum((-1, -2)) - 1
    with np.errstate(invalid="ignore", divide="ignore"):
        return mutual_information(found) + seen / (2 * found.sum((-1, -2)))


def resampled_information(left: Codes, right: Codes, draws: NDArray[np.int64], *, shuffled: bool) -> Array:
    """The mutual information of ``[n]`` pairs, drawn anew ``[P, m]`` times, to ``[P]``.

    Args:
        left: codes from 0.
        right: codes from 0.
        draws: places among the n pairs.
        shuffled: draw the right side alone, so that what is left is chance (``m`` is ``n``); else whole pairs.

    Example:
        >>> left = right = np.array([0, 0, 1, 1])
        >>> draws = np.array([[0, 1, 2, 3], [0, 2, 1, 3]])
        >>> resampled_information(left, right, draws, shuffled=True).round(4)
        array([0.6931, 0.    ])
    """
    size = (int(left.max(initial=0)) + 1) * (int(right.max(initial=0)) + 1)
    step = max(1, _CELLS // max(size, draws.shape[1], 1))
    parts = [draws[start : start + step] for start in range(0, len(draws), step)]
    found = [mutual_information(joint_counts(left if shuffled else left[part], right[part])) for part in parts]
    return np.concatenate(found) if found else np.zeros(0)


def recentre(draws: Array, value: Array) -> Array:
    """Figures drawn anew ``[P, ...]``, moved so that their mean is the figure itself ``[...]``.

    Information from part of the data is biased by more than that from all, by about the same in each draw. Its spread
    over random halves is that of the figure over samples.

    Example:
        >>> recentre(np.array([1.0, 3.0]), np.array(1.5))
        array([0.5, 2.5])
    """
    return draws - draws.mean(0) + value if len(draws) else draws


def corrected_p_values(values: Array, null: Array) -> Array:
    """P values of several informations ``[k]`` under one set of permutations ``[P, k]``, corrected for being k.

    Each is compared, in standard deviations from its own mean by chance, with the largest of all k in each permutation.

    Example:
        >>> null = np.random.default_rng(0).normal(size=(99, 2))
        >>> corrected_p_values(np.array([0.0, 9.0]), null).round(2)
        array([0.73, 0.01])
    """
    middle, spread = null.mean(0), null.std(0)
    spread = np.where(spread == 0, np.inf, spread)  # what is the same in every permutation says nothing
    largest = ((null - middle) / spread).max(1)
    asked = (values - middle) / spread - 1e-12
    return (1 + (largest[:, None] >= asked).sum(0)) / (1 + len(null))


def weighted_kendall(weights: ArrayLike, values: ArrayLike, form: str = "product") -> float:
    """Weighted Kendall's tau of mean attention by rank and what each rank says; from -1 to 1.

    Every pair of ranks counts by its weights' product (Shieh 1998), so that the ranks with much attention count most.
    Undefined (NaN) with fewer than two ranks, where the weights are alike, or the values. Values that differ by
    rounding only are ties.

    Args:
        weights: ``[k]``, mean attention, the most attended rank first.
        values: ``[k]``, of the same ranks.
        form: "product"; "additive", where a pair counts by its weights' sum; or "hyperbolic", where it does not count
            by weights but by places, 1 / (1 + place) added, as ``scipy.stats.weightedtau(weights, values)`` has it.

    Example:
        >>> weighted_kendall([0.6, 0.3, 0.1], [0.5, 0.4, 0.45]).__round__(4)
        0.7778
    """
    mean, said = np.asarray(weights, dtype=np.float64), np.asarray(values, dtype=np.float64)
    if len(mean) < 2 or not np.isfinite([*mean, *said]).all() or np.ptp(mean) <= ALIKE * np.abs(mean).max():
        return float("nan")
    said = np.round(said / max(float(np.abs(said).max()), np.finfo(np.float64).tiny), _DIGITS).astype(np.float64)
    if form == "hyperbolic":
        return float(stats.weightedtau(mean, said).statistic)
    additive = form == "additive"
    found = stats.weightedtau(mean, said, rank=False, weigher=lambda place: mean[place], additive=additive)
    return float(found.statistic)


class UsableRanks(NamedTuple):
    """How many ranks can be looked at: by the lengths of the texts, and by the weights at each rank."""

    by_length: int
    by_weight: int


def usable_ranks(lengths: ArrayLike, weights: ArrayLike) -> UsableRanks:
    """Up to which rank there are enough texts, and enough attention (Wen et al., 3.2.1); the smaller of the two is k.

    Args:
        lengths: ``[n]``, items of each text.
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
    there = (~np.isnan(table)).sum(0)
    enough = ((table > NEGLIGIBLE).sum(0) >= _SHARE * there) & (there > 0)
    return UsableRanks(int(np.percentile(count, _PERCENTILE)), int(np.flatnonzero(enough).max(initial=-1)) + 1)


def encode_values(values: Any) -> Codes:
    """Any values as numbers from 0, equal ones alike; lists (sets of labels) too.

    Example:
        >>> encode_values([[0, 2], [], [0, 2]])
        array([0, 1, 0])
    """
    seen: dict[Any, int] = {}
    return np.array([seen.setdefault(tuple(np.ravel(value).tolist()), len(seen)) for value in values], dtype=np.int64)
