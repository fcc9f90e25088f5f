"""Quantities and sentences of the permutation test: does it matter which item gets which weight?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from attnfaith.estimates.lookup import SummaryLookup, SummaryValue
from attnfaith.estimates.pivot import Array, numbers
from attnfaith.estimates.quantities import Mean, Median, Quantities, Quantity, Share
from attnfaith.estimates.weight_bins import by_bin, in_bins
from attnfaith.evaluation.verdict_rule import FEW

COLUMNS = ("median_tvd", "max_tvd", "flips", "never_changes", "marginal")
TOO_SHORT = "fewer than two items to shuffle"
SMALL = 0.05
"""A total variation distance that leaves an output as good as unchanged (the adversary's, of more than two classes)."""


def distances(columns: Mapping[str, Array], **about: Any) -> list[Quantity]:
    """The changes of the output of each text by shuffled attention.

    Args:
        columns: ``[n, F]`` or ``[n]`` each: "median_tvd" and "max_tvd" (the median and the largest distance that a
            shuffle made), "flips" (the share of shuffles that change the decision) and "never_changes".
        **about: as `Quantity` takes it.
    """
    return [
        Median("median_tvd", columns["median_tvd"], **about),
        Median("max_tvd", columns["max_tvd"], **about),
        Mean("median_tvd_mean", columns["median_tvd"], **about),
        Mean("flips", columns["flips"], **about),
        Share("never_changes", columns["never_changes"], **about),
    ]


def quantities(permutation: pd.DataFrame) -> Quantities:
    """The quantities of the permutation test.

    - ``median_tvd``: the median over texts of each text's median distance; ``median_tvd_mean``: the mean of the same
    - ``max_tvd``: the median over texts of the largest distance that any shuffle made
    - ``never_changes``: the share of texts whose decision no shuffle changes
    - ``flips``: the mean over texts of the share of shuffles that change the decision
    - ``marginal``: the share of texts with a decision within the tolerance of a tie

    Each also for the texts whose largest weight is in one of the `BINS` of `attnfaith.estimates.weight_bins`, as
    "max_weight=0-0.25" in ``other``.

    Args:
        permutation: one row for each text.

    Example:
        >>> same = {"median_tvd": 0.2, "max_tvd": 0.4, "flips": 0.5, "marginal": False, "text_id": [0, 1, 2]}
        >>> rows = pd.DataFrame(same | {"max_weight": [0.2, 0.3, 0.9], "never_changes": [True, False, False]})
        >>> never = quantities(rows).quantities_for(np.arange(3))[4]
        >>> never.others[:3], never.values[:, :3].tolist()
        (['', 'max_weight=0-0.25', 'max_weight=0.25-0.5'], [[1.0, 1.0, nan], [0.0, nan, 0.0], [0.0, nan, nan]])
    """
    table = permutation.sort_values("text_id")
    weights, about = numbers(table["max_weight"]), by_bin()
    columns = {name: in_bins(numbers(table[name]), weights) for name in COLUMNS}
    every = [*distances(columns, **about), Share("marginal", columns["marginal"], **about)]
    text_ids = table["text_id"].to_numpy(dtype=np.int64)
    return Quantities(text_ids, lambda indices: [item.take(indices) for item in every], missing=TOO_SHORT)


def sentences(figures: SummaryLookup, facts: Mapping[str, Any]) -> Iterator[str]:
    """The sentences for the verdict."""
    moved, never = figures.get("", "median_tvd"), figures.get("", "never_changes")
    if not moved.known:
        return
    if facts.get("decision") == "regression":
        yield f"Shuffling the weights of the final attention changes the value by a median of {distance_text(moved)}."
    else:
        yield (
            f"Shuffling the weights of the final attention moves the output by a median total variation distance of "
            f"{distance_text(moved)}, on a scale from 0 to 1."
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


def distance_text(figure: SummaryValue) -> str:
    """A distance with its interval; a number above 0 is never shown as 0.

    Example:
        >>> (
        ...     distance_text(SummaryValue(0.1234, 0.1, 0.15)),
        ...     distance_text(SummaryValue(2e-8, 1e-8, 0.002)),
        ...     distance_text(SummaryValue(12.0)),
        ... )
        ('0.123 [0.100, 0.150]', 'less than 0.001 [0.000, 0.002]', '12.000')
    """
    shown = "less than 0.001" if 0 < figure.value < 0.0005 else f"{figure.value:.3f}"
    return shown if np.isnan(figure.low) else f"{shown} [{figure.low:.3f}, {figure.high:.3f}]"
