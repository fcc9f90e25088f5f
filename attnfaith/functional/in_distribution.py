"""How unusual vectors are beside a sample: the test of Heller et al. (2022, MaSF), as Madsen et al. (2024) use it.

1. In each dimension, the two-sided p value of a value under the empirical distribution of the sample (`tail_p_values`).
2. One score for all dimensions: Simes' or Fisher's combination of these p values (`unusualness`). Dimensions depend on
   each other, so it is no p value yet.
3. The p value is the rank of the score among the scores of sample members of similar length (`rank_p_values`).

A member of the sample is always left out of what it is compared with, and what belongs to a member (a text with holes,
to the text) leaves that member out as well. So the scores of members of similar length are exchangeable, and their p
values uniform as far as length makes no difference among those compared.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
COMBINATIONS = ("fisher", "simes")
LEAST = 50
"""The fewest members that a vector is compared with, where there are so many."""
SHARE = 4
"""One in so many members of the sample is near in length, where these are more than `LEAST`."""
_CHUNK = 2**22


def tail_p_values(values: ArrayLike, sample: ArrayLike, own: ArrayLike, tolerance: float = 0.0) -> Array:
    """Two-sided empirical p values in each dimension: twice the smaller tail, the value itself counted.

    Args:
        values: ``[M, D]``.
        sample: ``[n, D]``.
        own: ``[M]``, the member of the sample that each value leaves out; -1 for none.
        tolerance: values that differ by so much or less are equal.

    Returns:
        ``[M, D]`` in (0, 1].

    Example:
        >>> tail_p_values([[9.0], [2.0]], [[1.0], [2.0], [3.0], [4.0]], [-1, 1]).ravel()
        array([0.4, 1. ])
    """
    given, members = np.asarray(values, dtype=np.float64), np.asarray(sample, dtype=np.float64)
    left_out = np.asarray(own, dtype=np.int64)
    has_own = left_out >= 0
    count = len(members) - has_own.astype(np.float64)
    result = np.empty(given.shape)
    for dimension in range(given.shape[1]):
        ordered, column = np.sort(members[:, dimension]), given[:, dimension]
        mine = members[left_out, dimension]
        least, most = column - tolerance, column + tolerance
        below = np.searchsorted(ordered, most, "right") - (has_own & (mine <= most))
        above = len(members) - np.searchsorted(ordered, least, "left") - (has_own & (mine >= least))
        result[:, dimension] = np.minimum(1.0, 2 * (1 + np.minimum(below, above)) / (1 + count))
    return result


def unusualness(p_values: ArrayLike, combination: str = "fisher") -> Array:
    """One score for p values ``[M, D]``, higher for what is more unusual, ``[M]``.

    Fisher's, ``-2 sum log p``, adds up small deviations in many dimensions. Simes', ``-min_k D p_(k) / k``, looks for
    large ones in some.

    Example:
        >>> unusualness([[0.5, 0.02]], "simes"), unusualness([[1.0, 1.0]], "fisher")
        (array([-0.04]), array([0.]))
    """
    p = np.asarray(p_values, dtype=np.float64)
    if combination == "fisher":
        return -2 * np.log(p).sum(1) + 0.0
    return -(np.sort(p, axis=1) * p.shape[1] / np.arange(1, p.shape[1] + 1)).min(1)


def compared_members(size: int, nearest: int | None = None) -> int:
    """With how many members of a sample a vector is compared at least, if there are so many.

    Args:
        size: of the sample.
        nearest: see `rank_p_values`.

    Example:
        >>> compared_members(100), compared_members(1000), compared_members(1000, 30)
        (50, 250, 30)
    """
    return max(LEAST, math.ceil(size / SHARE)) if nearest is None else nearest


def rank_p_values(
    scores: ArrayLike,
    lengths: ArrayLike,
    own: ArrayLike,
    sample_scores: ArrayLike,
    sample_lengths: ArrayLike,
    nearest: int | None = None,
) -> Array:
    """The share of the sample members of similar length with a score as high, the vector itself counted.

    Args:
        scores: ``[M]``, higher for what is more unusual.
        lengths: ``[M]``.
        own: ``[M]``, the member of the sample that each leaves out; -1 for none.
        sample_scores: ``[n]``.
        sample_lengths: ``[n]``.
        nearest: how many members are compared, those nearest in length and all others as near as the last of them;
            None for one in `SHARE`, and at least `LEAST`.

    Returns:
        ``[M]``, at least ``1 / (1 + compared members)``; 1 where there is no member.

    Example:
        >>> rank_p_values([5.0], [3], [-1], [1.0, 9.0, 2.0, 3.0], [3, 30, 4, 2], nearest=3)
        array([0.25])
    """
    score, length, left_out, others, their_lengths = (
        np.asarray(column, dtype=np.float64) for column in (scores, lengths, own, sample_scores, sample_lengths)
    )
    members = np.arange(len(others))
    wanted = compared_members(len(others), nearest)
    result = np.ones(len(score))
    for rows in np.array_split(np.arange(len(score)), max(1, -(-len(score) * len(others) // _CHUNK))):
        mine = members == left_out[rows, None]
        distance = np.where(mine, np.inf, np.abs(their_lengths - length[rows, None]))
        last = np.sort(distance, axis=1)[:, : max(wanted, 1)]
        reach = np.where(np.isfinite(last), last, -np.inf).max(1, initial=-np.inf)
        near = (distance <= reach[:, None]) & ~mine
        result[rows] = (1 + (near & (others >= score[rows, None])).sum(1)) / (1 + near.sum(1))
    return result
