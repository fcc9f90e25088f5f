"""Measure the information of each attention rank about the output: clustering, mutual information, permutations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import torch
from numpy.typing import NDArray

from attnfaith.functional.clustering import MOST, assign_clusters, count_singletons, initial_centres, number_of_clusters
from attnfaith.functional.information import (
    encode_values,
    entropy,
    joint_counts,
    miller_madow,
    mutual_information,
    resampled_information,
    usable_ranks,
)
from attnfaith.randomness import keyed_generator
from attnfaith.storage.run_store import Store
from attnfaith.storage.table_files import TEXTS

COLUMNS: list[tuple[str, pa.DataType]] = [
    ("group", pa.string()),
    ("rank", pa.int64()),
    ("kmeans_seed", pa.int64()),
    ("mean_weight", pa.float64()),
    ("mi", pa.float64()),
    ("corrected", pa.float64()),
    ("miller_madow", pa.float64()),
    ("null_mean", pa.float64()),
    ("null_low", pa.float64()),
    ("null_high", pa.float64()),
    ("null_sd", pa.float64()),
    ("null", pa.list_(pa.float64())),
    ("halves", pa.list_(pa.float64())),
    ("samples", pa.int64()),
    ("ranks_by_length", pa.int64()),
    ("ranks_by_weight", pa.int64()),
    ("clusters", pa.int64()),
    ("singletons", pa.int64()),
    ("outputs", pa.int64()),
    ("output_entropy", pa.float64()),
    ("note", pa.string()),
]
OUTPUTS = 5
"""Clusters of the output of two classes, or of a regression (Wen et al., 3.2.1)."""
SAME = "the output is the same for all texts"
UNMET = "with no number of clusters has each two vectors or more; the smallest number was taken"
_TAIL = 2.5  # per cent on either side of what chance says


class Measurement:
    """The information of each rank of a group about the output.

    Args:
        ranked: the texts, but for their vectors.
        group: which is measured.
        kind: of decision.
        ranks: how many; None for the paper's rule.
        clusters: see `attnfaith.evaluation.tests.information.test.Information`.
        kmeans_seeds: how often vectors are clustered.
        draws: permutations, and random halves.
        fewest: with fewer texts nothing is measured.
        seed: of all draws.

    Attributes:
        ranks: that are looked at.
        text_ids: of the texts that have so many items.
        reason: why nothing can be measured; else empty.
    """

    def __init__(
        self,
        ranked: RankedVectors,
        group: str,
        *,
        kind: str,
        ranks: int | None,
        clusters: int | str | None,
        kmeans_seeds: int,
        draws: int,
        fewest: int,
        seed: int,
    ) -> None:
        weights = ranked.weights[group]
        self.reach = usable_ranks(ranked.lengths, weights)
        self.ranks = min(weights.shape[1], min(self.reach) if ranks is None else ranks)
        self._members = ranked.lengths >= self.ranks
        self.text_ids: NDArray[np.int64] = ranked.text_ids[self._members]
        self._mean_weights = weights[self._members, : self.ranks].mean(0) if len(self.text_ids) else []
        self.group, self._ranked, self._kind = group, ranked, kind
        self._clusters, self._seeds, self._draws, self._seed = clusters, kmeans_seeds, draws, seed
        self.reason = self._refused(fewest)

    @property
    def units(self) -> int:
        """The amount of work, for the progress bar."""
        return 0 if self.reason else self._seeds * self.ranks

    def rows(self, vectors: NDArray[np.float32] | None, advance: Callable[[int], None]) -> Iterator[dict[str, Any]]:
        """A row for each k-means seed and rank; without numbers if a reason is given.

        Args:
            vectors: ``[k, n, D]``; None where there is a reason.
            advance: told how much work is done.
        """
        common: dict[str, Any] = {
            "group": self.group,
            "samples": len(self.text_ids),
            "ranks_by_length": self.reach.by_length,
            "ranks_by_weight": self.reach.by_weight,
        }
        if vectors is None or self.reason:
            missing = {"note": self.reason, "outputs": 1 if self.reason == SAME else None}
            for rank in range(max(self.ranks, 1)):
                weight = self._mean_weights[rank] if rank < len(self._mean_weights) else None
                yield common | missing | {"rank": rank, "mean_weight": weight}
            return
        count = vectors.shape[1]
        shuffles, halves = self._orders(count, "permutations"), self._orders(count, "halves")[:, : count // 2]
        samples = [partial(np.ascontiguousarray, vector) for vector in vectors]
        clusters, note = self._clusters if isinstance(self._clusters, int) else 0, ""
        for number in range(self._seeds):
            centres = [
                initial_centres(sample(), clusters or MOST, seed=self._drawn(self.group, number, rank))
                for rank, sample in enumerate(samples)
            ]
            if not clusters:
                clusters, met = number_of_clusters(samples, centres, smallest=self._clusters == "paper")
                note = "" if met else UNMET
            outputs = self._outputs(number)
            for rank, sample in enumerate(samples):
                codes = assign_clusters(sample(), centres[rank][:clusters])
                table = joint_counts(codes, outputs)
                null = resampled_information(codes, outputs, shuffles, shuffled=True)
                result = float(mutual_information(table))
                low, high = np.percentile(null, [_TAIL, 100 - _TAIL])
                yield common | {
                    "rank": rank,
                    "kmeans_seed": number,
                    "mean_weight": float(self._mean_weights[rank]),
                    "mi": result,
                    "corrected": result - float(null.mean()),
                    "miller_madow": float(miller_madow(table)),
                    "null_mean": float(null.mean()),
                    "null_low": float(low),
                    "null_high": float(high),
                    "null_sd": float(null.std()),
                    "null": null,
                    "halves": resampled_information(codes, outputs, halves, shuffled=False),
                    "clusters": clusters,
                    "singletons": count_singletons(codes),
                    "outputs": int((table.sum(0) > 0).sum()),
                    "output_entropy": float(entropy(table.sum(0))),
                    "note": note,
                }
                advance(1)

    def _refused(self, fewest: int) -> str:
        count = len(self.text_ids)
        if count < fewest:
            long = f" of {self.ranks} items or more" if self.ranks > 1 else ""
            return f"{count} texts{long} are too few: {fewest} are needed"
        if not self._outputs(0).any():
            return SAME
        return ""

    def _outputs(self, number: int) -> NDArray[np.int64]:
        """The predicted classes as numbers from 0; clusters of the outputs for two classes or a regression."""
        chosen = np.flatnonzero(self._members).tolist()
        logits = self._ranked.logits[chosen]
        if self._kind == "multilabel" or (self._kind == "multiclass" and logits.shape[1] > 2):
            return encode_values([self._ranked.predictions[index] for index in chosen])
        # Of two logits only the difference says anything: a softmax does not see what is added to both.
        value = (logits[:, -1:] - logits[:, :1] if logits.shape[1] == 2 else logits[:, :1]).astype(np.float32)
        return assign_clusters(value, initial_centres(value, OUTPUTS, seed=self._drawn("outputs", number)))

    def _drawn(self, *key: object) -> int:
        """A seed for one clustering."""
        generator = keyed_generator(self._seed, "information", *key)
        return int(torch.randint(2**31, (), generator=generator))

    def _orders(self, count: int, what: str) -> NDArray[np.int64]:
        """Permutations ``[P, n]``, the same for all ranks and k-means seeds."""
        generator = keyed_generator(self._seed, "information", what)
        return np.stack([torch.randperm(count, generator=generator).numpy() for _ in range(self._draws)])


ALL = "all"
"""The group of all heads: ranked by their mean attention, their vectors side by side. The others are single heads."""


@dataclass(frozen=True)
class RankedVectors:
    """The table of a run without the vectors.

    Attributes:
        text_ids: ``[n]``, ascending.
        lengths: ``[n]``, items of each text.
        predictions: ``n`` decisions.
        logits: ``[n, C]``.
        weights: by group ``[n, K]``, those of each text, the largest first; NaN after its last item.
    """

    text_ids: NDArray[np.int64]
    lengths: NDArray[np.int64]
    predictions: list[Any]
    logits: NDArray[np.float64]
    weights: dict[str, NDArray[np.float64]]


def read_ranked(store: Store, table: str, *, ranks: int, texts: int, seed: int) -> RankedVectors:
    """Read the table of a run shard by shard.

    Args:
        store: the run.
        table: with a row for each text, group and rank.
        ranks: there are at most so many.
        texts: where there are more, so many are drawn, by the seed.
        seed: of the draw.
    """
    listed = store.table(TEXTS, ["text_id", "aside", "prediction"])
    listed = listed[listed["aside"].isna()].sort_values("text_id")
    if len(listed) > texts:
        drawn = torch.randperm(len(listed), generator=keyed_generator(seed, table, "texts"))[:texts]
        listed = listed.iloc[np.sort(drawn.numpy())]
    ids = listed["text_id"].to_numpy(dtype=np.int64)
    lengths = np.zeros(len(ids), dtype=np.int64)
    logits: dict[int, Any] = {}
    weights: dict[str, NDArray[np.float64]] = {}
    columns = ["text_id", "group", "rank", "items", "logits", "weight"]
    for group, rows, indices in _groups(store, table, columns, ids):
        result = weights.setdefault(group, np.full((len(ids), ranks), np.nan))
        rank = rows["rank"].to_numpy(dtype=np.int64)
        result[indices, rank] = rows["weight"].to_numpy(dtype=np.float64)
        if group == ALL:
            lengths[indices] = rows["items"].to_numpy(dtype=np.int64)
            top = rank == 0
            logits |= dict(zip(indices[top].tolist(), rows["logits"][top], strict=True))
    known = np.flatnonzero(lengths)  # a text without items has no rows
    return RankedVectors(
        ids[known],
        lengths[known],
        listed["prediction"].iloc[known].tolist(),
        np.array([logits[index] for index in known.tolist()], dtype=np.float64),
        {group: results[known] for group, results in weights.items()},
    )


def write_vectors_by_rank(
    store: Store, table: str, folder: Path, wanted: Mapping[str, tuple[NDArray[np.int64], int]]
) -> dict[str, NDArray[np.float32]]:
    """Write the vectors by rank into files, so that memory does not grow with the data.

    Args:
        store: the run.
        table: with a row for each text, group and rank.
        folder: for the files.
        wanted: by group the ids of the texts ``[n]``, ascending, and how many ranks k.

    Returns:
        By group ``[k, n, D]``.
    """
    made: dict[str, NDArray[np.float32]] = {}
    ids = np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *(texts for texts, _ in wanted.values())]))
    for group, rows, indices in _groups(store, table, ["text_id", "group", "rank", "vector"], ids):
        if group not in wanted:
            continue
        texts, ranks = wanted[group]
        rank = rows["rank"].to_numpy(dtype=np.int64)
        text = np.searchsorted(texts, ids[indices])
        inside = (rank < ranks) & (text < len(texts))
        inside[inside] = texts[text[inside]] == ids[indices][inside]
        if not inside.any():
            continue
        vectors = np.stack(list(rows["vector"][inside]))
        if group not in made:
            shape = (ranks, len(texts), vectors.shape[1])
            made[group] = np.memmap(folder / f"{len(made)}.vectors", np.float32, "w+", shape=shape)
        made[group][rank[inside], text[inside]] = vectors
    return made


def _groups(
    store: Store, table: str, columns: list[str], ids: NDArray[np.int64]
) -> Iterator[tuple[str, pd.DataFrame, NDArray[np.intp]]]:
    """The rows of each shard and group for some texts, with the indices of the texts."""
    for frame in store.batches(table, columns):
        text = frame["text_id"].to_numpy(dtype=np.int64)
        indices = np.searchsorted(ids, text)
        inside = indices < len(ids)
        inside[inside] = ids[indices[inside]] == text[inside]
        for group, rows in frame[inside].groupby("group", sort=False):
            yield str(group), rows, np.searchsorted(ids, rows["text_id"].to_numpy(dtype=np.int64))
