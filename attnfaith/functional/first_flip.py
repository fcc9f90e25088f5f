"""The first flip of a decision along orders of removal, each step of which is a set of items that is left."""

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
"""From lanes ``[l]``, a first and a last step (exclusive), to logits ``[l, steps, C]``."""


@dataclass(frozen=True)
class RemovalOrders:
    """Orders of removal, ``L`` of them, for ``B`` texts.

    Attributes:
        orders: ``[L, N]``, the items in the order in which they go; what cannot be erased comes last.
        texts: ``[L]``, the text each order is for.
        counts: ``[B]``, how many items can be erased.
        everything: ``[B, N]``, the items that are there before anything goes.
        floor: ``[B, N]``, what is left after the last step.
        last: ``[B]``, the last step: the count, or one less where nothing would be left to look at.
        shared: ``[L]`` bool, lanes of which only the earliest flip of a text matters: all of a text's stop with the
            first of them; None for none.
        triggers: ``[L]`` bool, lanes that stop the shared ones of their text when they flip, and go on themselves.
    """

    orders: Tensor
    texts: Tensor
    counts: Tensor
    everything: Tensor
    floor: Tensor
    last: Tensor
    shared: Tensor | None = None
    triggers: Tensor | None = None


@dataclass(frozen=True)
class FirstFlips:
    """What became of each lane.

    Attributes:
        flips: ``[L]``, whether the decision ever flipped.
        removed: ``[L]``, after how many removals; 0 where it never did.
        logits: ``[L, C]``, at the flip; those of the last step where it never did.
        nearest: ``[L]``, how near a tie the decision or any step up to the flip came, in logits.
    """

    flips: Tensor
    removed: Tensor
    logits: Tensor
    nearest: Tensor

    def only(self, chosen: Tensor) -> FirstFlips:
        """Those of some lanes."""
        return FirstFlips(self.flips[chosen], self.removed[chosen], self.logits[chosen], self.nearest[chosen])


def first_flips(
    lanes: RemovalOrders, before: Tensor, decision: Decision, evaluate: Evaluate, *, first: int = 8, growth: float = 1.0
) -> FirstFlips:
    """Go down every lane in growing steps until its decision flips; the curve is not monotone, so no step is skipped.

    Args:
        lanes: the orders.
        before: ``[B, C]``, the logits with nothing removed.
        decision: how logits decide.
        evaluate: the logits of lanes at steps.
        first: how many steps are evaluated at once, at first.
        growth: and then, relative to the steps behind.
    """
    own, last = before[lanes.texts], lanes.last[lanes.texts]
    count, device = len(lanes.texts), before.device
    flips = torch.zeros(count, dtype=torch.bool, device=device)
    removed = torch.zeros(count, dtype=torch.long, device=device)
    logits = own.clone()
    nearest = decision.margin(own, own).double().abs()  # a decision that hung by a thread is as uncertain as its flip
    active = last > 0
    start, size = 1, first
    while bool(active.any()):
        going = active.nonzero().squeeze(-1)
        stop = min(start + size, int(last[going].max()) + 1)
        found = evaluate(going, start, stop)
        steps = torch.arange(start, stop, device=device)
        valid = steps <= last[going].unsqueeze(-1)
        if not bool((found.isfinite().all(-1) | ~valid).all()):
            raise NumericalError("With some items removed, the model's logits are not finite.")
        base = own[going].unsqueeze(1)
        flipped = decision.flips(base, found) & valid
        any_flip, place = flipped.any(1), flipped.int().argmax(1)
        end = torch.where(any_flip, place, valid.sum(1) - 1)
        seen = valid & (steps - start <= end.unsqueeze(-1))
        near = decision.margin(base, found).double().abs().masked_fill(~seen, torch.inf).amin(1)
        nearest[going] = torch.minimum(nearest[going], near)
        logits[going] = found.gather(1, end[:, None, None].expand(-1, 1, found.shape[2])).squeeze(1)
        flips[going] = any_flip
        removed[going] = torch.where(any_flip, place + start, 0)
        active[going] = ~any_flip & (last[going] >= stop)
        if lanes.shared is not None and lanes.triggers is not None:
            settled = torch.zeros(len(before), dtype=torch.bool, device=device)
            settled[lanes.texts[flips & (lanes.shared | lanes.triggers)]] = True
            active &= ~(lanes.shared & settled[lanes.texts])
        start, size = stop, max(first, math.ceil(stop * growth))
    return FirstFlips(flips, removed, logits, nearest)


def by_prefixes(prefixes: Tensor) -> Evaluate:
    """Steps that are all known already: ``[L, N + 1, C]``."""
    return lambda lanes, start, stop: prefixes[lanes, start:stop]


def by_sets(lanes: RemovalOrders, run: Callable[[Tensor, Tensor], Tensor]) -> Evaluate:
    """Steps that are run as sets, each set of a text once however many orders come through it.

    Sets are told apart by the sum of a random 64-bit number for each item.

    Args:
        lanes: the orders.
        run: from texts ``[M]`` and what is kept ``[M, N]`` to logits ``[M, C]``.
    """
    width = lanes.orders.shape[1]
    generator = torch.Generator().manual_seed(0)
    numbers = torch.randint(-(2**62), 2**62, (width,), generator=generator).to(lanes.orders.device)
    keys = torch.nn.functional.pad(numbers[lanes.orders].cumsum(1), (1, 0))
    keys += (torch.arange(len(lanes.counts), device=keys.device) * 0x9E3779B97F4A7C1)[lanes.texts].unsqueeze(-1)
    ranks = ranks_of(lanes.orders)

    def evaluate(going: Tensor, start: int, stop: int) -> Tensor:
        last = lanes.last[lanes.texts[going]]
        steps = torch.arange(start, stop, device=going.device)
        lane, step = (steps <= last.unsqueeze(-1)).nonzero(as_tuple=True)
        _, inverse = keys[going[lane], steps[step]].unique(return_inverse=True)
        chosen = torch.empty(int(inverse.max()) + 1, dtype=torch.long, device=going.device)
        chosen[inverse] = torch.arange(len(inverse), device=going.device)
        lane_of, step_of = going[lane[chosen]], steps[step[chosen]]
        texts = lanes.texts[lane_of]
        keep = (ranks[lane_of] >= step_of.unsqueeze(-1)) & lanes.everything[texts]
        keep = torch.where((step_of == lanes.counts[texts]).unsqueeze(-1), lanes.floor[texts], keep)
        found = run(texts, keep)
        logits = found.new_zeros(len(going), len(steps), found.shape[-1])
        logits[lane, step] = found[inverse]
        return logits

    return evaluate
