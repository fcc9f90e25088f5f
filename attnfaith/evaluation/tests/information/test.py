"""Information: are the items with the highest attention the most informative? (Wen et al. 2022)."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pandas as pd
import pyarrow as pa
import torch
from torch import Tensor

from attnfaith import validation
from attnfaith.errors import InputError
from attnfaith.estimates.lookup import SummaryLookup
from attnfaith.estimates.pivot import Key
from attnfaith.evaluation.batch import Batch
from attnfaith.evaluation.removal import AttentionEraser
from attnfaith.evaluation.tests.base import Columns, Test, tests
from attnfaith.evaluation.tests.information import summary as summed
from attnfaith.evaluation.tests.information.measure import ALL, Measurement, read_ranked, write_vectors_by_rank
from attnfaith.evaluation.tests.information.measure import COLUMNS as MEASURED
from attnfaith.functional.clustering import one_thread
from attnfaith.functional.information import KENDALL
from attnfaith.metrics.citations import WEN
from attnfaith.progress import progress_bar
from attnfaith.storage.run_store import Store

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from attnfaith.evaluation.results import Results

COLUMNS: list[tuple[str, pa.DataType]] = [
    ("text_id", pa.int64()),
    ("group", pa.string()),
    ("rank", pa.int64()),
    ("items", pa.int64()),
    ("logits", pa.list_(pa.float64())),
    ("weight", pa.float64()),
    ("vector", pa.list_(pa.float32())),
]


BY_RANK = "information_by_rank"
"""The table of what all texts together say."""


@tests.register("information")
@dataclass(frozen=True)
class Information(Test):
    """Mutual information between the output and the attended vectors of each attention rank.

    Attributes:
        clusters: of each rank's vectors; None for the largest number in 50..200 with which every cluster has two of
            them or more, "paper" for the smallest.
        ranks: how many are looked at; None for the paper's rule.
        kmeans_seeds: how often vectors are clustered, each time from another start; single heads once.
        permutations: of the outputs, for what chance alone would say; and as many random halves, for intervals.
        heads: also measure each head of a Transformer by itself.
        weights: how pairs of ranks count in Kendall's tau: "product", "additive" or "hyperbolic".
        fewest: with fewer texts nothing is measured.
        most_ranks: at most so many ranks are kept.
        most_texts: of more, so many are drawn.
    """

    name: ClassVar[str] = "information"
    ranked: ClassVar[bool] = False
    metrics: ClassVar[tuple[str, ...]] = ("RankInformation",)
    citation: ClassVar[str] = WEN
    question: ClassVar[str] = "Does what is attended most say most about the output?"
    reading: ClassVar[Mapping[str, str]] = {
        "ranks": (
            "The upper panel shows the mutual information between the output and the vectors at each rank of "
            "attention. A line that falls from the left says that the most attended items tell most about the output. "
            "The lower panel shows the mean weight at each rank."
        ),
        "heads": (
            "The same for each head by itself, with weighted Kendall's tau over the ranks: 1 where more attention "
            "always goes with more information."
        ),
    }
    caveats: ClassVar[tuple[str, ...]] = (
        "Mutual information is estimated by clustering and needs some hundred texts.",
        (
            "Vectors behind a recurrent or self-attending encoder also hold what was read around them, so several "
            "ranks can tell the same."
        ),
    )
    reported: ClassVar[Mapping[str, str]] = {
        "weighted_kendall_corrected": "weighted Kendall's tau, corrected for chance",
        "weighted_kendall": "uncorrected",
        "mi_corrected:0": "information at the first rank (nats)",
        "output_entropy": "information there is (nats)",
    }
    rows_are: ClassVar[str] = "attention of"
    clusters: int | str | None = None
    ranks: int | None = None
    kmeans_seeds: int = 5
    permutations: int = 200
    heads: bool = True
    weights: str = "product"
    fewest: int = 100
    most_ranks: int = 32
    most_texts: int = 5000

    def __post_init__(self) -> None:
        least = {"kmeans_seeds": 1, "permutations": 20, "fewest": 4, "most_ranks": 1, "most_texts": 4}
        least |= {} if self.clusters in (None, "paper") else {"clusters": 2}
        least |= {} if self.ranks is None else {"ranks": 2}
        for name, low in least.items():
            also = {"clusters": "None, 'paper'", "ranks": "None"}.get(name, "")
            validation.whole_number(getattr(self, name), name, least=low, also=also)
        if self.ranks is not None and self.ranks > self.most_ranks:
            raise InputError(f"ranks={self.ranks} are more than most_ranks={self.most_ranks} keeps. Raise most_ranks.")
        validation.flag(self.heads, "heads")
        validation.one_of(self.weights, KENDALL, "weights")

    def columns(self, outcome: pa.DataType) -> list[tuple[str, pa.DataType]]:
        """One row per text, group and rank; the logits stand in the first row of each text."""
        return COLUMNS

    def run(self, batch: Batch) -> Columns:
        """The attended vectors in descending order of attention."""
        adapter, eraser = batch.config.cut.adapter, AttentionEraser(batch)
        vectors = adapter.attended(batch.capture).float()
        weights, groups = self._weights(batch, vectors.shape[1])
        orders = eraser.order(weights)[..., : self.most_ranks]
        picked = [vectors.movedim(1, 2).flatten(2), *vectors.unbind(1)[: len(groups) - 1]]
        tables = [
            entry.gather(1, order.unsqueeze(-1).expand(-1, -1, entry.shape[-1])).cpu().numpy()
            for entry, order in zip(picked, orders, strict=True)
        ]
        shown = weights.gather(-1, orders).cpu().numpy()
        logits = batch.logits.double().tolist()
        rows: Columns = {name: [] for name, _ in COLUMNS}
        for text, (row, items) in enumerate(zip(batch.rows, eraser.counts.tolist(), strict=True)):
            count = min(items, self.most_ranks)
            for index, group in enumerate(groups):
                rows["text_id"] += [row.number] * count
                rows["group"] += [group] * count
                rows["rank"] += range(count)
                rows["items"] += [items] * count
                rows["logits"] += [logits[text] if group == ALL and rank == 0 else None for rank in range(count)]
                rows["weight"] += shown[index, text, :count].tolist()
                rows["vector"] += list(tables[index][text, :count])
        return rows

    def conclude(self, store: Store, *, seed: int, quiet: bool) -> dict[str, pa.Table]:
        """Measure the information of each rank over all texts."""
        kind = store.manifest["run"]["decision"]["kind"]
        ranked = read_ranked(store, self.name, ranks=self.most_ranks, texts=self.most_texts, seed=seed)
        asked = {
            group: Measurement(
                ranked,
                group,
                kind=kind,
                ranks=self.ranks,
                clusters=self.clusters,
                kmeans_seeds=self.kmeans_seeds if group == ALL else 1,
                draws=self.permutations,
                fewest=self.fewest,
                seed=seed,
            )
            for group in ranked.weights
        }
        total = sum(entry.units for entry in asked.values())
        with (
            tempfile.TemporaryDirectory(prefix="attnfaith-", ignore_cleanup_errors=True) as folder,
            one_thread(),
            progress_bar("measuring information", total, quiet=quiet) as advance,
        ):
            wanted = {group: (entry.text_ids, entry.ranks) for group, entry in asked.items() if entry.units}
            vectors = write_vectors_by_rank(store, self.name, Path(folder), wanted)
            rows = [row for group, entry in asked.items() for row in entry.rows(vectors.get(group), advance)]
        schema = pa.schema(MEASURED)
        return {BY_RANK: pa.table({name: [row.get(name) for row in rows] for name in schema.names}, schema=schema)}

    def summarise(self, table: Callable[[str], pd.DataFrame], *, by: str | None, **statistics: Any) -> pd.DataFrame:
        """See `attnfaith.evaluation.tests.information.summary.summarise`."""
        return summed.summarise(table(BY_RANK), table("texts"), by=by, weights=self.weights, **statistics)

    def figures(self, results: Results) -> dict[str, Callable[[], Figure]]:
        """Plots of information by rank, and by head if heads were measured."""
        made = super().figures(results)
        return made if self.heads else {name: draw for name, draw in made.items() if name != "heads"}

    @classmethod
    def sentences(cls, figures: SummaryLookup, facts: Mapping[str, Any]) -> Iterator[str]:
        """The sentences for the verdict."""
        yield from summed.sentences(figures, facts)

    @classmethod
    def row_name(cls, key: Key, keys: Collection[Key]) -> str:
        """All heads together, or one of them by its number."""
        return f"head {key[1]}" if key[1] != ALL else "all heads" if len(keys) > 1 else "the model"

    def _weights(self, batch: Batch, count: int) -> tuple[Tensor, list[str]]:
        """The weights ``[1 + H, B, N]`` of all heads together and of each head, with the names of the groups."""
        together = batch.weights.unsqueeze(0)
        if count == 1 or not self.heads:
            return together, [ALL]
        capture = batch.capture
        by_head = capture.weights.double().unflatten(1, (count, -1))  # [B, H, R, N]
        there = by_head.new_ones(by_head.shape[:3])
        if capture.groups is not None:
            there = capture.groups.unflatten(1, (count, -1)).to(by_head)
        means = by_head.sum(2) / there.sum(2, keepdim=True).clamp_min(1)
        numbers = batch.config.cut.adapter.heads or range(count)
        return torch.cat((together, means.transpose(0, 1))), [ALL, *map(str, numbers)]
