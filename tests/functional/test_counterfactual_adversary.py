"""The adversary: against Adam and autograd on the objective, and by its laws."""

import itertools
import math

import pytest
import torch

from attnfaith.errors import UnsupportedModelError
from attnfaith.functional.counterfactual import (
    divergence_from_original,
    editable_attention,
    edited_attention,
    max_divergence,
    search_adversary,
)
from attnfaith.functional.decision import Decision

LN2 = math.log(2)


def js(left, right):
    """Of two lists, term by term."""
    total = 0.0
    for p, q in zip(left, right, strict=True):
        middle = (p + q) / 2
        total += sum(item * math.log(item / middle) for item in (p, q) if item > 0) / 2
    return total


def made(generator, batch=3, groups=2, items=5, mass=1.0, spread=1.0):
    """Attention of texts of different lengths, and a linear tail."""
    logs = spread * torch.randn(batch, groups, items, generator=generator, dtype=torch.float64)
    mask = torch.arange(items) < torch.arange(items, items - batch, -1).unsqueeze(1)
    weights = mass * logs.masked_fill(~mask.unsqueeze(1), -torch.inf).softmax(-1)
    heads = 3 * torch.randn(batch, groups * items, 2, generator=generator, dtype=torch.float64)

    def distance(edited, texts=slice(None)):
        before, after = (entry.flatten(2) @ heads[texts] for entry in (weights[texts].unsqueeze(1), edited))
        return Decision().distance(before, after)

    return weights, mask, distance


def start_of(generator, weights, count=5, noise=1.0):
    shape = (len(weights), count, *weights.shape[1:])
    return noise * torch.randn(shape, generator=generator, dtype=torch.float64)


class Slow:
    """The search of one text, from the objective: every divergence by itself, and torch's own Adam."""

    def __init__(self, weights, distance, start, *, epsilon, steps, rate, penalty=10.0, diversity=1.0):
        self.weights, self.distance, self.best = weights, distance, 0.0
        lowest = weights.log().amax(-1, keepdim=True) - 2 * rate * steps
        logs = (weights.log().maximum(lowest).unsqueeze(0) + start).requires_grad_()
        count = len(start)
        pairs = list(itertools.combinations(range(count), 2))
        optimizer = torch.optim.Adam([logs], lr=rate)
        within = [False] * count
        for _ in range(steps):
            edited = logs.softmax(-1) * weights.sum(-1, keepdim=True)
            moved = distance(edited.unsqueeze(0))[0]
            far = [self.js(weights, item) for item in edited]
            apart = [self.js(edited[first], edited[other]) for first, other in pairs]
            excess = (moved - epsilon * (1 - 1e-3)).clamp_min(0).sum() / count
            objective = sum(far) / count - penalty * excess
            objective = objective + (diversity * sum(apart) / len(pairs) if pairs else 0)
            for entry in range(count):
                if moved[entry] <= epsilon * (1 - 1e-3):
                    within[entry] = True
                    self.best = max(self.best, far[entry].item())
            optimizer.zero_grad()
            (-objective * count).backward()  # Adam is told the gradient of each candidate, whatever their number
            optimizer.step()
        self.satisfied = sum(within)

    @staticmethod
    def js(first, other):
        """The mean over distributions, each by its mass."""
        left, right = (part / part.sum(-1, keepdim=True) for part in (first, other))
        middle = (left + right) / 2
        return ((left * (left / middle).log() + right * (right / middle).log()).sum(-1) / 2).mean()


@pytest.mark.parametrize("count", [1, 2, 4, 5])
@pytest.mark.parametrize("mass", [1.0, 0.7])
def test_equals_adam_on_the_objective(generator, count, mass):
    weights, mask, distance = made(generator, mass=mass)
    start = start_of(generator, weights, count)
    settings = {"epsilon": 0.05, "steps": 60, "rate": 0.05, "penalty": 3.0, "diversity": 0.7}
    result = search_adversary(editable_attention(weights, mask), distance, start, **settings)
    for text in range(len(weights)):
        movable = mask[text]

        def distance_of(edited, text=text, inside=movable):
            padded = torch.zeros(*edited.shape[:-1], len(inside), dtype=torch.float64)
            padded[..., inside] = edited
            return distance(padded, slice(text, text + 1))

        slow = Slow(weights[text][:, movable], distance_of, start[text][..., movable], **settings)
        assert slow.best > 0.01
        assert float(result.js[text]) == pytest.approx(slow.best, abs=1e-7)
        assert int(result.satisfied[text]) == slow.satisfied


def test_stays_within_epsilon_and_is_never_worse_than_the_original(generator):
    for epsilon in (1e-6, 0.01, 0.3, 5.0):
        weights, mask, distance = made(generator, batch=4, spread=2.0)
        freedom = editable_attention(weights, mask)
        result = search_adversary(freedom, distance, start_of(generator, weights), epsilon=epsilon, steps=80, rate=0.05)
        assert (distance(result.weights.unsqueeze(1))[:, 0] <= epsilon).all()
        torch.testing.assert_close(distance(result.weights.unsqueeze(1))[:, 0], result.distance)
        assert ((result.js >= 0) & (result.js <= max_divergence(freedom) + 1e-12)).all()
        assert ((result.satisfied >= 0) & (result.satisfied <= 5)).all()
        for text in range(4):
            pairs = zip(weights[text].tolist(), result.weights[text].tolist(), strict=True)
            expected = sum(js(old, new) for old, new in pairs) / weights.shape[1]
            assert float(result.js[text]) == pytest.approx(expected, abs=1e-9)


def test_masses_and_fixed_weights_are_kept(generator):
    weights, mask, distance = made(generator, mass=0.6)
    free = mask.clone()
    free[:, 1] = False
    result = search_adversary(
        editable_attention(weights, free), distance, start_of(generator, weights), epsilon=1.0, steps=40, rate=0.1
    )
    assert float(result.js.min()) > 0.05
    torch.testing.assert_close(result.weights.sum(-1), weights.sum(-1))
    assert torch.equal(result.weights[..., 1], weights[..., 1])
    assert (result.weights[~mask.unsqueeze(1).expand_as(weights)] == 0).all()


def test_items_that_the_model_forbids_get_no_weight(generator):
    weights, mask, distance = made(generator, spread=3.0)
    weights[0, 1, 2], weights[0, 0, 1] = 0.0, 0.0
    logs = weights.log()
    logs[0, 0, 1] = -120.0  # it underflowed: it may be attended, and the other may not
    freedom = editable_attention(weights, mask, log_weights=logs)
    result = search_adversary(freedom, distance, start_of(generator, weights), epsilon=1.0, steps=60, rate=0.2)
    assert result.weights[0, 1, 2] == 0
    assert result.weights[0, 0, 1] > 1e-20


def test_missing_distributions_do_not_count(generator):
    weights, mask, distance = made(generator, batch=2)
    groups = torch.tensor([[True, True], [True, False]])
    weights[1, 1] = 0
    start = start_of(generator, weights)
    result = search_adversary(
        editable_attention(weights, mask, groups=groups), distance, start, epsilon=0.2, steps=40, rate=0.1
    )
    assert (result.weights[1, 1] == 0).all()
    expected = js(weights[1, 0].tolist(), result.weights[1, 0].tolist())
    assert float(result.js[1]) == pytest.approx(expected, abs=1e-9)
    assert float(max_divergence(editable_attention(weights, mask, groups=groups))[1]) <= LN2


def test_a_batch_equals_its_texts_one_by_one(generator):
    weights, mask, distance = made(generator, batch=3)
    start = start_of(generator, weights)
    together = search_adversary(editable_attention(weights, mask), distance, start, epsilon=0.05, steps=60)
    for text in range(3):
        item = slice(text, text + 1)
        alone = search_adversary(
            editable_attention(weights[item], mask[item]),
            lambda edited, entry=item: distance(edited, entry),
            start[item],
            epsilon=0.05,
            steps=60,
        )
        torch.testing.assert_close(alone.js, together.js[item], rtol=0, atol=1e-9)
        torch.testing.assert_close(alone.weights, together.weights[item], rtol=0, atol=1e-7)


def test_without_influence_on_the_output_attention_is_unlimited(generator):
    weights, mask, _ = made(generator, batch=4, items=8, spread=2.0)
    freedom = editable_attention(weights, mask)
    result = search_adversary(
        freedom, lambda edited: edited[..., 0, 0] * 0, start_of(generator, weights), epsilon=1e-9, rate=0.05
    )
    assert (result.js > 0.9 * max_divergence(freedom)).all()
    assert result.satisfied.tolist() == [5] * 4


def test_a_weight_that_decides_the_output_cannot_move(generator):
    weights, mask, _ = made(generator, batch=3, groups=1, items=6)

    def distance(edited):
        return (edited[:, :, 0, 0] - weights[:, None, 0, 0]).abs()

    result = search_adversary(editable_attention(weights, mask), distance, start_of(generator, weights), epsilon=0.01)
    assert ((result.weights - weights)[:, 0, 0].abs() <= 0.01).all()
    assert (result.js > 0.05).all()  # all others may go where they like
    whole = weights.clone()
    whole[:, 0] = 0.001 / 5 * mask
    whole[:, 0, 0] = 1 - whole[:, 0, 1:].sum(-1)
    weights = whole
    held = search_adversary(editable_attention(weights, mask), distance, start_of(generator, weights), epsilon=0.01)
    assert (held.js < 0.01).all()


def test_attention_all_on_one_item_can_move(generator):
    """Log-weights 40 apart: steps of 0.01 would not get anywhere in 500."""
    logs = torch.tensor([[[0.0, -40.0, -35.0]]], dtype=torch.float64)
    mask = torch.ones(1, 3, dtype=torch.bool)
    freedom = editable_attention(logs.exp(), mask, log_weights=logs)
    start = start_of(generator, logs, noise=2.0)
    result = search_adversary(freedom, lambda edited: edited[..., 0, 0] * 0, start, epsilon=0.01)
    assert float(result.js) > 0.9 * LN2


def test_outputs_of_nan_are_never_within_epsilon(generator):
    weights, mask, _ = made(generator)
    start = start_of(generator, weights)
    result = search_adversary(
        editable_attention(weights, mask), lambda edited: edited.sum((-1, -2)) * math.nan, start, epsilon=1, steps=5
    )
    assert result.js.tolist() == [0.0] * 3
    assert result.satisfied.tolist() == [0] * 3
    torch.testing.assert_close(result.weights, weights)


def test_one_candidate_without_an_output_does_not_stop_the_others(generator):
    weights, mask, distance = made(generator)
    start = start_of(generator, weights)

    def broken(edited):
        moved = distance(edited)
        if edited.shape[1] == 1:
            return moved
        return torch.cat(((edited[:, :1].sum((-1, -2)) - 99).sqrt(), moved[:, 1:]), 1)

    options = {"epsilon": 0.05, "steps": 60, "rate": 0.05, "diversity": 0.0}
    result = search_adversary(editable_attention(weights, mask), broken, start, **options)
    others = search_adversary(editable_attention(weights, mask), distance, start[:, 1:], **options)
    assert result.satisfied.tolist() == others.satisfied.tolist()
    torch.testing.assert_close(result.js, others.js)


def test_a_result_beyond_epsilon_at_the_final_check_is_dropped(generator):
    """As rounding can do it, in another batch."""
    weights, mask, distance = made(generator)

    def noisy(edited):
        return distance(edited) + (0.2 if edited.shape[1] == 1 else 0.0)

    result = search_adversary(
        editable_attention(weights, mask), noisy, start_of(generator, weights), epsilon=0.05, steps=40, rate=0.05
    )
    assert (result.satisfied > 0).any()
    assert result.js.tolist() == result.distance.tolist() == [0.0] * 3
    torch.testing.assert_close(result.weights, weights)


def test_an_output_without_a_gradient_is_refused(generator):
    weights, mask, distance = made(generator)
    with pytest.raises(UnsupportedModelError, match="must not detach"):
        search_adversary(
            editable_attention(weights, mask),
            lambda edited: distance(edited.detach()),
            start_of(generator, weights),
            epsilon=1e-6,
            steps=2,
        )


def test_without_free_items_nothing_changes(generator):
    weights, mask, distance = made(generator)
    freedom = editable_attention(weights, mask & False)
    result = search_adversary(freedom, distance, start_of(generator, weights), epsilon=0.5, steps=5)
    assert result.js.tolist() == max_divergence(freedom).tolist() == [0.0] * 3
    assert torch.equal(result.weights, weights)


def test_single_precision_agrees_to_a_hundredth(generator):
    weights, mask, distance = made(generator)
    start = start_of(generator, weights)
    double = search_adversary(editable_attention(weights, mask), distance, start, epsilon=0.05)
    single = search_adversary(
        editable_attention(weights.float(), mask), lambda item: distance(item.double()), start.float(), epsilon=0.05
    )
    torch.testing.assert_close(single.js, double.js, rtol=0, atol=0.01)
    assert single.weights.dtype == torch.float32


def test_divergence_is_the_mean_over_distributions(generator):
    weights, mask, _ = made(generator, mass=0.8)
    freedom = editable_attention(weights, mask)
    shares = torch.randn(3, 2, 2, 5, generator=generator, dtype=torch.float64)
    shares = shares.masked_fill(~mask[:, None, None], -torch.inf).softmax(-1)
    got, edited = divergence_from_original(freedom, shares), edited_attention(freedom, shares)
    for text in range(3):
        for candidate in range(2):
            pairs = zip(weights[text], edited[text, candidate], strict=True)
            expected = [js((old / 0.8).tolist(), (new / 0.8).tolist()) for old, new in pairs]
            assert float(got[text, candidate]) == pytest.approx(sum(expected) / 2, abs=1e-12)


def test_the_largest_divergence_is_that_of_the_best_corner(generator):
    weights, mask, _ = made(generator)
    for text, value in enumerate(max_divergence(editable_attention(weights, mask)).tolist()):
        count = int(mask[text].sum())
        corners = [
            max(js(line[:count].tolist(), [float(index == item) for index in range(count)]) for item in range(count))
            for line in weights[text]
        ]
        assert value == pytest.approx(sum(corners) / 2, abs=1e-12)
