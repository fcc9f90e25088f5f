"""Figures of the adversarial test, and what they say: how different can attention be for the same output?"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from attnfaith.estimates.comparison_columns import NONE, ComparisonColumns, Name
from attnfaith.estimates.lookup import SummaryLookup, SummaryValue
from attnfaith.estimates.pivot import Array, numbers
from attnfaith.estimates.summary_table import EstimateTable, IntervalOptions, TextSlice, build_summary, start_slice
from attnfaith.evaluation.tests.permutation.summary import BINS, bins_of
from attnfaith.functional.statistics import Resamples

TOO_SHORT = "fewer than two items to move weight between"
NEAR = 0.9
EQUAL = 1e-9
"""Bounds nearer to each other than this, in nats, are one exact value."""


def summarise(
    adversarial: pd.DataFrame, texts: pd.DataFrame, *, near: float = NEAR, by: str | None = None, **statistics: Any
) -> pd.DataFrame:
    """The figures of the adversarial test. Divergences are in nats, from 0 to ln 2.

    - ``js_mean``, ``js_median``: of the largest divergence that the search reached on each text
    - ``near_ln2``: the share of texts where it is at least ``near`` times ln 2; ``near_most``: at least ``near`` times
      the largest that any weights of this text have, whatever the output
    - ``most_mean``: the mean of that
    - ``unsatisfied``: the share of texts where no candidate of the search was ever within epsilon

    Where the farthest weights are known, the same of them, as ``js_mean_exact``, ``js_median_exact``,
    ``near_ln2_exact`` and ``near_most_exact``, and ``gap_exact``: the mean of what the search misses. Where they are
    known by bounds only, two figures each, ending in ``_low`` and ``_high``, take their place.

    Each also for the texts whose largest weight is in one of `BINS`, as "max_weight=0-0.25" in ``other``. For the run:
    ``epsilon`` and ``near``.

    Args:
        adversarial: one row for each text.
        texts: one row for each text.
        near: from which share of ln 2 (and of the most there is) on a divergence is near it.
        by: "class", "length", "confidence" or "correct", for the figures of parts of the texts.
        **statistics: as `IntervalOptions` takes them.

    Example:
        >>> texts = pd.DataFrame({"text_id": [0, 1], "aside": None})
        >>> same = {"epsilon": 0.01, "satisfied": 5, "js_most": 0.69, "js_low": None, "js_high": None}
        >>> table = summarise(texts.assign(**same, max_weight=[0.2, 0.3], js=[0.65, 0.3]), texts)
        >>> [(row.other, row.value) for row in table.query("figure == 'near_ln2'").itertuples()][:3]
        [('', 0.5), ('max_weight=0-0.25', 1.0), ('max_weight=0.25-0.5', 0.0)]
    """
    intervals, ordered = IntervalOptions(**statistics), adversarial.sort_values("text_id")
    text_ids = ordered["text_id"].to_numpy(dtype=np.int64)
    shares, means, medians = quantities(ordered, near)

    def lots_of(part: TextSlice) -> Iterator[EstimateTable]:
        rows, places = start_slice("adversarial", part, text_ids, note=TOO_SHORT)
        if len(places):
            inside = bins_of(numbers(ordered["max_weight"])[places])[:, None] == np.arange(len(BINS))
            resamples = intervals.resamples(len(places))
            rows.add("epsilon", float(numbers(ordered["epsilon"])[places[0]]), texts=len(places))
            rows.add("near", near, texts=len(places))
            _add(rows, inside, resamples, {name: values[places] for name, values in shares.items()}, "share")
            _add(rows, inside, resamples, {name: values[places] for name, values in means.items()}, "mean")
            _add(rows, inside, resamples, {name: values[places] for name, values in medians.items()}, "median")
        yield rows

    return build_summary("adversarial", texts, by, lots_of)


def quantities(table: pd.DataFrame, near: float = NEAR) -> tuple[dict[str, Array], dict[str, Array], dict[str, Array]]:
    """What figures are made of, ``[n]`` each: shares (0 or 1 for each text), other means, and medians."""
    js, most = numbers(table["js"]), numbers(table["js_most"])
    reached = {"": js} | {f"_{end}": values for end, values in ends_of(table).items()}
    shares, means, medians = {}, {"most_mean": most}, {}
    for end, values in reached.items():
        known = np.isfinite(values)
        shares[f"near_ln2{end}"] = np.where(known, values >= near * math.log(2), np.nan)
        shares[f"near_most{end}"] = np.where(known & (most > 0), values >= near * most, np.nan)
        means[f"js_mean{end}"] = medians[f"js_median{end}"] = values
        if end:
            means[f"gap{end}"] = values - js
    shares["unsatisfied"] = (numbers(table["satisfied"]) == 0) * 1.0
    return shares, means, medians


def ends_of(table: pd.DataFrame) -> dict[str, Array]:
    """What is known of the farthest weights: "exact", or "low" and "high", ``[n]`` each; nothing where nothing is."""
    low, high = numbers(table["js_low"]), numbers(table["js_high"])
    if np.isnan(high).all():
        return {}
    return {"exact": high} if np.nanmax(high - low) <= EQUAL else {"low": low, "high": high}


def _add(rows: EstimateTable, inside: Array, resamples: Resamples, columns: Mapping[str, Array], how: str) -> None:
    """One kind of figure of some texts: of all of them, and of those in each bin of the largest weight."""
    others = ["", *(f"max_weight={name}" for name in BINS)]
    for figure, values in columns.items():
        parted = np.hstack((values[:, None], np.where(inside, values[:, None], np.nan)))
        rows.add_each(figure, getattr(resamples, how)(parted), [NONE] * len(others), others=others)


def sides(adversarial: pd.DataFrame) -> dict[str, ComparisonColumns]:
    """What two runs are compared by."""
    table = adversarial.sort_values("text_id")
    _, means, medians = quantities(table)

    def named(columns: Mapping[str, Array]) -> dict[Name, Array]:
        return {(figure, NONE): values for figure, values in columns.items()}

    return {"": ComparisonColumns(table["text_id"].to_numpy(dtype=np.int64), named(means), named(medians))}


def sentences(figures: SummaryLookup, facts: Mapping[str, Any]) -> Iterator[str]:
    """What the figures of all texts say."""
    found, median, most = (figures.get("", name) for name in ("near_ln2", "js_median", "most_mean"))
    if not found.known:
        return
    near, epsilon = (figures.get("", name).value for name in ("near", "epsilon"))
    exact, low, high = (figures.get("", f"near_ln2_{end}") for end in ("exact", "low", "high"))
    if exact.known:
        yield (
            f"On {exact} of the texts, entirely different weights of the final attention give the same output; the "
            f"search finds such weights on {found}."
        )
    elif low.known:
        yield (
            f"On at least {low} and at most {high} of the texts, entirely different weights of the final attention "
            f"give the same output; the search finds such weights on {found}."
        )
    else:
        yield (
            f"On {found} of the texts, the search finds entirely different weights of the final attention that give "
            "the same output."
        )
    if facts.get("decision") == "regression":
        yield (
            f"'Entirely different' is a Jensen-Shannon divergence of at least {100 * near:g} % of ln 2, and 'the same' "
            f"a value that moves by at most {epsilon:g}."
        )
    else:
        yield (
            f"'Entirely different' is a Jensen-Shannon divergence of at least {100 * near:g} % of ln 2, and 'the same' "
            f"a total variation distance of at most {epsilon:g}."
        )
    exact, low, high = (figures.get("", f"js_median_{end}") for end in ("exact", "low", "high"))
    if exact.known:
        yield f"The median divergence that the search reaches is {nats(median)}, of {nats(exact)} that are possible."
    elif low.known:
        yield (
            f"The median divergence that the search reaches is {nats(median)}; the largest possible is between "
            f"{nats(low)} and {nats(high)}."
        )
    else:
        yield f"The median divergence that the search reaches is {nats(median)}."
    yield f"If the output may change, {nats(most)} are possible on average."


def nats(figure: SummaryValue) -> str:
    """A divergence with its interval.

    Example:
        >>> nats(SummaryValue(0.1234, 0.1, 0.15)), nats(SummaryValue(0.6))
        ('0.12 nats [0.10, 0.15]', '0.60 nats')
    """
    shown = f"{figure.value:.2f} nats"
    return shown if np.isnan(figure.low) else f"{shown} [{figure.low:.2f}, {figure.high:.2f}]"
