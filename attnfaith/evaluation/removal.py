"""Erase items of a batch, at the final attention or at the input, and find the first flip of the decision."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor

from attnfaith.adapters.self_check import tolerance_of
from attnfaith.errors import NumericalError
from attnfaith.evaluation.batch import Batch
from attnfaith.evaluation.rankings import Ranking
from attnfaith.functional.first_flip import Evaluate, FirstFlips, RemovalOrders, first_flips, from_prefixes, from_sets
from attnfaith.functional.known_sets import KnownSets
from attnfaith.functional.ranking import order_of
from attnfaith.functional.schedule import LONG, schedule_of

MARGIN = 0.05
"""A decision is marginal if it is nearer to a tie than this share of the logits' tolerance (float32: 1e-5)."""

ENOUGH = 512
"""Tokens in a pass that keep a processor busy: more steps at once than fill it may come after a flip, for nothing."""


class Eraser(ABC):
    """Erases items of a batch at one level and runs the model without them.

    Attributes:
        batch: the texts.
        level: "attention" or "input".
        items: ``[B, N]``, all items.
        erasable: ``[B, N]``, the items that can be erased.
        always_kept: ``[B, N]``, the items that are left after the last step.
        first: the number of steps that are computed at first, see `first_flips`.
        growth: by how much that number grows from pass to pass.
        room: how many steps are worth computing at once, over all orders.
    """

    level: str
    first, growth = 8, 1.0
    room = math.inf

    def __init__(self, batch: Batch, items: Tensor, erasable: Tensor, always_kept: Tensor) -> None:
        self.batch, self.items, self.erasable, self.always_kept = batch, items, erasable, always_kept

    @property
    def counts(self) -> Tensor:
        """``[B]``, the number of items that can be erased."""
        return self.erasable.sum(1)

    @property
    def max_removed(self) -> Tensor:
        """``[B]``, how many items can be removed and leave the model something to read."""
        return self.counts

    @property
    @abstractmethod
    def weights(self) -> Tensor:
        """``[B, N]``, the original attention of each item."""

    @abstractmethod
    def logits_of(self, texts: Tensor, keep: Tensor) -> Tensor:
        """The logits ``[M, C]`` of texts ``[M]`` with only some items left, ``[M, N]``."""

    def evaluate(self, orders: RemovalOrders) -> Evaluate:
        """The function that computes steps of removal orders: here as sets of items, each set once."""
        return from_sets(orders, self.logits_of)

    def order(self, scores: Tensor) -> Tensor:
        """Sort items by descending score ``[..., B, N]``: those that can be erased, the others, padding."""
        return order_of(scores, self.erasable, (self.items & ~self.erasable, ~self.items))

    def order_by(self, ranking: Ranking) -> Tensor:
        """The order by the scores of a ranking, computed once for all tests."""
        key = (self.level, ranking)
        if key not in self.batch.orders:
            self.batch.orders[key] = self.order(self.batch.scores(ranking, self.level))
        return self.batch.orders[key]

    def logits_without(self, texts: Tensor, removed: Tensor) -> Tensor:
        """The logits ``[M, C]`` of texts ``[M]`` without sets of items ``[M, N]``."""
        keep = self.items[texts] & ~removed
        all_gone = removed.sum(1) == self.counts[texts]
        logits = self.logits_of(texts, torch.where(all_gone.unsqueeze(1), self.always_kept[texts], keep))
        if not bool(logits.isfinite().all()):
            raise NumericalError("With some items removed, the model's logits are not finite.")
        return logits

    def flips_without(self, texts: Tensor, removed: Tensor) -> Tensor:
        """``[M]``, True where the decision of a text ``[M]`` flips without a set of items ``[M, N]``."""
        return self.batch.config.decision.flips(self.batch.logits[texts], self.logits_without(texts, removed))

    @property
    def long(self) -> Tensor:
        """``[B]``, texts of which not every step and not every item is tried, since each costs a pass."""
        return torch.zeros_like(self.counts, dtype=torch.bool)

    @property
    def schedule(self) -> Tensor | None:
        """``[B, S]``, the steps that are evaluated first, see `first_flips`; None for every step."""
        return schedule_of(self.max_removed, self.long) if bool(self.long.any()) else None

    def flips(
        self,
        orders: Tensor,
        *,
        every_step: bool = False,
        shared: Tensor | None = None,
        triggers: Tensor | None = None,
        watch: Callable[[Evaluate], Evaluate] = lambda evaluate: evaluate,
    ) -> FirstFlips:
        """The first flip of every text under every order ``[R, B, N]``; the results are ``[R, B]``.

        Args:
            orders: the orders of removal.
            every_step: evaluate every step up to the first flip, also where there is a schedule.
            shared: ``[R]`` bool, orders of which only the earliest flip of each text is needed; see `RemovalOrders`.
            triggers: ``[R]`` bool; see `RemovalOrders`.
            watch: from the function that computes steps to one that does the same, and looks at them; the orders have
                the numbers ``order * B + text``.
        """
        count, texts = orders.shape[:2]
        removal_orders = RemovalOrders(
            orders.flatten(0, 1),
            torch.arange(texts, device=orders.device).repeat(count),
            self.counts,
            self.items,
            self.always_kept,
            self.max_removed,
            None if shared is None else shared.repeat_interleave(texts),
            None if triggers is None else triggers.repeat_interleave(texts),
        )
        result = first_flips(
            removal_orders,
            self.batch.logits,
            self.batch.config.decision,
            watch(self.evaluate(removal_orders)),
            schedule=None if every_step else self.schedule,
            first=self.first,
            growth=self.growth,
            room=self.room,
        )
        return result.map(lambda values: values.unflatten(0, (count, texts)))

    @property
    def tolerance(self) -> Tensor:
        """``[B]``, the distance from a tie, in logits, below which a decision is marginal."""
        logits = self.batch.logits
        return MARGIN * tolerance_of(logits) * logits.double().abs().amax(-1)


class AttentionEraser(Eraser):
    """Erases items from the final attention; only the tail is run again."""

    level = "attention"

    def __init__(self, batch: Batch) -> None:
        mask, erasable = batch.capture.mask, batch.erasable(self.level)
        super().__init__(batch, mask, erasable, mask & ~erasable)
        self.affine = batch.config.cut.adapter.affine(batch.capture) is not None
        if self.affine:  # all steps are computed in any case
            self.first = mask.shape[1]

    @property
    def weights(self) -> Tensor:
        """The captured attention."""
        return self.batch.weights

    def logits_of(self, texts: Tensor, keep: Tensor) -> Tensor:
        """Run the tail."""
        return self.batch.config.cut.rerun_sets(self.batch.capture, texts, keep)

    def evaluate(self, orders: RemovalOrders) -> Evaluate:
        """Cumulative sums if the tail is affine, else sets."""
        if not self.affine:
            return super().evaluate(orders)
        cut, capture = self.batch.config.cut, self.batch.capture
        of_each_text = orders.orders.unflatten(0, (-1, len(capture.mask)))
        return from_prefixes(cut.prefixes_of_orders(capture, of_each_text).flatten(0, 1))


class TokenEraser(Eraser):
    """Hides tokens from the whole model, which is run again: each set of tokens once, whoever asks for it.

    A pass through the model is what costs time, so in long texts only some steps are evaluated (`schedule`).
    """

    level = "input"
    first, growth = 1, 0.25

    def __init__(self, batch: Batch) -> None:
        assert batch.config.hiding is not None
        adapter = batch.config.cut.adapter
        tokens = batch.request.tokens
        self.deciding = adapter.deciding_tokens(batch.capture)
        decides = torch.zeros_like(tokens)
        if self.deciding is not None:
            decides.scatter_(1, self.deciding.unsqueeze(1), True)
        fixed = tokens & ~batch.erasable(self.level)
        # In a HAN special tokens structure the text (ends of sentences) and are never all that is left.
        structural = adapter.affine(batch.capture) is not None
        if batch.config.protect_deciding or batch.config.hiding.protects:
            fixed |= decides
        floor = decides if self.deciding is not None else batch.special & (not structural)
        super().__init__(batch, tokens, tokens & ~fixed, tokens & (fixed | floor))
        self.empty = ~(self.always_kept & ~(batch.special & structural)).any(1)
        self.hiding = batch.config.hiding.proved(batch.inputs, self.deciding)
        self.known = batch.known_sets.setdefault(self.level, KnownSets(tokens.shape[1]))
        self.room = ENOUGH / float(tokens.sum(1).double().mean())

    @property
    def max_removed(self) -> Tensor:
        """One less for a text of which the model would read nothing after the last step."""
        return self.counts - self.empty.long()

    @property
    def weights(self) -> Tensor:
        """The attention by token."""
        return self.batch.token_weights

    @property
    def long(self) -> Tensor:
        """Texts of more than `LONG` tokens that can be erased."""
        return self.counts > LONG

    def logits_of(self, texts: Tensor, keep: Tensor) -> Tensor:
        """Run the whole model on the sets that no test has asked for yet."""
        return self.known.logits(texts, keep, self._run)

    def _run(self, texts: Tensor, keep: Tensor) -> Tensor:
        return self.hiding.run(self.batch.inputs, self.deciding, texts, keep)


ERASERS: dict[str, Callable[[Batch], Eraser]] = {"attention": AttentionEraser, "input": TokenEraser}
"""The erasers by level."""
