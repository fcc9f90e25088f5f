"""Quantities: what estimates are made of. Plain numpy as the slow twin."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from attnfaith.estimates.quantities import (
    FunctionOfMeans,
    Mean,
    Median,
    Share,
    SharedMeans,
    bounded,
    estimate_of,
    ratio,
    shared_means,
)
from attnfaith.evaluation.tests.base import Test
from attnfaith.functional.statistics import Resamples

NAN, INF = np.nan, np.inf
RESAMPLES = Resamples(6, resamples=200, seed=2)
VALUES = np.array([[0.1, 1.0], [0.5, NAN], [0.9, 0.0], [NAN, 1.0], [0.3, 1.0], [0.2, 0.0]])


def estimated(quantity):
    return estimate_of(quantity, shared_means([quantity], RESAMPLES))


def drawn(values):
    """The mean of each column in each resample, text by text."""
    counts = np.concatenate([part for _, part in RESAMPLES.counts()]).astype(int)
    return np.array([np.nanmean(np.repeat(values, row, axis=0), axis=0) for row in counts])


def test_a_mean_a_share_and_a_median():
    mean = estimated(Mean("m", VALUES))
    np.testing.assert_allclose(mean.value, np.nanmean(VALUES, axis=0))
    np.testing.assert_allclose(mean.low, np.percentile(drawn(VALUES), 2.5, axis=0))
    assert mean.texts.tolist() == [5, 5]
    share = estimated(Share("s", VALUES[:, 1]))
    assert share.value.tolist() == [0.6]
    np.testing.assert_array_equal(share.low, RESAMPLES.share(VALUES[:, [1]]).low)  # Wilson's
    median = Median("d", np.array([0.1, 0.2, INF, INF, INF, NAN]), note="so", not_reached="never")
    assert (estimated(median).value.tolist(), median.notes(estimated(median))) == ([INF], ["never"])
    assert median.take(np.arange(3)).values.ravel().tolist() == [0.1, 0.2, INF]


def test_a_function_of_means_is_that_of_each_resample():
    above, under = VALUES[:, [0]], VALUES[:, [0]] + 1
    quotient = ratio("r", above, under)
    result = estimated(quotient)
    np.testing.assert_allclose(result.value, [np.nanmean(above) / np.nanmean(under)])
    draws = drawn(above) / drawn(under)
    np.testing.assert_allclose(result.high, np.percentile(draws, 97.5, axis=0))
    assert np.isnan(estimated(FunctionOfMeans("r", under, columns=(above, under), function=np.divide, fewest=6)).value)
    some = quotient.take(np.array([0, 2]))
    value, _ = some.resampled(shared_means([some], Resamples(2, resamples=5)))
    np.testing.assert_allclose(value, [1.0 / 3.0])


def test_arrays_that_several_quantities_share_are_averaged_once():
    mean = Mean("m", VALUES)
    double = FunctionOfMeans("2", mean.values, columns=(mean.values,), function=lambda means: 2 * means)
    means = shared_means([mean, double], RESAMPLES)
    assert means.of(mean.values)[1] is means.of(double.columns[0])[1]
    np.testing.assert_array_equal(double.resampled(means)[1], 2 * mean.resampled(means)[1])
    share = Share("s", VALUES)
    assert share.averaged == ()  # its interval needs no resamples; a comparison of two runs does
    np.testing.assert_allclose(share.resampled(SharedMeans(RESAMPLES, share.averaged_when_resampled))[1], drawn(VALUES))


@pytest.mark.parametrize("exact", [True, False])
def test_bounds_take_the_place_of_what_is_not_known(exact):
    low, high = Mean("m", VALUES, note="own", by_search=True), Mean("m", VALUES + (0 if exact else 1), note="own")
    known, least, most = bounded(low, high, exact=exact, note="see the bounds")
    assert [item.name for item in (known, least, most)] == ["m", "m_low", "m_high"]
    assert [item.summarised for item in (known, least, most)] == [True, not exact, not exact]
    assert (least.bound_of, most.bound_of) == ("m", "m")
    result = estimated(known)
    assert result.texts.tolist() == [5, 5]
    assert np.isnan(result.value).all() != exact
    assert known.notes(result) == ["own" if exact else "see the bounds"] * 2
    assert known.compared == (None if exact else ())


def test_what_two_runs_are_compared_by():
    keys, others = [("a", "x"), ("a", "y")], ["", "input/z"]
    mean = Mean("m", VALUES, keys=keys, others=others, note=["one", "two"])
    for compared, names in ((None, [("m", keys[0])]), ([1], [("m:input/z", keys[1])]), ((), [])):
        assert replace(mean, compared=compared).compared_only().names() == names
    assert (mean.only([1]).note, mean.only([1]).values.shape) == (["two"], (6, 1))
    gap = FunctionOfMeans("g", VALUES, columns=(VALUES,), function=lambda means: means - 1, keys=keys, others=others)
    np.testing.assert_array_equal(estimated(gap.only([1])).low, estimated(gap).low[[1]])


def test_a_test_with_a_run_alone_has_no_estimates_and_no_figures():
    @dataclass(frozen=True)
    class Bare(Test):
        name = "bare"

        def columns(self, outcome):
            return []

        def run(self, batch):
            return {}

    assert (list(Bare().quantities({}.__getitem__)), Bare().figures(None)) == ([], {})
    assert list(Bare.sentences(None, {})) == list(Bare.sentences_on_two_runs(None, ("a", "b"))) == []
