"""A batch of texts on its way through every test: captured once, scored once by each ranking."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from attnfaith.adapters.cut import Cut
from attnfaith.attribution.attention import attention_at_input, mean_distribution
from attnfaith.attribution.method import YOURS, InexactScores, MethodOptions, Request, Scores
from attnfaith.data.source import Row
from attnfaith.errors import UnsupportedModelError
from attnfaith.evaluation.rankings import Ranking
from attnfaith.evaluation.token_hiding import Hiding
from attnfaith.functional.decision import Decision
from attnfaith.text.annotations import align_scores
from attnfaith.text.encoded import EncodedText
from attnfaith.types import Capture
from attnfaith.validation import short_repr


@dataclass(frozen=True)
class RunConfig:
    """What is the same for every batch of a run.

    Attributes:
        cut: the model, cut.
        decision: how it decides.
        settings: of the methods.
        target: "predicted", "gold" or a class.
        output: what rankings explain; None for each method's own.
        special_tokens: "include" or "protect" (never erased).
        protect_deciding: whether the deciding token is never erased at the input level.
        rankings: by erase level.
        hiding: how tokens are hidden at the input level; None where they are not.
        kept: what tests make once and use for every batch, by name.
    """

    cut: Cut
    decision: Decision
    settings: MethodOptions
    target: str | int = "predicted"
    output: str | None = None
    special_tokens: str = "include"
    protect_deciding: bool = False
    rankings: dict[str, tuple[Ranking, ...]] = field(default_factory=dict)
    hiding: Hiding | None = None
    kept: dict[str, Any] = field(default_factory=dict, compare=False)


class Batch:
    """Some texts, as every test sees them.

    Attributes:
        setup: what is the same for every batch.
        rows: the texts as they are in the data.
        encoded: the texts as the model reads them.
        inputs: the model's inputs.
        capture: the texts, cut at the final attention.
        orders: of removal, by erase level and ranking, that some test has made already.
        inexact: how many texts have inexact scores, by ranking, for rankings that were used and judge it.
    """

    def __init__(
        self, setup: RunConfig, rows: Sequence[Row], encoded: Sequence[EncodedText], inputs: dict[str, Any]
    ) -> None:
        self.setup, self.rows, self.encoded = setup, rows, encoded
        self.capture: Capture = setup.cut.capture(**inputs)
        # A tokenizer makes tensors on the CPU; what is computed from both must be on the model's device.
        device = self.capture.mask.device
        self.inputs = {name: one.to(device) if isinstance(one, Tensor) else one for name, one in inputs.items()}
        self.orders: dict[tuple[str, Ranking], Tensor] = {}
        self.inexact: dict[Ranking, InexactScores] = {}
        self._scores: dict[Ranking, Scores] = {}

    @property
    def logits(self) -> Tensor:
        """The model's own, ``[B, C]``."""
        return self.capture.logits

    @cached_property
    def target(self) -> Tensor:
        """The class explained, ``[B]``."""
        predicted = self.setup.decision.predict(self.logits)
        if self.setup.target == "predicted":
            return predicted
        if self.setup.target == "gold":
            return torch.tensor([int(row.label) for row in self.rows], device=predicted.device)  # type: ignore[arg-type]
        return torch.full_like(predicted, int(self.setup.target))

    @cached_property
    def request(self) -> Request:
        """What every method is asked; methods share what it has computed."""
        return Request(
            cut=self.setup.cut,
            inputs=self.inputs,
            target=self.target,
            output=self._output("probability"),
            decision=self.setup.decision,
            settings=self.setup.settings,
            text_ids=tuple(row.number for row in self.rows),
            given=self.capture,
        )

    @cached_property
    def special(self) -> Tensor:
        """``[B, L]``, True for special tokens of the input."""
        ids = self.inputs["input_ids"]
        return torch.isin(
            ids, torch.tensor(sorted(self.setup.settings.special_ids), dtype=ids.dtype, device=ids.device)
        )

    @cached_property
    def special_items(self) -> Tensor:
        """``[B, N]``, True for items that are special tokens."""
        items = self.capture.items
        if items is None or items.kind != "tokens" or items.spans is None:
            return torch.zeros_like(self.capture.mask)
        return self.special.gather(1, items.spans[..., 0]) & self.capture.mask

    def erasable(self, level: str) -> Tensor:
        """The items that may be taken away at a level, ``[B, N]`` or ``[B, L]``, and that rankings of it are about.

        Special tokens may not, where they are protected, or stand between words as a HAN's ends of sentences.
        """
        mask, special = (self.capture.mask, self.special_items)
        if level == "input":
            mask, special = self.request.tokens, self.special
        between = level == "input" and self.setup.cut.adapter.affine(self.capture) is not None
        return mask & ~special if between or self.setup.special_tokens == "protect" else mask

    @cached_property
    def weights(self) -> Tensor:
        """``[B, N]``, the mean attention over the distributions that the decision reads."""
        return mean_distribution(self.request).double()

    @cached_property
    def token_weights(self) -> Tensor:
        """``[B, L]``, the same by token; NaN where items belong to no certain tokens."""
        try:
            return attention_at_input(replace(self.request, settings=self._final)).values.double()
        except UnsupportedModelError:
            return torch.full(self.request.tokens.shape, torch.nan, dtype=torch.float64, device=self.logits.device)

    @property
    def _final(self) -> MethodOptions:
        return replace(self.setup.settings, layer="final")

    def scores(self, ranking: Ranking, erase_level: str) -> Tensor:
        """A ranking's scores of the items that are erased at a level: ``[B, N]`` or ``[B, L]``, higher goes first."""
        if ranking not in self._scores:
            self._scores[ranking] = self._brought(ranking) if ranking.level == YOURS else self._computed(ranking)
        found = self._scores[ranking]
        places = self.capture.mask.shape if erase_level == "attention" else self.request.tokens.shape
        own = "attention" if found.mask is self.capture.mask else "input"
        if own == erase_level:
            return found.values
        items = self.capture.items
        if items is None or items.spans is None or items.kind != "tokens":
            raise UnsupportedModelError(f"{ranking} does not score what is erased at the level {erase_level!r}.")
        starts, mask = items.spans[..., 0], self.capture.mask
        if erase_level == "attention":
            return torch.where(mask, found.values.gather(1, starts), 0.0)
        placed = torch.zeros(places, dtype=found.values.dtype, device=mask.device)
        rows = torch.arange(len(mask), device=mask.device).unsqueeze(1).expand_as(mask)
        placed[rows[mask], starts[mask]] = found.values[mask]
        return placed

    def _computed(self, ranking: Ranking) -> Scores:
        output = self._output(ranking.method.default_output)
        request = self.request if output == self.request.output else replace(self.request, output=output)
        found = ranking.method.run(request)
        inexact = InexactScores.of_scores(found)
        if inexact is not None:
            self.inexact[ranking] = inexact
        mask = self.capture.mask if ranking.level == "attention" else self.request.tokens
        return replace(found, mask=mask)

    def _brought(self, ranking: Ranking) -> Scores:
        """Scores that a user brings; of sentences, where there are as many as sentences."""
        by_sentence = self.capture.items is not None and self.capture.items.kind == "sentences"
        lines = []
        for place, (row, encoded) in enumerate(zip(self.rows, self.encoded, strict=True)):
            where = f"Row {row.number}, explanation {short_repr(ranking.name)}"
            count = int(self.capture.lengths[place]) if by_sentence else None
            lines.append(align_scores(_given(ranking, row, encoded), encoded, where, sentences=count))
        tokens, lengths = self.request.tokens, self.capture.lengths.tolist()
        sentences = by_sentence and all(len(line) == count for line, count in zip(lines, lengths, strict=True))
        mask = self.capture.mask if sentences else tokens
        values = torch.zeros(mask.shape, dtype=torch.float64, device=mask.device)
        values[mask] = torch.tensor(
            [score for line in lines for score in line], dtype=torch.float64, device=mask.device
        )
        return Scores(values, mask)

    def _output(self, default: str) -> str:
        if self.setup.decision.kind == "regression":
            return "logit"
        return self.setup.output or default


def _given(ranking: Ranking, row: Row, encoded: EncodedText) -> Any:
    """What a user says of a text; NaN for each token where there is nothing."""
    if callable(ranking.source):
        return ranking.source(encoded)
    found = (row.scores or {}).get(str(ranking.source))
    return found or [math.nan] * len(encoded.ids)
