"""Decisions and explained quantities in closed form."""

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
            others = [value for index, value in enumerate(row) if index != target]
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


@pytest.mark.parametrize("kind", ["multiclass", "sigmoid"])
def test_flips_are_other_predictions_also_at_ties_and_where_undefined(kind, generator):
    classes = 1 if kind == "sigmoid" else 3
    before, after = (torch.randint(-1, 2, (60, size, classes), generator=generator).float() for size in (1, 4))
    after[torch.rand(after.shape, generator=generator) < 0.1] = torch.nan
    after[torch.rand(after.shape, generator=generator) < 0.1] = torch.inf
    decision = Decision(kind)
    flips, margins = decision.flips_and_margins(before, after)
    assert torch.equal(flips, decision.predict(before) != decision.predict(after))
    torch.testing.assert_close(margins, decision.margin(before, after), equal_nan=True)
    for text, candidate in torch.cartesian_prod(torch.arange(60), torch.arange(4)).tolist():
        row, decided = decision.classes(after[text, candidate]).tolist(), int(decision.predict(before[text, 0]))
        others = [value for index, value in enumerate(row) if index != decided]
        if all(map(math.isfinite, row)):
            assert float(margins[text, candidate]) == row[decided] - max(others)
    assert flips.any()
    assert not flips.all()


def test_the_first_class_wins_a_tie():
    assert Decision().predict(torch.tensor([[1.0, 2.0, 2.0], [3.0, 3.0, 3.0]])).tolist() == [1, 0]
    assert Decision("sigmoid").predict(torch.tensor([[0.0], [1e-9], [-1e-9]])).tolist() == [0, 1, 0]
    assert float(Decision().quantity(torch.tensor([[2.0, 2.0]]), torch.tensor([0]), "log_odds")) == 0


@pytest.mark.parametrize("threshold", [0.0, -0.7, 1.3])
def test_one_sigmoid_logit_is_two_classes_with_the_threshold_first(threshold, generator):
    z = 3 * torch.randn(6, 4, 1, generator=generator, dtype=torch.float64)
    second = torch.cat((torch.full_like(z, threshold), z), dim=-1)
    first, other = Decision("sigmoid", threshold), Decision("multiclass")
    assert torch.equal(first.predict(z), other.predict(second))
    assert torch.equal(first.predict(z), (z[..., 0] > threshold).long())
    torch.testing.assert_close(first.probabilities(z), other.probabilities(second))
    torch.testing.assert_close(first.probabilities(z)[..., 1], torch.sigmoid(z[..., 0] - threshold))
    target = torch.tensor([0, 1, 1, 0, 1, 0])
    for output in OUTPUTS:
        torch.testing.assert_close(first.quantity(z, target, output), other.quantity(second, target, output))
    sign = (2 * target - 1).double().unsqueeze(1)
    torch.testing.assert_close(first.quantity(z, target, "log_odds"), sign * (z[..., 0] - threshold))


@pytest.mark.parametrize("threshold", [0.0, 0.4])
def test_every_label_is_decided_separately(threshold, logits):
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


def test_a_regression_is_explained_by_its_value():
    decision = Decision("regression")
    value = torch.tensor([[2.5], [-1.0]])
    for output in ("logit", "log_odds"):
        assert decision.quantity(value, torch.tensor([0, 0]), output).tolist() == [2.5, -1.0]
    with pytest.raises(InputError, match="output='logit'"):
        decision.quantity(value, torch.tensor([0, 0]), "probability")


@pytest.mark.parametrize("threshold", [0.0, -1.0])
def test_the_most_probable_label_is_explained_whether_predicted_or_not(threshold, generator):
    """Not the one farthest from the threshold, which with many labels is nearly always absent."""
    decision, logits = Decision("multilabel", threshold), 3 * torch.randn(200, 5, generator=generator) - 2
    chosen = decision.predict(logits)
    assert torch.equal(chosen, decision.probabilities(logits).argmax(-1))
    on = decision.labels_on(logits)
    assert torch.equal(on.gather(1, chosen.unsqueeze(1)).squeeze(1), on.any(1)), "a predicted label where there is one"
    farthest = (logits - threshold).abs().argmax(-1)
    assert (chosen != farthest).sum() > 50


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


def test_invalid_decisions_are_refused():
    with pytest.raises(InputError, match=r"decision='sigmoid'.*decision='regression'"):
        decision_of(Config(None), 1)
    with pytest.raises(InputError, match="got 'binary'"):
        decision_of(None, 2, "binary")
    with pytest.raises(InputError, match="reads one logit; the model has 2"):
        decision_of(None, 2, "sigmoid")
    with pytest.raises(InputError, match=r"one logit"):
        decision_of(None, 1, "multiclass")


def decided(kind, row, threshold=0.0):
    """What a row of logits decides, from the definitions; for a regression the number."""
    if kind == "multiclass":
        return row.index(max(row))
    if kind == "sigmoid":
        return int(row[0] > threshold)
    if kind == "multilabel":
        return tuple(index for index, value in enumerate(row) if value > threshold)
    return row[0]


def flipped(kind, before, after, threshold=0.0, tolerance=1.0):
    old, new = decided(kind, before, threshold), decided(kind, after, threshold)
    return abs(new - old) > tolerance if kind == "regression" else old != new


@pytest.mark.parametrize("threshold", [0.0, 1.0])
@pytest.mark.parametrize("kind", KINDS)
def test_flips_of_whole_numbers_and_their_margins(kind, threshold, generator):
    """Small whole numbers: ties everywhere. The margin's sign says what flips; at 0 the first class decides."""
    size = {"sigmoid": 1, "regression": 1}.get(kind, 3)
    before, after = (torch.randint(-3, 4, (40, 9, size), generator=generator).double() for _ in range(2))
    decision = Decision(kind, threshold, tolerance=1.0 if kind == "regression" else None)
    got, margin = decision.flips(before, after), decision.margin(before, after)
    assert got.shape == margin.shape == (40, 9)
    on_the_edge = 0
    for text in range(40):
        for step in range(9):
            old, new, distance = before[text, step].tolist(), after[text, step].tolist(), float(margin[text, step])
            expected = flipped(kind, old, new, threshold)
            assert bool(got[text, step]) == expected
            on_the_edge += distance == 0
            if distance != 0:
                assert expected == (distance < 0)
            if kind == "multiclass":
                chosen = old.index(max(old))
                assert distance == new[chosen] - max(value for index, value in enumerate(new) if index != chosen)
            if kind == "sigmoid":
                assert distance == (new[0] - threshold) * (1 if old[0] > threshold else -1)
            if kind == "multilabel":
                sides = [1 if value > threshold else -1 for value in old]
                assert distance == min(side * (value - threshold) for side, value in zip(sides, new, strict=True))
                assert decision.labels_on(after)[text, step].tolist() == [value > threshold for value in new]
            if kind == "regression":
                assert distance == 1 - abs(new[0] - old[0])
    assert on_the_edge > 10


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_is_compared_with_every_one_of_its_steps(kind, generator):
    """``before`` broadcast over steps, as the engine passes it."""
    size = {"sigmoid": 1, "regression": 1}.get(kind, 3)
    before = torch.randn(4, 1, size, generator=generator, dtype=torch.float64)
    after = torch.randn(4, 6, size, generator=generator, dtype=torch.float64)
    decision = Decision(kind, tolerance=0.5 if kind == "regression" else None)
    for ask in (decision.flips, decision.margin, decision.divergence, decision.distance):
        assert torch.equal(ask(before, after), ask(before.expand_as(after), after))
        assert torch.equal(ask(before, after)[2], torch.stack([ask(before[2, 0], step) for step in after[2]]))


@pytest.mark.parametrize("kind", KINDS)
def test_unchanged_logits_have_not_flipped(kind, generator):
    logits = torch.randint(-1, 2, (50, 1 if kind in ("sigmoid", "regression") else 3), generator=generator).double()
    decision = Decision(kind, tolerance=0.1 if kind == "regression" else None)
    assert not decision.flips(logits, logits).any()
    assert (decision.margin(logits, logits) >= 0).all()
    assert decision.divergence(logits, logits).tolist() == decision.distance(logits, logits).tolist() == [0.0] * 50


def test_a_regression_flips_in_both_directions_and_beyond_the_tolerance_only():
    decision, before = Decision("regression", tolerance=0.5), torch.tensor([[1.0]])
    after = torch.tensor([[1.5], [1.51], [0.5], [0.49], [1.0]])
    assert decision.flips(before, after).tolist() == [False, True, False, True, False]


def test_a_tolerance_is_for_regressions_and_above_0():
    assert decision_of(None, 1, "regression", 0.5).tolerance == 0.5
    with pytest.raises(InputError, match="tolerance is for regressions"):
        decision_of(None, 3, None, 0.5)
    for wrong in (0.0, -1.0, math.nan):
        with pytest.raises(InputError, match="above 0"):
            decision_of(None, 1, "regression", wrong)
