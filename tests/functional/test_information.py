"""Information against loops, closed forms and scikit-learn; Kendall's tau against loops and scipy."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import mutual_info_score
from sklearn.metrics.cluster import contingency_matrix, expected_mutual_information

from attnfaith.functional.information import (
    KENDALL,
    corrected_p_values,
    encode_values,
    entropy,
    joint_counts,
    miller_madow,
    mutual_information,
    recentre,
    resampled_information,
    usable_ranks,
    weighted_kendall,
)


def slow_information(left, right):
    """Sum over pairs of p(x, y) log p(x, y) / (p(x) p(y))."""
    count, both = len(left), Counter(zip(left, right, strict=True))
    ones, others = Counter(left), Counter(right)
    return math.fsum(n / count * math.log(n * count / (ones[x] * others[y])) for (x, y), n in both.items())


def slow_kendall(weights, values, pair):
    """Shieh's sum over pairs of places; a pair that ties counts in neither sum below."""
    weights, values = weights.tolist(), values.tolist()

    def sign(number):
        return (number > 0) - (number < 0)

    above = left = right = 0.0
    for i, j in itertools.combinations(range(len(weights)), 2):
        first, other = sign(weights[i] - weights[j]), sign(values[i] - values[j])
        weight = pair(weights[i], weights[j])
        above += weight * first * other
        left += weight * first**2
        right += weight * other**2
    return above / math.sqrt(left * right)


def drawn(joint, count, seed=0):
    """Pairs from a joint distribution."""
    cells = np.random.default_rng(seed).choice(joint.size, size=count, p=joint.ravel())
    return np.divmod(cells, joint.shape[1])


@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (7, 3), (40, 5)])
@pytest.mark.parametrize("count", [2, 17, 400])
def test_information_is_the_sum_over_pairs(shape, count):
    draw = np.random.default_rng(count)
    left, right = (draw.integers(0, size, count) for size in shape)
    right = np.where(draw.random(count) < 0.5, left % shape[1], right)
    result = float(mutual_information(joint_counts(left, right)))
    assert result == pytest.approx(slow_information(left.tolist(), right.tolist()), abs=1e-12)
    assert result == pytest.approx(mutual_info_score(left, right), abs=1e-12)
    assert result == pytest.approx(float(mutual_information(joint_counts(right, left))), abs=1e-12)
    assert -1e-12 <= result <= min(entropy(np.bincount(left)), entropy(np.bincount(right))) + 1e-12


def test_exact_frequencies_give_the_closed_form():
    """A binary symmetric channel: ln 2 - H(noise); independent variables: 0; a copy: the entropy."""
    noise = 0.1
    channel = np.array([[1 - noise, noise], [noise, 1 - noise]]) / 2
    known = math.log(2) + noise * math.log(noise) + (1 - noise) * math.log(1 - noise)
    apart = np.outer([0.2, 0.3, 0.5], [0.6, 0.4])
    same = np.diag([0.2, 0.3, 0.5])
    entropy_of_same = -sum(p * math.log(p) for p in (0.2, 0.3, 0.5))
    for joint, expected in ((channel, known), (apart, 0.0), (same, entropy_of_same)):
        for size in (100, 10000):
            assert float(mutual_information(np.round(joint * size))) == pytest.approx(expected, abs=1e-12)


def test_large_samples_approach_the_closed_form():
    noise, classes = 0.3, 4
    joint = np.full((classes, classes), noise / (classes - 1))
    np.fill_diagonal(joint, 1 - noise)
    joint /= classes
    known = math.fsum(p * math.log(p * classes**2) for p in joint.ravel())
    table = joint_counts(*drawn(joint, 200_000))
    assert float(mutual_information(table)) == pytest.approx(known, abs=0.005)
    assert float(miller_madow(table)) == pytest.approx(known, abs=0.005)


def test_information_of_independent_variables_is_biased_and_not_above_chance():
    """500 samples, 100 x 5 cells: 0.46 nats that are not there (PROTOCOLS 7)."""
    result, beyond, classical = [], [], []
    for seed in range(20):
        draw = np.random.default_rng(seed)
        left, right = draw.integers(0, 100, 500), draw.integers(0, 5, 500)
        orders = np.stack([draw.permutation(500) for _ in range(100)])
        null = resampled_information(left, right, orders, shuffled=True)
        table = joint_counts(left, right)
        result.append(float(mutual_information(table)))
        beyond.append(result[-1] - null.mean())
        classical.append(float(miller_madow(table)))
    assert np.mean(result) == pytest.approx(0.46, abs=0.01)
    assert abs(np.mean(beyond)) < 0.01
    assert max(map(abs, beyond)) < 0.07
    assert np.mean(classical) > 0.15, "Miller and Madow's correction is too small in sparse tables"


def test_the_mean_of_the_null_agrees_with_the_exact_expectation():
    """The expectation over all permutations is known in closed form (hypergeometric cells)."""
    draw = np.random.default_rng(3)
    left = draw.integers(0, 30, 300)
    right = np.where(draw.random(300) < 0.6, left % 4, draw.integers(0, 4, 300))
    orders = np.stack([draw.permutation(300) for _ in range(2000)])
    null = resampled_information(left, right, orders, shuffled=True)
    exact = expected_mutual_information(contingency_matrix(left, right, sparse=True), 300)
    assert null.mean() == pytest.approx(exact, abs=5 * null.std() / math.sqrt(2000))
    assert float(mutual_information(joint_counts(left, right))) > null.max()


@pytest.mark.parametrize("shuffled", [True, False])
def test_resamples_keep_pairs_together(shuffled, monkeypatch):
    draw = np.random.default_rng(1)
    left, right = draw.integers(0, 6, 50), draw.integers(0, 3, 50)
    orders = np.stack([draw.permutation(50) for _ in range(9)])[:, : 50 if shuffled else 25]
    expected = [slow_information((left if shuffled else left[o]).tolist(), right[o].tolist()) for o in orders]
    for cells in (2**21, 40):  # at once, and in several goes
        monkeypatch.setattr("attnfaith.functional.information._CELLS", cells)
        np.testing.assert_allclose(resampled_information(left, right, orders, shuffled=shuffled), expected, atol=1e-12)


def test_batched_counts_equal_counts_of_each_sample():
    draw = np.random.default_rng(2)
    left, right = draw.integers(0, 4, (2, 3, 20)), draw.integers(0, 2, 20)
    left[..., 0], right[1] = 3, 1
    tables = joint_counts(left, right)
    assert tables.shape == (2, 3, 4, 2)
    for i, j in itertools.product(range(2), range(3)):
        np.testing.assert_array_equal(tables[i, j], joint_counts(left[i, j], right))
        for x, y in itertools.product(range(4), range(2)):
            assert tables[i, j, x, y] == sum(
                (a, b) == (x, y) for a, b in zip(left[i, j].tolist(), right.tolist(), strict=True)
            )


def test_empty_data_are_undefined():
    assert np.isnan(entropy([0, 0]))
    assert joint_counts([], []).shape == (0, 0)
    assert np.isnan(mutual_information(np.zeros((2, 2))))
    assert np.isnan(miller_madow(np.zeros((2, 2))))


def test_random_halves_spread_like_whole_samples():
    """The standard deviation over random halves of one sample is about that over samples."""
    noise = np.array([[0.3, 0.05, 0.05], [0.05, 0.2, 0.05], [0.05, 0.05, 0.2]])
    values, spreads = [], []
    for seed in range(60):
        left, right = drawn(noise, 400, seed)
        draw = np.random.default_rng(seed)
        halves = np.stack([draw.permutation(400)[:200] for _ in range(60)])
        value = mutual_information(joint_counts(left, right))
        moved = recentre(resampled_information(left, right, halves, shuffled=False), value)
        assert moved.mean() == pytest.approx(float(value))
        values.append(float(value))
        spreads.append(moved.std())
    assert np.mean(spreads) / np.std(values) == pytest.approx(1, abs=0.2)


@pytest.mark.parametrize("ranks", [2, 3, 8, 20])
@pytest.mark.parametrize("seed", range(4))
def test_kendall_is_the_sum_over_pairs(ranks, seed):
    draw = np.random.default_rng([seed, ranks])
    weights = np.sort(draw.dirichlet(np.ones(ranks)))[::-1]
    values = draw.random(ranks) if seed else np.round(draw.random(ranks) * 3)  # with ties, too
    if len(set(values)) == 1:
        values[0] += 1
    product = weighted_kendall(weights, values)
    assert product == pytest.approx(slow_kendall(weights, values, lambda a, b: a * b), abs=1e-12)
    protocol = stats.weightedtau(weights, values, rank=False, weigher=lambda r: weights[r], additive=False)
    assert product == pytest.approx(protocol.statistic, abs=1e-12)
    additive = weighted_kendall(weights, values, "additive")
    assert additive == pytest.approx(slow_kendall(weights, values, lambda a, b: a + b), abs=1e-12)
    hyperbolic = weighted_kendall(weights, values, "hyperbolic")
    assert hyperbolic == pytest.approx(stats.weightedtau(weights, values).statistic, abs=1e-12)
    if ranks > 3 and seed:
        assert len({round(item, 6) for item in (product, additive, hyperbolic)}) == 3
    assert weighted_kendall(weights, -values) == pytest.approx(-product)


def test_nearly_equal_weights_give_plain_kendall():
    values = np.random.default_rng(0).random(12)
    weights = 1 - 1e-5 * np.arange(12)
    assert weighted_kendall(weights, values) == pytest.approx(stats.kendalltau(weights, values).statistic, abs=1e-3)


@pytest.mark.parametrize(
    ("weights", "values"),
    [
        ([], []),
        ([1.0], [0.3]),
        ([0.25, 0.25], [0.1, 0.2]),
        ([0.25 + 1e-9, 0.25], [0.1, 0.2]),
        ([0.0, 0.0], [0.1, 0.2]),
        ([0.6, 0.4], [0.1, 0.1]),
        ([0.6, 0.4], [0.1, np.nan]),
        ([0.6, np.nan], [0.1, 0.2]),
    ],
)
@pytest.mark.parametrize("form", ["product", "additive", "hyperbolic"])
def test_kendall_without_an_order_is_undefined(weights, values, form):
    assert math.isnan(weighted_kendall(weights, values, form))


def test_usable_ranks_depend_on_lengths_and_weights():
    draw = np.random.default_rng(0)
    lengths = draw.integers(1, 30, 200)
    weights = np.full((200, 12), np.nan)
    for text, length in enumerate(lengths):
        item = np.sort(draw.dirichlet(np.full(length, 0.04)))[::-1][:12]
        weights[text, : len(item)] = item
    by_weight = 0
    for rank in range(12):
        there = [row[rank] for row in weights.tolist() if not math.isnan(row[rank])]
        if sum(weight > 1e-5 for weight in there) / len(there) >= 0.8:
            by_weight = rank + 1
    assert 1 < by_weight < 12
    assert usable_ranks(lengths, weights) == (int(np.percentile(lengths, 10)), by_weight)
    assert usable_ranks([], np.zeros((0, 12))) == (0, 0)
    assert usable_ranks([5], [[1.0, 0.0, 0.0, 0.0, 0.0]]) == (5, 1)


def test_p_values_compare_with_the_maximum_over_ranks():
    draw = np.random.default_rng(0)
    null = draw.normal([0.0, 5.0, 1.0], [1.0, 2.0, 0.1], (199, 3))
    values = np.array([0.1, 12.0, 1.4])
    middle, spread = null.mean(0), null.std(0)
    expected = [
        (1 + sum(max((row - middle) / spread) >= (values[k] - middle[k]) / spread[k] for row in null)) / 200
        for k in range(3)
    ]
    np.testing.assert_allclose(corrected_p_values(values, null), expected)
    assert corrected_p_values(np.array([0.0]), np.zeros((9, 1))).tolist() == [1.0], "nothing varies, nothing is found"


def test_p_values_under_the_null_are_rarely_small():
    """Independent data: at most about 5 % of the families have any p of 0.05 or less."""
    hits = 0
    for seed in range(200):
        draw = np.random.default_rng(seed)
        null = draw.gamma(3.0, size=(60, 6))
        hits += bool((corrected_p_values(null[0], null[1:]) <= 0.05).any())
    assert hits <= 22


def test_equal_values_have_equal_codes():
    assert encode_values([3, 1, 3]).tolist() == [0, 1, 0]
    assert encode_values([[], [1], [1, 2], [1]]).tolist() == [0, 1, 2, 1]
    assert encode_values([np.array([1, 2]), np.array([1, 2])]).tolist() == [0, 0]


def test_values_that_differ_by_rounding_are_ties():
    """0.1 + 0.2 is not 0.3, and the order of the two must not decide a rank correlation."""
    weights, rounded = [0.5, 0.3, 0.2], [0.1 + 0.2, 0.3, 0.1]
    assert rounded[0] > rounded[1]
    for form in KENDALL:
        expected = weighted_kendall(weights, [0.3, 0.3, 0.1], form)
        assert weighted_kendall(weights, rounded, form) == weighted_kendall(weights, [*rounded[1::-1], 0.1], form)
        assert weighted_kendall(weights, rounded, form) == expected < 1
        assert math.isnan(weighted_kendall(weights, [0.1 + 0.2, 0.3, 0.3], form))
        tiny = [1e-30 * value for value in (3, 2, 1)]
        assert weighted_kendall(weights, tiny, form) == pytest.approx(1), "rounding is relative"
