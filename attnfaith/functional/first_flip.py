"""The first flip of a decision while items are removed one by one, along many orders of many texts at once."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial

import torch
from torch import Tensor

from attnfaith.errors import NumericalError
from attnfaith.functional.decision import Decision
from attnfaith.functional.ranking import ranks_of

Evaluate = Callable[[Tensor, Tensor], Tensor]
"""From indices of orders ``[l]`` and steps ``[l, k]`` (0 for no step) to logits ``[l, k, C]``."""


@dataclass(frozen=True)
class RemovalOrders:
    """``L`` orders of removal for ``B`` texts; a text may have several orders.

    Attributes:
        orders: ``[L, N]``, the items in the order in which they are removed; what cannot be erased comes last.
        texts: ``[L]``, the text that each order belongs to.
        counts: ``[B]``, how many items can be erased.
        items: ``[B, N]``, the items that are there before anything is removed.
        always_kept: ``[B, N]``, the items left after the last step.
        max_removed: ``[B]``, the last step: the count, or one less where the model cannot run on what would be left.
        shared: ``[L]`` bool, orders of which only the earliest flip of a text matters: all of a text's shared orders
            stop at the first flip of any of them; None for no such orders.
        triggers: ``[L]`` bool, orders whose flip also stops the shared orders of their text. They themselves go on.
    """

    orders: Tensor
    texts: Tensor
    counts: Tensor
    items: Tensor
    always_kept: Tensor
    max_removed: Tensor
    shared: Tensor | None = None
    triggers: Tensor | None = None


@dataclass(frozen=True)
class FirstFlips:
    """The result for each order.

    Attributes:
        flips: ``[L]``, whether the decision was seen to flip.
        removed: ``[L]``, after how many removals; 0 where it was not.
        logits: ``[L, C]``, at the flip; at the last step where there was none.
        closest_margin: ``[L]``, in logits, how close to a tie the original decision or any step up to the flip came.
        exact: ``[L]``, whether every step before the flip was evaluated, and every step where there was none. Where
            not, the decision may have flipped earlier, and flipped back, between two steps of the schedule.
    """

    flips: Tensor
    removed: Tensor
    logits: Tensor
    closest_margin: Tensor
    exact: Tensor

    def map(self, change: Callable[[Tensor], Tensor]) -> FirstFlips:
        """The results of other orders, or in another shape; ``change`` gets each tensor ``[L, ...]``."""
        return FirstFlips(*(change(getattr(self, field.name)) for field in fields(self)))


def first_flips(
    removal: RemovalOrders,
    before: Tensor,
    decision: Decision,
    evaluate: Evaluate,
    *,
    schedule: Tensor | None = None,
    first: int = 8,
    growth: float = 1.0,
    room: float = math.inf,
) -> FirstFlips:
    """Remove items along every order until its decision flips, evaluating several steps at once.

    The logits are not monotone in the number of removed items: a decision can flip, flip back, and flip again. A
    bisection would therefore miss first flips, so every step up to the first flip is evaluated. With a schedule, the
    steps of the schedule are evaluated up to the first flip; then every step between that flip and the step of the
    schedule before it.

    Args:
        removal: the orders.
        before: ``[B, C]``, the logits with nothing removed.
        decision: how logits decide.
        evaluate: computes the logits of orders at steps.
        schedule: ``[B, S]``, the steps of each text in ascending order, up to its last one, and then 0; None for every
            step.
        first: how many steps are evaluated at once in the beginning.
        growth: how many are evaluated at once later, relative to the number of steps already done.
        room: how many are worth evaluating at once, over all orders: those that come after a flip are for nothing.
    """
    original, last = before[removal.texts], removal.max_removed[removal.texts]
    every_step = torch.arange(1, removal.orders.shape[1] + 1, device=before.device)
    steps = every_step * (every_step <= last.unsqueeze(-1)) if schedule is None else schedule[removal.texts]
    pace = partial(_pace, first=first, growth=growth, room=room)
    path = _follow(steps, original, decision, evaluate, partial(_settled, removal), pace)
    # Steps ascend from 1. If k steps come before the flip and the last of them is step k, none was left out.
    exact = torch.where(path.flips, path.index == path.previous, (steps > 0).sum(1) == last)
    skipped = path.flips & (path.removed - path.previous > 1)
    if removal.shared is not None:
        skipped &= ~removal.shared | (path.removed == _earliest(removal, path))
    if bool(skipped.any()):
        between = path.previous.unsqueeze(-1) + every_step
        between = between * (skipped.unsqueeze(-1) & (between < path.removed.unsqueeze(-1)))
        finer = _follow(between, original, decision, evaluate, torch.zeros_like, pace)
        path = finer.or_else(path)
    margin = decision.margin(original, original).double().abs()
    # a text whose original decision is nearly a tie is as uncertain as one that flips at nearly a tie
    return FirstFlips(path.flips, path.removed, path.logits, torch.minimum(margin, path.closest()), exact)


@dataclass(frozen=True)
class _Path:
    """How far each of ``L`` orders got along its steps.

    Attributes:
        flips: ``[L]``, whether the decision flipped at one of them.
        removed: ``[L]``, at which; 0 where at none.
        previous: ``[L]``, the step before; 0 for the first.
        index: ``[L]``, how many steps come before the flip.
        logits: ``[L, C]``, at the flip, else at the last step.
        flip_margin: ``[L]``, how close to a tie the flip is; inf without one.
        margin: ``[L]``, how close to a tie any step before the flip is.
    """

    flips: Tensor
    removed: Tensor
    previous: Tensor
    index: Tensor
    logits: Tensor
    flip_margin: Tensor
    margin: Tensor

    def closest(self) -> Tensor:
        """``[L]``, how close to a tie any step up to the flip is."""
        return torch.minimum(self.margin, self.flip_margin)

    def or_else(self, other: _Path) -> _Path:
        """This path where it flips, another where it does not; the steps of both lie before the flip."""
        values = {}
        for field in fields(self):
            own_value, other_value = getattr(self, field.name), getattr(other, field.name)
            chosen = self.flips.unsqueeze(-1) if own_value.dim() > 1 else self.flips
            values[field.name] = torch.where(chosen, own_value, other_value)
        return _Path(**{**values, "margin": torch.minimum(self.margin, other.margin)})


def _follow(
    steps: Tensor,
    original: Tensor,
    decision: Decision,
    evaluate: Evaluate,
    settled: Callable[[Tensor], Tensor],
    pace: Callable[[int, int], int],
) -> _Path:
    """Evaluate steps ``[L, S]`` (ascending, then 0) of every order until its decision flips.

    Args:
        steps: the steps.
        original: ``[L, C]``, the logits with nothing removed.
        decision: how logits decide.
        evaluate: computes the logits of orders at steps.
        settled: maps which orders have flipped, ``[L]``, to which of them need no further steps.
        pace: how many steps of each order are evaluated at once, from the steps already done and the orders left.
    """
    flips = torch.zeros(len(steps), dtype=torch.bool, device=steps.device)
    removed, previous, index = (torch.zeros_like(steps[:, 0]) for _ in range(3))
    margin, flip_margin = (torch.full_like(removed, torch.inf, dtype=torch.float64) for _ in range(2))
    logits = original.clone()
    lengths = (steps > 0).sum(1)
    active = lengths > 0
    start = 0
    while bool(active.any()):
        running = active.nonzero().squeeze(-1)
        stop = min(start + pace(start, len(running)), int(lengths[running].max()))
        chunk = steps[running, start:stop]
        valid = chunk > 0
        after = evaluate(running, chunk)
        if not _all_finite(after) and not bool((after.isfinite().all(-1) | ~valid).all()):
            raise NumericalError("With some items removed, the model's logits are not finite.")
        base = original[running].unsqueeze(1)
        flipped, margins = decision.flips_and_margins(base, after)
        flipped = flipped & valid
        any_flip, first_flip = flipped.byte().max(1)  # the first of several
        any_flip = any_flip.bool()
        end = torch.where(any_flip, first_flip, valid.sum(1) - 1)
        last_column = end.unsqueeze(1)
        margins = margins.double().abs()
        # steps after the flip do not count: how many of them are evaluated depends on the pace
        columns = torch.arange(stop - start, device=steps.device)
        before_flip = valid & ((columns < last_column) | ~any_flip.unsqueeze(1))
        margin[running] = torch.minimum(margin[running], margins.masked_fill(~before_flip, torch.inf).amin(1))
        flip_margin[running] = margins.gather(1, last_column).squeeze(1).masked_fill(~any_flip, torch.inf)
        logits[running] = after.gather(1, last_column.unsqueeze(2).expand(-1, 1, after.shape[2])).squeeze(1)
        flips[running] = any_flip
        removed[running] = torch.where(any_flip, chunk.gather(1, last_column).squeeze(1), 0)
        index[running] = start + end
        previous[running] = torch.where(start + end > 0, steps[running, (start + end - 1).clamp_min(0)], 0)
        active[running] = ~any_flip & (lengths[running] > stop)
        active &= ~settled(flips)
        start = stop
    return _Path(flips, removed, previous, index, logits, flip_margin, margin)


def _all_finite(values: Tensor) -> bool:
    """Whether all values are finite; the extremes are found faster than a look at each value, and NaN is one."""
    low, high = values.aminmax()
    return bool(low.isfinite() & high.isfinite())


def _pace(done: int, orders: int, *, first: int, growth: float, room: float) -> int:
    """How many steps of each order are evaluated at once."""
    if not done:
        return first
    return max(first, math.ceil(min((done + 1) * growth, room / orders)))


def _settled(removal: RemovalOrders, flips: Tensor) -> Tensor:
    """``[L]``, the shared orders of texts of which a shared order or a trigger has flipped."""
    if removal.shared is None or removal.triggers is None:
        return torch.zeros_like(flips)
    settled = torch.zeros(len(removal.counts), dtype=torch.bool, device=flips.device)
    settled[removal.texts[flips & (removal.shared | removal.triggers)]] = True
    return removal.shared & settled[removal.texts]


def _earliest(removal: RemovalOrders, path: _Path) -> Tensor:
    """``[L]``, the earliest flip of each order's text among shared orders and triggers; 0 for no flip."""
    assert removal.shared is not None
    counts = path.flips & (removal.shared if removal.triggers is None else removal.shared | removal.triggers)
    width = removal.orders.shape[1] + 1
    earliest = torch.full_like(removal.counts, width)
    earliest.scatter_reduce_(0, removal.texts[counts], path.removed[counts], "amin")
    return earliest[removal.texts]


def from_prefixes(prefixes: Tensor) -> Evaluate:
    """Look steps up in logits that are all computed already, ``[L, N + 1, C]``."""

    def evaluate(running: Tensor, steps: Tensor) -> Tensor:
        first = int(steps[0, 0])
        consecutive = torch.arange(first, first + steps.shape[1], device=steps.device)
        if not bool(((steps == consecutive) | (steps == 0)).all()):
            return prefixes[running.unsqueeze(1), steps]
        chosen = prefixes[:, first : first + steps.shape[1]]  # much faster than looking every step up by itself
        return chosen if len(running) == len(prefixes) else chosen.index_select(0, running)

    return evaluate


def from_sets(removal: RemovalOrders, run: Callable[[Tensor, Tensor], Tensor]) -> Evaluate:
    """Compute steps by running the sets of items that are kept; equal sets of one text are run once.

    Many orders reach the same set (all of them after the last step), and a run of the model is what costs time. To find
    equal sets without comparing masks, each item gets a random 64-bit number, and the key of a set is the sum of the
    numbers of what was removed. Sums may wrap around: two different sets still have the same key with a probability of
    about 2**-63 only.

    Args:
        removal: the orders.
        run: from texts ``[M]`` and what is kept ``[M, N]`` to logits ``[M, C]``.
    """
    width = removal.orders.shape[1]
    generator = torch.Generator().manual_seed(0)
    numbers = torch.randint(-(2**62), 2**62, (width,), generator=generator).to(removal.orders.device)
    keys = torch.nn.functional.pad(numbers[removal.orders].cumsum(1), (1, 0))
    # equal sets of different texts are different runs: each text shifts its keys by a multiple of one odd constant
    keys += (torch.arange(len(removal.counts), device=keys.device) * 0x9E3779B97F4A7C1)[removal.texts].unsqueeze(-1)
    ranks = ranks_of(removal.orders)

    def evaluate(running: Tensor, steps: Tensor) -> Tensor:
        row, column = (steps > 0).nonzero(as_tuple=True)
        step = steps[row, column]
        _, inverse = keys[running[row], step].unique(return_inverse=True)
        # any representative of equal sets will do; unique() does not return an index of one
        chosen = torch.empty(int(inverse.max()) + 1, dtype=torch.long, device=running.device)
        chosen[inverse] = torch.arange(len(inverse), device=running.device)
        order, removed = running[row[chosen]], step[chosen]
        texts = removal.texts[order]
        keep = (ranks[order] >= removed.unsqueeze(-1)) & removal.items[texts]
        keep = torch.where((removed == removal.counts[texts]).unsqueeze(-1), removal.always_kept[texts], keep)
        unique_logits = run(texts, keep)
        logits = unique_logits.new_zeros(*steps.shape, unique_logits.shape[-1])
        logits[row, column] = unique_logits[inverse]
        return logits

    return evaluate
