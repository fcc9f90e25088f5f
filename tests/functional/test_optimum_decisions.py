"""The optimum of every kind of decision, against all subsets, in whole numbers: no rounding, no tolerance."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
import torch

from attnfaith.functional.decision import Decision
from attnfaith.functional.optimum import optimum, optimum_for
from tests.functional.test_optimum import brute

TOLERANCES = (0.25, 1.0, 4.0, 12.0, 24.0)  # exact in binary


class Head:
    """Whole weights, pushes and biases; every question about its decisions is answered in int64.

    With ``kept = sum of the kept weights``, the logits times ``kept`` are ``mass * sum of kept w h + kept * b``.
    """

    def __init__(self, generator, kind, most, classes, *, stays=0.0, largest=3):
        def whole(low, high, *shape):
            return torch.randint(low, high + 1, shape, generator=generator).numpy()

        size = {"sigmoid": 1, "regression": 1}.get(kind, classes)
        count = int(whole(1, most, 1)[0])
        self.kind, self.weights = kind, whole(0, largest, count)
        self.pushes, self.bias = whole(-3, 3, count, size), whole(-2, 2, size)
        if whole(0, 1, 1)[0]:  # many items of one mind: larger sets
            self.pushes += 3 * whole(-1, 1, size)
        self.threshold = 0 if kind in ("multiclass", "regression") else int(whole(-1, 1, 1)[0])
        wide = TOLERANCES[int(whole(0, len(TOLERANCES) - 1, 1)[0])] * (largest // 3)
        self.tolerance = wide if kind == "regression" else None
        self.fixed = torch.rand(count, generator=generator).numpy() < stays
        self.now = (self.weights[:, None] * self.pushes).sum(0) + self.bias

    @property
    def decision(self):
        return Decision(self.kind, float(self.threshold), self.tolerance)

    def flips(self, keep):
        """``[S, N]`` of 0 and 1 to ``[S]``: does keeping only these change the decision?"""
        kept = keep @ self.weights
        times = np.where(kept > 0, kept, 1)[:, None]  # nothing kept: the bias alone
        logits = np.where(
            kept[:, None] > 0,
            self.weights.sum() * (keep @ (self.weights[:, None] * self.pushes)) + kept[:, None] * self.bias,
            self.bias,
        )
        if self.kind == "multiclass":
            return logits.argmax(1) != self.now.argmax()
        if self.kind == "regression":
            return (abs(logits - self.now * times) * 4 > int(4 * self.tolerance) * times)[:, 0]
        return ((logits > self.threshold * times) != (self.now > self.threshold)).any(1)

    def smallest(self):
        """The size of the smallest flipping set, over all of them; None without one."""
        free = np.flatnonzero(~self.fixed)
        gone = np.array(list(product((0, 1), repeat=len(free))), dtype=np.int64).reshape(2 ** len(free), len(free))
        keep = np.ones((len(gone), len(self.weights)), dtype=np.int64)
        keep[:, free] -= gone
        sizes = gone.sum(1)[self.flips(keep)]
        return int(sizes.min()) if len(sizes) else None


def solve(heads, padding=0):
    """Heads of one kind, threshold and tolerance as one batch, padded with rubbish."""
    width = max(len(head.weights) for head in heads) + padding
    size = len(heads[0].bias)
    weights, pushes = torch.zeros(len(heads), width).double(), torch.full((len(heads), width, size), -9.0).double()
    mask, fixed = torch.zeros(len(heads), width, dtype=torch.bool), torch.ones(len(heads), width, dtype=torch.bool)
    for row, head in enumerate(heads):
        count = len(head.weights)
        weights[row, :count], pushes[row, :count] = torch.tensor(head.weights), torch.tensor(head.pushes).double()
        mask[row, :count], fixed[row, :count] = True, torch.tensor(head.fixed)
    bias, now = (torch.tensor(np.stack([getattr(head, name) for head in heads])).double() for name in ("bias", "now"))
    return optimum_for(heads[0].decision, weights, pushes, bias, mask, now, fixed=fixed)


def check(heads, result):
    sizes = []
    for row, head in enumerate(heads):
        size, count = head.smallest(), len(head.weights)
        sizes.append(size)
        facts = vars(head)
        assert bool(result.flips[row]) == (size is not None), facts
        assert int(result.size[row]) == (size or 0), facts
        order = result.order[row].tolist()
        assert sorted(order) == list(range(result.order.shape[1]))
        assert all(index < count for index in order[:count]), "padding before an item"
        free = count - int(head.fixed.sum())
        assert not head.fixed[order[:free]].any(), "an item that stays before one that goes"
        steps = np.ones((free + 1, count), dtype=np.int64)
        for step in range(1, free + 1):
            steps[step:, order[step - 1]] = 0
        flips = head.flips(steps).tolist()
        assert (flips.index(True) if True in flips else None) == size, facts
    return sizes


def batches(heads):
    """Heads that share a decision."""
    result = {}
    for head in heads:
        result.setdefault((head.threshold, head.tolerance), []).append(head)
    return result.values()


def compare(generator, kind, classes, count, most, *, padding=0, **options):
    sizes = []
    for some in batches([Head(generator, kind, most, classes, **options) for _ in range(count)]):
        sizes += check(some, solve(some, padding))
    assert {None, 1, 2} < set(sizes)
    return sizes


CASES = [("multiclass", classes) for classes in range(2, 7)]
CASES += [("sigmoid", 1), ("multilabel", 1), ("multilabel", 3), ("regression", 1)]


@pytest.mark.parametrize("stays", [0.0, 0.3])
@pytest.mark.parametrize(("kind", "classes"), CASES)
def test_equals_all_subsets(kind, classes, stays, generator):
    compare(generator, kind, classes, 150, 7, padding=2, stays=stays)


@pytest.mark.slow
@pytest.mark.parametrize("stays", [0.0, 0.25])
@pytest.mark.parametrize(("kind", "classes"), CASES)
def test_equals_all_subsets_of_longer_texts(kind, classes, stays, generator):
    """5,400 heads in all; also with weights that differ widely."""
    sizes = compare(generator, kind, classes, 200, 10, stays=stays)
    sizes += compare(generator, kind, classes, 100, 10, stays=stays, largest=40)
    assert max(size for size in sizes if size) >= 4


@pytest.mark.parametrize("classes", [2, 4])
def test_the_slow_twin_agrees_with_exact_fractions(classes, generator):
    """What these heads are compared with is itself compared with the definition in rationals."""
    for _ in range(60):
        head = Head(generator, "multiclass", 5, classes)
        if head.weights.sum():
            assert head.smallest() == brute(head.weights.tolist(), head.pushes.tolist(), head.bias.tolist())[1]


@pytest.mark.parametrize("kind", ["sigmoid", "multilabel", "regression"])
def test_the_slow_twin_agrees_with_decisions_of_exact_fractions(kind, generator):
    flips = 0
    for _ in range(80):
        head = Head(generator, kind, 5, 2)
        for _ in range(4):
            keep = torch.randint(0, 2, (len(head.weights),), generator=generator).numpy()
            kept = int((keep * head.weights).sum())
            changed = False
            for index, offset in enumerate(head.bias.tolist()):
                total = int((keep * head.weights * head.pushes[:, index]).sum())
                after = Fraction(offset) + (Fraction(int(head.weights.sum()) * total, kept) if kept else 0)
                before = int(head.now[index])
                if kind == "regression":
                    changed |= abs(after - before) > Fraction(head.tolerance)
                else:
                    changed |= (after > head.threshold) != (before > head.threshold)
            assert bool(head.flips(keep[None])[0]) == changed
            flips += changed
    assert 30 < flips < 290


def test_the_bias_decides_after_removing_everything_unless_items_are_fixed():
    """Class 0 by its items, class 1 by the bias: two removals, unless the second item may not go."""
    args = (torch.ones(1, 2), torch.tensor([[[5.0, 0.0], [5.0, 0.0]]]), torch.tensor([[0.0, 1.0]]))
    mask, before = torch.ones(1, 2, dtype=torch.bool), torch.tensor([[10.0, 1.0]])
    assert optimum_for(Decision(), *args, mask, before).size.tolist() == [2]
    fixed = torch.tensor([[False, True]])
    assert optimum_for(Decision(), *args, mask, before, fixed=fixed).flips.tolist() == [False]
    weightless = (torch.tensor([[1.0, 0.0]]), *args[1:])
    assert optimum_for(Decision(), *weightless, mask, before, fixed=fixed).size.tolist() == [1]


def test_the_label_of_a_multilabel_flip_and_of_a_multiclass_one():
    weights, mask = torch.ones(1, 2), torch.ones(1, 2, dtype=torch.bool)
    pushes = torch.tensor([[[1.0, 1.0, 1.0], [1.0, -0.5, 1.0]]])  # without the first item, label 1 goes
    result = optimum_for(Decision("multilabel"), weights, pushes, torch.zeros(1, 3), mask, pushes.sum(1))
    assert (result.size.tolist(), result.label.tolist(), result.order.tolist()) == ([1], [1], [[0, 1]])
    both = optimum(weights, torch.tensor([[[3.0, 0, 0], [0.0, 2.0, 2.0]]]), torch.zeros(1, 3), mask, torch.tensor([0]))
    assert (both.size.tolist(), both.label.tolist()) == ([1], [1])  # two classes at once: the smaller


def test_single_precision_heads_are_solved_in_double(generator):
    heads = [Head(generator, "regression", 6, 1) for _ in range(30)]
    for head in heads:
        count = len(head.weights)
        args = [torch.tensor(value)[None] for value in (head.weights, head.pushes, head.bias)]
        mask, now = torch.ones(1, count, dtype=torch.bool), torch.tensor(head.now)[None]
        result = [
            optimum_for(head.decision, *(arg.to(dtype) for arg in args), mask, now.to(dtype))
            for dtype in (torch.float32, torch.float64)
        ]
        assert result[0].size.tolist() == result[1].size.tolist()
        assert result[0].order.tolist() == result[1].order.tolist()
