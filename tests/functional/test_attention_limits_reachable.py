"""How far attention can go: limits against random outputs, bounds against searches and random distributions."""

import math

import pytest
import torch

from attnfaith.functional.attention_limits import divergence_range, farthest_between, logit_limits
from attnfaith.functional.counterfactual import editable_attention, search_adversary
from attnfaith.functional.decision import Decision, jensen_shannon

KINDS = [("multiclass", 2), ("multiclass", 4), ("sigmoid", 1), ("multilabel", 1), ("multilabel", 3), ("regression", 1)]
EXACT = {("multiclass", 2), ("sigmoid", 1), ("multilabel", 1), ("regression", 1)}


def decision_of(kind, threshold=0.0):
    return Decision(kind, threshold if kind in ("sigmoid", "multilabel") else 0.0)


def made(kind, size, items, generator, scale=2.0):
    shares = torch.randn(items, generator=generator, dtype=torch.float64).softmax(-1)
    corners = scale * torch.randn(items, size, generator=generator, dtype=torch.float64)
    return shares, corners


def inside(limits, logits, slack=1e-9):
    values = logits @ limits.directions.T
    return ((values >= limits.low - slack) & (values <= limits.high + slack)).all(-1)


@pytest.mark.parametrize("threshold", [0.0, 0.7])
@pytest.mark.parametrize("epsilon", [0.01, 0.2])
@pytest.mark.parametrize(("kind", "size"), KINDS)
def test_every_output_within_epsilon_is_within_the_limits(kind, size, epsilon, threshold, generator):
    decision = decision_of(kind, threshold)
    for spread in (0.02, 0.3, 3.0):
        before = spread * 3 * torch.randn(size, generator=generator, dtype=torch.float64)
        after = before + spread * torch.randn(4000, size, generator=generator, dtype=torch.float64)
        limits = logit_limits(decision, before, epsilon)
        near = decision.distance(before, after) <= epsilon
        assert inside(limits, after)[near].all()
        assert limits.exact == ((kind, size) in EXACT)
        if limits.exact:
            assert torch.equal(inside(limits, after, 0.0), near)


@pytest.mark.parametrize("epsilon", [0.01, 0.1])
def test_limits_of_two_classes_are_reached(epsilon, generator):
    """At a limit that is finite the output has moved by epsilon, no less: nothing that is allowed is cut off."""
    before = torch.randn(4, generator=generator, dtype=torch.float64)
    limits = logit_limits(Decision(), before, epsilon)
    shares = before.softmax(-1)
    for direction, high in zip(limits.directions, limits.high, strict=True):
        first, second = int(direction.argmax()), int(direction.argmin())
        moved = shares.clone()
        moved[first] += epsilon
        moved[second] -= epsilon
        if moved[second] > 0:
            assert float(moved[first].log() - moved[second].log()) == pytest.approx(float(high))


def test_classes_that_cannot_gain_epsilon_set_no_limit():
    limits = logit_limits(Decision(), torch.tensor([12.0, 0.0]), 0.01)  # the first class has it all but 6e-6
    assert limits.high.tolist() == [math.inf]
    assert limits.low.isfinite().all()
    sure = logit_limits(Decision("sigmoid"), torch.tensor([800.0]), 0.01)
    assert sure.high.tolist() == [math.inf]
    assert float(sure.low) == pytest.approx(math.log(0.99 / 0.01))


@pytest.mark.parametrize(("kind", "size"), KINDS)
def test_bounds_hold_against_random_distributions_and_the_adversary(kind, size, generator):
    decision, epsilon = decision_of(kind, 0.3), {"regression": 0.5}.get(kind, 0.05)
    for items in (2, 3, 6, 15):
        shares, corners = made(kind, size, items, generator)
        before = shares @ corners
        reach = divergence_range(shares, corners, decision, epsilon)
        assert 0 <= reach.low <= reach.high <= math.log(2)
        assert (reach.low == reach.high) or (kind, size) not in EXACT
        assert float(jensen_shannon(shares, reach.weights)) == pytest.approx(reach.low, abs=1e-9)
        assert float(reach.weights.sum()) == pytest.approx(1)
        assert float(decision.distance(before, reach.weights @ corners)) <= epsilon * (1 + 1e-9)
        tried = [
            torch.distributions.Dirichlet(torch.full((items,), size, dtype=torch.float64)).sample((4000,))
            for size in (0.05, 0.3, 1.0)
        ]
        tried = torch.cat([*tried, shares + 0.2 * (tried[0] - shares)])
        near = decision.distance(before, tried @ corners) <= epsilon
        assert near.sum() > 3
        assert float(jensen_shannon(shares, tried[near]).max()) <= reach.high + 1e-9
        freedom = editable_attention(shares.view(1, 1, -1), torch.ones(1, items, dtype=torch.bool))
        start = 2 * torch.randn(1, 5, 1, items, generator=generator, dtype=torch.float64)
        result = search_adversary(
            freedom,
            lambda weights, corners=corners, before=before: decision.distance(before, weights[:, :, 0] @ corners),
            start,
            epsilon=epsilon,
            rate=0.05,
            steps=200,
        )
        assert float(result.js) <= reach.high + 1e-9
        if kind == "sigmoid" and items > 3:
            assert float(result.js) > 0.5 * reach.high  # it looks where there is something to be found


def test_the_upper_bound_is_the_smallest_over_pairs_of_classes(generator):
    epsilon, first = 0.05, set()
    for _ in range(12):
        shares, corners = made("multiclass", 3, 6, generator)
        p = (shares @ corners).softmax(-1).tolist()
        bounds = {}
        for left, right in ((0, 1), (0, 2), (1, 2)):
            up = (p[left] + epsilon) / (p[right] - epsilon) if p[right] > epsilon else math.inf
            down = (p[left] - epsilon) / (p[right] + epsilon) if p[left] > epsilon else 0.0
            low, high = math.log(down) if down else -math.inf, math.log(up)
            bounds[left, right] = farthest_between(shares, corners[:, left] - corners[:, right], low, high).js
        least = min(bounds, key=bounds.get)
        first.add(least)
        assert divergence_range(shares, corners, Decision(), epsilon).high == pytest.approx(bounds[least], abs=1e-9)
    assert len(first) > 1


def test_bounds_of_three_classes_are_close(generator):
    gaps = []
    for _ in range(10):
        shares, corners = made("multiclass", 3, 12, generator, scale=1.5)
        reach = divergence_range(shares, corners, Decision(), 0.05)
        gaps.append(reach.high - reach.low)
    assert min(gaps) >= 0
    assert sum(gaps) / len(gaps) < 0.1


def test_without_influence_on_the_output_attention_is_unlimited(generator):
    shares = torch.randn(6, generator=generator, dtype=torch.float64).softmax(-1)
    for size in (2, 4):
        reach = divergence_range(shares, torch.ones(6, size, dtype=torch.float64), Decision(), 1e-9)
        corner = torch.zeros(6, dtype=torch.float64)
        corner[shares.argmin()] = 1
        assert reach.low == reach.high == pytest.approx(float(jensen_shannon(shares, corner)))
        assert torch.equal(reach.weights, corner)


def test_a_weight_that_decides_the_output_cannot_move(generator):
    """The logit is that item's weight: within epsilon the weight is, and the rest may be anywhere."""
    shares = torch.tensor([0.6, 0.2, 0.15, 0.05], dtype=torch.float64)
    corners = torch.tensor([[1.0], [0.0], [0.0], [0.0]], dtype=torch.float64)
    reach = divergence_range(shares, corners, Decision("regression"), 0.1)
    assert abs(float(reach.weights[0]) - 0.6) == pytest.approx(0.1)
    assert float(reach.weights[3]) == pytest.approx(0.5)
    assert reach.low == reach.high
    alone = torch.tensor([0.999, 0.0005, 0.0005], dtype=torch.float64)
    assert divergence_range(alone, corners[:3], Decision("regression"), 0.01).high < 0.01


def test_the_identity_is_always_allowed(generator):
    """With next to no room the bound is still one: some distribution, if only the original."""
    for size in (2, 3, 4):
        for _ in range(10):
            shares, corners = made("multiclass", size, 4, generator, scale=5.0)
            reach = divergence_range(shares, corners, Decision(), 1e-12)
            assert 0 <= reach.low <= reach.high
