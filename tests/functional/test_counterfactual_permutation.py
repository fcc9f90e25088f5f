"""Random permutations of attention: against loops, uniform, and the same in one call or several."""

import itertools
import math
from collections import Counter

import pytest
import torch

from attnfaith.functional.counterfactual import permute, random_permutations


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def slow(movable, count, seed=0):
    """Sort the movable places by their draws; each gets the weight of the one that came to its place."""
    indices = [index for index, moves in enumerate(movable.tolist()) if moves]
    draws = torch.rand(count, len(indices), generator=seeded(seed), dtype=torch.float64).tolist()
    result = []
    for row in draws:
        order = sorted(range(len(indices)), key=lambda item, row=row: row[item])
        giver = dict(zip(indices, (indices[item] for item in order), strict=True))
        result.append([giver.get(index, index) for index in range(len(movable))])
    return result


@pytest.mark.parametrize("items", [0, 1, 2, 3, 17, 40])
def test_equals_a_loop_and_moves_nothing_else(items, generator):
    movable = torch.zeros(45, dtype=torch.bool)
    movable[torch.randperm(45, generator=generator)[:items]] = True
    result = random_permutations(movable, 30, seeded(3))
    assert result.tolist() == slow(movable, 30, 3)
    for row in result.tolist():
        assert sorted(row) == list(range(45))
        assert all(row[index] == index for index in range(45) if not movable[index])


@pytest.mark.parametrize("items", [1, 2, 3, 7, 8, 15, 16, 17, 64, 129])
def test_several_calls_draw_the_same_permutations_as_one(items):
    """The draws of a text must not depend on how many fit into memory at once."""
    movable, entry = torch.ones(items, dtype=torch.bool), seeded(5)
    parts = [random_permutations(movable, count, entry) for count in (1, 2, 16, 30, 1)]
    assert torch.equal(torch.cat(parts), random_permutations(movable, 50, seeded(5)))


def test_permutations_are_uniform():
    draws = 12000
    seen = Counter(map(tuple, random_permutations(torch.ones(4, dtype=torch.bool), draws, seeded()).tolist()))
    assert set(seen) == set(itertools.permutations(range(4)))
    spread = math.sqrt(draws / 24 * 23 / 24)
    assert all(abs(count - draws / 24) < 5 * spread for count in seen.values())


def test_all_distributions_of_a_text_are_shuffled_alike(generator):
    weights = torch.rand(3, 4, 6, generator=generator)
    shuffles = torch.stack([random_permutations(torch.ones(6, dtype=torch.bool), 5, generator) for _ in range(3)])
    result = permute(weights, shuffles)
    assert result.shape == (3, 5, 4, 6)
    for text, shuffle, group, item in itertools.product(range(3), range(5), range(4), range(6)):
        assert result[text, shuffle, group, item] == weights[text, group, shuffles[text, shuffle, item]]
    assert torch.equal(result.sort(-1).values, weights.sort(-1).values.unsqueeze(1).expand_as(result))


def test_the_identity_changes_no_weight(generator):
    weights = torch.rand(2, 3, 5, generator=generator)
    same = permute(weights, torch.arange(5).expand(2, 4, 5))
    assert torch.equal(same, weights.unsqueeze(1).expand(2, 4, 3, 5))
