"""The base class of modules that read two scores of each item."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from attnfaith.metrics.estimates import Mask
from attnfaith.metrics.inputs import Array, Input, check_same, padded
from attnfaith.metrics.module import Metric

_TEXTS = 256  # compared at once


class PairedScores(Metric):
    """Two lists of scores for each text, higher for items that matter more."""

    inputs: ClassVar[dict[str, Input]] = {"predictions": Input(1), "references": Input(1)}

    def check(self, text: dict[str, Array], where: str, options: Mapping[str, Any]) -> None:
        """Both lists must have one score for each item."""
        check_same({name: len(scores) for name, scores in text.items()}, "items", where)


def compared(
    columns: dict[str, list[Array]], compare: Callable[[Tensor, Tensor], dict[str, Tensor]]
) -> tuple[Mask, dict[str, Array]]:
    """Apply functions to the pairs of scores of each text, ``[n]``, and mark texts with fewer than two items.

    Args:
        columns: two lists of scores for each text.
        compare: from scores ``[B, 2, N]`` and a mask ``[B, N]`` to numbers of all pairs, ``[B, 2, 2]``.
    """
    parts = []
    for start in range(0, len(columns["predictions"]), _TEXTS):
        predictions, references = (
            padded(columns[name][start : start + _TEXTS], fill=0.0) for name in ("predictions", "references")
        )
        parts.append(compare(torch.stack((predictions[0], references[0]), dim=1), predictions[1]))
    short = np.array([len(scores) < 2 for scores in columns["predictions"]], dtype=bool)
    joined = {name: torch.cat([part[name][:, 0, 1] for part in parts]).numpy() for name in parts[0]}
    return short, {name: np.where(short, np.nan, values) for name, values in joined.items()}


def any_nan(numbers: Mapping[str, Array]) -> Mask:
    """``[n]``, True for texts where any of several numbers is NaN."""
    missing: Mask = np.isnan(np.array(list(numbers.values()))).any(0)
    return missing
