"""Data with shuffled labels: a model can only memorise them."""

from __future__ import annotations

from typing import Any

import torch

from attnfaith.randomness import keyed_generator
from attnfaith.training.dataset import open_columns


def shuffled(rows: Any, label_column: str = "label", seed: int = 0) -> list[dict[str, Any]]:
    """Shuffle the labels of labelled rows: each class is as frequent as before, but independent of the texts.

    Args:
        rows: a list of dicts, a DataFrame or a ``datasets.Dataset``; it is not changed.
        label_column: the column of the labels.
        seed: the seed of the order.

    Example:
        >>> rows = [{"text": "a", "label": 0}, {"text": "b", "label": 1}, {"text": "c", "label": 2}]
        >>> [row["label"] for row in shuffled(rows, seed=1)]
        [1, 0, 2]
    """
    row_list = rows.to_dict("records") if hasattr(rows, "to_dict") and hasattr(rows, "iloc") else list(rows)
    labels = open_columns(row_list, {"label_column": label_column})["label_column"]
    order = torch.randperm(len(labels), generator=keyed_generator(seed, "random labels")).tolist()
    return [{**row, label_column: labels[index]} for row, index in zip(row_list, order, strict=True)]
