"""Find the size of the smallest flipping set of each text: exact for an affine tail, else by a search.

The search is the reference that rankings are judged by, so it is the same whatever rankings a run asks for:

1. Remove items in the order of each ranking of `PANEL` until one of the orders flips the decision.
2. Restore items of that set one at a time as long as the decision stays flipped (`functional.flipping_sets.prune_set`).
3. Where no order flips the decision, or the set still has more than one item, remove single items by themselves: every
   item at the final attention; at the input level, where each set costs a pass through the model, the `SINGLES` that
   come first in any order of the panel but the random one, or with ``bounds`` every item of texts that are not long.
4. At the input level, where no single item flips the decision, remove items in the order of what they do by themselves,
   and restore items of that set as well. (At the final attention, `occlusion` in the panel has done that.)

At the input level, in texts of more than `functional.schedule.LONG` items, orders are followed along the schedule, and
items are restored in blocks (`prune_blocks`, at most `PRUNED` sets).

What it finds flips the decision, so its size is an upper bound of the smallest size.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import torch
from torch import Tensor

from attnfaith.attribution.method import ATTENTION, CONTROL
from attnfaith.attribution.optimal import optimum_of
from attnfaith.evaluation.rankings import Ranking
from attnfaith.evaluation.removal import AttentionEraser, Eraser
from attnfaith.functional.flipping_sets import prefix_set, prune_blocks, prune_set
from attnfaith.functional.ranking import ranks_of

VERSION = 3
"""Of the search; runs with different versions cannot be compared."""
PANEL = {
    "attention": (
        Ranking(ATTENTION, "attention"),
        Ranking(CONTROL, "attention"),
        Ranking("gradient", "attention"),
        Ranking("gradient_x_attention", "attention"),
        Ranking("occlusion", "attention"),
    ),
    "input": (
        Ranking(ATTENTION, "input"),
        Ranking(CONTROL, "input"),
        Ranking("gradient_x_attention", "attention"),
        Ranking("gradient_x_input", "input"),
        Ranking("lrp", "input"),
    ),
}
"""By the level of erasing, the rankings that the search starts from.

Attention and the random order are among them, so that neither can flip a text that the search does not.
"""
SINGLES = 8
"""At the input level, so many single items are tried."""
PRUNED = 64
"""In long texts at the input level, at most so many sets are evaluated to make one set smaller."""
TRIPLES = 24
_PIECE = 65536


@dataclass(frozen=True)
class FlippingSets:
    """The size of the smallest flipping set of each text, or bounds of it.

    Attributes:
        low: a size that it has at least; None where no set flips.
        high: a size that it has at most; None where none was found.
        flippable: whether any set flips; None where that is not known.
        sets: ``[B, N]`` bool, for each text a set of the size ``high``; empty where none was found.
        order: ``[B, N]``, an order that flips as early as can be, where the size is known from an affine tail.
    """

    low: list[int | None]
    high: list[int | None]
    flippable: list[bool | None]
    sets: Tensor
    order: Tensor | None = None


def optimal_sets(eraser: Eraser) -> FlippingSets | None:
    """The exact sizes at the final attention for an affine tail; else None."""
    if not isinstance(eraser, AttentionEraser):
        return None
    batch = eraser.batch
    best = optimum_of(batch.config.cut, batch.capture, batch.config.decision, fixed=~eraser.erasable)
    if best is None:
        return None
    flips = best.flips.tolist()
    sizes = [size if flip else None for size, flip in zip(best.size.tolist(), flips, strict=True)]
    sets = prefix_set(best.order, torch.where(best.flips, best.size, 0))
    return FlippingSets(sizes, sizes, flips, sets, best.order)


def search_sets(
    eraser: Eraser,
    orders: Tensor,
    sizes: Tensor,
    informed: Tensor,
    *,
    every_step: bool = False,
    bounds: bool = False,
) -> FlippingSets:
    """Search for small flipping sets, as the module describes.

    Args:
        eraser: removes items.
        orders: ``[P, B, N]``, those of the panel.
        sizes: ``[P, B]``, after how many removals each flips the decision; more than N where it is not the first to do
            so, or never does.
        informed: ``[P]`` bool, the orders that know something of the text: all but the random ones.
        every_step: follow orders step by step, also in long texts.
        bounds: at the final attention, also try all pairs of items, and all triples in texts of up to `TRIPLES` items;
            at the input level, every single item of texts that are not long.
    """
    counts = eraser.counts
    size, member = sizes.min(0)
    order = orders[member, torch.arange(len(size), device=size.device)]
    sets = _pruned_sets(eraser, order, torch.where(size <= counts, size, 0))
    result = sets.sum(1)
    tried = (result != 1) & (counts >= 2)
    all_tried = tried
    if isinstance(eraser, AttentionEraser):
        logits, before = eraser.batch.request.without_each, eraser.batch.logits.unsqueeze(1)
        flips = eraser.batch.config.decision.flips(before.expand_as(logits), logits) & eraser.erasable
        by_one = tried & flips.any(1)
        result[by_one] = 1
        sets[by_one] = torch.nn.functional.one_hot(flips.int().argmax(1), sets.shape[1]).bool()[by_one]
    elif bool(tried.any()):
        most = torch.where(eraser.long | (not bounds), SINGLES, counts)
        all_tried = tried & (counts <= most)
        by_single = torch.where(
            tried.unsqueeze(1), _order_by_singles(eraser, orders[informed], order, tried, most), order
        )
        first = eraser.flips(by_single.unsqueeze(0), every_step=every_step)
        other_sets = _pruned_sets(eraser, by_single, torch.where(first.flips[0] & tried, first.removed[0], 0))
        other = other_sets.sum(1)
        smaller = (other > 0) & ((result == 0) | (other < result))
        sets = torch.where(smaller.unsqueeze(1), other_sets, sets)
        result = torch.where(smaller, other, result)
    high: list[int | None] = [number or None for number in result.tolist()]
    least = torch.where(all_tried & (result != 1), 2, 1).minimum(counts)
    low: list[int | None] = list(least.tolist())
    flippable: list[bool | None] = [True if number else None for number in result.tolist()]
    if bounds and isinstance(eraser, AttentionEraser):
        _try_small_sets(eraser, low, high, flippable, sets)
    return FlippingSets(low, high, flippable, sets)


def _pruned_sets(eraser: Eraser, order: Tensor, size: Tensor) -> Tensor:
    """The first items of an order, ``size`` of them, as sets ``[B, N]`` after pruning; an empty set stays empty."""
    start, long = prefix_set(order, size), eraser.long.unsqueeze(1)
    # half of the room: items tried after one that is restored were tried for nothing
    pruned = prune_set(start & ~long, order, eraser.flips_without, room=eraser.room / 2)
    return pruned | prune_blocks(start & long, order, eraser.flips_without, PRUNED)


def _order_by_singles(eraser: Eraser, orders: Tensor, order: Tensor, wanted: Tensor, most: Tensor) -> Tensor:
    """The order ``[B, N]`` of how near another decision some texts are without single items.

    These are the items that come first in any of some orders; the others follow in a given order.

    Args:
        eraser: removes items.
        orders: ``[P, B, N]``, some of the panel.
        order: ``[B, N]``, for the items that are not tried.
        wanted: ``[B]`` bool, the texts.
        most: ``[B]``, how many items of each are tried.
    """
    best = ranks_of(eraser.order(-ranks_of(orders).amin(0).double()))
    tried = eraser.erasable & wanted.unsqueeze(1) & (best < most.unsqueeze(1))
    texts, items = tried.nonzero(as_tuple=True)
    removed = torch.zeros(len(texts), tried.shape[1], dtype=torch.bool, device=texts.device)
    removed[torch.arange(len(texts), device=texts.device), items] = True
    logits = eraser.logits_without(texts, removed)
    margins = torch.full(tried.shape, torch.inf, dtype=torch.float64, device=texts.device)
    margins[texts, items] = eraser.batch.config.decision.margin(eraser.batch.logits[texts], logits).double()
    by_margin = ranks_of(eraser.order(-margins))
    return eraser.order(-torch.where(tried, by_margin, tried.shape[1] + ranks_of(order)).double())


def _try_small_sets(
    eraser: AttentionEraser,
    low: list[int | None],
    high: list[int | None],
    flippable: list[bool | None],
    sets: Tensor,
) -> None:
    """Try all sets of two items, and of three in short texts, if the size is unknown; changes what it is given."""
    for text, count in enumerate(eraser.counts.tolist()):
        for size in (2, 3):
            if low[text] == size < (high[text] or count + 1) and (size == 2 or count <= TRIPLES):
                smallest = _first_of(eraser, text, size)
                if smallest is not None:
                    high[text], flippable[text], sets[text] = size, True, smallest
                elif size < count:
                    low[text] = size + 1
                else:  # every set has been tried
                    low[text], flippable[text] = None, False


def _first_of(eraser: AttentionEraser, text: int, size: int) -> Tensor | None:
    """The first set of a given size that flips a text, ``[N]`` bool; None if none does."""
    sets = itertools.combinations(eraser.erasable[text].nonzero().flatten().tolist(), size)
    while piece := list(itertools.islice(sets, _PIECE)):
        items = torch.tensor(piece, device=eraser.erasable.device)
        removed = torch.zeros(len(piece), eraser.erasable.shape[1], dtype=torch.bool, device=items.device)
        texts = torch.full((len(piece),), text, device=items.device)
        flips = eraser.flips_without(texts, removed.scatter_(1, items, True))
        if bool(flips.any()):
            return removed[flips.int().argmax()]
    return None
