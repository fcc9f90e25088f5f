"""The erasure test: remove items from the top of a ranking until the decision flips (Serrano & Smith, section 5)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pandas as pd
import pyarrow as pa
import torch
from torch import Tensor

from attnfaith.attribution.optimal import OPTIMAL
from attnfaith.errors import InputError, UnsupportedModelError
from attnfaith.estimates.quantities import Quantities
from attnfaith.evaluation.batch import Batch
from attnfaith.evaluation.rankings import Ranking
from attnfaith.evaluation.removal import ERASERS, Eraser
from attnfaith.evaluation.score_direction import toward_change
from attnfaith.evaluation.tests.base import Columns, Test, concat_columns, decision_cells, tests, to_cell
from attnfaith.evaluation.tests.erasure import comparison
from attnfaith.evaluation.tests.erasure.flipping_sets import PANEL, FlippingSets, optimal_sets, search_sets
from attnfaith.evaluation.tests.erasure.summary import REFERENCES, quantities
from attnfaith.functional.first_flip import FirstFlips
from attnfaith.functional.ranking import count_ties, ranks_of
from attnfaith.metrics.citations import SERRANO_SMITH

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
    ("marginal", pa.bool_()),
    ("ties", pa.int64()),
    ("undefined", pa.int64()),
    ("minimum_low", pa.int64()),
    ("minimum_high", pa.int64()),
    ("flippable", pa.bool_()),
]


@tests.register("erasure")
@dataclass(frozen=True)
class Erasure(Test):
    """Erasure until the decision flips.

    Attributes:
        bounds: at the final attention, where the tail is not affine, also try all pairs of items, and all triples in
            texts of up to 24 items; costs as much as some passes through the model.
        reference: "paper" for summaries that leave out texts that never flip, as the paper's figures do.
    """

    name: ClassVar[str] = "erasure"
    headline: ClassVar[Mapping[str, str]] = {
        "mean_fraction": "share removed (mean)",
        "never_flipped": "never flipped",
        "efficiency": "efficiency",
        "skill": "skill",
    }
    metrics: ClassVar[tuple[str, ...]] = ("DecisionFlip",)
    citation: ClassVar[str] = SERRANO_SMITH
    bounds: bool = False
    reference: str | None = None

    def __post_init__(self) -> None:
        if self.reference not in REFERENCES:
            raise InputError(f"Expected reference of the erasure test to be 'paper' or None, got {self.reference!r}.")

    def columns(self, outcome: pa.DataType) -> list[tuple[str, pa.DataType]]:
        """One row per text, ranking, and level of erasing."""
        return [(name, kind or outcome) for name, kind in COLUMNS]

    def run(self, batch: Batch) -> Columns:
        """Erase at every level that was asked for."""
        levels = batch.setup.rankings.items()
        return concat_columns(
            dict(COLUMNS), (self._level(ERASERS[level](batch), rankings) for level, rankings in levels)
        )

    def quantities(self, table: Callable[[str], pd.DataFrame]) -> Iterable[Quantities]:
        """See `attnfaith.evaluation.tests.erasure.summary.quantities`."""
        return quantities(table(self.name), self.reference)

    @classmethod
    def sentences_on_two_runs(cls, rows: pd.DataFrame, names: tuple[str, str]) -> Iterator[str]:
        """What attention, and the other rankings, remove in the two runs."""
        yield from comparison.sentences(rows, names)

    def _level(self, eraser: Eraser, rankings: Sequence[Ranking]) -> Columns:
        with eraser.batch.profile.part(f"erasing at the {eraser.level}"):
            return self._erase(eraser, rankings)

    def _erase(self, eraser: Eraser, rankings: Sequence[Ranking]) -> Columns:
        batch = eraser.batch
        texts = [text for text, count in enumerate(eraser.counts.tolist()) if count >= 2]
        if not texts:
            return {}
        exact = optimal_sets(eraser)
        panel = [] if exact is not None else _panel(eraser)
        # the panel comes first and in its own order, so that ties in the search do not depend on what was asked for
        every = [*panel, *(one for one in rankings if one not in panel)]
        scores = [
            (-ranks_of(exact.order)).double()  # found along with its size
            if _is_optimal(one) and exact is not None and exact.order is not None
            else batch.scores(one, eraser.level)
            for one in every
        ]
        orders, owner = _orders(eraser, every, scores)
        in_panel, asked = (
            torch.tensor([every[place] in group for place in owner], device=orders.device)
            for group in (panel, rankings)
        )
        flips = eraser.flips(orders, shared=in_panel & ~asked, triggers=in_panel & asked)
        smallest = exact if exact is not None else self._search(eraser, orders[in_panel], flips.only(in_panel))
        places = [every.index(one) for one in rankings]
        best, chosen = _better(flips, owner, places)
        stacked = orders[chosen, torch.arange(chosen.shape[1], device=chosen.device)]
        columns = _columns(eraser, best, stacked)
        decided = decision_cells(batch.setup.decision, batch.logits)
        target = batch.target.tolist()
        all_scores = torch.stack([scores[place].double() for place in places])
        undefined = (all_scores.isnan() & eraser.erasable).sum(-1).tolist()
        own = orders[[owner.index(place) for place in places]]
        ties = count_ties(all_scores, eraser.erasable, own).tolist()
        rows: Columns = {name: [] for name, _ in COLUMNS}
        for text in texts:
            for place, ranking in enumerate(rankings):
                values = {
                    "text_id": batch.rows[text].number,
                    "ranking": ranking.name,
                    "ranking_level": ranking.level,
                    "erase_level": eraser.level,
                    "prediction": decided[text],
                    "target": target[text],
                    "gold": to_cell(batch.rows[text].label),
                    "ties": ties[place][text],
                    "undefined": undefined[place][text],
                    "minimum_low": smallest.low[text],
                    "minimum_high": smallest.high[text],
                    "flippable": smallest.flippable[text],
                    **{name: column[place][text] for name, column in columns.items()},
                }
                for name, value in values.items():
                    rows[name].append(value)
        return rows

    def _search(self, eraser: Eraser, orders: Tensor, flips: FirstFlips) -> FlippingSets:
        sizes = torch.where(flips.flips, flips.removed, eraser.everything.shape[1] + 1)
        return search_sets(eraser, orders, sizes, bounds=self.bounds)


def _panel(eraser: Eraser) -> list[Ranking]:
    """The rankings that the search for small flipping sets starts from; without those that this model does not have."""
    supported = []
    for ranking in PANEL[eraser.level]:
        try:
            eraser.batch.scores(ranking, eraser.level)
        except UnsupportedModelError:
            continue
        supported.append(ranking)
    return supported


def _is_optimal(ranking: Ranking) -> bool:
    return (ranking.level, ranking.name) == OPTIMAL


def _orders(eraser: Eraser, rankings: Sequence[Ranking], scores: Sequence[Tensor]) -> tuple[Tensor, list[int]]:
    """The orders to go down ``[O, B, N]``, and which ranking each belongs to.

    Scores that speak for or against a target are turned round where that is how the decision can change: upwards and
    downwards for a regression, towards its presence for a label that is absent.
    """
    decision, batch = eraser.batch.setup.decision, eraser.batch
    keys: list[Tensor] = []
    owner: list[int] = []
    kept: dict[tuple[str, Ranking], int] = {}
    for place, (ranking, values) in enumerate(zip(rankings, scores, strict=True)):
        if decision.kind != "multilabel" or not ranking.signed:
            kept[eraser.level, ranking] = len(keys)
        turned = toward_change(batch, ranking, values)
        keys += turned
        owner += [place] * len(turned)
    orders = eraser.order(torch.stack([one.double() for one in keys]))
    batch.orders |= {key: orders[place] for key, place in kept.items()}
    return orders, owner


def _better(found: FirstFlips, owner: Sequence[int], places: Sequence[int]) -> tuple[FirstFlips, Tensor]:
    """Of each ranking's orders, the one that flips first, text by text; and its number.

    Args:
        found: of all orders.
        owner: the place of the ranking that each order belongs to.
        places: the rankings that are wanted.
    """
    never = int(found.removed.max()) + 1
    size = torch.where(found.flips, found.removed, never)
    chosen = torch.stack(
        [
            torch.tensor(own, device=size.device)[size[own].argmin(0)]
            for own in ([number for number, place in enumerate(owner) if place == wanted] for wanted in places)
        ]
    )
    texts = torch.arange(size.shape[1], device=size.device)
    picked = [tensor[chosen, texts] for tensor in (found.flips, found.removed, found.logits, found.closest_margin)]
    return FirstFlips(*picked), chosen


def _columns(eraser: Eraser, found: FirstFlips, orders: Tensor) -> dict[str, list[list[Any]]]:
    """What each ranking did to each text, ``[R][B]``."""
    decision = eraser.batch.setup.decision
    removed, flips, counts = found.removed, found.flips, eraser.counts
    share = eraser.weights.expand_as(orders).gather(2, orders).cumsum(2)
    mass = share.gather(2, (removed - 1).clamp_min(0).unsqueeze(2)).squeeze(2).masked_fill(~flips, torch.nan)
    fraction = (removed.double() / counts).masked_fill(~flips, torch.nan)
    labels = [decision_cells(decision, logits) for logits in found.logits]
    flipped = flips.tolist()

    def where_flipped(values: list[list[Any]]) -> list[list[Any]]:
        return [
            [value if flip else None for value, flip in zip(line, own, strict=True)]
            for line, own in zip(values, flipped, strict=True)
        ]

    return {
        "items": counts.expand_as(removed).tolist(),
        "removed": where_flipped(removed.tolist()),
        "fraction": fraction.tolist(),
        "mass": mass.tolist(),
        "new_label": where_flipped(labels),
        "censored": (~flips).tolist(),
        "marginal": (found.closest_margin <= eraser.tolerance).tolist(),
    }
