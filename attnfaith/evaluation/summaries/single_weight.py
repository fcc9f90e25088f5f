"""Figures of the single-weight test: does the top item matter more than another?"""

from __future__ import annotations

import numpy as np

from attnfaith.evaluation.summaries.grid import Array, Pivot
from attnfaith.evaluation.summaries.rows import Rows
from attnfaith.functional.statistics import Resamples

CELLS = ("both", "only_top", "only_drawn", "neither")
LEVEL = "attention"  # whose weights they are


def cells(top: Array, drawn: Array) -> dict[str, Array]:
    """The four cells of a text, from whether (or with what probability) each of two erasures flips the decision.

    Example:
        >>> {name: float(value[0]) for name, value in cells(np.array([1.0]), np.array([0.25])).items()}
        {'both': 0.25, 'only_top': 0.75, 'only_drawn': 0.0, 'neither': 0.0}
    """
    parts = (top * drawn, top * (1 - drawn), (1 - top) * drawn, (1 - top) * (1 - drawn))
    return dict(zip(CELLS, parts, strict=True))


def quantities(pivot: Pivot) -> tuple[dict[str, Array], dict[str, Array]]:
    """What is averaged over texts, ``[n, F]`` each: shares (0 or 1 for each text), and other means."""
    delta = pivot.matrix("delta_js")
    top, drawn = pivot.matrix("top_flips"), pivot.matrix("drawn_flips")
    shares = {"delta_js_negative": np.where(np.isnan(delta), np.nan, delta < 0), **cells(top, drawn)}
    shares["marginal"] = pivot.matrix("marginal")
    means = {name: pivot.matrix(name) for name in ("delta_js", "delta_attention", "expected_delta_js")}
    expected = cells(top, pivot.matrix("expected_drawn_flips"))
    return shares, means | {f"expected_{name}": values for name, values in expected.items()}


def add_figures(rows: Rows, pivot: Pivot, places: np.ndarray, resamples: Resamples) -> None:
    """All figures of some of the texts; the resamples are of those."""
    keys = [(LEVEL, *key) for key in pivot.keys]
    shares, means = quantities(pivot)
    for name, values in shares.items():
        rows.add_each(name, resamples.share(values[places]), keys)
    for name, values in means.items():
        rows.add_each(name, resamples.mean(values[places]), keys)
