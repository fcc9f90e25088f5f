"""Whether a model beats one answer for all texts: against the sum of binomial probabilities, and by hand."""

import math
from fractions import Fraction

import pytest
import torch

from attnfaith.functional.statistics import binomial_excess
from attnfaith.training.one_answer import compare_with_one_answer


def slow_excess(hits, count, chance):
    """The probability of at least so many hits, in exact fractions."""
    chance = Fraction(chance)
    terms = (math.comb(count, k) * chance**k * (1 - chance) ** (count - k) for k in range(hits, count + 1))
    return float(sum(terms))


@pytest.mark.parametrize(("hits", "count", "chance"), [(0, 5, "1/2"), (5, 5, "1/2"), (7, 9, "1/3"), (60, 100, "1/2")])
def test_the_binomial_tail(hits, count, chance):
    assert binomial_excess(hits, count, float(Fraction(chance))) == pytest.approx(slow_excess(hits, count, chance))


def compared(labels, accuracy, *, epochs=1, kind="multiclass", loss=0.0, names=()):
    records = tuple({"validation_accuracy": accuracy, "validation_loss": loss} for _ in range(epochs))
    return compare_with_one_answer(kind, torch.tensor(labels), records, 1, dict(names))


def test_classes():
    labels = [1] * 60 + [0] * 40
    result = compared(labels, 0.75, names={0: "bad", 1: "good"}.items())
    assert (result["answer"], result["accuracy"], result["texts"], result["better"]) == ("good", 0.6, 100, True)
    assert result["p_value"] == pytest.approx(slow_excess(75, 100, "3/5"))
    many = compared(labels, 0.75, epochs=100)
    assert many["p_value"] == pytest.approx(100 * result["p_value"])
    assert not many["better"]
    assert compared(labels, 0.6, names={1: "LABEL_1"}.items())["answer"] == "1"
    assert compared([0, 1], 0.5)["answer"] == "0"  # the first of several
    assert compared(labels, 0.4)["p_value"] == 1.0 or compared(labels, 0.4)["p_value"] > 0.99


def test_several_labels_and_numbers():
    labels = [[1.0, 0.0]] * 3 + [[1.0, 1.0]]
    result = compared(labels, 1.0, kind="multilabel")
    assert (result["answer"], result["accuracy"]) == ("[1, 0]", 0.75)
    numbers = [0.0, 1.0, 2.0, 5.0]
    result = compared(numbers, math.nan, kind="regression", loss=3.4)
    assert result["loss"] == pytest.approx(3.5)
    assert result["better"]
    assert not compared(numbers, math.nan, kind="regression", loss=3.6)["better"]
