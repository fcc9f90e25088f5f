"""Decisions and the numbers explained, in closed form."""

import math

import pytest
import torch

from attnfaith.errors import InputError
from attnfaith.functional.decision import KINDS, OUTPUTS, Decision, decision_of


class Config:
    def __init__(self, problem_type):
        self.problem_type = problem_type


@pytest.fixture
def logits(generator):
    return torch.randn(4, 3, 5, generator=generator, dtype=torch.float64)  # [B, K, C]


TARGET = torch.tensor([0, 4, 2, 2])


def test_multiclass_in_closed_form(logits):
    decision = Decision()
    for text in range(4):
        for candidate in range(3):
            row, target = logits[text, candidate].tolist(), int(TARGET[text])
            others = [value for place, value in enumerate(row) if place != target]
            expected = {
                "probability": math.exp(row[target]) / sum(map(math.exp, row)),
                "logit": row[target],
                "log_odds": row[target] - max(others),
            }
            for output in OUTPUTS:
                got = decision.quantity(logits, TARGET, output)
                assert got.shape == (4, 3)
                assert float(got[text, candidate]) == pytest.approx(expected[output], rel=1e-12)
            assert int(decision.predict(logits)[text, candidate]) == row.index(max(row))
    torch.testing.assert_close(decision.probabilities(logits).sum(-1), torch.ones(4, 3, dtype=torch.float64))


def test_the_first_class_wins_a_tie():
    assert Decision().predict(torch.tensor([[1.0, 2.0, 2.0], [3.0, 3.0, 3.0]])).tolist() == [1, 0]
    assert Decision("sigmoid").predict(torch.tensor([[0.0], [1e-9], [-1e-9]])).tolist() == [0, 1, 0]
    assert float(Decision().quantity(torch.tensor([[2.0, 2.0]]), torch.tensor([0]), "log_odds")) == 0


@pytest.mark.parametrize("threshold", [0.0, -0.7, 1.3])
def test_one_sigmoid_logit_is_two_classes_with_the_threshold_first(threshold, generator):
    z = 3 * torch.randn(6, 4, 1, generator=generator, dtype=torch.float64)
    two = torch.cat((torch.full_like(z, threshold), z), dim=-1)
    one, other = Decision("sigmoid", threshold), Decision("multiclass")
    assert torch.equal(one.predict(z), other.predict(two))
    assert torch.equal(one.predict(z), (z[..., 0] > threshold).long())
    torch.testing.assert_close(one.probabilities(z), other.probabilities(two))
    torch.testing.assert_close(one.probabilities(z)[..., 1], torch.sigmoid(z[..., 0] - threshold))
    target = torch.tensor([0, 1, 1, 0, 1, 0])
    for output in OUTPUTS:
        torch.testing.assert_close(one.quantity(z, target, output), other.quantity(two, target, output))
    sign = (2 * target - 1).double().unsqueeze(1)
    torch.testing.assert_close(one.quantity(z, target, "log_odds"), sign * (z[..., 0] - threshold))


@pytest.mark.parametrize("threshold", [0.0, 0.4])
def test_every_label_stands_for_itself(threshold, logits):
    decision = Decision("multilabel", threshold)
    torch.testing.assert_close(decision.probabilities(logits), 1 / (1 + (threshold - logits).exp()))
    chosen = torch.stack([logits[text, :, target] for text, target in enumerate(TARGET.tolist())])
    torch.testing.assert_close(decision.quantity(logits, TARGET, "logit"), chosen)
    torch.testing.assert_close(decision.quantity(logits, TARGET, "log_odds"), chosen - threshold)
    torch.testing.assert_close(decision.quantity(logits, TARGET, "probability"), torch.sigmoid(chosen - threshold))
    moved = logits.clone()
    moved[..., 1] += 9  # no target's label: nobody else's business
    for output in OUTPUTS:
        assert torch.equal(decision.quantity(moved, TARGET, output), decision.quantity(logits, TARGET, output))


def test_a_regression_is_its_number():
    decision = Decision("regression")
    value = torch.tensor([[2.5], [-1.0]])
    for output in ("logit", "log_odds"):
        assert decision.quantity(value, torch.tensor([0, 0]), output).tolist() == [2.5, -1.0]
    with pytest.raises(InputError, match="output='logit'"):
        decision.quantity(value, torch.tensor([0, 0]), "probability")


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("kind", ["multiclass", "sigmoid", "multilabel"])
def test_quantities_are_differentiable(kind, output, generator):
    logits = torch.randn(2, 3, 1 if kind == "sigmoid" else 4, generator=generator, dtype=torch.float64)
    logits.requires_grad_()
    target = torch.tensor([1, 0])
    assert torch.autograd.gradcheck(lambda given: Decision(kind).quantity(given, target, output), logits)


def test_softmax_survives_large_logits():
    big = torch.tensor([[1000.0, 0.0, -1000.0]])
    assert Decision().quantity(big, torch.tensor([0]), "probability").item() == 1
    assert Decision().quantity(big, torch.tensor([2]), "log_odds").item() == -2000


def test_the_decision_of_a_configuration():
    assert decision_of(None, 2) == Decision("multiclass")
    assert decision_of(Config(None), 3) == Decision("multiclass")
    assert decision_of(Config("single_label_classification"), 3) == Decision("multiclass")
    assert decision_of(Config("single_label_classification"), 1) == Decision("sigmoid")
    assert decision_of(Config("multi_label_classification"), 3) == Decision("multilabel")
    assert decision_of(Config("regression"), 1) == Decision("regression")
    assert decision_of(Config("regression"), 3, "multiclass") == Decision("multiclass")
    for kind in set(KINDS) - {"multiclass"}:
        assert decision_of(None, 1, kind).kind == kind


def test_what_cannot_be_decided_is_refused():
    with pytest.raises(InputError, match=r"decision='sigmoid'.*decision='regression'"):
        decision_of(Config(None), 1)
    with pytest.raises(InputError, match="got 'binary'"):
        decision_of(None, 2, "binary")
    with pytest.raises(InputError, match="reads one logit; the model has 2"):
        decision_of(None, 2, "sigmoid")
    with pytest.raises(InputError, match=r"one logit"):
        decision_of(None, 1, "multiclass")
