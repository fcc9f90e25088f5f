"""The farthest distribution between two planes: against dense grids, scipy's optimiser, and cases by hand."""

import math

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from attnfaith.functional import attention_limits
from attnfaith.functional.attention_limits import (
    divergence_of_corner,
    farthest_anywhere,
    farthest_between,
    farthest_on_edges,
)

LN2 = math.log(2)


def js(left, right):
    """``[..., N]`` twice."""
    middle = (left + right) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = [np.where(item > 0, item * np.log(item / middle), 0) for item in (left, right)]
    return (terms[0] + terms[1]).sum(-1) / 2


def made(seed, items):
    """A distribution, values, and limits around its own mean value."""
    draw = np.random.default_rng([seed, items])
    shares, values = draw.dirichlet(np.full(items, 0.7)), draw.normal(size=items) * 2
    mean = float(shares @ values)
    return shares, values, mean - draw.uniform(0.01, 0.8), mean + draw.uniform(0.01, 0.8)


def farthest(shares, values, low, high):
    point = farthest_between(torch.tensor(shares), torch.tensor(values), low, high)
    return point, spread(point, len(shares))


def spread(point, items):
    weights = np.zeros(items)
    weights[point.items[0]] += point.share
    weights[point.items[1]] += 1 - point.share
    return weights


@pytest.mark.parametrize("seed", range(6))
def test_three_items_against_a_dense_grid(seed):
    shares, values, low, high = made(seed, 3)
    point, weights = farthest(shares, values, low, high)
    steps = np.linspace(0, 1, 1201)
    first, second = np.meshgrid(steps, steps)
    grid = np.stack((first, second, 1 - first - second), -1).reshape(-1, 3)
    grid = grid[grid[:, 2] >= -1e-12].clip(0)
    means = grid @ values
    best = js(shares, grid[(means >= low) & (means <= high)]).max()
    assert best <= point.js + 1e-9
    assert point.js == pytest.approx(best, abs=5e-3)
    assert low - 1e-9 <= weights @ values <= high + 1e-9
    assert js(shares, weights) == pytest.approx(point.js, abs=1e-12)


@pytest.mark.parametrize("items", [2, 4, 5, 6])
@pytest.mark.parametrize("seed", range(3))
def test_no_optimiser_run_is_farther_and_the_best_is_as_far(items, seed):
    shares, values, low, high = made(seed, items)
    point, weights = farthest(shares, values, low, high)
    assert low - 1e-9 <= weights @ values <= high + 1e-9
    draw = np.random.default_rng(seed)
    limits = [
        {"type": "eq", "fun": lambda x: x.sum() - 1},
        {"type": "ineq", "fun": lambda x: x @ values - low},
        {"type": "ineq", "fun": lambda x: high - x @ values},
    ]
    reached = []
    for _ in range(40):
        start = draw.dirichlet(np.full(items, 0.2)).clip(1e-6)
        result = minimize(
            lambda x: -js(shares, x.clip(1e-12)),
            start / start.sum(),
            jac=lambda x: -np.log(2 * x.clip(1e-12) / (x.clip(1e-12) + shares)) / 2,
            bounds=[(1e-12, 1)] * items,
            constraints=limits,
            method="SLSQP",
        )
        x = result.x.clip(0) / result.x.clip(0).sum()
        if low - 1e-7 <= x @ values <= high + 1e-7:
            reached.append(float(js(shares, x)))
    assert max(reached) <= point.js + 1e-5
    assert max(reached) == pytest.approx(point.js, abs=2e-3)


@pytest.mark.parametrize("items", [3, 8, 30])
def test_no_random_distribution_is_farther(items):
    shares, values, low, high = made(11, items)
    point, _ = farthest(shares, values, low, high)
    draw = np.random.default_rng(0)
    tried = np.concatenate([draw.dirichlet(np.full(items, size), 20000) for size in (0.03, 0.2, 1.0)])
    means = tried @ values
    inside = (means >= low) & (means <= high)
    assert inside.sum() > 50
    assert js(shares, tried[inside]).max() <= point.js + 1e-12


def test_by_hand():
    """Values 0, 1, -1: where their mean is 0, either the first has everything, or the others have half of it each."""
    shares, values = [0.6, 0.2, 0.2], [0.0, 1.0, -1.0]
    point, weights = farthest(shares, values, 0.0, 0.0)
    half = js(np.array(shares), np.array([0, 0.5, 0.5]))
    assert point.js == pytest.approx(half)
    assert weights.tolist() == [0.0, 0.5, 0.5]
    point, weights = farthest(shares, values, 0.75, 2.0)
    assert weights.tolist() == [0.0, 1.0, 0.0]
    assert point.js == pytest.approx(js(np.array(shares), weights))
    point, weights = farthest(shares, values, -0.75, -0.25)  # the limits are part of what is allowed
    assert weights @ np.array(values) == pytest.approx(-0.75)
    assert set(point.items) == {1, 2}


def test_limits_are_inclusive_at_corners():
    assert farthest([0.5, 0.5], [1.0, 0.0], 0.5, 1.0)[0].items == (0, 0)
    assert farthest([0.5, 0.5], [1.0, 0.0], 0.5, 0.999)[0].items != (0, 0)


def test_without_limits_all_weight_is_on_the_item_with_least():
    shares = torch.tensor([0.2, 0.5, 0.05, 0.25], dtype=torch.float64)
    point = farthest_between(shares, torch.randn(4), -math.inf, math.inf)
    assert point == farthest_anywhere(shares)
    assert point.items == (2, 2)
    assert point.js == pytest.approx(js(shares.numpy(), np.array([0, 0, 1.0, 0])))
    assert farthest_anywhere(torch.tensor([1.0])).js == 0
    assert farthest_anywhere(torch.tensor([1.0, 0.0])).js == pytest.approx(LN2)


def test_without_an_allowed_distribution_there_is_no_point():
    assert farthest_between(torch.tensor([0.5, 0.5]), torch.tensor([0.0, 1.0]), 2.0, 3.0).js == -math.inf
    nowhere = torch.tensor([2.0]), torch.tensor([3.0])
    values = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    shares = torch.tensor([0.5, 0.5], dtype=torch.float64)
    assert farthest_on_edges(shares, values, *nowhere, lambda share, first, second: share >= 0).js == -math.inf
    low, high = torch.tensor([-1.0]), torch.tensor([3.0])
    assert farthest_on_edges(shares, values, low, high, lambda share, first, second: share < 0).js == -math.inf


def test_chunks_give_the_same_point(monkeypatch):
    shares, values, low, high = made(3, 20)
    whole = farthest(shares, values, low, high)[0]
    limits = torch.tensor([low]), torch.tensor([high])
    table = torch.tensor(values).unsqueeze(1)

    def allowed(share, first, second):
        mean = share * table[first, 0] + (1 - share) * table[second, 0]
        return (mean >= low) & (mean <= high)

    edges = farthest_on_edges(torch.tensor(shares), table, *limits, allowed)
    monkeypatch.setattr(attention_limits, "_PIECE", 30)
    assert farthest(shares, values, low, high)[0] == whole
    assert farthest_on_edges(torch.tensor(shares), table, *limits, allowed) == edges


@pytest.mark.parametrize("seed", range(8))
def test_edges_find_the_exact_solution_of_one_pair_of_limits(seed):
    shares, values, low, high = made(seed, 7)
    exact, _ = farthest(shares, values, low, high)
    table = torch.tensor(values).unsqueeze(1)

    def allowed(share, first, second):
        mean = share * table[first, 0] + (1 - share) * table[second, 0]
        return (mean >= low) & (mean <= high)

    wide = torch.tensor([low - 0.5]), torch.tensor([high + 0.5])  # limits that are necessary and not sufficient
    edges = farthest_on_edges(torch.tensor(shares), table, *wide, allowed)
    assert edges.js <= exact.js + 1e-12
    assert edges.js == pytest.approx(exact.js, abs=1e-6)
    mean = spread(edges, 7) @ values
    assert low <= mean <= high


def test_corners_go_from_0_to_ln_2():
    values = divergence_of_corner(torch.tensor([0.0, 0.3, 1.0], dtype=torch.float64))
    assert values.tolist() == pytest.approx([LN2, js(np.array([0.3, 0.7]), np.array([1.0, 0])), 0.0], abs=1e-15)
