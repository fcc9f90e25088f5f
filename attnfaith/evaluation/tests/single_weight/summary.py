"""Figures of the single-weight test: does the top item matter more than another?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from attnfaith.estimates.pivot import Array, Pivot
from attnfaith.estimates.summary_table import EstimateTable, IntervalOptions, TextSlice, build_summary, start_slice
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


def add_figures(rows: EstimateTable, pivot: Pivot, places: np.ndarray, resamples: Resamples) -> None:
    """All figures of some of the texts; the resamples are of those."""
    keys = [(LEVEL, *key) for key in pivot.keys]
    shares, means = quantities(pivot)
    for name, values in shares.items():
        rows.add_each(name, resamples.share(values[places]), keys)
    for name, values in means.items():
        rows.add_each(name, resamples.mean(values[places]), keys)


def summarise_single_weight(
    single_weight: pd.DataFrame,
    texts: pd.DataFrame,
    *,
    n_resamples: int = 9999,
    confidence_level: float = 0.95,
    seed: int = 0,
    by: str | None = None,
) -> pd.DataFrame:
    """The figures of the single-weight test, for each ranking.

    - ``delta_js``: the mean of JS without the top item - JS without the drawn one, in nats; ``delta_js_negative``: the
      share of texts where it is below 0; ``delta_attention``: the mean difference of their weights
    - ``both``, ``only_top``, ``only_drawn``, ``neither``: the shares of texts whose decision flips without the one, the
      other, either, or neither; they add up to 1
    - ``expected_delta_js``, ``expected_both`` ...: the same in expectation over all items that could have been drawn
    - ``marginal``: the share of texts with a decision within the tolerance of a tie

    Args:
        single_weight: one row for each text and ranking.
        texts: one row for each text.
        n_resamples: how often the texts are drawn anew.
        confidence_level: of the intervals.
        seed: of the draws.
        by: "class", "length", "confidence" or "correct", for the figures of parts of the texts.

    Example:
        >>> same = {"ranking": "attention", "delta_js": 0.1, "delta_attention": 0.3, "marginal": False}
        >>> same |= {"top_flips": True, "drawn_flips": 0, "expected_delta_js": 0.1, "expected_drawn_flips": 0.25}
        >>> texts = pd.DataFrame({"text_id": [0, 1, 2, 3], "aside": None})
        >>> table = summarise_single_weight(texts.assign(**same), texts)
        >>> float(table.set_index("figure").value["expected_only_top"])
        0.75
    """
    intervals, pivot = IntervalOptions(n_resamples, confidence_level, seed), Pivot(single_weight, ("ranking",))

    def lots_of(part: TextSlice) -> Iterator[EstimateTable]:
        rows, places = start_slice("single_weight", part, pivot.text_ids, LEVEL)
        if len(places):
            add_figures(rows, pivot, places, intervals.resamples(len(places)))
        yield rows

    return build_summary("single_weight", texts, by, lots_of)
