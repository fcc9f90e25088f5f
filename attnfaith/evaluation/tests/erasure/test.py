"""The erasure test: remove items from the top of a ranking until the decision flips (Serrano & Smith, section 5)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pandas as pd
import pyarrow as pa
import torch
from torch import Tensor

from attnfaith.attribution.method import CONTROL
from attnfaith.attribution.optimal import OPTIMAL
from attnfaith.errors import InputError, UnsupportedModelError
from attnfaith.estimates.quantities import Quantities
from attnfaith.evaluation.batch import Batch, Erased, RunConfig
from attnfaith.evaluation.rankings import Ranking
from attnfaith.evaluation.removal import ERASERS, Eraser
from attnfaith.evaluation.score_direction import toward_change
from attnfaith.evaluation.stored_texts import PROFILED, StepRecord, erased_of, smallest_rows, step_rows
from attnfaith.evaluation.tests.base import Columns, Test, concat_columns, decision_cells, tests, to_cell
from attnfaith.evaluation.tests.erasure import comparison
from attnfaith.evaluation.tests.erasure.flipping_sets import PANEL, FlippingSets, optimal_sets, search_sets
from attnfaith.evaluation.tests.erasure.summary import REFERENCES, quantities
from attnfaith.functional.first_flip import FirstFlips
from attnfaith.functional.flipping_sets import prefix_set
from attnfaith.functional.ranking import count_ties, ranks_of
from attnfaith.functional.schedule import FIRST, LATER, LONG
from attnfaith.metrics.citations import SERRANO_SMITH

HALF = 0.6
"""The part of a text that is left in the mean of all sizes, with the padding beside it."""
COLUMNS: list[tuple[str, Any]] = [
    ("text_id", pa.int64()),
    ("ranking", pa.string()),
    ("ranking_level", pa.string()),
    ("erase_level", pa.string()),
    ("items", pa.int64()),
    ("removed", pa.int64()),
    ("fraction", pa.float64()),
    ("mass", pa.float64()),
    ("prediction", None),
    ("target", pa.int64()),
    ("gold", None),
    ("new_label", None),
    ("censored", pa.bool_()),
    ("resolution", pa.string()),
    ("marginal", pa.bool_()),
    ("ties", pa.int64()),
    ("undefined", pa.int64()),
    ("minimum_low", pa.int64()),
    ("minimum_high", pa.int64()),
    ("flippable", pa.bool_()),
]


RESOLUTIONS = ("schedule", "exact")


@tests.register("erasure")
@dataclass(frozen=True)
class Erasure(Test):
    """Erasure until the decision flips.

    Attributes:
        bounds: at the final attention, where the tail is not affine, also try all pairs of items, and all triples in
            texts of up to 24 items; costs as much as some passes through the model. At the input level, also try every
            single item in texts of up to 64 items, each of which costs a pass.
        resolution: at the input level, where each step is a pass through the model: "exact" for every step up to the
            first flip; "schedule" for that only in texts of up to 64 items, and a fixed number of steps in longer ones,
            then every step between the first of them that has flipped and the one before.
        reference: "paper" for summaries that leave out texts that never flip, as the paper's figures do.
    """

    name: ClassVar[str] = "erasure"
    default_levels: ClassVar[tuple[str, ...]] = ("attention", "input")
    headline: ClassVar[Mapping[str, str]] = {
        "mean_fraction": "share removed (mean)",
        "never_flipped": "never flipped",
        "efficiency": "efficiency",
        "skill": "skill",
    }
    metrics: ClassVar[tuple[str, ...]] = ("DecisionFlip",)
    citation: ClassVar[str] = SERRANO_SMITH
    question: ClassVar[str] = "How much must be removed, from the top of a ranking, until the decision flips?"
    reading: ClassVar[Mapping[str, str]] = {
        "curves": (
            "Each line is the share of decisions that are still the same when so much of the top of a ranking has "
            "been removed. The sooner a line falls, the better the ranking knows what decides. The random order is the "
            "baseline: it knows nothing of the model."
        ),
        "efficiency": (
            "Each dot is a ranking with its interval, the best at the top. Where the smallest sets are known, it is "
            "their size divided by what the ranking removed, and 1 is perfect; else it is the share removed until the "
            "decision flips."
        ),
        "wins": (
            "Each cell is the share of texts on which the ranking of the row flips the decision with fewer removals "
            "than that of the column. A mark says that it is the better of the two, corrected for the number of "
            "pairs."
        ),
    }
    caveats: ClassVar[tuple[str, ...]] = (
        (
            "What is removed leaves a text that the model was not trained on. The test says what this model needs for "
            "its decision, not what a person would need."
        ),
        (
            "A decision that never flips counts as everything removed. Where many decisions never flip, differences "
            "between rankings are small at that level."
        ),
        (
            "At the final attention of a Transformer much of the decision goes past the attention through the residual "
            "stream. Its input level says more."
        ),
        (
            "Where the smallest sets are not known exactly, the smallest that a fixed search found take their place, "
            "and skill is an upper estimate."
        ),
    )
    percentages: ClassVar[frozenset[str]] = frozenset({"mean_fraction", "never_flipped", "efficiency", "skill"})
    earlier: ClassVar[Mapping[str, Any]] = {"resolution": "exact"}
    bounds: bool = False
    reference: str | None = None
    resolution: str = "schedule"

    def __post_init__(self) -> None:
        if self.resolution not in RESOLUTIONS:
            raise InputError(
                f"Expected resolution of the erasure test to be 'schedule' or 'exact', got {self.resolution!r}."
            )
        if self.reference not in REFERENCES:
            raise InputError(f"Expected reference of the erasure test to be 'paper' or None, got {self.reference!r}.")

    def columns(self, outcome: pa.DataType) -> list[tuple[str, pa.DataType]]:
        """One row per text, ranking, and level of erasing."""
        return [(name, kind or outcome) for name, kind in COLUMNS]

    def run(self, batch: Batch) -> Columns:
        """Erase at every level that was asked for."""
        levels = batch.config.rankings.items()
        return concat_columns(
            dict(COLUMNS), (self._level(ERASERS[level](batch), rankings) for level, rankings in levels)
        )

    def passes(self, config: RunConfig, tokens: int) -> float:
        """The sets of tokens that are hidden at the input level, along the rankings and in the search."""
        if "input" not in config.rankings:
            return 0.0
        steps = tokens if self.resolution == "exact" or tokens <= LONG else FIRST + LATER
        left = HALF if config.hiding is not None and config.hiding.leave_out else 1.0
        return len({*config.rankings["input"], *PANEL["input"]}) * steps * left

    def quantities(self, table: Callable[[str], pd.DataFrame]) -> Iterable[Quantities]:
        """See `attnfaith.evaluation.tests.erasure.summary.quantities`."""
        return quantities(table(self.name), self.reference)

    @classmethod
    def sentences_on_two_runs(cls, rows: pd.DataFrame, names: tuple[str, str]) -> Iterator[str]:
        """The sentences on the shares removed in two runs."""
        yield from comparison.sentences(rows, names)

    def _level(self, eraser: Eraser, rankings: Sequence[Ranking]) -> Columns:
        with eraser.batch.profile.part(f"erasing at the {eraser.level}"):
            return self._erase(eraser, rankings)

    def _erase(self, eraser: Eraser, rankings: Sequence[Ranking]) -> Columns:
        batch = eraser.batch
        texts = [text for text, count in enumerate(eraser.counts.tolist()) if count >= 2]
        if not texts:
            return {}
        exact_sets = optimal_sets(eraser)
        panel = [] if exact_sets is not None else _panel(eraser)
        # the panel comes first and in its own order, so that ties in the search do not depend on what was asked for
        all_rankings = [*panel, *(item for item in rankings if item not in panel)]
        scores = [
            (-ranks_of(exact_sets.order)).double()  # the exact search already gave this order
            if _is_optimal(item) and exact_sets is not None and exact_sets.order is not None
            else batch.scores(item, eraser.level)
            for item in all_rankings
        ]
        orders, owner = _orders(eraser, all_rankings, scores)
        in_panel, asked = (
            torch.tensor([all_rankings[index] in group for index in owner], device=orders.device)
            for group in (panel, rankings)
        )
        record = StepRecord(_stored_orders(eraser, asked)) if erased_of(eraser) else None
        # An order that only the search reads (shared) can stop at the first flip that any order of the panel finds.
        flips = eraser.flips(
            orders,
            every_step=self.resolution == "exact",
            shared=in_panel & ~asked,
            triggers=in_panel & asked,
            **({} if record is None else {"watch": record.watch}),
        )
        smallest = exact_sets
        if smallest is None:
            informed = torch.tensor([all_rankings[index].name != CONTROL for index in owner], device=orders.device)
            found = flips.map(lambda values: values[in_panel])
            smallest = self._search(eraser, orders[in_panel], found, informed[in_panel])
        indices = [all_rankings.index(item) for item in rankings]
        best, chosen = _first_flip_of_each(flips, owner, indices)
        stacked = orders[chosen, torch.arange(chosen.shape[1], device=chosen.device)]
        columns = _columns(eraser, best, stacked)
        flipped_sets = prefix_set(stacked, torch.where(best.flips, best.removed, 0))
        batch.erased[eraser.level] = Erased(tuple(rankings), best.flips, flipped_sets, smallest.sets)
        all_scores = torch.stack([scores[index].double() for index in indices])
        if record is not None:
            with batch.profile.part(PROFILED):
                batch.stored_steps[eraser.level] = [
                    step_rows(eraser, rankings, all_scores, stacked, best, chosen, record),
                    smallest_rows(eraser, smallest.sets),
                ]
        ranking_orders = orders[[owner.index(index) for index in indices]]
        columns |= {
            "ties": count_ties(all_scores, eraser.erasable, ranking_orders).tolist(),
            "undefined": (all_scores.isnan() & eraser.erasable).sum(-1).tolist(),
        }
        decided = decision_cells(batch.config.decision, batch.logits)
        by_text = {
            "text_id": [row.number for row in batch.rows],
            "items": eraser.counts.tolist(),
            "prediction": decided,
            "target": batch.target.tolist(),
            "gold": [to_cell(row.label) for row in batch.rows],
            "minimum_low": smallest.low,
            "minimum_high": smallest.high,
            "flippable": smallest.flippable,
        }
        by_ranking = {
            "ranking": [ranking.name for ranking in rankings],
            "ranking_level": [ranking.level for ranking in rankings],
            "erase_level": [eraser.level] * len(rankings),
        }
        # the rankings of a text one after the other
        rows = {name: [values[text] for text in texts for _ in rankings] for name, values in by_text.items()}
        rows |= {name: values * len(texts) for name, values in by_ranking.items()}
        return rows | {name: [line[text] for text in texts for line in lines] for name, lines in columns.items()}

    def _search(self, eraser: Eraser, orders: Tensor, flips: FirstFlips, informed: Tensor) -> FlippingSets:
        sizes = torch.where(flips.flips, flips.removed, eraser.items.shape[1] + 1)
        every_step = self.resolution == "exact"
        return search_sets(eraser, orders, sizes, informed, every_step=every_step, bounds=self.bounds)


def _panel(eraser: Eraser) -> list[Ranking]:
    """The rankings that the search for small flipping sets starts from, as far as the model supports them."""
    supported = []
    for ranking in PANEL[eraser.level]:
        try:
            eraser.batch.scores(ranking, eraser.level)
        except UnsupportedModelError:
            continue
        supported.append(ranking)
    return supported


def _stored_orders(eraser: Eraser, asked: Tensor) -> Tensor:
    """``[O * B]`` bool, the orders whose steps are stored: those that were asked for, ``[O]``, of some texts."""
    texts = torch.zeros(len(eraser.counts), dtype=torch.bool, device=asked.device)
    texts[erased_of(eraser)] = True
    return (asked.unsqueeze(1) & texts).flatten()


def _is_optimal(ranking: Ranking) -> bool:
    return (ranking.level, ranking.name) == OPTIMAL


def _orders(eraser: Eraser, rankings: Sequence[Ranking], scores: Sequence[Tensor]) -> tuple[Tensor, list[int]]:
    """The removal orders ``[O, B, N]``, and the ranking that each belongs to.

    Signed scores are negated where removing the items with negative scores is what can flip the decision: for a label
    that is absent, and beside the order by the scores themselves for a regression.
    """
    decision, batch = eraser.batch.config.decision, eraser.batch
    keys: list[Tensor] = []
    owner: list[int] = []
    kept: dict[tuple[str, Ranking], int] = {}
    for index, (ranking, values) in enumerate(zip(rankings, scores, strict=True)):
        if decision.kind != "multilabel" or not ranking.signed:
            kept[eraser.level, ranking] = len(keys)
        directed = toward_change(batch, ranking, values)
        keys += directed
        owner += [index] * len(directed)
    orders = eraser.order(torch.stack([item.double() for item in keys]))
    batch.orders |= {key: orders[position] for key, position in kept.items()}
    return orders, owner


def _first_flip_of_each(flips: FirstFlips, owner: Sequence[int], indices: Sequence[int]) -> tuple[FirstFlips, Tensor]:
    """For each ranking and text, the first flip among the orders of that ranking, and the index of its order.

    Args:
        flips: of all orders.
        owner: the index of the ranking that each order belongs to.
        indices: the rankings that are wanted.
    """
    never = int(flips.removed.max()) + 1
    size = torch.where(flips.flips, flips.removed, never)
    chosen = torch.stack(
        [
            torch.tensor(candidates, device=size.device)[size[candidates].argmin(0)]
            for candidates in ([number for number, index in enumerate(owner) if index == wanted] for wanted in indices)
        ]
    )
    texts = torch.arange(size.shape[1], device=size.device)
    return flips.map(lambda values: values[chosen, texts]), chosen


def _columns(eraser: Eraser, result: FirstFlips, orders: Tensor) -> dict[str, list[list[Any]]]:
    """The table columns of each ranking and text, ``[R][B]``."""
    decision = eraser.batch.config.decision
    removed, flips, counts = result.removed, result.flips, eraser.counts
    cumulative_weight = eraser.weights.expand_as(orders).gather(2, orders).cumsum(2)
    mass = (
        cumulative_weight.gather(2, (removed - 1).clamp_min(0).unsqueeze(2)).squeeze(2).masked_fill(~flips, torch.nan)
    )
    fraction = (removed.double() / counts).masked_fill(~flips, torch.nan)
    labels = [decision_cells(decision, logits) for logits in result.logits]
    flipped = flips.tolist()

    def where_flipped(values: list[list[Any]]) -> list[list[Any]]:
        return [
            [value if flip else None for value, flip in zip(line, flags, strict=True)]
            for line, flags in zip(values, flipped, strict=True)
        ]

    return {
        "removed": where_flipped(removed.tolist()),
        "fraction": fraction.tolist(),
        "mass": mass.tolist(),
        "new_label": where_flipped(labels),
        "censored": (~flips).tolist(),
        "resolution": [[RESOLUTIONS[is_exact] for is_exact in flags] for flags in result.exact.tolist()],
        "marginal": (result.closest_margin <= eraser.tolerance).tolist(),
    }
