"""Data whose labels say nothing: what a model learns from them, it learns by heart."""

from __future__ import annotations

from typing import Any

import torch

from attnfaith.randomness import keyed_generator
from attnfaith.training.dataset import column


def shuffled(rows: Any, label_column: str = "label", seed: int = 0) -> list[dict[str, Any]]:
    """The same rows with their labels in random order: as many of each class, and no reason for any.

    Args:
        rows: a list of dicts, a DataFrame or a ``datasets.Dataset``; it stays as it is.
        label_column: where the labels are.
        seed: of the order.

    Example:
        >>> rows = [{"text": "a", "label": 0}, {"text": "b", "label": 1}, {"text": "c", "label": 2}]
        >>> [row["label"] for row in shuffled(rows, seed=1)]
        [1, 0, 2]
    """
    kept = rows.to_dict("records") if hasattr(rows, "to_dict") and hasattr(rows, "iloc") else list(rows)
    labels = column(kept, label_column, "rows")
    order = torch.randperm(len(labels), generator=keyed_generator(seed, "random labels")).tolist()
    return [{**row, label_column: labels[place]} for row, place in zip(kept, order, strict=True)]
