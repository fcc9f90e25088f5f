"""Permutation: does the output change when the same weights go to other items? (Jain & Wallace 2019)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pyarrow as pa
import torch
from torch import Tensor

from attnfaith.errors import InputError
from attnfaith.estimates.lookup import SummaryLookup
from attnfaith.estimates.quantities import Quantities
from attnfaith.evaluation.batch import Batch
from attnfaith.evaluation.removal import AttentionEraser
from attnfaith.evaluation.tests.base import Columns, Test, decision_cells, tests, to_cell
from attnfaith.evaluation.tests.permutation import summary as summaries
from attnfaith.functional.counterfactual import permute, random_permutations
from attnfaith.metrics.citations import JAIN_WALLACE
from attnfaith.randomness import keyed_generator

COLUMNS: list[tuple[str, Any]] = [
    ("text_id", pa.int64()),
    ("items", pa.int64()),
    ("max_weight", pa.float64()),
    ("median_tvd", pa.float64()),
    ("mean_tvd", pa.float64()),
    ("max_tvd", pa.float64()),
    ("flips", pa.float64()),
    ("never_changes", pa.bool_()),
    ("prediction", None),
    ("gold", None),
    ("marginal", pa.bool_()),
]


@tests.register("permutation")
@dataclass(frozen=True)
class Permutation(Test):
    """Shuffle the weights of each text among its items many times, equally in all distributions.

    Attributes:
        permutations: how many shuffles of each text.
    """

    name: ClassVar[str] = "permutation"
    ranked: ClassVar[bool] = False
    headline: ClassVar[Mapping[str, str]] = {
        "median_tvd": "output change when shuffled (median)",
        "never_changes": "no shuffle changes the decision",
    }
    metrics: ClassVar[tuple[str, ...]] = ("PermutationDistance",)
    citation: ClassVar[str] = JAIN_WALLACE
    question: ClassVar[str] = "Does it matter which words the weights go to?"
    reading: ClassVar[Mapping[str, str]] = {
        "distances": (
            "Each text is a dot, or part of a shape where there are many: to the right, how far its output moves when "
            "its weights are shuffled. Rows are texts by their largest weight, black lines medians. Where much weight "
            "is on one item and little moves, it does not matter where the weight is."
        ),
    }
    caveats: ClassVar[tuple[str, ...]] = (
        (
            "Shuffled weights are weights that the model never makes. A large movement shows that the weights are "
            "used, not that they are an explanation."
        ),
        "Only the final attention is shuffled. What a Transformer carries past it does not change.",
    )
    reported: ClassVar[Mapping[str, str]] = {
        **headline,
        "flips": "shuffles that change the decision",
    }
    percentages: ClassVar[frozenset[str]] = frozenset({"never_changes", "flips"})
    permutations: int = 100

    def __post_init__(self) -> None:
        if type(self.permutations) is not int or self.permutations < 1:
            raise InputError(f"Expected permutations to be a whole number of at least 1, got {self.permutations!r}.")

    def columns(self, outcome: pa.DataType) -> list[tuple[str, pa.DataType]]:
        """One row per text."""
        return [(name, kind or outcome) for name, kind in COLUMNS]

    def run(self, batch: Batch) -> Columns:
        """Run all shuffles of all texts, through the tail only."""
        decision, eraser = batch.config.decision, AttentionEraser(batch)
        after, before = self._shuffled(batch, eraser.erasable), batch.logits.unsqueeze(1)
        moved = decision.distance(before, after).double().cpu().numpy()
        flips = decision.flips(before, after).cpu().numpy()
        nearest = torch.minimum(decision.margin(before, after).abs().amin(1), decision.margin(before, before)[:, 0])
        near = (nearest.double() <= eraser.tolerance).tolist()
        largest = torch.where(eraser.erasable, batch.weights, 0.0).amax(1)
        columns: Columns = {
            "text_id": [row.number for row in batch.rows],
            "items": eraser.counts.tolist(),
            "max_weight": largest.tolist(),
            "median_tvd": np.median(moved, axis=1).tolist(),
            "mean_tvd": moved.mean(1).tolist(),
            "max_tvd": moved.max(1).tolist(),
            "flips": flips.mean(1).tolist(),
            "never_changes": (flips.max(1) == 0).tolist(),
            "prediction": decision_cells(decision, batch.logits),
            "gold": [to_cell(row.label) for row in batch.rows],
            "marginal": near,
        }
        chosen = (eraser.counts >= 2).nonzero().flatten().tolist()
        return {name: [values[text] for text in chosen] for name, values in columns.items()}

    @torch.no_grad()
    def _shuffled(self, batch: Batch, movable: Tensor) -> Tensor:
        """The logits ``[B, K, C]`` with shuffled weights, as many shuffles at once as memory allows."""
        cut, capture = batch.config.cut, batch.capture
        seed, affine = batch.config.settings.seed, cut.adapter.affine(capture)
        generators = [keyed_generator(seed, row.number, self.name) for row in batch.rows]
        room = max(1, cut.memory // (16 * (capture.weights.numel() + capture.mask.numel())))
        parts = []
        for start in range(0, self.permutations, room):
            count = min(room, self.permutations - start)
            drawn = [random_permutations(row, count, item) for row, item in zip(movable, generators, strict=True)]
            weights = permute(capture.weights, torch.stack(drawn))
            if affine is None:
                parts.append(cut.rerun(capture, weights=weights))
            else:
                sums = weights.squeeze(2).double() @ affine.contributions.double()
                parts.append((sums + affine.bias.double().unsqueeze(1)).to(capture.logits.dtype))
        return torch.cat(parts, dim=1)

    def quantities(self, table: Callable[[str], pd.DataFrame]) -> Iterable[Quantities]:
        """See `attnfaith.evaluation.tests.permutation.summary.quantities`."""
        return [summaries.quantities(table(self.name))]

    @classmethod
    def sentences(cls, figures: SummaryLookup, facts: Mapping[str, Any]) -> Iterator[str]:
        """The sentences for the verdict."""
        yield from summaries.sentences(figures, facts)
