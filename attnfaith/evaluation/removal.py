"""Erasing items step by step, at the final attention or from the whole model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor

from attnfaith.adapters.self_check import tolerance_of
from attnfaith.errors import NumericalError
from attnfaith.evaluation.batch import Batch
from attnfaith.evaluation.rankings import Ranking
from attnfaith.functional.first_flip import Evaluate, FirstFlips, RemovalOrders, first_flips, from_prefixes, from_sets
from attnfaith.functional.ranking import order_of

MARGIN = 0.05
"""A decision nearer a tie than this share of the tolerance of the logits' precision (float32: 1e-5) is marginal."""


class Eraser(ABC):
    """What can be erased of a batch at one level, and what the model says then.

    Attributes:
        batch: the texts.
        level: "attention" or "input".
        everything: ``[B, N]``, the items there are.
        erasable: ``[B, N]``, those that may go.
        floor: ``[B, N]``, what is left after the last step.
    """

    level: str
    first, growth = 8, 1.0

    def __init__(self, batch: Batch, everything: Tensor, erasable: Tensor, floor: Tensor) -> None:
        self.batch, self.everything, self.erasable, self.floor = batch, everything, erasable, floor

    @property
    def counts(self) -> Tensor:
        """``[B]``, how many items can be erased."""
        return self.erasable.sum(1)

    @property
    def last(self) -> Tensor:
        """``[B]``, the last step that leaves something to look at."""
        return self.counts

    @property
    @abstractmethod
    def weights(self) -> Tensor:
        """``[B, N]``, the original attention of each item."""

    @abstractmethod
    def logits_of(self, texts: Tensor, keep: Tensor) -> Tensor:
        """The logits ``[M, C]`` of texts ``[M]`` with only some items left, ``[M, N]``."""

    def evaluate(self, lanes: RemovalOrders) -> Evaluate:
        """How the steps of lanes are computed: as sets, each once."""
        return from_sets(lanes, self.logits_of)

    def order(self, scores: Tensor) -> Tensor:
        """Items by descending score ``[..., B, N]``: those that may go, those that stay, padding."""
        return order_of(scores, self.erasable, (self.everything & ~self.erasable, ~self.everything))

    def order_by(self, ranking: Ranking) -> Tensor:
        """The same by the scores of a ranking, made once for all tests."""
        key = (self.level, ranking)
        if key not in self.batch.orders:
            self.batch.orders[key] = self.order(self.batch.scores(ranking, self.level))
        return self.batch.orders[key]

    def logits_without(self, texts: Tensor, removed: Tensor) -> Tensor:
        """The logits ``[M, C]`` of texts ``[M]`` when sets of items ``[M, N]`` are removed."""
        keep = self.everything[texts] & ~removed
        all_gone = removed.sum(1) == self.counts[texts]
        logits = self.logits_of(texts, torch.where(all_gone.unsqueeze(1), self.floor[texts], keep))
        if not bool(logits.isfinite().all()):
            raise NumericalError("With some items removed, the model's logits are not finite.")
        return logits

    def flips_without(self, texts: Tensor, removed: Tensor) -> Tensor:
        """Whether the decisions of texts ``[M]`` flip when sets of items ``[M, N]`` are removed, ``[M]``."""
        return self.batch.setup.decision.flips(self.batch.logits[texts], self.logits_without(texts, removed))

    def flips(self, orders: Tensor, *, shared: Tensor | None = None, triggers: Tensor | None = None) -> FirstFlips:
        """The first flip of every text under every order, ``[R, B, N]``; the results are ``[R, B]``.

        Args:
            orders: to go down.
            shared: ``[R]`` bool, orders of which only the earliest flip of each text is needed; see `RemovalOrders`.
            triggers: ``[R]`` bool; see `RemovalOrders`.
        """
        count, texts = orders.shape[:2]
        lanes = RemovalOrders(
            orders.flatten(0, 1),
            torch.arange(texts, device=orders.device).repeat(count),
            self.counts,
            self.everything,
            self.floor,
            self.last,
            None if shared is None else shared.repeat_interleave(texts),
            None if triggers is None else triggers.repeat_interleave(texts),
        )
        found = first_flips(
            lanes,
            self.batch.logits,
            self.batch.setup.decision,
            self.evaluate(lanes),
            first=self.first,
            growth=self.growth,
        )
        shaped = (count, texts)
        return FirstFlips(
            found.flips.unflatten(0, shaped),
            found.removed.unflatten(0, shaped),
            found.logits.unflatten(0, shaped),
            found.closest_margin.unflatten(0, shaped),
        )

    @property
    def tolerance(self) -> Tensor:
        """``[B]``, how near a tie a decision is marginal, in logits."""
        logits = self.batch.logits
        return MARGIN * tolerance_of(logits) * logits.double().abs().amax(-1)


class AttentionEraser(Eraser):
    """Erases items from the final attention; only the tail is run."""

    level = "attention"

    def __init__(self, batch: Batch) -> None:
        mask, erasable = batch.capture.mask, batch.erasable(self.level)
        super().__init__(batch, mask, erasable, mask & ~erasable)

    @property
    def weights(self) -> Tensor:
        """As captured."""
        return self.batch.weights

    def logits_of(self, texts: Tensor, keep: Tensor) -> Tensor:
        """Through the tail."""
        return self.batch.setup.cut.rerun_sets(self.batch.capture, texts, keep)

    def evaluate(self, lanes: RemovalOrders) -> Evaluate:
        """Cumulative sums where the tail is affine, else sets."""
        cut, capture = self.batch.setup.cut, self.batch.capture
        if cut.adapter.affine(capture) is None:
            return super().evaluate(lanes)
        orders = lanes.orders.split(len(capture.mask))
        return from_prefixes(torch.cat([cut.prefixes(capture, order) for order in orders]))


class TokenEraser(Eraser):
    """Hides tokens from the whole model."""

    level = "input"
    first, growth = 1, 0.5

    def __init__(self, batch: Batch) -> None:
        assert batch.setup.hiding is not None
        adapter = batch.setup.cut.adapter
        tokens = batch.request.tokens
        self.deciding = adapter.deciding_tokens(batch.capture)
        own = torch.zeros_like(tokens)
        if self.deciding is not None:
            own.scatter_(1, self.deciding.unsqueeze(1), True)
        fixed = tokens & ~batch.erasable(self.level)
        structural = adapter.affine(batch.capture) is not None  # between words, as a HAN's ends of sentences
        if batch.setup.protect_deciding or batch.setup.hiding.protects:
            fixed |= own
        floor = own if self.deciding is not None else batch.special & (not structural)
        super().__init__(batch, tokens, tokens & ~fixed, tokens & (fixed | floor))
        self.empty = ~(self.floor & ~(batch.special & structural)).any(1)
        self.hiding = batch.setup.hiding.proved(batch.inputs, self.deciding)

    @property
    def last(self) -> Tensor:
        """One step less where the model would be given nothing."""
        return self.counts - self.empty.long()

    @property
    def weights(self) -> Tensor:
        """By token."""
        return self.batch.token_weights

    def logits_of(self, texts: Tensor, keep: Tensor) -> Tensor:
        """Through the whole model."""
        return self.hiding.run(self.batch.inputs, self.deciding, texts, keep)


ERASERS: dict[str, Callable[[Batch], Eraser]] = {"attention": AttentionEraser, "input": TokenEraser}
"""By erase level."""
