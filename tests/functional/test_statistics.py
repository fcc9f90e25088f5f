"""Statistics: against scipy and loops, coverage of known truths, and degenerate cases."""

import inspect
import itertools
import math
import time

import numpy as np
import pytest
from scipy import stats

from attnfaith.estimates.quantities import estimate_of, ratio, shared_means
from attnfaith.functional.statistics import Resamples, holm, means_of, sign_test, survival, wilson

NAN, INF = math.nan, math.inf


def ratio_of(resamples, above, under):
    """The ratio of two means, and its interval."""
    quantity = ratio("ratio", np.asarray(above, dtype=float), np.asarray(under, dtype=float))
    return estimate_of(quantity, shared_means([quantity], resamples))


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def slow_counts(resamples):
    return np.concatenate([counts for _, counts in resamples.counts()])


def slow_median(values):
    """Halfway between the two middle values; the lower one where the upper is never reached."""
    ordered = sorted(value for value in values if not math.isnan(value))
    if not ordered:
        return NAN
    lower, upper = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    return (lower + upper) / 2 if math.isfinite(upper) else lower


def some(rng, n=40, columns=3, *, missing=0.2, never=0.0):
    values = rng.integers(1, 12, size=(n, columns)) / 12
    values[rng.random(values.shape) < never] = INF
    values[rng.random(values.shape) < missing] = NAN
    return values


# resamples


def test_every_resample_draws_as_many_texts_as_there_are():
    counts = slow_counts(Resamples(30, resamples=500))
    assert counts.shape == (500, 30)
    assert (counts.sum(1) == 30).all()
    assert abs(counts.mean() - 1) < 1e-12
    assert abs(counts.var() - (1 - 1 / 30)) < 0.03  # of a binomial


def test_draws_depend_on_the_seed_and_not_on_the_batches(monkeypatch):
    whole = slow_counts(Resamples(20, resamples=50, seed=3))
    assert not np.array_equal(whole, slow_counts(Resamples(20, resamples=50, seed=4)))
    monkeypatch.setattr("attnfaith.functional.statistics._CELLS", 60)
    batches = list(Resamples(20, resamples=50, seed=3).counts())
    assert len(batches) == 17
    assert np.array_equal(whole, np.concatenate([counts for _, counts in batches]))


def test_every_estimate_uses_the_same_resamples(rng):
    values, resamples = some(rng, missing=0), Resamples(40, resamples=200, seed=1)
    apart = np.column_stack([resamples.draws(column)[:, 0] for column in values.T])
    assert np.allclose(resamples.draws(values), apart, rtol=0, atol=1e-13)
    same = resamples.mean(values[:, 0] - values[:, 0])
    assert (same.value, same.low, same.high) == (0, 0, 0)  # paired: no difference, no doubt


def test_draws_equal_loops(rng):
    values, resamples = some(rng), Resamples(40, resamples=60, seed=2)
    texts = np.arange(40)
    for row, counts in zip(resamples.draws(values), slow_counts(resamples), strict=True):
        drawn = values[np.repeat(texts, counts.astype(int))]
        assert np.allclose(row, np.nanmean(drawn, axis=0), rtol=0, atol=1e-13)


@pytest.mark.parametrize("never", [0.0, 0.3, 0.5, 0.6])
def test_median_draws_equal_loops(rng, never):
    for n in (2, 3, 9, 40, 41):
        values, resamples = some(rng, n, never=never), Resamples(n, resamples=80, seed=2)
        texts = np.arange(n)
        for row, counts in zip(resamples.median_draws(values), slow_counts(resamples), strict=True):
            drawn = values[np.repeat(texts, counts.astype(int))]
            expected = [slow_median(column) for column in drawn.T]
            assert np.allclose(row, expected, rtol=0, atol=1e-13, equal_nan=True)


@pytest.mark.parametrize("reach", [0.0, 0.2, 1.0, 40.0])
def test_searching_a_window_around_the_middle_first_changes_no_median(rng, monkeypatch, reach):
    values = np.column_stack([rng.random(700), some(rng, 700, 2, never=0.45)])
    expected = Resamples(700, resamples=300, seed=5).median_draws(values)
    monkeypatch.setattr("attnfaith.functional.statistics._WINDOW", reach)
    got = Resamples(700, resamples=300, seed=5).median_draws(values)
    assert np.array_equal(expected, got, equal_nan=True)


# figures, against scipy


SEED = "rng" if "rng" in inspect.signature(stats.bootstrap).parameters else "random_state"  # before scipy 1.15


def scipy_interval(values, statistic, *, paired=False, confidence=0.95, n=20_000):
    data = values if isinstance(values, tuple) else (values,)
    options = {"paired": paired, "confidence_level": confidence, "batch": 1000, SEED: np.random.default_rng(0)}
    return stats.bootstrap(data, statistic, n_resamples=n, method="percentile", **options).confidence_interval


@pytest.mark.parametrize("confidence", [0.95, 0.8])
def test_mean_and_median_agree_with_scipy(rng, confidence):
    values = rng.beta(1, 3, size=80)
    resamples = Resamples(80, resamples=20_000, confidence=confidence)
    for draws_of, statistic in ((resamples.draws, np.mean), (resamples.median_draws, np.median)):
        low, high = resamples.interval(draws_of(values))
        expected = scipy_interval(values, statistic, confidence=confidence)
        width = expected.high - expected.low
        assert low[0] == pytest.approx(expected.low, abs=0.05 * width)
        assert high[0] == pytest.approx(expected.high, abs=0.05 * width)
    result = resamples.mean(values)
    assert (result.value[0], result.low[0], result.high[0]) == (
        pytest.approx(values.mean()), *(end[0] for end in resamples.interval(resamples.draws(values)))
    )  # fmt: skip


def test_ratio_agrees_with_scipy(rng):
    above, under = rng.beta(1, 3, size=80), 1 + rng.random(80)
    result = ratio_of(Resamples(80, resamples=20_000), above, under)
    expected = scipy_interval(
        (above, under), lambda a, b, axis=-1: a.mean(axis) / b.mean(axis), paired=True
    )  # not the same draws, so not the same ends
    assert result.value[0] == pytest.approx(above.sum() / under.sum())
    width = expected.high - expected.low
    assert result.low[0] == pytest.approx(expected.low, abs=0.05 * width)
    assert result.high[0] == pytest.approx(expected.high, abs=0.05 * width)


def test_intervals_are_percentiles_of_the_draws(rng):
    draws = rng.normal(size=(999, 4))
    low, high = Resamples(5, confidence=0.9).interval(draws)
    assert np.allclose(low, np.percentile(draws, 5, axis=0), rtol=0, atol=1e-13)
    assert np.allclose(high, np.percentile(draws, 95, axis=0), rtol=0, atol=1e-13)
    draws[::3, 1] = NAN
    low, _ = Resamples(5, confidence=0.9).interval(draws)
    assert low[1] == pytest.approx(np.nanpercentile(draws[:, 1], 5))


def test_an_interval_may_end_at_never():
    draws = np.array([[0.1], [0.2], [INF], [INF], [INF]])
    low, high = Resamples(5, confidence=0.5).interval(draws)
    assert (low[0], high[0]) == (0.2, INF)
    low, high = Resamples(5, confidence=0.6).interval(draws)
    assert low[0] == pytest.approx(0.18)
    low, high = Resamples(5, confidence=0.2).interval(draws)
    assert (low[0], high[0]) == (INF, INF)


def test_wilson_agrees_with_scipy():
    for count, confidence in itertools.product((1, 2, 7, 50), (0.9, 0.95)):
        hits = np.arange(count + 1)
        result = wilson(hits, np.full(count + 1, count), confidence)
        for hit in hits:
            expected = stats.binomtest(int(hit), count).proportion_ci(confidence, method="wilson")
            assert result.low[hit] == pytest.approx(expected.low, abs=1e-12)
            assert result.high[hit] == pytest.approx(expected.high, abs=1e-12)
    assert wilson([0, 3], [3, 3]).low[0] == 0.0
    assert wilson([0, 3], [3, 3]).high[1] == 1.0


def test_intervals_cover_the_truth_as_often_as_they_say(rng):
    n, trials, hits = 60, 400, dict.fromkeys(("mean", "median", "ratio", "share"), 0)
    truth = {"mean": 0.5, "median": math.log(2), "ratio": 0.5, "share": 0.3}
    for trial in range(trials):
        resamples = Resamples(n, resamples=500, seed=trial)
        uniform, size = rng.random(n), 1 + rng.random(n)
        result = {
            "mean": resamples.mean(uniform),
            "median": resamples.median(rng.exponential(size=n)),
            "ratio": ratio_of(resamples, uniform * size, size),
            "share": resamples.share(rng.random(n) < 0.3),
        }
        for name, figure in result.items():
            hits[name] += bool(figure.low[0] <= truth[name] <= figure.high[0])
    for name, number in hits.items():
        assert 0.90 <= number / trials <= 0.985, name


def slow_ends(number, confidence):
    """How many texts to count off on either side: with one more, too many samples would miss the truth there."""
    tail, missed = (1 - confidence) / 2, 0.0
    for ends in range(number + 1):
        missed += math.comb(number, ends) / 2**number
        if missed > tail * (1 + 1e-9):
            return ends
    raise AssertionError


@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.95, 0.99])
def test_the_interval_of_a_median_ends_at_values_of_texts(rng, confidence):
    """The interval of order statistics, by counting coins; and by scipy's test of a quantile."""
    for n in (1, 2, 5, 6, 7, 20, 41, 300):
        values = np.column_stack([rng.random(n), some(rng, n, 1, missing=0)[:, 0]])
        result = Resamples(n, resamples=9, confidence=confidence).median(values)
        ends = slow_ends(n, confidence)
        for index, column in enumerate(np.sort(values, axis=0).T):
            interval = (result.low[index], result.high[index])
            if not ends:
                assert np.isnan(interval).all()
                continue
            assert interval == (column[ends - 1], column[n - ends])
            assert interval[0] <= result.value[index] <= interval[1]
        if n >= 20:
            expected = stats.quantile_test(values[:, 0], p=0.5).confidence_interval(confidence)
            assert (result.low[0], result.high[0]) == (expected.low, expected.high)
    assert slow_ends(5, 0.95) == 0 < slow_ends(6, 0.95)


def fractions(rng, shape):
    """Shares of 8 to 24 items: many texts have the same."""
    items = rng.integers(8, 25, shape)
    return np.maximum(np.ceil(items * rng.beta(0.7, 2, shape)), 1) / items


DISTRIBUTIONS = {
    "continuous": lambda rng, shape: rng.beta(1, 3, shape),
    "skewed": lambda rng, shape: rng.exponential(size=shape),
    "fractions": fractions,
    "tenths": lambda rng, shape: rng.integers(1, 11, shape) / 10,
    "censored": lambda rng, shape: np.where(rng.random(shape) < 0.3, INF, fractions(rng, shape)),
    "nearly half censored": lambda rng, shape: np.where(rng.random(shape) < 0.48, INF, rng.beta(1, 3, shape)),
    "not reached": lambda rng, shape: np.where(rng.random(shape) < 0.55, INF, rng.beta(1, 3, shape)),
}


@pytest.mark.parametrize("n", [10, 20, 50, 200])
@pytest.mark.parametrize("name", list(DISTRIBUTIONS))
def test_intervals_of_medians_cover_the_truth_whatever_the_distribution(rng, name, n):
    """Ties and texts that never flip included; 20 texts are where a bootstrap covers too little."""
    samples = 4000
    many = np.sort(DISTRIBUTIONS[name](rng, 400_001))
    result = Resamples(n, resamples=9).median(DISTRIBUTIONS[name](rng, (n, samples)))
    covered = np.mean((result.low <= many[200_000]) & (many[200_000] <= result.high))
    assert covered >= 0.95 - 3 * math.sqrt(0.95 * 0.05 / samples)
    if name == "continuous":
        exact = 1 - 2 * stats.binom.cdf(slow_ends(n, 0.95) - 1, n, 0.5)
        assert abs(covered - exact) < 4 * math.sqrt(exact * (1 - exact) / samples), "as much as counting coins says"
        low, high = Resamples(n, resamples=9, confidence=0.8).median(DISTRIBUTIONS[name](rng, (n, samples)))[1:3]
        assert np.mean((low <= many[200_000]) & (many[200_000] <= high)) < 0.92, "no wider than it must be"


# degenerate cases


def test_one_text_has_no_interval():
    resamples = Resamples(1, resamples=50)
    for result in (resamples.mean([0.3]), resamples.median([0.3]), ratio_of(resamples, [0.3], [1.0])):
        assert result.value[0] == 0.3
        assert math.isnan(result.low[0])
        assert math.isnan(result.high[0])
        assert result.texts[0] == 1
    share = resamples.share([1.0])
    assert share.value[0] == share.high[0] == 1
    assert 0 < share.low[0] < 0.5


def test_without_texts_estimates_are_undefined():
    resamples = Resamples(0, resamples=50)
    empty = np.empty((0, 2))
    for result in (
        resamples.mean(empty),
        resamples.median(empty),
        ratio_of(resamples, empty, empty),
        resamples.share(empty),
    ):
        for column in result[:3]:
            assert np.isnan(column).all()
        assert (result.texts == 0).all()


@pytest.mark.parametrize("value", [0.1, 1 / 3, 0.7])
def test_equal_values_have_an_interval_of_width_zero(value):
    resamples = Resamples(30, resamples=200)
    for result in (resamples.mean([value] * 30), resamples.median([value] * 30)):
        assert result.value[0] == result.low[0] == result.high[0] == value


def test_columns_without_defined_values_are_nan_with_a_count_of_zero(rng):
    resamples = Resamples(30, resamples=200)
    values = np.column_stack([np.full(30, NAN), rng.random(30)])
    for figure in (resamples.mean, resamples.median, resamples.share, lambda each: ratio_of(resamples, each, each)):
        result = figure(values)
        assert [math.isnan(value) for value in result.value] == [True, False]
        assert math.isnan(result.low[0])
        assert result.texts.tolist() == [0, 30]


def test_resamples_without_a_defined_text_are_left_out():
    values = np.full(50, NAN)
    values[:2] = 0.25, 0.75
    resamples = Resamples(50, resamples=400)
    draws = resamples.draws(values)
    assert 0.05 < np.isnan(draws).mean() < 0.25  # (48 / 50) ** 50 = 0.13
    result = resamples.mean(values)
    assert (result.value[0], result.low[0], result.high[0], result.texts[0]) == (0.5, 0.25, 0.75, 2)


def test_a_median_that_is_not_reached_is_infinite():
    resamples = Resamples(40, resamples=200)
    result = resamples.median(np.full(40, INF))
    assert (result.value[0], result.low[0], result.high[0]) == (INF, INF, INF)
    half = np.where(np.arange(40) < 20, 0.25, INF)
    result = resamples.median(half)
    assert (result.value[0], result.low[0], result.high[0]) == (0.25, 0.25, INF)  # reached as soon as half get there
    assert resamples.median(np.where(np.arange(40) < 19, 0.25, INF)).value[0] == INF


def test_a_ratio_with_divisor_zero_is_undefined():
    result = ratio_of(Resamples(3, resamples=50), [1.0, 2.0, 3.0], [0.0, 0.0, 0.0])
    assert math.isnan(result.value[0])
    assert math.isnan(result.low[0])


def test_a_ratio_is_over_texts_where_both_are_defined():
    result = ratio_of(Resamples(3, resamples=50), [1.0, NAN, 3.0], [2.0, 5.0, 2.0])
    assert (result.value[0], result.texts[0]) == (1.0, 2)


def test_the_number_of_rows_is_checked():
    with pytest.raises(ValueError, match="one row for each of 3 texts"):
        Resamples(3).mean([1.0, 2.0])


def test_means_leave_out_nan():
    assert means_of(np.array([[1.0, NAN], [2.0, NAN]])).tolist()[0] == 1.5
    assert np.isnan(means_of(np.array([[1.0, NAN], [2.0, NAN]]))[1])
    assert np.isnan(means_of(np.empty((0, 1)))).all()


# tests


def slow_sign_test(wins, losses):
    """Add up the outcomes of fair coins that are no likelier than this one."""
    number = wins + losses
    likely = [math.comb(number, heads) / 2**number for heads in range(number + 1)]
    return min(1.0, sum(value for value in likely if value <= likely[wins] * (1 + 1e-9)))


def test_sign_test_equals_counting_coins():
    for wins, losses in itertools.product(range(9), repeat=2):
        if wins + losses:
            assert sign_test(wins, losses) == pytest.approx(slow_sign_test(wins, losses), abs=1e-12)
    assert math.isnan(sign_test(0, 0))
    assert sign_test([5, 1], [1, 5]).tolist() == [pytest.approx(0.21875)] * 2


def slow_holm(p_values):
    """The smallest level at which a hypothesis is rejected: step down and stop at the first that is not."""
    known = [value for value in p_values if not math.isnan(value)]
    adjusted = []
    for value in p_values:
        if math.isnan(value):
            adjusted.append(NAN)
            continue
        before = [other for other in known if other <= value]
        steps = [other * sum(item >= other for item in known) for other in before]
        adjusted.append(min(1.0, max(steps)))
    return adjusted


def test_holm_equals_a_step_down_loop(rng):
    for size in (1, 2, 7, 30):
        p_values = rng.random(size) ** 3
        p_values[rng.random(size) < 0.2] = NAN
        got = holm(p_values)
        assert np.allclose(got, slow_holm(p_values.tolist()), rtol=0, atol=1e-15, equal_nan=True)
        assert (got[~np.isnan(p_values)] >= p_values[~np.isnan(p_values)]).all()
    assert holm([]).shape == (0,)
    assert np.isnan(holm([NAN, NAN])).all()


def test_survival_equals_counting(rng):
    fractions, grid = some(rng, 50, 4, never=0.3), np.linspace(0, 1, 101)
    got = survival(fractions, grid)
    for index, point in enumerate(grid):
        for column in range(4):
            known = [value for value in fractions[:, column] if not math.isnan(value)]
            expected = sum(value > point + 1e-9 for value in known) / len(known)
            assert got[index, column] == pytest.approx(expected, abs=1e-15)
    assert (got[0] == 1).all()
    assert (np.diff(got, axis=0) <= 0).all()
    assert np.isnan(survival([NAN], [0.5])).all()


@pytest.mark.parametrize("items", [3, 7, 49, 100])
def test_a_flip_counts_at_its_own_grid_point(items):
    fractions = np.arange(1, items + 1) / items
    kept = survival(fractions, np.arange(items + 1) / items)[:, 0]
    assert np.allclose(kept, 1 - np.arange(items + 1) / items, atol=1e-12)


def test_rounding_of_the_grid_changes_nothing():
    assert 0.1 * 3 != 3 / 10
    assert survival([0.1 * 3, 3 / 10], [3 / 10]).tolist() == [[0.0]]


@pytest.mark.slow
def test_it_is_quick(rng):
    started = time.perf_counter()
    values = rng.integers(1, 60, size=(2000, 60)) / 60
    resamples = Resamples(2000)
    resamples.mean(values)
    resamples.median(np.where(rng.random(values.shape) < 0.2, INF, values))
    assert time.perf_counter() - started < 20  # 1.5 s on one idle core


@pytest.mark.parametrize("texts", [3, 40, 333])
def test_a_column_has_the_same_numbers_to_the_last_bit_whatever_stands_beside_it(texts):
    values = np.random.default_rng(texts).normal(size=(texts, 11))
    resamples = Resamples(texts, resamples=50)
    together, means = resamples.draws(values), means_of(values)
    for columns in ([0], [10], [3, 4], [10, 0, 5], list(range(2, 11))):
        np.testing.assert_array_equal(resamples.draws(values[:, columns]), together[:, columns])
        np.testing.assert_array_equal(means_of(values[:, columns]), means[columns])
