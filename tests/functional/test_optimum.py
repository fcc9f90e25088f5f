"""The exact optimum against brute force over all subsets, in exact rationals on integer heads."""

import itertools
from fractions import Fraction

import pytest
import torch

from attnfaith.functional.optimum import optimum
from attnfaith.functional.ranking import order_of


def decide(weights, pushes, bias, keep):
    """The class decided on when only ``keep`` is kept, the first of several that tie; in rationals."""
    kept, mass = sum(weights[i] for i in keep), sum(weights)
    logits = []
    for c, offset in enumerate(bias):
        total = sum(Fraction(weights[i]) * pushes[i][c] for i in keep)
        logits.append(Fraction(offset) + (Fraction(mass) * total / kept if kept else 0))
    return logits.index(max(logits))


def brute(weights, pushes, bias):
    """The prediction, and the size of the smallest flipping set (None without one); every subset is tried.

    An item without weight changes nothing by going, so only the others are removed.
    """
    indices = range(len(weights))
    prediction = decide(weights, pushes, bias, indices)
    taking = [i for i in indices if weights[i] > 0]
    for size in range(1, len(taking) + 1):
        for removed in itertools.combinations(taking, size):
            if decide(weights, pushes, bias, [i for i in indices if i not in removed]) != prediction:
                return prediction, size
    return prediction, None


def drawn(generator, most, classes, largest_weight=3):
    def whole(low, high, *shape):
        return torch.randint(low, high + 1, shape, generator=generator).tolist()

    count = whole(1, most, 1)[0]
    weights = whole(0, largest_weight, count)
    return weights, whole(-3, 3, count, classes), whole(-2, 2, classes)


def solve(problems, padding=0, scale=1.0):
    """Many problems as one batch, padded with rubbish."""
    width = max(len(weights) for weights, _, _ in problems) + padding
    classes = len(problems[0][2])
    w, h = torch.full((len(problems), width), 7.0), torch.full((len(problems), width, classes), -9.0)
    w, h = w.double(), h.double()
    mask = torch.zeros(len(problems), width, dtype=torch.bool)
    for row, (weights, pushes, _) in enumerate(problems):
        w[row, : len(weights)] = torch.tensor(weights).double()
        h[row, : len(weights)] = torch.tensor(pushes).double()
        mask[row, : len(weights)] = True
    w = torch.where(mask, scale * w, 0.0)  # weights of padding are 0 in every capture
    bias = torch.tensor([b for *_, b in problems])
    prediction = torch.tensor([decide(*problem, range(len(problem[0]))) for problem in problems])
    return optimum(w, h, scale * bias.double(), mask, prediction), mask, prediction


def check(problems, result, mask):
    for row, problem in enumerate(problems):
        weights = problem[0]
        prediction, size = brute(*problem)
        assert bool(result.flips[row]) == (size is not None), problem
        assert int(result.size[row]) == (size or 0), problem
        order = result.order[row].tolist()
        count = len(weights)
        assert sorted(order) == list(range(mask.shape[1]))
        assert all(index < count for index in order[:count]), "padding before an item"
        assert int(result.label[row]) != prediction
        if size is not None:
            left = set(range(count)) - set(order[:size])
            assert decide(*problem, left) != prediction, f"the order does not flip at {size}: {problem}"
            for fewer in range(size):
                assert decide(*problem, set(range(count)) - set(order[:fewer])) == prediction
        else:  # then no prefix of any order flips
            for fewer in range(count + 1):
                assert decide(*problem, set(range(count)) - set(order[:fewer])) == prediction


@pytest.mark.parametrize("classes", [2, 3, 4])
def test_equals_brute_force(classes, generator):
    problems = [drawn(generator, 6, classes) for _ in range(250)]
    problems = [problem for problem in problems if sum(problem[0])]
    result, mask, _ = solve(problems)
    check(problems, result, mask)
    sizes = set(result.size.tolist())
    assert {0, 1, 2, 3} <= sizes
    assert not result.flips.all()


@pytest.mark.slow
@pytest.mark.parametrize("classes", [2, 3, 4])
def test_equals_brute_force_on_longer_texts(classes, generator):
    problems = [drawn(generator, 11, classes) for _ in range(150)]
    problems = [problem for problem in problems if sum(problem[0])]
    result, mask, _ = solve(problems, padding=3)
    check(problems, result, mask)


def test_padding_changes_nothing(generator):
    problems = [drawn(generator, 6, 3) for _ in range(60)]
    problems = [problem for problem in problems if sum(problem[0])]
    together, mask, _ = solve(problems, padding=4)
    check(problems, together, mask)
    for row, problem in enumerate(problems):
        alone, _, _ = solve([problem])
        count = len(problem[0])
        assert int(alone.size[0]) == int(together.size[row])
        assert int(alone.label[0]) == int(together.label[row])
        assert alone.order[0].tolist() == together.order[row, :count].tolist()


def test_with_zero_weights_the_bias_decides_and_nothing_flips():
    result, _, _ = solve([([0, 0], [[1, 2], [3, 4]], [0, 1])])
    assert result.flips.tolist() == [False]
    assert result.size.tolist() == [0]
    assert result.order.tolist() == [[0, 1]]


def test_the_first_class_wins_a_tie():
    problem = ([1, 1], [[0, 1], [0, 0]], [0, 0])  # class 1 by a hair; without item 0 both are equal: class 0
    result, _, prediction = solve([problem])
    assert (prediction.tolist(), result.size.tolist(), result.label.tolist()) == ([1], [1], [0])
    problem = ([1, 1], [[1, 0], [0, 0]], [0, 0])  # the other way round a tie changes nothing
    result, _, prediction = solve([problem])
    assert (prediction.tolist(), result.flips.tolist()) == ([0], [False])


@pytest.mark.parametrize("scale", [2.0**-30, 2.0**-500])
def test_tiny_weights_of_a_tiny_mass(scale, generator):
    """Weights that sum to almost nothing; a power of two scales them, and the logits, exactly."""
    problems = [drawn(generator, 6, 3) for _ in range(60)]
    problems = [problem for problem in problems if sum(problem[0])]
    plain, mask, _ = solve(problems)
    width = max(len(weights) for weights, _, _ in problems)
    small = []
    for weights, pushes, bias in problems:
        pad = width - len(weights)
        small.append((torch.tensor(weights + [0] * pad), torch.tensor(pushes + [[0] * 3] * pad), torch.tensor(bias)))
    w, h, b = (torch.stack(parts).double() for parts in zip(*small, strict=True))
    prediction = torch.tensor([decide(*problem, range(len(problem[0]))) for problem in problems])
    got = optimum(scale * w, h, scale * b, mask, prediction)
    assert torch.equal(got.size, plain.size)
    assert torch.equal(got.label, plain.label)


@pytest.mark.parametrize("spread", [40.0, 300.0])
def test_weights_of_very_different_sizes(spread, generator):
    """Against prefixes of every permutation, by the softmax of what is kept; the largest weight drowns the others."""
    for _ in range(30):
        scores = -spread * torch.rand(5, generator=generator, dtype=torch.float64)
        pushes = torch.randn(5, 3, generator=generator, dtype=torch.float64)
        bias = 0.3 * torch.randn(3, generator=generator, dtype=torch.float64)
        weights = scores.softmax(-1)

        def label(keep, scores=scores, pushes=pushes, bias=bias):
            keep = list(keep)
            return int((bias + (scores[keep].softmax(-1) @ pushes[keep] if keep else 0)).argmax())

        prediction = label(range(5))
        subsets = [set(some) for size in range(1, 6) for some in itertools.combinations(range(5), size)]
        flipping = [len(some) for some in subsets if label(set(range(5)) - some) != prediction]
        result = optimum(
            weights[None], pushes[None], bias[None], torch.ones(1, 5, dtype=torch.bool), torch.tensor([prediction])
        )
        assert int(result.size) == min(flipping, default=0)
        if flipping:
            assert label(set(range(5)) - set(result.order[0, : int(result.size)].tolist())) != prediction


def test_in_the_binary_case_it_flips_when_gradient_x_attention_does(generator):
    """With equal biases the two orders remove as much; only the place of items that speak for nobody may differ."""
    flips = 0
    for _ in range(200):
        weights, pushes, _ = drawn(generator, 8, 2)
        problem = (weights, pushes, [1, 1])
        if not sum(weights):
            continue
        result, mask, prediction = solve([problem])
        target = int(prediction)
        product = [w * (push[target] - push[1 - target]) for w, push in zip(weights, pushes, strict=True)]
        # a flip exactly: p_t (1 - p_t) > 0 is the same for all, so this is gradient x attention up to a factor
        order = order_of(torch.tensor([product]).double(), mask)[0].tolist()
        first = [
            next(
                (
                    k
                    for k in range(len(weights) + 1)
                    if decide(*problem, set(range(len(weights))) - set(by[:k])) != target
                ),
                None,
            )
            for by in (order, result.order[0].tolist())
        ]
        assert first[0] == first[1]
        flips += first[0] is not None
    assert flips > 60


def test_single_precision_is_computed_in_double(generator):
    problems = [problem for problem in (drawn(generator, 6, 3) for _ in range(40)) if sum(problem[0])]
    double, mask, prediction = solve(problems)
    w = torch.zeros(mask.shape)
    h, b = torch.zeros(*mask.shape, 3), torch.zeros(len(problems), 3)
    for row, (weights, pushes, bias) in enumerate(problems):
        w[row, : len(weights)], h[row, : len(weights)] = torch.tensor(weights).float(), torch.tensor(pushes).float()
        b[row] = torch.tensor(bias).float()
    single = optimum(w, h, b, mask, prediction)
    assert torch.equal(single.size, double.size)
    assert torch.equal(single.order, double.order)
