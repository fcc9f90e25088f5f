"""`Batch`: texts with their capture and the scores of every ranking, computed once for all tests."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pyarrow as pa
import torch
from torch import Tensor

from attnfaith.adapters.cut import Cut
from attnfaith.attribution.attention import attention_at_input, mean_distribution
from attnfaith.attribution.method import YOURS
from attnfaith.attribution.request import MethodOptions, Request
from attnfaith.attribution.scores import InexactScores, Scores
from attnfaith.data.source import Row
from attnfaith.errors import UnsupportedModelError
from attnfaith.evaluation.profile import Profile
from attnfaith.evaluation.rankings import Ranking
from attnfaith.evaluation.token_hiding import Hiding
from attnfaith.explanations.explained import Explained
from attnfaith.functional.decision import Decision
from attnfaith.functional.known_sets import KnownSets
from attnfaith.text.annotations import align_scores
from attnfaith.text.encoded import EncodedText
from attnfaith.types import Capture
from attnfaith.validation import short_repr


@dataclass(frozen=True)
class Erased:
    """What the erasure test removed from the texts of a batch, at one level.

    Attributes:
        rankings: the rankings.
        flips: ``[R, B]``, whether a ranking flips a decision.
        sets: ``[R, B, N]``, what it had removed then; empty where it never flips.
        smallest: ``[B, N]``, the smallest set known that flips a decision; empty where none is known.
    """

    rankings: tuple[Ranking, ...]
    flips: Tensor
    sets: Tensor
    smallest: Tensor


@dataclass(frozen=True)
class RunConfig:
    """The configuration of a run, the same for every batch.

    Attributes:
        cut: the model, cut.
        decision: how the model decides.
        settings: the options of the methods.
        target: "predicted", "gold" or a class.
        output: the output that rankings explain; None for each method's default.
        special_tokens: "include" or "protect" (never erased).
        protect_deciding: never erase the deciding token at the input level.
        rankings: by erase level.
        left_out: by erase level, the rankings that the default leaves out because of what they cost.
        hiding: how tokens are hidden at the input level; None if nothing is erased there.
        stored: the row numbers of the texts that the run stores, see `attnfaith.evaluation.stored_texts`.
        sample: those of the texts that tests look at which cannot look at all of them; None for all.
        cache: what is computed once and used for every batch, by name.
    """

    cut: Cut
    decision: Decision
    settings: MethodOptions
    target: str | int = "predicted"
    output: str | None = None
    special_tokens: str = "include"
    protect_deciding: bool = False
    rankings: dict[str, tuple[Ranking, ...]] = field(default_factory=dict)
    left_out: dict[str, tuple[Ranking, ...]] = field(default_factory=dict)
    hiding: Hiding | None = None
    stored: Collection[int] = ()
    sample: Collection[int] | None = None
    cache: dict[str, Any] = field(default_factory=dict, compare=False)


class Batch:
    """Some texts, as every test gets them.

    Attributes:
        config: the configuration of the run.
        rows: the texts as rows of the data.
        encoded: the texts as the model reads them.
        inputs: the model inputs.
        capture: the final attention of the texts.
        orders: the orders of removal that a test has computed already, by erase level and ranking.
        erased: by erase level, what the erasure test removed.
        known_sets: by erase level, the logits of sets of items that were evaluated already, for all tests.
        stored_steps: rows of the table of steps of the texts that the run stores, by erase level.
        inexact: how many texts have inexact scores, by ranking, for rankings that were used and judge it.
        profile: accounts for the time of each ranking.
    """

    def __init__(
        self,
        config: RunConfig,
        rows: Sequence[Row],
        encoded: Sequence[EncodedText],
        inputs: dict[str, Any],
        profile: Profile | None = None,
    ) -> None:
        self.config, self.rows, self.encoded = config, rows, encoded
        self.capture: Capture = config.cut.capture(**inputs)
        # A tokenizer makes tensors on the CPU. They are combined with captured ones, which are on the model's device.
        device = self.capture.mask.device
        self.inputs = {name: value.to(device) if isinstance(value, Tensor) else value for name, value in inputs.items()}
        self.orders: dict[tuple[str, Ranking], Tensor] = {}
        self.erased: dict[str, Erased] = {}
        self.known_sets: dict[str, KnownSets] = {}
        self.stored_steps: dict[str, list[pa.Table]] = {}
        self.inexact: dict[Ranking, InexactScores] = {}
        self.profile = Profile() if profile is None else profile
        self._scores: dict[Ranking, tuple[Scores, str]] = {}  # with the level of the items that are scored

    @property
    def logits(self) -> Tensor:
        """The original logits, ``[B, C]``."""
        return self.capture.logits

    @cached_property
    def stored(self) -> list[int]:
        """The texts of the batch that the run stores."""
        return [index for index, row in enumerate(self.rows) if row.number in self.config.stored]

    @cached_property
    def target(self) -> Tensor:
        """The class explained, ``[B]``."""
        predicted = self.config.decision.predict(self.logits)
        if self.config.target == "predicted":
            return predicted
        if self.config.target == "gold":
            return torch.tensor([int(row.label) for row in self.rows], device=predicted.device)  # type: ignore[arg-type]
        return torch.full_like(predicted, int(self.config.target))

    @cached_property
    def request(self) -> Request:
        """The request to every method; it caches what several methods compute."""
        return Request(
            cut=self.config.cut,
            inputs=self.inputs,
            target=self.target,
            output=self._output("probability"),
            decision=self.config.decision,
            settings=self.config.settings,
            text_ids=tuple(row.number for row in self.rows),
            known_capture=self.capture,
        )

    @cached_property
    def special(self) -> Tensor:
        """``[B, L]``, True for special tokens of the input."""
        ids = self.inputs["input_ids"]
        return torch.isin(
            ids, torch.tensor(sorted(self.config.settings.special_ids), dtype=ids.dtype, device=ids.device)
        )

    @cached_property
    def special_items(self) -> Tensor:
        """``[B, N]``, True for items that are special tokens."""
        items = self.capture.items
        if items is None or items.kind != "tokens" or items.spans is None:
            return torch.zeros_like(self.capture.mask)
        return self.special.gather(1, items.spans[..., 0]) & self.capture.mask

    def erasable(self, level: str) -> Tensor:
        """The items that can be erased at a level, ``[B, N]`` or ``[B, L]``.

        Special tokens cannot, if they are protected, or structure the text as the ends of sentences of a HAN do.
        """
        mask, special = (self.capture.mask, self.special_items)
        if level == "input":
            mask, special = self.request.tokens, self.special
        structural = level == "input" and self.config.cut.adapter.affine(self.capture) is not None
        return mask & ~special if structural or self.config.special_tokens == "protect" else mask

    @cached_property
    def weights(self) -> Tensor:
        """``[B, N]``, the mean attention over the distributions that the decision reads."""
        return mean_distribution(self.request).double()

    @cached_property
    def token_weights(self) -> Tensor:
        """``[B, L]``, the same by token; NaN if the items of the attention do not correspond to tokens."""
        try:
            return attention_at_input(replace(self.request, settings=self._final)).values.double()
        except UnsupportedModelError:
            return torch.full(self.request.tokens.shape, torch.nan, dtype=torch.float64, device=self.logits.device)

    @property
    def _final(self) -> MethodOptions:
        return replace(self.config.settings, layer="final")

    def scores(self, ranking: Ranking, erase_level: str) -> Tensor:
        """The scores of a ranking for the items that are erased at a level: ``[B, N]`` or ``[B, L]``, highest first."""
        if ranking not in self._scores:
            with self.profile.part(str(ranking)):
                yours = ranking.level == YOURS
                self._scores[ranking] = self._user_scores(ranking) if yours else self._computed(ranking)
        result, scored_level = self._scores[ranking]
        if scored_level == erase_level:
            return result.values
        items = self.capture.items
        if items is None or items.spans is None or items.kind != "tokens":
            raise UnsupportedModelError(
                f"{ranking} does not score what is erased at the level {erase_level!r}.", code="unsupported-ranking"
            )
        starts, mask = items.spans[..., 0], self.capture.mask
        if erase_level == "attention":
            return torch.where(mask, result.values.gather(1, starts), 0.0)
        by_token = torch.zeros(self.request.tokens.shape, dtype=result.values.dtype, device=mask.device)
        rows = torch.arange(len(mask), device=mask.device).unsqueeze(1).expand_as(mask)
        by_token[rows[mask], starts[mask]] = result.values[mask]
        return by_token

    def _computed(self, ranking: Ranking) -> tuple[Scores, str]:
        output = self._output(ranking.method.default_output)
        request = self.request if output == self.request.output else replace(self.request, output=output)
        result = ranking.method.run(request)
        inexact = InexactScores.of_scores(result)
        if inexact is not None:
            self.inexact[ranking] = inexact
        mask = self.capture.mask if ranking.level == "attention" else self.request.tokens
        return replace(result, mask=mask), ranking.level

    def _user_scores(self, ranking: Ranking) -> tuple[Scores, str]:
        """The scores of a user's ranking, and their level: scores of sentences are at the level of the attention."""
        by_sentence = self.capture.items is not None and self.capture.items.kind == "sentences"
        lines = []
        for text, (row, encoded) in enumerate(zip(self.rows, self.encoded, strict=True)):
            where = f"Row {row.number}, explanation {short_repr(ranking.name)}"
            count = int(self.capture.lengths[text]) if by_sentence else None
            lines.append(align_scores(_source_scores(ranking, row, encoded), encoded, where, sentences=count))
        tokens, lengths = self.request.tokens, self.capture.lengths.tolist()
        sentences = by_sentence and all(len(line) == count for line, count in zip(lines, lengths, strict=True))
        mask = self.capture.mask if sentences else tokens
        values = torch.zeros(mask.shape, dtype=torch.float64, device=mask.device)
        values[mask] = torch.tensor(
            [score for line in lines for score in line], dtype=torch.float64, device=mask.device
        )
        return Scores(values, mask), "attention" if sentences else "input"

    def _output(self, default: str) -> str:
        if self.config.decision.kind == "regression":
            return "logit"
        return self.config.output or default


def _source_scores(ranking: Ranking, row: Row, encoded: EncodedText) -> Any:
    """The scores that a user's ranking gives a text; NaN for each token if the cell of a column is empty."""
    if isinstance(ranking.source, Explained):
        return ranking.source.scores(row.number, encoded)
    if callable(ranking.source):
        return ranking.source(encoded)
    scores = (row.scores or {}).get(str(ranking.source))
    return scores or [math.nan] * len(encoded.ids)
