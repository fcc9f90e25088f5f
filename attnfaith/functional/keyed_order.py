"""A random order of the rows of a data set, computed position by position: it takes no memory for any number of rows.

The order is a permutation made by a Feistel network: a position is split into two halves of bits, and each round mixes
one half into the other with a keyed hash. Every round can be undone, so no two positions get the same number. The
network permutes the numbers below a power of 4; a number that is no row is permuted again until it is one, so
the result is a permutation of the rows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

_ROUNDS = 8
_LEAST = 3  # bits of a half: over fewer values, some orders of a handful of rows would be more frequent than others
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def rows_at(positions: ArrayLike, rows: int, seed: int) -> NDArray[np.int64]:
    """The row numbers at some positions of the random order; they depend on the seed and the number of rows alone.

    Args:
        positions: from 0 to before ``rows``.
        rows: the number of rows of the data.
        seed: below 2^64.

    Example:
        >>> rows_at([0, 1, 2], 1000, seed=0).tolist()
        [135, 704, 201]
        >>> sorted(rows_at(range(5), 5, seed=0).tolist())
        [0, 1, 2, 3, 4]
    """
    numbers = np.asarray(positions, dtype=np.uint64)
    if not (numbers < np.uint64(rows)).all():
        raise ValueError(f"expected positions from 0 to before {rows}")
    half = max(_LEAST, -(-(rows - 1).bit_length() // 2))
    result = _network(numbers, half, seed)
    while (outside := result >= np.uint64(rows)).any():
        result[outside] = _network(result[outside], half, seed)
    return result.astype(np.int64)


def _network(numbers: NDArray[np.uint64], half: int, seed: int) -> NDArray[np.uint64]:
    """A permutation of the numbers below ``4 ** half``."""
    shift, mask = np.uint64(half), np.uint64((1 << half) - 1)
    left, right = numbers >> shift, numbers & mask
    for number in range(_ROUNDS):
        left, right = right, left ^ (_hash(right, seed, number) & mask)
    return (left << shift) | right


def _hash(values: NDArray[np.uint64], seed: int, number: int) -> NDArray[np.uint64]:
    """The mixing function of SplitMix64 on the value, the seed and the number of the round."""
    with np.errstate(over="ignore"):  # arithmetic is modulo 2^64
        mixed = _mix(np.array(seed, dtype=np.uint64) + _GOLDEN * np.uint64(number + 1))
        return _mix(values * _GOLDEN + mixed)


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
