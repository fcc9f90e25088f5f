"""k-means on one thread, and the choice of the number of clusters (Wen et al. 2022, section 3.2.1)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
Codes = NDArray[np.int64]

FEWEST, MOST = 50, 200
"""The range of the number of clusters, inclusive (Wen et al., 3.2.1)."""
_ITERATIONS = 100
_TRIALS = 2 + int(np.log(MOST))  # candidates for each centre: scikit-learn's default for this many centres
_SAME, _ROUNDING = 1e-5, 1e-6  # centres closer than these shares of the largest distance and number are equal


@contextmanager
def one_thread() -> Iterator[None]:
    """Run k-means on one thread; on several, sums are made in any order, and clusters depend on the machine."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped, unused-ignore]

    with threadpool_limits(1):
        yield


def initial_centres(vectors: Vectors, most: int, *, seed: int) -> Vectors:
    """k-means++ centres ``[K, D]`` chosen among the vectors ``[n, D]``; K is the smaller of ``most`` and n.

    The first k of them are the centres that the same seed gives for k clusters, so one call serves every number of
    clusters. That holds only because the number of candidates tried for each centre is fixed here: scikit-learn's
    default grows with the number of centres.

    Example:
        >>> vectors = np.array([[0.0], [1.0], [3.0]], dtype=np.float32)
        >>> bool((initial_centres(vectors, 3, seed=0)[:2] == initial_centres(vectors, 2, seed=0)).all())
        True
    """
    from sklearn.cluster import kmeans_plusplus  # type: ignore[import-untyped, unused-ignore]

    centres, _ = kmeans_plusplus(vectors, min(most, len(vectors)), random_state=seed, n_local_trials=_TRIALS)
    return np.asarray(centres, dtype=vectors.dtype)


def assign_clusters(vectors: Vectors, centres: Vectors) -> Codes:
    """Assign each vector to a cluster by Lloyd's algorithm: ``[n, D]`` and initial centres ``[K, D]`` to ``[n]``.

    A centre that equals an earlier one except for rounding makes no cluster.

    Example:
        >>> vectors = np.array([[0.0], [0.1], [1.0]], dtype=np.float32)
        >>> assign_clusters(vectors, vectors[[0, 2]])
        array([0, 0, 1])
    """
    from sklearn.cluster import KMeans  # type: ignore[import-untyped, unused-ignore]
    from sklearn.exceptions import ConvergenceWarning  # type: ignore[import-untyped, unused-ignore]

    distinct = _distinct(centres)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # it only says that some clusters coincide
        fitted = KMeans(len(distinct), init=distinct, n_init=1, max_iter=_ITERATIONS).fit(vectors)
    return fitted.labels_.astype(np.int64)


def _distinct(centres: Vectors) -> Vectors:
    """The centres that differ from all earlier ones by more than rounding."""
    exact = centres.astype(np.float64)
    distances = np.array([np.square(exact - centre).sum(1) for centre in exact]) ** 0.5
    near = max(_SAME * distances.max(), _ROUNDING * np.abs(exact).max())
    return centres[~np.tril(distances <= near, -1).any(1)]


def count_singletons(codes: Codes) -> int:
    """Count the clusters that hold a single vector.

    Example:
        >>> count_singletons(np.array([0, 0, 2]))
        1
    """
    return int((np.bincount(codes) == 1).sum())


def number_of_clusters(
    samples: Sequence[Callable[[], Vectors]], centres: Sequence[Vectors], *, smallest: bool = False
) -> tuple[int, bool]:
    """The largest number of clusters, 50 to 200, that leaves no cluster with a single vector in any sample.

    Args:
        samples: functions that return the vectors ``[n, D]`` of each sample, n the same for all.
        centres: the centres of each sample, see `initial_centres`.
        smallest: find the smallest such number instead.

    Returns:
        The number, and whether it meets the condition. If none does, the number is the smallest allowed: 50, or half
        the number of vectors where that is less.

    Example:
        >>> vectors = np.random.default_rng(0).random((400, 1)).astype(np.float32)
        >>> number_of_clusters([lambda: vectors], [initial_centres(vectors, 200, seed=0)], smallest=True)
        (50, True)
    """
    half = len(samples[0]()) // 2
    low, high = min(FEWEST, half), min(MOST, half)
    order = list(range(len(samples)))
    for count in range(low, high + 1) if smallest else range(high, low - 1, -1):
        for index in order:
            if count_singletons(assign_clusters(samples[index](), centres[index][:count])):
                order.remove(index)
                order.insert(0, index)  # a sample that fails now is likely to fail next time: try it first
                break
        else:
            return count, True
    return low, False
