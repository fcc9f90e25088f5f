"""Quantities and sentences of the adversarial test: how different can attention be for the same output?"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from attnfaith.estimates.lookup import SummaryLookup, SummaryValue
from attnfaith.estimates.pivot import Array, numbers
from attnfaith.estimates.quantities import Mean, Median, Number, Quantities, Quantity, Share
from attnfaith.estimates.weight_bins import by_bin, in_bins

TOO_SHORT = "fewer than two items to move weight between"
NEAR = 0.9
EQUAL = 1e-9
"""Bounds nearer to each other than this, in nats, are one exact value."""


def divergences(js: Array, near: float, end: str = "", **about: Any) -> list[Quantity]:
    """Divergences of the adversarial weights from the original ones, ``[n]``.

    Args:
        js: the largest divergence, in nats.
        near: from which share of ln 2 on a divergence is near it.
        end: of the names.
        **about: as `Quantity` takes it.
    """
    near_ln2 = np.where(np.isfinite(js), js >= near * math.log(2), np.nan)
    return [
        Share(f"near_ln2{end}", near_ln2, **{**about, "compared": ()}),
        Mean(f"js_mean{end}", js, **about),
        Median(f"js_median{end}", js, **about),
    ]


def unsatisfied(satisfied: Array, **about: Any) -> Quantity:
    """The share of texts on which no candidate was within epsilon."""
    return Share("unsatisfied", np.where(np.isnan(satisfied), np.nan, satisfied == 0), **about)


def quantities(adversarial: pd.DataFrame, near: float = NEAR) -> Quantities:
    """The quantities of the adversarial test. Divergences are in nats, from 0 to ln 2.

    - ``js_mean``, ``js_median``: of the largest divergence that the search reached on each text
    - ``near_ln2``: the share of texts where it is at least ``near`` times ln 2; ``near_most``: at least ``near`` times
      the largest that any weights of this text have, whatever the output
    - ``most_mean``: the mean of that
    - ``unsatisfied``: the share of texts where no candidate of the search was ever within epsilon

    Where the farthest weights are known, the same of them, as ``js_mean_exact``, ``js_median_exact``,
    ``near_ln2_exact`` and ``near_most_exact``, and ``gap_exact``: the mean of what the search misses. Where they are
    known by bounds only, two figures each, ending in ``_low`` and ``_high``, take their place.

    Each also for the texts whose largest weight is in one of the `BINS` of `attnfaith.estimates.weight_bins`, as
    "max_weight=0-0.25" in ``other``. For the run: ``epsilon`` and ``near``.

    Args:
        adversarial: one row for each text.
        near: from which share of ln 2 (and of the most there is) on a divergence is near it.

    Example:
        >>> same = {"epsilon": 0.01, "satisfied": 5, "js_most": 0.69, "js_low": None, "js_high": None}
        >>> rows = pd.DataFrame(same | {"text_id": [0, 1], "max_weight": [0.2, 0.3], "js": [0.65, 0.3]})
        >>> near = next(one for one in quantities(rows).quantities_for(np.arange(2)) if one.name == "near_ln2")
        >>> near.others[:3], near.values[:, :3].tolist()
        (['', 'max_weight=0-0.25', 'max_weight=0.25-0.5'], [[1.0, 1.0, nan], [0.0, nan, 0.0]])
    """
    table = adversarial.sort_values("text_id")
    epsilon, weights = numbers(table["epsilon"]), numbers(table["max_weight"])
    by_kind: dict[type[Quantity], list[Quantity]] = {Share: [], Mean: [], Median: []}
    for item in _of_texts(table, near):
        by_kind[type(item)].append(replace(item, values=in_bins(item.values[:, 0], weights), **by_bin()))
    every = [entry for kind in by_kind.values() for entry in kind]

    def of(indices: NDArray[np.intp]) -> list[Quantity | Number]:
        settings = {"epsilon": float(epsilon[indices[0]]), "near": near}
        whole = [Number(name, value, len(indices)) for name, value in settings.items()]
        return [*whole, *(entry.take(indices) for entry in every)]

    return Quantities(table["text_id"].to_numpy(dtype=np.int64), of, missing=TOO_SHORT)


def _of_texts(table: pd.DataFrame, near: float) -> Iterator[Quantity]:
    """The quantities over all texts."""
    js, most = numbers(table["js"]), numbers(table["js_most"])
    yield Mean("most_mean", most)
    for end, values in ({"": js} | {f"_{end}": values for end, values in ends_of(table).items()}).items():
        yield from divergences(values, near, end)
        near_most = np.where(np.isfinite(values) & (most > 0), values >= near * most, np.nan)
        yield Share(f"near_most{end}", near_most, compared=())
        if end:
            yield Mean(f"gap{end}", values - js)
    yield unsatisfied(numbers(table["satisfied"]))


def ends_of(table: pd.DataFrame) -> dict[str, Array]:
    """The largest possible divergence, ``[n]``: "exact", or bounds "low" and "high"; empty if unknown."""
    low, high = numbers(table["js_low"]), numbers(table["js_high"])
    if np.isnan(high).all():
        return {}
    return {"exact": high} if np.nanmax(high - low) <= EQUAL else {"low": low, "high": high}


def sentences(figures: SummaryLookup, facts: Mapping[str, Any]) -> Iterator[str]:
    """The sentences for the verdict."""
    result, median, most = (figures.get("", name) for name in ("near_ln2", "js_median", "most_mean"))
    if not result.known:
        return
    near, epsilon = (figures.get("", name).value for name in ("near", "epsilon"))
    exact, low, high = (figures.get("", f"near_ln2_{end}") for end in ("exact", "low", "high"))
    if exact.known:
        yield (
            f"On {exact} of the texts, entirely different weights of the final attention give the same output; the "
            f"search finds such weights on {result}."
        )
    elif low.known:
        yield (
            f"On at least {low} and at most {high} of the texts, entirely different weights of the final attention "
            f"give the same output; the search finds such weights on {result}."
        )
    else:
        yield (
            f"On {result} of the texts, the search finds entirely different weights of the final attention that give "
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
    """Format a divergence with its interval.

    Example:
        >>> nats(SummaryValue(0.1234, 0.1, 0.15)), nats(SummaryValue(0.6))
        ('0.12 nats [0.10, 0.15]', '0.60 nats')
    """
    shown = f"{figure.value:.2f} nats"
    return shown if np.isnan(figure.low) else f"{shown} [{figure.low:.2f}, {figure.high:.2f}]"
