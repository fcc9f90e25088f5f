"""Accuracy and F1 of several trainings, against scikit-learn and loops."""

import numpy as np
import pytest
from sklearn.metrics import f1_score

from attnfaith.diagnostics.accuracy import quantities
from attnfaith.estimates.quantities import estimate_of, shared_means
from attnfaith.functional.statistics import Resamples

TEXTS, CLASSES = 60, 3


@pytest.fixture(scope="module")
def drawn():
    draw = np.random.default_rng(0)
    gold = draw.integers(CLASSES, size=TEXTS)
    good = np.where(draw.random((TEXTS, 2)) < 0.8, gold[:, None], draw.integers(CLASSES, size=(TEXTS, 2)))
    poor = draw.integers(2, size=(TEXTS, 3))  # never the last class
    return gold, {"good": good, "poor": poor}


def macro_f1(gold, chosen):
    return np.mean(
        [f1_score(gold, column, labels=range(CLASSES), average="macro", zero_division=0) for column in chosen.T]
    )


def test_estimates_are_means_over_trainings(drawn):
    gold, predictions = drawn
    parts = quantities(gold, predictions, CLASSES, "poor")
    means = shared_means(parts, Resamples(TEXTS, resamples=50))
    values = {part.name: estimate_of(part, means).value for part in parts}
    right = [np.mean([np.mean(column == gold) for column in chosen.T]) for chosen in predictions.values()]
    f1 = [macro_f1(gold, chosen) for chosen in predictions.values()]
    assert np.allclose(values["accuracy"], right)
    assert np.allclose(values["f1"], f1)
    assert np.allclose(values["accuracy_difference"], right[0] - right[1])
    assert np.allclose(values["f1_difference"], f1[0] - f1[1])


def test_intervals_of_differences_are_paired(drawn):
    gold, predictions = drawn
    same = {"one": predictions["good"], "other": predictions["good"]}
    parts = quantities(gold, same, CLASSES, "other")
    means = shared_means(parts, Resamples(TEXTS, resamples=50))
    for part in parts:
        estimate = estimate_of(part, means)
        if part.name.endswith("difference"):
            assert estimate.low[0] == estimate.high[0] == 0
        else:
            assert estimate.low[0] < estimate.high[0]


def test_intervals_are_those_of_resampled_texts(drawn):
    gold, predictions = drawn
    parts = quantities(gold, predictions, CLASSES, "poor")
    resamples = Resamples(TEXTS, resamples=40)
    estimate = estimate_of(parts[2], shared_means(parts, resamples))
    draws = []
    for _, counts in resamples.counts():
        for row in counts.astype(int):
            index = np.repeat(np.arange(TEXTS), row)
            draws.append(macro_f1(gold[index], predictions["good"][index]))
    low, high = resamples.interval(np.array(draws)[:, None])
    assert np.allclose([estimate.low[0], estimate.high[0]], [low[0], high[0]])
