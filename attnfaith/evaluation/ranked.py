"""The attended vectors of a run, laid out by rank: the rank-j vectors of all texts are one sample."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from attnfaith.attribution.controls import keyed_generator
from attnfaith.evaluation.store import TEXTS, Store

ALL = "all"
"""The group of all heads: ranked by their mean attention, their vectors side by side. The others are single heads."""


@dataclass(frozen=True)
class Ranked:
    """What a run's table says of its texts, but for the vectors.

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


def read_ranked(store: Store, table: str, *, ranks: int, texts: int, seed: int) -> Ranked:
    """Read a run's table, shard by shard.

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
    for group, rows, places in _groups(store, table, columns, ids):
        found = weights.setdefault(group, np.full((len(ids), ranks), np.nan))
        rank = rows["rank"].to_numpy(dtype=np.int64)
        found[places, rank] = rows["weight"].to_numpy(dtype=np.float64)
        if group == ALL:
            lengths[places] = rows["items"].to_numpy(dtype=np.int64)
            top = rank == 0
            logits |= dict(zip(places[top].tolist(), rows["logits"][top], strict=True))
    known = np.flatnonzero(lengths)  # a text without items has no rows
    return Ranked(
        ids[known],
        lengths[known],
        listed["prediction"].iloc[known].tolist(),
        np.array([logits[place] for place in known.tolist()], dtype=np.float64),
        {group: found[known] for group, found in weights.items()},
    )


def spread_out(
    store: Store, table: str, folder: Path, wanted: Mapping[str, tuple[NDArray[np.int64], int]]
) -> dict[str, NDArray[np.float32]]:
    """The vectors of some texts by rank, in files of a folder, so that memory does not grow with them.

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
    for group, rows, places in _groups(store, table, ["text_id", "group", "rank", "vector"], ids):
        if group not in wanted:
            continue
        texts, ranks = wanted[group]
        rank = rows["rank"].to_numpy(dtype=np.int64)
        text = np.searchsorted(texts, ids[places])
        inside = (rank < ranks) & (text < len(texts))
        inside[inside] = texts[text[inside]] == ids[places][inside]
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
    """Each shard's rows of each group, those of the texts with these ids only, and the places of their texts."""
    for frame in store.batches(table, columns):
        text = frame["text_id"].to_numpy(dtype=np.int64)
        places = np.searchsorted(ids, text)
        inside = places < len(ids)
        inside[inside] = ids[places[inside]] == text[inside]
        for group, rows in frame[inside].groupby("group", sort=False):
            yield str(group), rows, np.searchsorted(ids, rows["text_id"].to_numpy(dtype=np.int64))
