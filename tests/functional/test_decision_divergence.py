"""Divergences against loops and scipy; distances, flips and divergences of decisions against their definitions."""

import math

import pytest
import torch
from scipy.spatial.distance import jensenshannon

from attnfaith.errors import InputError
from attnfaith.functional.decision import Decision, jensen_shannon, total_variation


def shannon(left, right):
    """JS(p, q) in nats, from its definition: 0 ln 0 is 0."""

    def kullback_leibler(p, m):
        return math.fsum(a * math.log(a / b) for a, b in zip(p, m, strict=True) if a > 0)

    middle = [(a + b) / 2 for a, b in zip(left, right, strict=True)]
    return (kullback_leibler(left, middle) + kullback_leibler(right, middle)) / 2


def distributions(generator, count=60, classes=5, zeros=0.3):
    values = torch.rand(count, classes, generator=generator, dtype=torch.float64).exp()
    values = values * (torch.rand(count, classes, generator=generator) >= zeros)
    values[:, 0] += values.sum(-1) == 0
    return values / values.sum(-1, keepdim=True)


@pytest.mark.parametrize("zeros", [0.0, 0.3, 0.7])
def test_jensen_shannon_equals_a_loop_and_scipy(zeros, generator):
    left, right = (distributions(generator, zeros=zeros) for _ in range(2))
    got = jensen_shannon(left, right).tolist()
    for item, p, q in zip(got, left.tolist(), right.tolist(), strict=True):
        assert item == pytest.approx(shannon(p, q), abs=1e-14)
        assert item == pytest.approx(jensenshannon(p, q) ** 2, abs=1e-12)


def test_jensen_shannon_is_symmetric_between_0_and_ln_2(generator):
    left, right = (distributions(generator) for _ in range(2))
    there, back = jensen_shannon(left, right), jensen_shannon(right, left)
    torch.testing.assert_close(there, back)
    assert there.min() > 0
    assert there.max() <= math.log(2)
    assert jensen_shannon(left, left).tolist() == [0.0] * len(left)
    apart = torch.tensor([[0.25, 0.75, 0, 0], [1.0, 0, 0, 0]]), torch.tensor([[0, 0, 0.5, 0.5], [0, 0, 0, 1.0]])
    assert jensen_shannon(*apart).tolist() == pytest.approx([math.log(2)] * 2)


def test_jensen_shannon_is_never_below_0_and_sees_small_differences(generator):
    left = distributions(generator, zeros=0)
    right = left + 1e-9 * torch.tensor([1.0, -1, 0, 0, 0], dtype=torch.float64)
    got = jensen_shannon(left, right)
    assert got.min() >= 0
    second_order = 1e-18 / 8 * (1 / left[:, 0] + 1 / left[:, 1])
    torch.testing.assert_close(got, second_order, rtol=0, atol=1e-16)
    assert jensen_shannon(left, left + 1e-17).min() >= 0


def test_nan_stays_nan():
    """A probability that is not a number is no divergence of nothing."""
    bad, good = torch.tensor([[math.nan, 0.5], [0.5, 0.5]]), torch.tensor([[0.5, 0.5], [0.5, 0.5]])
    for item in (jensen_shannon(bad, good), jensen_shannon(good, bad), total_variation(bad, good)):
        assert item.isnan().tolist() == [True, False]


def test_total_variation_is_half_the_sum_of_differences(generator):
    left, right = (distributions(generator) for _ in range(2))
    got = total_variation(left, right).tolist()
    for item, p, q in zip(got, left.tolist(), right.tolist(), strict=True):
        assert item == pytest.approx(math.fsum(max(a - b, 0) for a, b in zip(p, q, strict=True)))  # the mass that moved
    assert total_variation(torch.tensor([1.0, 0]), torch.tensor([0, 1.0])) == 1


def softmax(row):
    top = max(row)
    total = math.fsum(math.exp(value - top) for value in row)
    return [math.exp(value - top) / total for value in row]


def logistic(value):
    return 1 / (1 + math.exp(-value))


@pytest.mark.parametrize("threshold", [0.0, 0.6])
@pytest.mark.parametrize("kind", ["multiclass", "sigmoid", "multilabel", "regression"])
def test_the_divergence_of_a_decision(kind, threshold, generator):
    size = {"sigmoid": 1, "regression": 1}.get(kind, 4)
    before, after = (2 * torch.randn(30, 3, size, generator=generator, dtype=torch.float64) for _ in range(2))
    got = Decision(kind, threshold, tolerance=1.0 if kind == "regression" else None).divergence(before, after)
    assert got.shape == (30, 3)
    for text in range(30):
        for step in range(3):
            old, new = before[text, step].tolist(), after[text, step].tolist()
            expected = {
                "multiclass": lambda old, new: shannon(softmax(old), softmax(new)),
                "sigmoid": lambda old, new: shannon(softmax([threshold, *old]), softmax([threshold, *new])),
                "multilabel": lambda old, new: (
                    sum(
                        shannon(
                            [logistic(a - threshold), logistic(threshold - a)],
                            [logistic(b - threshold), logistic(threshold - b)],
                        )
                        for a, b in zip(old, new, strict=True)
                    )
                    / len(old)
                ),
                "regression": lambda old, new: abs(old[0] - new[0]),
            }[kind](old, new)
            assert float(got[text, step]) == pytest.approx(expected, abs=1e-13)


def moved(left, right):
    """Total variation: the mass that moved."""
    return math.fsum(max(a - b, 0) for a, b in zip(left, right, strict=True))


@pytest.mark.parametrize("threshold", [0.0, 0.6])
@pytest.mark.parametrize("kind", ["multiclass", "sigmoid", "multilabel", "regression"])
def test_the_distance_of_a_decision(kind, threshold, generator):
    size = {"sigmoid": 1, "regression": 1}.get(kind, 4)
    before, after = (2 * torch.randn(30, 3, size, generator=generator, dtype=torch.float64) for _ in range(2))
    got = Decision(kind, threshold, tolerance=1.0 if kind == "regression" else None).distance(before, after)
    assert got.shape == (30, 3)
    for text in range(30):
        for step in range(3):
            old, new = before[text, step].tolist(), after[text, step].tolist()
            if kind == "multiclass":
                expected = moved(softmax(old), softmax(new))
            elif kind == "regression":
                expected = abs(old[0] - new[0])
            else:
                sides = [moved(softmax([threshold, a]), softmax([threshold, b])) for a, b in zip(old, new, strict=True)]
                expected = sum(sides) / len(sides)
            assert float(got[text, step]) == pytest.approx(expected, abs=1e-13)
    if kind != "regression":
        assert 0.1 < float(got.mean()) < float(got.max()) <= 1


def test_the_divergence_of_single_precision_is_taken_in_double():
    """Probabilities that differ by 1e-5: in float32 the divergence of 1e-11 would be noise."""
    before, after = torch.tensor([[0.0, 0.0]]), torch.tensor([[0.0, 4e-5]])
    p = 1 / (1 + math.exp(-float(after[0, 1])))
    assert float(Decision().divergence(before, after)) == pytest.approx(shannon([0.5, 0.5], [1 - p, p]), rel=1e-4)
    assert Decision().divergence(before, after).dtype == torch.float64


def test_logits_far_apart_are_ln_2_apart():
    for kind, far in (("multiclass", [[900.0, -900.0], [-900.0, 900.0]]), ("sigmoid", [[900.0], [-900.0]])):
        before, after = torch.tensor(far).split(1)
        assert float(Decision(kind).divergence(before, after)) == pytest.approx(math.log(2))


def test_a_regression_needs_a_tolerance_for_its_decision_and_not_for_its_divergence():
    item = torch.zeros(1, 1)
    assert Decision("regression").divergence(item, item + 2).tolist() == [2]
    for ask in (Decision("regression").flips, Decision("regression").margin):
        with pytest.raises(InputError, match="needs tolerance"):
            ask(item, item)
