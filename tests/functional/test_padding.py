"""Sequences in passes: the cheapest division, against all divisions there are."""

import random
from itertools import combinations, pairwise

import pytest

from attnfaith.functional.padding import pass_sizes


def cost(lengths, sizes, overhead):
    """Positions with padding, and the overhead of each pass."""
    total, start = 0, 0
    for size in sizes:
        total += size * lengths[start] + overhead
        start += size
    return total


def all_divisions(count):
    """The sizes of every division of so many sequences, in their order."""
    for cuts in range(count):
        for places in combinations(range(1, count), cuts):
            ends = [0, *places, count]
            yield [end - start for start, end in pairwise(ends)]


@pytest.mark.parametrize("overhead", [0, 1, 5, 30])
def test_no_division_costs_less(overhead):
    draw = random.Random(overhead)
    for _ in range(40):
        lengths = sorted((draw.randint(1, 20) for _ in range(draw.randint(1, 9))), reverse=True)
        sizes = pass_sizes(lengths, budget=1000, overhead=overhead)
        assert sum(sizes) == len(lengths)
        least = min(cost(lengths, other, overhead) for other in all_divisions(len(lengths)))
        assert cost(lengths, sizes, overhead) == least


def test_passes_keep_the_budget_and_waste_less_than_full_ones():
    draw = random.Random(1)
    for _ in range(50):
        lengths = sorted((draw.randint(1, 40) for _ in range(draw.randint(1, 300))), reverse=True)
        sizes = pass_sizes(lengths, budget=256, overhead=16)
        starts = [sum(sizes[:index]) for index in range(len(sizes))]
        assert sum(sizes) == len(lengths)
        assert all(size >= 1 and size * lengths[start] <= 256 for size, start in zip(sizes, starts, strict=True))
        assert cost(lengths, sizes, 0) <= 1.15 * sum(lengths) + 40
    assert pass_sizes([300, 300, 4], budget=256, overhead=1000) == [1, 1, 1]


def test_without_overhead_lengths_are_not_mixed():
    assert pass_sizes([7, 7, 7, 3, 3, 1], budget=1000, overhead=0) == [3, 2, 1]
    assert pass_sizes([7, 7, 7, 3, 3, 1], budget=14, overhead=0) == [2, 1, 2, 1]
    assert pass_sizes([], budget=10, overhead=1) == []
