"""Summaries of tests on a tiny model's texts, to hold modules against."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pytest
import torch
from torch import Tensor

from attnfaith.evaluation.batch import Batch
from attnfaith.evaluation.tests.base import Test
from tests.helpers.removal_batches import batch_of, ranked

LENGTHS = (2, 3, 5, 7, 9, 4, 6, 8, 1, 12, 10, 2, 11, 5, 7, 3)
STATISTICS = {"n_resamples": 99, "confidence_level": 0.9}
SEED = 3
INTERVALS = {**STATISTICS, "random_state": SEED}
"""The same settings, as a module takes them."""
RANKINGS = ranked("attention/attention", "attention/gradient", "attention/random")


def texts_of(family: str = "FLANrnn", kind: str = "multiclass", **options: Any) -> Batch:
    """A batch whose texts have many lengths, one of them a single item."""
    lengths = torch.tensor(LENGTHS)
    mask = torch.arange(int(lengths.max())) < lengths.unsqueeze(1)
    ids = torch.randint(5, 64, mask.shape, generator=torch.Generator().manual_seed(2)).masked_fill(~mask, 0)
    inputs = {"input_ids": ids, "attention_mask": mask.long()}
    return batch_of(family, kind, inputs=inputs, rankings={"attention": RANKINGS}, **options)


def summary_of(test: Test, batch: Batch) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A test's table and its summary."""
    texts = pd.DataFrame({"text_id": [row.number for row in batch.rows], "aside": None})
    frames = {"texts": texts, test.name: pd.DataFrame(test.run(batch))}
    return frames[test.name], test.summarise(frames.__getitem__, by=None, seed=SEED, **STATISTICS)


def per_text(batch: Batch, values: Tensor) -> list[Any]:
    """Numbers of items ``[B, N]``, one list for each text."""
    return [row[there].tolist() for row, there in zip(values, batch.capture.mask, strict=True)]


def agree(result: dict[str, Any], summary: pd.DataFrame, *names: str, **others: str) -> None:
    """Figures of a module are those of a summary, with their intervals.

    Args:
        result: of the module.
        summary: to look in.
        *names: of the figures.
        **others: which rows: columns and their values.
    """
    rows = summary
    for column, value in {"other": "", **others}.items():
        rows = rows[rows[column] == value]
    rows = rows.set_index("figure")
    for name in names:
        row = rows.loc[name]
        for key, column in ((name, "value"), (f"{name}_low", "low"), (f"{name}_high", "high")):
            assert result[key] == pytest.approx(float(row[column]), abs=1e-9, nan_ok=True), key
        assert math.isnan(row["value"]) or row["low"] <= row["value"] <= row["high"]
