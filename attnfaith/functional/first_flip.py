"""The first flip of a decision while items are removed one by one, along many orders of many texts at once."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from attnfaith.errors import NumericalError
from attnfaith.functional.decision import Decision
from attnfaith.functional.ranking import ranks_of

Evaluate = Callable[[Tensor, int, int], Tensor]
"""From indices of orders ``[l]``, a first step and a last step (exclusive), to logits ``[l, steps, C]``."""


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
        flips: ``[L]``, whether the decision ever flipped.
        removed: ``[L]``, after how many removals; 0 where it never did.
        logits: ``[L, C]``, at the flip; at the last step where it never did.
        closest_margin: ``[L]``, in logits, how close to a tie the original decision or any step up to the flip came.
    """

    flips: Tensor
    removed: Tensor
    logits: Tensor
    closest_margin: Tensor

    def only(self, chosen: Tensor) -> FirstFlips:
        """The results of some orders."""
        return FirstFlips(self.flips[chosen], self.removed[chosen], self.logits[chosen], self.closest_margin[chosen])


def first_flips(
    removal: RemovalOrders,
    before: Tensor,
    decision: Decision,
    evaluate: Evaluate,
    *,
    first: int = 8,
    growth: float = 1.0,
) -> FirstFlips:
    """Remove items along every order until its decision flips, evaluating several steps at once.

    The logits are not monotone in the number of removed items: a decision can flip, flip back, and flip again. A
    bisection would therefore miss first flips, so every step up to the first flip is evaluated.

    Args:
        removal: the orders.
        before: ``[B, C]``, the logits with nothing removed.
        decision: how logits decide.
        evaluate: computes the logits of orders at steps.
        first: how many steps are evaluated at once in the beginning.
        growth: how many are evaluated at once later, relative to the number of steps already done.
    """
    original, last = before[removal.texts], removal.max_removed[removal.texts]
    count, device = len(removal.texts), before.device
    flips = torch.zeros(count, dtype=torch.bool, device=device)
    removed = torch.zeros(count, dtype=torch.long, device=device)
    logits = original.clone()
    # a text whose original decision is nearly a tie is as uncertain as one that flips at nearly a tie
    closest = decision.margin(original, original).double().abs()
    active = last > 0
    start, size = 1, first
    while bool(active.any()):
        running = active.nonzero().squeeze(-1)
        stop = min(start + size, int(last[running].max()) + 1)
        after = evaluate(running, start, stop)
        steps = torch.arange(start, stop, device=device)
        valid = steps <= last[running].unsqueeze(-1)
        if not bool((after.isfinite().all(-1) | ~valid).all()):
            raise NumericalError("With some items removed, the model's logits are not finite.")
        base = original[running].unsqueeze(1)
        flipped = decision.flips(base, after) & valid
        any_flip, index = flipped.any(1), flipped.int().argmax(1)
        end = torch.where(any_flip, index, valid.sum(1) - 1)
        # steps after the flip do not count: how many of them are evaluated depends on `first` and `growth`
        counted = valid & (steps - start <= end.unsqueeze(-1))
        margin = decision.margin(base, after).double().abs().masked_fill(~counted, torch.inf).amin(1)
        closest[running] = torch.minimum(closest[running], margin)
        logits[running] = after.gather(1, end[:, None, None].expand(-1, 1, after.shape[2])).squeeze(1)
        flips[running] = any_flip
        removed[running] = torch.where(any_flip, index + start, 0)
        active[running] = ~any_flip & (last[running] >= stop)
        if removal.shared is not None and removal.triggers is not None:
            settled = torch.zeros(len(before), dtype=torch.bool, device=device)
            settled[removal.texts[flips & (removal.shared | removal.triggers)]] = True
            active &= ~(removal.shared & settled[removal.texts])
        start, size = stop, max(first, math.ceil(stop * growth))
    return FirstFlips(flips, removed, logits, closest)


def from_prefixes(prefixes: Tensor) -> Evaluate:
    """Look steps up in logits that are all computed already, ``[L, N + 1, C]``."""
    return lambda running, start, stop: prefixes[running, start:stop]


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

    def evaluate(running: Tensor, start: int, stop: int) -> Tensor:
        last = removal.max_removed[removal.texts[running]]
        steps = torch.arange(start, stop, device=running.device)
        row, step = (steps <= last.unsqueeze(-1)).nonzero(as_tuple=True)
        _, inverse = keys[running[row], steps[step]].unique(return_inverse=True)
        # any representative of equal sets will do; unique() does not return an index of one
        chosen = torch.empty(int(inverse.max()) + 1, dtype=torch.long, device=running.device)
        chosen[inverse] = torch.arange(len(inverse), device=running.device)
        order, removed = running[row[chosen]], steps[step[chosen]]
        texts = removal.texts[order]
        keep = (ranks[order] >= removed.unsqueeze(-1)) & removal.items[texts]
        keep = torch.where((removed == removal.counts[texts]).unsqueeze(-1), removal.always_kept[texts], keep)
        unique_logits = run(texts, keep)
        logits = unique_logits.new_zeros(len(running), len(steps), unique_logits.shape[-1])
        logits[row, step] = unique_logits[inverse]
        return logits

    return evaluate
