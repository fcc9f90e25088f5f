"""Vectors as numbers: k-means, and how many clusters a sample bears."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
Codes = NDArray[np.int64]

FEWEST, MOST = 50, 200
"""Numbers of clusters to choose from, inclusive (Wen et al., 3.2.1)."""
_ITERATIONS = 100
_TRIALS = 2 + int(np.log(MOST))  # candidates for each centre: what scikit-learn takes for so many centres
_SAME, _ROUNDING = 1e-5, 1e-6  # of the largest distance, and of the largest number: what is nearer is the same


@contextmanager
def one_thread() -> Iterator[None]:
    """k-means on one thread: on several it adds up in any order, and its clusters would depend on the machine."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped, unused-ignore]

    with threadpool_limits(1):
        yield


def initial_centres(vectors: Vectors, most: int, *, seed: int) -> Vectors:
    """Where clusters begin: k-means++ centres ``[K, D]`` among the vectors ``[n, D]``, K at most ``most`` and n.

    The first of them are the centres that the same seed gives for fewer clusters. That holds because the number of
    candidates that k-means++ tries for each centre is fixed: by default it grows with the number of centres.

    Example:
        >>> vectors = np.array([[0.0], [1.0], [3.0]], dtype=np.float32)
        >>> bool((initial_centres(vectors, 3, seed=0)[:2] == initial_centres(vectors, 2, seed=0)).all())
        True
    """
    from sklearn.cluster import kmeans_plusplus  # type: ignore[import-untyped, unused-ignore]

    centres, _ = kmeans_plusplus(vectors, min(most, len(vectors)), random_state=seed, n_local_trials=_TRIALS)
    return np.asarray(centres, dtype=vectors.dtype)


def assign_clusters(vectors: Vectors, centres: Vectors) -> Codes:
    """The cluster of each vector, ``[n, D]`` and first centres ``[K, D]`` to ``[n]`` (Lloyd's algorithm).

    A centre that equals an earlier one but for rounding makes no cluster.

    Example:
        >>> vectors = np.array([[0.0], [0.1], [1.0]], dtype=np.float32)
        >>> assign_clusters(vectors, vectors[[0, 2]])
        array([0, 0, 1])
    """
    from sklearn.cluster import KMeans  # type: ignore[import-untyped, unused-ignore]
    from sklearn.exceptions import ConvergenceWarning  # type: ignore[import-untyped, unused-ignore]

    distinct = _distinct(centres)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # clusters that coincide are one: that is all it says
        fitted = KMeans(len(distinct), init=distinct, n_init=1, max_iter=_ITERATIONS).fit(vectors)
    return fitted.labels_.astype(np.int64)


def _distinct(centres: Vectors) -> Vectors:
    """Those centres that differ from all earlier ones by more than rounding."""
    exact = centres.astype(np.float64)
    apart = np.array([np.square(exact - one).sum(1) for one in exact]) ** 0.5
    near = max(_SAME * apart.max(), _ROUNDING * np.abs(exact).max())
    return centres[~np.tril(apart <= near, -1).any(1)]


def count_singletons(codes: Codes) -> int:
    """How many clusters hold one vector only.

    Example:
        >>> count_singletons(np.array([0, 0, 2]))
        1
    """
    return int((np.bincount(codes) == 1).sum())


def number_of_clusters(
    samples: Sequence[Callable[[], Vectors]], centres: Sequence[Vectors], *, smallest: bool = False
) -> tuple[int, bool]:
    """The largest number of clusters, 50 to 200, with which every cluster of every sample holds two vectors or more.

    Args:
        samples: each makes vectors ``[n, D]``, n the same for all.
        centres: of each sample, see `initial_centres`.
        smallest: look for the smallest such number instead.

    Returns:
        The number; and True, or False where there is no such number: then it is the smallest that could be, 50 (or half
        the vectors, where that is less).

    Example:
        >>> vectors = np.random.default_rng(0).random((400, 1)).astype(np.float32)
        >>> number_of_clusters([lambda: vectors], [initial_centres(vectors, 200, seed=0)], smallest=True)
        (50, True)
    """
    half = len(samples[0]()) // 2
    low, high = min(FEWEST, half), min(MOST, half)
    order = list(range(len(samples)))
    for count in range(low, high + 1) if smallest else range(high, low - 1, -1):
        for place in order:
            if count_singletons(assign_clusters(samples[place](), centres[place][:count])):
                order.remove(place)
                order.insert(0, place)  # what fails now is likely to fail next time: it is tried first
                break
        else:
            return count, True
    return low, False
