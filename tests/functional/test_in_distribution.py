"""The in-distribution test beside slow twins; its p values without a shift and with one; Benjamini and Hochberg."""

import numpy as np
import pytest
from scipy import stats

from attnfaith.functional.in_distribution import rank_p_values, tail_p_values, unusualness
from attnfaith.functional.statistics import benjamini_hochberg


def slow_tail(value, sample, own, tolerance=0.0):
    others = [member for index, member in enumerate(sample) if index != own]
    below = sum(member <= value + tolerance for member in others)
    above = sum(member >= value - tolerance for member in others)
    return min(1.0, 2 * (1 + min(below, above)) / (1 + len(others)))


def slow_score(p_values, combination):
    if combination == "fisher":
        return -2 * sum(np.log(p) for p in p_values)
    ordered = sorted(p_values)
    return -min(len(ordered) * p / k for k, p in enumerate(ordered, start=1))


def slow_rank(score, length, own, scores, lengths, nearest):
    others = [index for index in range(len(scores)) if index != own]
    distances = sorted(abs(lengths[index] - length) for index in others)
    reach = distances[min(nearest, len(distances)) - 1]
    near = [index for index in others if abs(lengths[index] - length) <= reach]
    return (1 + sum(scores[index] >= score for index in near)) / (1 + len(near))


def p_values_of(vectors, lengths, own, sample, sample_lengths, combination="fisher", nearest=None):
    everyone = np.arange(len(sample))
    own_scores = unusualness(tail_p_values(sample, sample, everyone), combination)
    scores = unusualness(tail_p_values(vectors, sample, own), combination)
    return rank_p_values(scores, lengths, own, own_scores, sample_lengths, nearest)


@pytest.mark.parametrize("combination", ["fisher", "simes"])
def test_it_is_what_loops_give(combination):
    draws = np.random.default_rng(0)
    sample, lengths = draws.integers(0, 6, (9, 3)).astype(float), draws.integers(1, 5, 9)  # with ties
    vectors, own = np.vstack((sample, draws.normal(size=(4, 3)))), np.array([*range(9), -1, 0, 3, 8])
    their_lengths = np.array([*lengths, 1, 2, 3, 30])
    tails = [
        [slow_tail(value, column, mine) for value, column in zip(vector, sample.T, strict=True)]
        for vector, mine in zip(vectors, own, strict=True)
    ]
    np.testing.assert_allclose(tail_p_values(vectors, sample, own), tails, atol=1e-12)
    near = [
        [slow_tail(value, column, mine, 1.0) for value, column in zip(vector, sample.T, strict=True)]
        for vector, mine in zip(vectors, own, strict=True)
    ]
    assert near != tails
    np.testing.assert_allclose(tail_p_values(vectors, sample, own, 1.0), near, atol=1e-12)
    scores = [slow_score(line, combination) for line in tails]
    np.testing.assert_allclose(unusualness(np.array(tails), combination), scores, atol=1e-12)
    expected = [
        slow_rank(score, length, mine, scores[:9], lengths, nearest=4)
        for score, length, mine in zip(scores, their_lengths, own, strict=True)
    ]
    found = rank_p_values(scores, their_lengths, own, scores[:9], lengths, nearest=4)
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("combination", ["fisher", "simes"])
@pytest.mark.parametrize("nearest", [None, 200])
def test_p_values_are_uniform_without_a_shift_whatever_the_length(combination, nearest):
    """Members, and new vectors of the same distribution, whose spread depends on the length."""
    draws = np.random.default_rng(1)
    lengths, others = draws.integers(4, 60, 400), draws.integers(4, 60, 400)
    mixing = draws.normal(size=(12, 12))  # dimensions depend on each other
    sample, new = ((draws.normal(size=(400, 12)) @ mixing) * (1 + sizes[:, None] / 60) for sizes in (lengths, others))
    everyone = np.arange(400)
    for p in (
        p_values_of(sample, lengths, everyone, sample, lengths, combination, nearest),
        p_values_of(new, others, np.full(400, -1), sample, lengths, combination, nearest),
        p_values_of(new, others, everyone, sample, lengths, combination, nearest),
    ):
        assert stats.kstest(p, "uniform").pvalue > 0.01


def test_without_the_same_length_what_is_short_looks_unusual():
    """The law above is able to fail: short vectors beside members of every length are not uniform."""
    draws = np.random.default_rng(2)
    lengths = draws.integers(4, 60, 400)
    sample, new = (draws.normal(size=(400, 12)) / np.sqrt(sizes)[:, None] for sizes in (lengths, np.full(400, 5)))
    beside_all = p_values_of(new, np.full(400, 5), np.full(400, -1), sample, lengths, nearest=400)
    beside_short = p_values_of(new, np.full(400, 5), np.full(400, -1), sample, lengths, nearest=30)
    assert (beside_all <= 0.05).mean() > 0.3 > 3 * (beside_short <= 0.05).mean() - 0.1


@pytest.mark.parametrize("combination", ["fisher", "simes"])
def test_a_planted_shift_is_found(combination):
    draws = np.random.default_rng(3)
    sample, lengths = draws.normal(size=(200, 30)), np.full(200, 10)
    shifted = draws.normal(size=(100, 30))
    shifted[:60, :10] += 4.0
    p = p_values_of(shifted, np.full(100, 10), np.arange(100), sample, lengths, combination)
    called = benjamini_hochberg(p) <= 0.05
    assert called[:60].mean() > 0.95
    assert called[60:].mean() < 0.15


def test_benjamini_and_hochberg_as_scipy_has_it():
    p = np.random.default_rng(4).uniform(size=50) ** 3
    np.testing.assert_allclose(benjamini_hochberg(p), stats.false_discovery_control(p), atol=1e-12)
    assert np.isnan(benjamini_hochberg([np.nan, 0.5])).tolist() == [True, False]
    assert benjamini_hochberg([]).shape == (0,)
