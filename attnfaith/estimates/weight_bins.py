"""Texts by the size of their largest attention weight."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnfaith.estimates.pivot import Array
from attnfaith.estimates.quantities import NONE

EDGES = (0.25, 0.5, 0.75)
BINS = ("0-0.25", "0.25-0.5", "0.5-0.75", "0.75-1")
"""Bins of the largest weight of a text. A bin includes its lower end and not its upper one; the last includes both."""


def bins_of(weights: Array) -> NDArray[np.intp]:
    """The indices in `BINS` of largest weights; a weight within 1e-6 below an edge counts as the edge.

    Example:
        >>> bins_of(np.array([0.1, 0.25, 0.7499999999, 1.0])).tolist()
        [0, 1, 3, 3]
    """
    return np.digitize(weights + 1e-6, EDGES)


def in_bins(values: Array, weights: Array) -> Array:
    """Numbers ``[n]`` of all texts, and of those whose largest weight is in each of `BINS`: ``[n, 1 + bins]``."""
    inside = bins_of(weights)[:, None] == np.arange(len(BINS))
    return np.hstack((values[:, None], np.where(inside, values[:, None], np.nan)))


def by_bin() -> dict[str, Any]:
    """The labels of the columns of `in_bins`, as `Quantity` takes them."""
    others = ["", *(f"max_weight={name}" for name in BINS)]
    return {"keys": [NONE] * len(others), "others": others}
