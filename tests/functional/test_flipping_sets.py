"""Making flipping sets smaller, in blocks or item by item: against twins for one text, and what holds of results."""

import math

import pytest
import torch

from attnfaith.functional.flipping_sets import prefix_set, prune_blocks, prune_set
from attnfaith.functional.ranking import ranks_of

TEXTS, WIDTH = 12, 90


class World:
    """Decisions that flip where a set holds one of some hidden groups, and no spoiler; none is monotone."""

    def __init__(self, seed):
        generator = torch.Generator().manual_seed(seed)
        draws = torch.rand(TEXTS, WIDTH, generator=generator)
        self.order = draws.argsort(1)
        self.groups = [
            [set(torch.randperm(WIDTH, generator=generator)[:size].tolist()) for size in (1 + text % 5, 6)]
            for text in range(TEXTS)
        ]
        self.spoilers = torch.randint(WIDTH, (TEXTS,), generator=generator).tolist()
        self.asked = []

    def flips_one(self, text, items):
        whole = any(group <= items for group in self.groups[text])
        return whole and not (self.spoilers[text] in items and len(items) % 7 == 3)

    def flips(self, texts, removed):
        self.asked += texts.tolist()
        sets = [set(row.nonzero().flatten().tolist()) for row in removed]
        return torch.tensor([self.flips_one(text, items) for text, items in zip(texts.tolist(), sets, strict=True)])

    def sizes(self):
        """The shortest flipping prefix of each order; 0 for none."""
        found = []
        for text, order in enumerate(self.order.tolist()):
            flipping = [size for size in range(1, WIDTH + 1) if self.flips_one(text, set(order[:size]))]
            found.append(flipping[0] if flipping else 0)
        return torch.tensor(found)


def slow(world, text, items, most):
    """One text: blocks in a list, the largest and the last removed first."""
    items, blocks, asked = list(items), [list(reversed(items))], 0
    failed, again = [], []
    while blocks:
        block = blocks.pop(0)
        middle = len(block) // 2
        if len(block) == len(items):
            blocks = ([block[:middle], block[middle:]] if middle else []) + blocks
            continue
        if asked == most:
            break
        asked += 1
        rest = [item for item in items if item not in block]
        if world.flips_one(text, set(rest)):
            items, again = rest, list(failed)
        elif middle:
            blocks += [block[:middle], block[middle:]]
        else:
            failed += block
        if not blocks:
            blocks, failed, again = [[item] for item in again], [], []
    return set(items), asked


@pytest.mark.parametrize("most", [0, 1, 7, 64, 10_000])
@pytest.mark.parametrize("seed", range(4))
def test_equals_one_text_at_a_time_and_keeps_to_its_cost(seed, most):
    world = World(seed)
    sizes = world.sizes()
    start = prefix_set(world.order, sizes)
    found = prune_blocks(start, world.order, world.flips, most)
    assert int((sizes > 1).sum()) > TEXTS / 2
    for text, order in enumerate(world.order.tolist()):
        expected, asked = slow(world, text, order[: int(sizes[text])], most)
        assert set(found[text].nonzero().flatten().tolist()) == expected
        assert world.asked.count(text) == asked <= most
        assert not sizes[text] or world.flips_one(text, expected)


def test_with_enough_of_it_no_single_item_can_be_restored():
    """The same promise that restoring items one at a time makes; with fewer evaluations, sets stay a little larger."""
    world = World(7)
    start = prefix_set(world.order, world.sizes())
    found = prune_blocks(start, world.order, world.flips, 10_000)
    for text, row in enumerate(found):
        items = set(row.nonzero().flatten().tolist())
        assert not any(world.flips_one(text, items - {item}) for item in items if len(items) > 1)
    in_blocks = len(world.asked)
    world.asked.clear()
    by_item = prune_set(start, world.order, world.flips)
    bounded = prune_blocks(start, world.order, world.flips, 64)
    assert in_blocks < len(world.asked)
    assert float(bounded.sum()) <= 1.5 * float(by_item.sum())
    assert bool((ranks_of(world.order)[found] < world.sizes().max()).all())


def slow_sweeps(world, text, items):
    """One text, one item after the other; what failed before the last success of a sweep is swept again."""
    items, sweep = list(items), list(reversed(items))
    while sweep:
        failed, again = [], []
        for item in sweep:
            rest = [other for other in items if other != item]
            if rest and world.flips_one(text, set(rest)):
                items, again = rest, list(failed)
            else:
                failed.append(item)
        sweep = again
    return set(items)


@pytest.mark.parametrize("room", [1, 5, 40, math.inf])
@pytest.mark.parametrize("seed", range(3))
def test_restoring_items_equals_one_text_at_a_time_however_many_are_tried_at_once(seed, room):
    world = World(seed)
    sizes = world.sizes()
    calls = []

    def flips(texts, removed):
        calls.append(len(texts))
        return world.flips(texts, removed)

    found = prune_set(prefix_set(world.order, sizes), world.order, flips, room=room)
    for text, order in enumerate(world.order.tolist()):
        expected = slow_sweeps(world, text, order[: int(sizes[text])])
        assert set(found[text].nonzero().flatten().tolist()) == expected
    assert max(calls) <= max(room, TEXTS)
    one_by_one = max(world.asked.count(text) for text in range(TEXTS))
    assert len(calls) <= (one_by_one if room < TEXTS else one_by_one / 2)
