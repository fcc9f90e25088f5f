"""In distribution: is what erasing leaves of a kind that the model knows? (Madsen et al. 2024)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import pandas as pd
import pyarrow as pa
import torch
from torch import Tensor

from attnfaith import validation
from attnfaith.attribution.method import ATTENTION, CONTROL, YOURS
from attnfaith.errors import InputError, NumericalError
from attnfaith.estimates.lookup import SummaryLookup
from attnfaith.estimates.quantities import Quantities
from attnfaith.evaluation.batch import Batch, RunConfig
from attnfaith.evaluation.rankings import Ranking
from attnfaith.evaluation.removal import ERASERS, Eraser
from attnfaith.evaluation.tests.base import Columns, Test, concat_columns, tests
from attnfaith.evaluation.tests.erasure.test import Erasure
from attnfaith.evaluation.tests.in_distribution import summary as summaries
from attnfaith.evaluation.tests.in_distribution.p_values import BY_TEXT, p_value_table
from attnfaith.evaluation.tests.in_distribution.states import states_of
from attnfaith.evaluation.tests.in_distribution.summary import SMALLEST
from attnfaith.functional.in_distribution import COMBINATIONS
from attnfaith.metrics.citations import MADSEN
from attnfaith.storage.run_store import Store

COLUMNS: list[tuple[str, pa.DataType]] = [
    ("text_id", pa.int64()),
    ("ranking", pa.string()),
    ("ranking_level", pa.string()),
    ("erase_level", pa.string()),
    ("items", pa.int64()),
    ("removed", pa.int64()),
    ("length", pa.int64()),
    ("vector", pa.list_(pa.float32())),
]
SHORTENING = ("attention_mask", "delete")
"""The ways of hiding after which a text is as long as what is left of it; after others, the model reads what hides."""


@tests.register("in_distribution")
@dataclass(frozen=True)
class InDistribution(Test):
    """How unusual the texts are to the model that erasing leaves when the decision flips, beside whole texts.

    Attributes:
        combination: of the p values of all dimensions: "fisher", which adds up small deviations, or "simes", which
            looks for large ones.
        nearest: with how many whole texts of the nearest lengths each is compared; None for a quarter of the texts, and
            at least 50.
        alpha: the level of significance.
        every_ranking: test every ranking that is run, not only attention, a random order, your own rankings and the
            smallest sets; costs a pass through the model for each ranking and text.
    """

    name: ClassVar[str] = "in_distribution"
    default_levels: ClassVar[tuple[str, ...]] = ("input",)
    needs: ClassVar[tuple[str, ...]] = ("erasure",)
    headline: ClassVar[Mapping[str, str]] = {
        "unusual": "unusual at the flip",
        "out_of_distribution": "out of distribution, corrected",
    }
    citation: ClassVar[str] = MADSEN
    question: ClassVar[str] = "Is what erasing leaves of a kind that the model knows?"
    reading: ClassVar[Mapping[str, str]] = {
        "p_values": (
            "Each line is the share of flips whose remaining text has at most such a p value: how many whole texts of "
            "similar length are as unusual to the model. Whole texts are on the diagonal. The higher a line is above "
            "it at the left, the more flips happen on texts of a kind that the model does not know."
        ),
    }
    caveats: ClassVar[tuple[str, ...]] = (
        (
            "A text can be unusual to the model in ways that its last layer does not show. A high p value does not "
            "prove that holes play no part."
        ),
        (
            "At its first flip a text is near the boundary between two decisions, where whole texts are rare. The test "
            "looks at the tails of each dimension, and hardly sees what lies between two groups."
        ),
        "Where no whole text is as short as what is left, the shortest ones are compared, and length is a part of it.",
    )
    reported: ClassVar[Mapping[str, str]] = {
        **headline,
        "median_p": "p value (median)",
        "shorter_than_any": "shorter than any text",
    }
    percentages: ClassVar[frozenset[str]] = frozenset({"unusual", "out_of_distribution", "shorter_than_any"})
    combination: str = "fisher"
    nearest: int | None = None
    alpha: float = 0.05
    every_ranking: bool = False

    def __post_init__(self) -> None:
        validation.one_of(self.combination, COMBINATIONS, "combination")
        if self.nearest is not None:
            validation.whole_number(self.nearest, "nearest", least=1, also="None")
        validation.share(self.alpha, "alpha")
        if self.nearest is not None and self.alpha * (1 + self.nearest) < 1:
            raise InputError(
                f"With nearest={self.nearest} no p value is below {1 / (1 + self.nearest):.2g}, so none reaches alpha="
                f"{self.alpha:g}. Give nearest of at least {math.ceil(1 / self.alpha) - 1}, or None."
            )
        validation.flag(self.every_ranking, "every_ranking")

    def columns(self, outcome: pa.DataType) -> list[tuple[str, pa.DataType]]:
        """One row per text and level for the whole text, without a ranking; then one for each ranking."""
        return COLUMNS

    def run(self, batch: Batch) -> Columns:
        """Read the last layer at every level, on whole texts and where the decision flips."""
        if any(level not in batch.erased for level in batch.config.rankings):
            Erasure().run(batch)
        levels = (ERASERS[level](batch) for level in batch.config.rankings if level in batch.erased)
        return concat_columns(dict(COLUMNS), map(self._level, levels))

    def passes(self, config: RunConfig, tokens: int) -> float:
        """The whole text, and what each ranking leaves."""
        listed = config.rankings.get("input")
        return 0.0 if listed is None else 2.0 + sum(map(self._is_tested, listed))

    def conclude(self, store: Store, *, seed: int, quiet: bool) -> dict[str, pa.Table]:
        """Compute p values from the vectors of all texts."""
        table = p_value_table(
            store.batches(self.name), combination=self.combination, nearest=self.nearest, alpha=self.alpha
        )
        return {BY_TEXT: table}

    def quantities(self, table: Callable[[str], pd.DataFrame]) -> Iterable[Quantities]:
        """See `attnfaith.evaluation.tests.in_distribution.summary.quantities`."""
        return summaries.quantities(table(BY_TEXT), self.alpha, self.nearest)

    @classmethod
    def sentences(cls, figures: SummaryLookup, facts: Mapping[str, Any]) -> Iterator[str]:
        """The sentences for the verdict."""
        yield from summaries.sentences(figures, facts)

    def _is_tested(self, ranking: Ranking) -> bool:
        return self.every_ranking or ranking.name in (ATTENTION, CONTROL) or ranking.level == YOURS

    def _level(self, eraser: Eraser) -> Columns:
        batch, erased = eraser.batch, eraser.batch.erased[eraser.level]
        sample = batch.config.sample
        texts = [
            text
            for text, count in enumerate(eraser.counts.tolist())
            if count >= 2 and (sample is None or batch.rows[text].number in sample)
        ]
        keys: list[tuple[str | None, str | None]] = [(None, None)]
        sets, known = [torch.zeros_like(erased.smallest)], [torch.ones_like(erased.smallest[:, 0])]
        for index, ranking in enumerate(erased.rankings):
            if self._is_tested(ranking):
                keys.append((ranking.level, ranking.name))
                sets.append(erased.sets[index])
                known.append(erased.flips[index])
        keys.append((eraser.level, SMALLEST))
        sets.append(erased.smallest)
        known.append(erased.smallest.any(1))
        vectors = _vectors(eraser, texts, torch.stack(sets), torch.stack(known))
        hiding = batch.config.hiding
        shortens = eraser.level == "attention" or (hiding is not None and hiding.hide in SHORTENING)
        there = eraser.items.sum(1).tolist()
        removed = [[int(count) for count in line] for line in torch.stack(sets).sum(2).tolist()]
        rows: Columns = {name: [] for name, _ in COLUMNS}
        for text in texts:
            for index, (ranking_level, name) in enumerate(keys):
                vector = vectors.get((index, text))
                rows["text_id"].append(batch.rows[text].number)
                rows["ranking"].append(name)
                rows["ranking_level"].append(ranking_level)
                rows["erase_level"].append(eraser.level)
                rows["items"].append(there[text])
                rows["removed"].append(None if vector is None else removed[index][text])
                gone = removed[index][text] if shortens else 0
                rows["length"].append(None if vector is None else there[text] - gone)
                rows["vector"].append(vector)
        return rows


def _vectors(eraser: Eraser, texts: list[int], sets: Tensor, known: Tensor) -> dict[tuple[int, int], Any]:
    """The vectors by number of the set and text, where there is a set: of ``[S, B, N]`` and ``[S, B]``."""
    chosen = torch.zeros_like(known[0])
    chosen[texts] = True
    which, text = (known & chosen).nonzero(as_tuple=True)
    if not len(which):
        return {}
    with eraser.batch.profile.part("the last layer's input"):
        vectors = states_of(eraser, text, sets[which, text]).float().cpu().numpy()
    if not torch.from_numpy(vectors).isfinite().all():
        raise NumericalError("With some items removed, what the model's last layer reads is not finite.")
    return dict(zip(zip(which.tolist(), text.tolist(), strict=True), vectors, strict=True))
