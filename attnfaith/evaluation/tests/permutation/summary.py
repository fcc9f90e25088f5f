"""Figures of the permutation test, and what they say: does it matter which item gets which weight?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from attnfaith.estimates.comparison_columns import NONE, ComparisonColumns, Name
from attnfaith.estimates.lookup import SummaryLookup, SummaryValue
from attnfaith.estimates.pivot import Array, numbers
from attnfaith.estimates.summary_table import EstimateTable, IntervalOptions, TextSlice, build_summary, start_slice
from attnfaith.evaluation.verdict_rule import FEW
from attnfaith.functional.statistics import Resamples

EDGES = (0.25, 0.5, 0.75)
BINS = ("0-0.25", "0.25-0.5", "0.5-0.75", "0.75-1")
"""Of the largest weight of a text: each with its lower end and without its upper one, the last with both."""
TOO_SHORT = "fewer than two items to shuffle"
SMALL = 0.05
"""A total variation distance that leaves an output as good as unchanged (the adversary's, of more than two classes)."""

_MEDIANS = {"median_tvd": "median_tvd", "max_tvd": "max_tvd"}
_MEANS = {"median_tvd_mean": "median_tvd", "flips": "flips"}
_SHARES = {"never_changes": "never_changes", "marginal": "marginal"}


def bins_of(weights: Array) -> NDArray[np.intp]:
    """The places in `BINS` of largest weights; rounding does not push a quarter below a quarter.

    Example:
        >>> bins_of(np.array([0.1, 0.25, 0.7499999999, 1.0])).tolist()
        [0, 1, 3, 3]
    """
    return np.digitize(weights + 1e-6, EDGES)


def summarise(
    permutation: pd.DataFrame, texts: pd.DataFrame, *, by: str | None = None, **statistics: Any
) -> pd.DataFrame:
    """The figures of the permutation test.

    - ``median_tvd``: the median over texts of each text's median distance; ``median_tvd_mean``: the mean of the same
    - ``max_tvd``: the median over texts of the largest distance that any shuffle made
    - ``never_changes``: the share of texts whose decision no shuffle changes
    - ``flips``: the mean over texts of the share of shuffles that change the decision
    - ``marginal``: the share of texts with a decision within the tolerance of a tie

    Each also for the texts whose largest weight is in one of `BINS`, as "max_weight=0-0.25" in ``other``.

    Args:
        permutation: one row for each text.
        texts: one row for each text.
        by: "class", "length", "confidence" or "correct", for the figures of parts of the texts.
        **statistics: as `IntervalOptions` takes them.

    Example:
        >>> same = {"median_tvd": 0.2, "max_tvd": 0.4, "flips": 0.5, "marginal": False}
        >>> texts = pd.DataFrame({"text_id": [0, 1, 2], "aside": None})
        >>> rows = texts.assign(**same, max_weight=[0.2, 0.3, 0.9], never_changes=[True, False, False])
        >>> table = summarise(rows, texts).query("figure == 'never_changes'")
        >>> [(row.other, round(row.value, 2), row.texts) for row in table.itertuples()][:3]
        [('', 0.33, 3), ('max_weight=0-0.25', 1.0, 1), ('max_weight=0.25-0.5', 0.0, 1)]
    """
    intervals, ordered = IntervalOptions(**statistics), permutation.sort_values("text_id")
    text_ids = ordered["text_id"].to_numpy(dtype=np.int64)

    def lots_of(part: TextSlice) -> Iterator[EstimateTable]:
        rows, places = start_slice("permutation", part, text_ids, note=TOO_SHORT)
        if len(places):
            _add_figures(rows, ordered.iloc[places], intervals.resamples(len(places)))
        yield rows

    return build_summary("permutation", texts, by, lots_of)


def _add_figures(rows: EstimateTable, table: pd.DataFrame, resamples: Resamples) -> None:
    """All figures of some of the texts; the resamples are of those."""
    inside = bins_of(numbers(table["max_weight"]))[:, None] == np.arange(len(BINS))
    others = ["", *(f"max_weight={name}" for name in BINS)]
    keys = [NONE] * len(others)

    def parted(column: str) -> Array:
        values = numbers(table[column])[:, None]
        return np.hstack((values, np.where(inside, values, np.nan)))

    for columns, estimate in ((_MEDIANS, resamples.median), (_MEANS, resamples.mean), (_SHARES, resamples.share)):
        for figure, column in columns.items():
            rows.add_each(figure, estimate(parted(column)), keys, others=others)


def sides(permutation: pd.DataFrame) -> dict[str, ComparisonColumns]:
    """What two runs are compared by."""
    table = permutation.sort_values("text_id")

    def named(columns: Mapping[str, str]) -> dict[Name, Array]:
        return {(figure, NONE): numbers(table[column]) for figure, column in columns.items()}

    return {"": ComparisonColumns(table["text_id"].to_numpy(dtype=np.int64), named(_MEANS | _SHARES), named(_MEDIANS))}


def sentences(figures: SummaryLookup, facts: Mapping[str, Any]) -> Iterator[str]:
    """What the figures of all texts say."""
    moved, never = figures.get("", "median_tvd"), figures.get("", "never_changes")
    if not moved.known:
        return
    if facts.get("decision") == "regression":
        yield f"Shuffling the weights of the final attention changes the value by a median of {said(moved)}."
    else:
        yield (
            f"Shuffling the weights of the final attention moves the output by a median total variation distance of "
            f"{said(moved)}, on a scale from 0 to 1."
        )
    yield f"On {never} of the texts no shuffle that was tried changes the decision."
    small, large = moved.high < SMALL, moved.low > SMALL
    if facts.get("decision") == "regression":
        small = large = True  # a value has a unit of its own: the decisions alone say whether it moves far
    if never.texts < FEW:
        return
    if never.low > 0.5 and small:
        yield "Which item gets which weight hardly matters."
    elif never.high < 0.5 and large:
        yield "Which item gets which weight matters."
    else:
        yield "Which item gets which weight matters on some of the texts only."


def said(figure: SummaryValue) -> str:
    """A distance with its interval; nothing that is not 0 is said to be 0.

    Example:
        >>> said(SummaryValue(0.1234, 0.1, 0.15)), said(SummaryValue(2e-8, 1e-8, 0.002)), said(SummaryValue(12.0))
        ('0.123 [0.100, 0.150]', 'less than 0.001 [0.000, 0.002]', '12.000')
    """
    shown = "less than 0.001" if 0 < figure.value < 0.0005 else f"{figure.value:.3f}"
    return shown if np.isnan(figure.low) else f"{shown} [{figure.low:.3f}, {figure.high:.3f}]"
