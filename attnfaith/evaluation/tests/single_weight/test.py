"""Single weights: does the most important item matter more than another item? (Serrano & Smith, section 4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import pandas as pd
import pyarrow as pa
import torch
from torch import Tensor

from attnfaith.attribution.method import ATTENTION
from attnfaith.errors import InputError
from attnfaith.estimates.lookup import SummaryLookup, unit_at
from attnfaith.estimates.quantities import Quantities
from attnfaith.evaluation.batch import Batch
from attnfaith.evaluation.rankings import Ranking
from attnfaith.evaluation.removal import AttentionEraser
from attnfaith.evaluation.score_direction import toward_change
from attnfaith.evaluation.tests.base import Columns, Test, decision_cells, tests, to_cell
from attnfaith.evaluation.tests.single_weight.summary import LEVEL, quantities
from attnfaith.metrics.citations import SERRANO_SMITH
from attnfaith.randomness import keyed_generator

RANKINGS = (ATTENTION, "gradient", "gradient_x_attention")
"""The rankings of the attention level whose top items the paper looks at."""
COLUMNS: list[tuple[str, Any]] = [
    ("text_id", pa.int64()),
    ("ranking", pa.string()),
    ("items", pa.int64()),
    ("prediction", None),
    ("gold", None),
    ("top", pa.int64()),
    ("drawn", pa.int64()),
    ("delta_js", pa.float64()),
    ("delta_attention", pa.float64()),
    ("top_flips", pa.bool_()),
    ("drawn_flips", pa.bool_()),
    ("expected_delta_js", pa.float64()),
    ("expected_drawn_flips", pa.float64()),
    ("marginal", pa.bool_()),
]


@tests.register("single_weight")
@dataclass(frozen=True)
class SingleWeight(Test):
    """Erase the top item of a ranking, or a random other item; also the exact expectation over the other items.

    The top item is the one that the erasure test removes first. Multi-label, signed scores: where the explained label
    is absent, it is the item that speaks most strongly against it. Regression, signed scores: the value can change in
    two directions, so there are two candidates, the items with the highest and the lowest score, and the one whose
    removal changes the value more is the top item (the highest of two that are equal).

    Attributes:
        reference: "paper" draws from the other items; "released-code" draws from all, as the authors' program does, so
            that one text in N compares an item with itself.
    """

    name: ClassVar[str] = "single_weight"
    default_levels: ClassVar[tuple[str, ...]] = ("attention", "input")
    ranked: ClassVar[bool] = False
    headline: ClassVar[Mapping[str, str]] = {
        "only_top": "only the top one flips",
        "only_drawn": "only the random one flips",
    }
    level_name: ClassVar[str] = "one at a time"
    metrics: ClassVar[tuple[str, ...]] = ("SingleWeight",)
    citation: ClassVar[str] = SERRANO_SMITH
    question: ClassVar[str] = "Does the most important item matter more than another one?"
    reading: ClassVar[Mapping[str, str]] = {
        "differences": (
            "In the upper panels, each dot is a text: how much more the output changes without the top item than "
            "without a random other one. Where a dot is below zero, the other item matters more. The lower panels show "
            "how often removing each of the two flips the decision."
        ),
    }
    caveats: ClassVar[tuple[str, ...]] = (
        (
            "One item is removed at a time. A decision that rests on several items together does not flip, whichever "
            "of them is removed."
        ),
        (
            "The other item is drawn at random from all others, most of which carry little weight, so it is a weak "
            "opponent."
        ),
    )
    percentages: ClassVar[frozenset[str]] = frozenset({"only_top", "only_drawn"})
    reference: str = "paper"

    def __post_init__(self) -> None:
        if self.reference not in ("paper", "released-code"):
            raise InputError(f"Expected reference to be 'paper' or 'released-code', got {self.reference!r}.")

    def columns(self, outcome: pa.DataType) -> list[tuple[str, pa.DataType]]:
        """One row per text and ranking."""
        return [(name, kind or outcome) for name, kind in COLUMNS]

    def run(self, batch: Batch) -> Columns:
        """Erase every single item in one pass of the tail, shared with the other tests."""
        decision, eraser = batch.config.decision, AttentionEraser(batch)
        without = batch.request.without_each
        before = batch.logits.unsqueeze(1)
        divergence = decision.divergence(before, without).double()
        moved = divergence.cpu().numpy()
        flipped, margins = decision.flips_and_margins(before, without)
        flips = flipped.cpu().numpy()
        edges = torch.minimum(margins.abs(), decision.margin(before, before).abs())
        near = (edges.double() <= eraser.tolerance.unsqueeze(1)).cpu().numpy()
        weights, decided = batch.weights.cpu().numpy(), decision_cells(decision, batch.logits)
        tops = [_tops(eraser, Ranking(name, LEVEL), divergence).tolist() for name in RANKINGS]
        erasable = eraser.erasable.cpu().numpy()
        sums = [(values * erasable).sum(1) for values in (moved, flips)]
        numbers = (eraser.items.cumsum(1) - 1).cpu().numpy()  # an item's place among the text's own
        rows: Columns = {name: [] for name, _ in COLUMNS}
        for text, row in enumerate(batch.rows):
            indices, number = erasable[text].nonzero()[0], numbers[text]
            for name, top in zip(RANKINGS, (line[text] for line in tops), strict=True) if len(indices) >= 2 else ():
                pool = indices if self.reference == "released-code" else indices[indices != top]
                drawn = int(pool[self._draw(len(pool), batch, text, name)])
                itself = len(pool) < len(indices)  # the top item is not among those that are drawn from
                js, flipped = (
                    (total[text] - itself * item[text, top]) / len(pool)
                    for total, item in zip(sums, (moved, flips), strict=True)
                )
                values = {
                    "text_id": row.number,
                    "ranking": name,
                    "items": len(indices),
                    "prediction": decided[text],
                    "gold": to_cell(row.label),
                    "top": int(number[top]),
                    "drawn": int(number[drawn]),
                    "delta_js": float(moved[text, top] - moved[text, drawn]),
                    "delta_attention": float(weights[text, top] - weights[text, drawn]),
                    "top_flips": bool(flips[text, top]),
                    "drawn_flips": bool(flips[text, drawn]),
                    "expected_delta_js": float(moved[text, top] - js),
                    "expected_drawn_flips": float(flipped),
                    "marginal": bool(near[text, top] | near[text, drawn]),
                }
                for key, value in values.items():
                    rows[key].append(value)
        return rows

    def quantities(self, table: Callable[[str], pd.DataFrame]) -> Iterable[Quantities]:
        """See `attnfaith.evaluation.tests.single_weight.summary.quantities`."""
        return [quantities(table(self.name))]

    @classmethod
    def sentences(cls, figures: SummaryLookup, facts: Mapping[str, Any]) -> Iterator[str]:
        """The sentences for the verdict."""
        top, drawn = (figures.get(LEVEL, name, (LEVEL, ATTENTION)) for name in ("only_top", "only_drawn"))
        if top.known:
            unit = unit_at(facts["unit"], LEVEL)
            yield (
                f"On {top} of the texts, removing the most attended of the {unit} from the final attention flips the "
                f"decision and removing a random one does not; the reverse holds on {drawn}."
            )

    def _draw(self, count: int, batch: Batch, text: int, ranking: str) -> int:
        generator = keyed_generator(batch.config.settings.seed, batch.rows[text].number, self.name, ranking)
        return int(torch.randint(count, (), generator=generator))


def _tops(eraser: AttentionEraser, ranking: Ranking, divergence: Tensor) -> Tensor:
    """The top item of each text, ``[B]``; with two directions, the item whose removal changes the output more."""
    batch = eraser.batch
    scores = batch.scores(ranking, eraser.level)
    directed = toward_change(batch, ranking, scores)
    if len(directed) == 1 and directed[0] is scores:
        return eraser.order_by(ranking)[:, 0]  # the erasure test may have this order already
    ends = eraser.order(torch.stack(directed))[..., 0].T
    return ends.gather(1, divergence.gather(1, ends).argmax(1, keepdim=True)).squeeze(1)
