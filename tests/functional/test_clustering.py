"""k-means: planted clusters are found, centres are distinct, and the number of clusters meets its condition."""

import numpy as np
import pytest
from sklearn.cluster import KMeans

from attnfaith.functional.clustering import (
    assign_clusters,
    count_singletons,
    initial_centres,
    number_of_clusters,
    one_thread,
)


def blobs(count, dimensions=5, seed=0, spread=0.01):
    """Vectors around ten far-off centres, and which of them each is around."""
    draw = np.random.default_rng(seed)
    centres = draw.normal(size=(10, dimensions)) * 10
    which = draw.integers(0, 10, count)
    return (centres[which] + spread * draw.normal(size=(count, dimensions))).astype(np.float32), which


def same_parts(first, other):
    pairs = set(zip(first.tolist(), other.tolist(), strict=True))
    return len(pairs) == len(set(first.tolist())) == len(set(other.tolist()))


def test_planted_clusters_are_found():
    vectors, which = blobs(300)
    codes = assign_clusters(vectors, initial_centres(vectors, 10, seed=0))
    assert same_parts(codes, which)


def clusters_of(vectors, most):
    return len(set(assign_clusters(vectors, initial_centres(vectors, most, seed=0)).tolist()))


def test_repeated_equal_vectors_are_one_cluster():
    few = np.repeat(np.eye(4, dtype=np.float32), 30, axis=0)
    assert same_parts(assign_clusters(few, initial_centres(few, 50, seed=0)), np.repeat(np.arange(4), 30))
    rounding = few + 1e-8 * np.random.default_rng(0).normal(size=few.shape).astype(np.float32)
    assert clusters_of(rounding, 50) == 4, "rounding makes no new vectors"
    assert clusters_of(np.ones((5, 3), dtype=np.float32), 9) == 1
    alike = 3 + 1e-7 * np.random.default_rng(0).normal(size=(50, 1)).astype(np.float32)
    assert clusters_of(alike, 5) == 1


@pytest.mark.parametrize("sample", ["spread", "few", "alike"])
def test_the_first_centres_equal_those_for_fewer_clusters(sample):
    """So a number of clusters means the same, whether it was asked for or found among larger ones."""
    spread, _ = blobs(300, spread=1.0)
    draw = np.random.default_rng(1)
    few = spread[draw.integers(0, 30, 300)]
    alike = few + 1e-7 * draw.normal(size=few.shape).astype(np.float32)
    vectors = {"spread": spread, "few": few, "alike": alike}[sample]
    for seed in range(5):
        most = initial_centres(vectors, 200, seed=seed)
        assert len(most) == 200
        for number in (1, 2, 5, 29, 50, 51, 199):
            fewer = initial_centres(vectors, number, seed=seed)
            np.testing.assert_array_equal(fewer, most[:number])
            np.testing.assert_array_equal(assign_clusters(vectors, fewer), assign_clusters(vectors, most[:number]))


def test_clusters_are_those_of_scikit_learn_from_distinct_vectors():
    vectors, _ = blobs(200, spread=1.0)
    centres = initial_centres(vectors, 30, seed=3)
    assert {tuple(item) for item in centres.tolist()} <= {tuple(item) for item in vectors.tolist()}
    assert len({tuple(item) for item in centres.tolist()}) == 30
    result = KMeans(30, init=centres, n_init=1, max_iter=100).fit(vectors)
    np.testing.assert_array_equal(assign_clusters(vectors, centres), result.labels_)


def test_clusters_depend_on_the_seed_only():
    vectors, _ = blobs(200, spread=1.0)
    np.random.seed(1)  # noqa: NPY002 (no draw of anybody else's changes ours)
    first = initial_centres(vectors, 20, seed=5)
    state = np.random.get_state()[1].tolist()  # noqa: NPY002
    np.random.seed(2)  # noqa: NPY002
    np.testing.assert_array_equal(first, initial_centres(vectors, 20, seed=5))
    assert not np.array_equal(first, initial_centres(vectors, 20, seed=6))
    np.random.seed(1)  # noqa: NPY002
    initial_centres(vectors, 20, seed=5)
    assert np.random.get_state()[1].tolist() == state  # noqa: NPY002


def test_single_vector_clusters_are_counted():
    assert count_singletons(np.array([0, 0, 1, 3, 3, 4])) == 2


def meets(samples, centres, count):
    return all(
        np.bincount(assign_clusters(vectors, item[:count])).min() >= 2
        for vectors, item in zip(samples, centres, strict=True)
    )


@pytest.mark.parametrize("smallest", [True, False])
@pytest.mark.parametrize(("count", "high"), [(300, 60), (130, 60)])
@pytest.mark.parametrize("first", [0, 3, 6])
def test_the_number_of_clusters_is_the_first_that_meets_the_condition(smallest, count, high, first, monkeypatch):
    monkeypatch.setattr("attnfaith.functional.clustering.FEWEST", 8)
    monkeypatch.setattr("attnfaith.functional.clustering.MOST", high)
    samples = [blobs(count, 2, seed, 3.0)[0] for seed in range(first, first + 3)]
    centres = [initial_centres(sample, high, seed=0) for sample in samples]
    expected = [number for number in range(8, high + 1) if meets(samples, centres, number)]
    assert 1 < len(expected) < high - 8
    result = number_of_clusters([lambda item=sample: item for sample in samples], centres, smallest=smallest)
    assert result == (min(expected) if smallest else max(expected), True)


@pytest.mark.parametrize("smallest", [True, False])
def test_without_a_valid_number_of_clusters_the_smallest_is_returned(smallest):
    draw = np.random.default_rng(0)
    vectors = np.concatenate((draw.normal(size=(199, 3)), [[1e6, 0, 0]])).astype(np.float32)  # alone in any case
    centres = initial_centres(vectors, 200, seed=0)
    assert number_of_clusters([lambda: vectors], [centres], smallest=smallest) == (50, False)
    few = vectors[150:]
    assert number_of_clusters([lambda: few], [initial_centres(few, 200, seed=0)], smallest=smallest) == (25, False)


def test_one_thread_restores_the_number_of_threads():
    from threadpoolctl import threadpool_info

    before = [pool["num_threads"] for pool in threadpool_info()]
    with one_thread():
        assert {pool["num_threads"] for pool in threadpool_info()} == {1}
    assert [pool["num_threads"] for pool in threadpool_info()] == before
