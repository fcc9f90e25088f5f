"""Quantities and sentences of the agreement test: how similar are two rankings?"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from attnfaith.attribution.display_names import display_name
from attnfaith.attribution.method import ATTENTION
from attnfaith.estimates.lookup import SummaryLookup, SummaryValue
from attnfaith.estimates.pivot import Array, Key, Pivot
from attnfaith.estimates.quantities import FunctionOfMeans, Mean, Quantities, Quantity, Share
from attnfaith.estimates.summary_table import written
from attnfaith.evaluation.verdict_rule import FEW
from attnfaith.functional.statistics import means_of

MEASURES = ("gradient_attention_fixed", "leave_one_out")
"""What Jain & Wallace hold attention against; of the input level."""
LITTLE, CLOSE = 0.4, 0.7
"""A mean tau that is surely below the first is called little agreement, one surely above the second close agreement."""
TOO_SHORT = "fewer than two items to order"
CONSTANT = "one of the two is constant on the items that both score, or there are fewer than two of them"

_PAIR = ("ranking_level", "ranking", "other_level", "other")
_PLACES = {"attention": "the final attention", "input": "the input level"}
_INSTEAD: tuple[Key, ...] = (("attention", "gradient"), ("attention", "gradient_x_attention"))
"""What sentences compare attention with where the measures of Jain & Wallace score other items than it."""


def correlations(
    tau: Array, p: Array, rho: Array, common: Array, *, alpha: float = 0.05, **about: Any
) -> list[Quantity]:
    """Correlations of pairs of rankings, ``[n, F]`` or ``[n]`` each.

    Args:
        tau: Kendall's tau-b of each text.
        p: its p value.
        rho: Spearman's rho.
        common: the share of common items among the first.
        alpha: p values of at most this are significant.
        **about: which pairs they are, as `Quantity` takes it.
    """
    mean_tau = Mean("tau", tau, **about)
    tau = mean_tau.values
    base = np.nan_to_num(means_of(tau))  # squares are taken of what is left, or nothing might be left of the spread

    def spread(mean: Array, square: Array) -> Array:
        return np.sqrt(np.maximum(square - (mean - base) ** 2, 0.0))

    others = {**about, "compared": ()}
    return [
        mean_tau,
        FunctionOfMeans("tau_sd", tau, columns=(tau, (tau - base) ** 2), function=spread, fewest=2, **others),
        Share("significant", np.where(np.isnan(p), np.nan, p <= alpha), **others),
        Mean("spearman", rho, **others),
        Mean("overlap", common, **others),
    ]


def quantities(agreement: pd.DataFrame, alpha: float = 0.05) -> Iterator[Quantities]:
    """The quantities of the agreement test, for each pair of rankings of a level.

    Each pair is there once, the second ranking in ``other`` as "level/name"; attention is the first of its pairs. Two
    runs are compared by attention's mean tau with each other ranking.

    - ``tau``: the mean over texts of Kendall's tau-b; ``tau_sd``: its standard deviation over texts (divided by their
      number)
    - ``significant``: the share of texts with a p of at most ``alpha``, whichever way the two are related
    - ``spearman``, ``overlap``: means over texts of Spearman's rho, and of the share of common items among the first
    - ``undefined``: the share of texts where tau has no value; they are left out of all others but ``overlap``

    Args:
        agreement: one row for each text, level and pair.
        alpha: see ``significant``.

    Example:
        >>> same = {"level": "input", "ranking_level": "input", "ranking": "attention", "other_level": "input"}
        >>> same |= {"other": "leave_one_out", "spearman": 0.5, "overlap": 1.0, "text_id": [0, 1], "p": [0.3, 0.01]}
        >>> (level,) = quantities(pd.DataFrame(same | {"tau": [0.2, 0.4]}))
        >>> tau, spread, significant, *_ = level.quantities_for(np.arange(2))
        >>> tau.values.tolist(), significant.values.tolist(), tau.others
        ([[0.2], [0.4]], [[0.0], [1.0]], ['input/leave_one_out'])
    """
    for level in agreement["level"].unique():  # in the order in which levels first appear
        pivot = Pivot(agreement[agreement["level"] == level], _PAIR)
        yield Quantities(pivot.text_ids, partial(_of_pairs, pivot, level, alpha), level, missing=TOO_SHORT)


def _of_pairs(pivot: Pivot, level: str, alpha: float, indices: NDArray[np.intp]) -> list[Quantity]:
    """The quantities of some pairs."""
    keys = [key[:2] for key in pivot.keys]
    about: dict[str, Any] = {"keys": keys, "others": [written(key[2:]) for key in pivot.keys]}
    about["compared"] = [index for index, key in enumerate(keys) if key == (level, ATTENTION)]
    columns = [pivot.matrix(name)[indices] for name in ("tau", "p", "spearman", "overlap")]
    undefined = np.where(pivot.present[indices], np.isnan(columns[0]), np.nan)
    return [
        *correlations(*columns, alpha=alpha, **about),
        Share("undefined", undefined, **{**about, "note": CONSTANT, "compared": ()}),
    ]


def sentences(figures: SummaryLookup) -> Iterator[str]:
    """The sentences for the verdict: attention and the two measures of the paper, level by level."""
    compared = {level: _compared(figures, level) for level in _PLACES}
    several = sum(map(bool, compared.values())) > 1
    for level, keys in compared.items():
        for key in keys:
            attention: Key = (level, ATTENTION)
            tau, share, lost = (
                figures.get(level, name, attention, key) for name in ("tau", "significant", "undefined")
            )
            name, where = display_name(key), f" at {_PLACES[level]}" if several else ""
            yield (
                f"Attention{where} has a mean Kendall's tau of {mean_of(tau)} with {name}, significant "
                f"on {share} of the texts{_conclusion(tau)}."
            )
            if lost.value > 0.05:
                yield f"On {lost} of the texts this tau is undefined."
    if any(compared.values()):
        yield "Tau compares two orders (1: the same, -1: reversed) and does not say which of them is right."


def _compared(figures: SummaryLookup, level: str) -> list[Key]:
    """The rankings compared with attention at a level."""
    attention: Key = (level, ATTENTION)
    measures: list[Key] = [("input", name) for name in MEASURES]
    known = [key for key in measures if figures.get(level, "tau", attention, key).known]
    return known or [key for key in _INSTEAD if figures.get(level, "tau", attention, key).known]


def _conclusion(tau: SummaryValue) -> str:
    if tau.texts < FEW:
        return ""
    if tau.high < LITTLE:
        return ": little agreement"
    return ": close agreement" if tau.low > CLOSE else ": some agreement"


def mean_of(figure: SummaryValue) -> str:
    """Format a coefficient with its interval.

    Example:
        >>> mean_of(SummaryValue(0.3412, 0.3, 0.38)), mean_of(SummaryValue(-0.001))
        ('0.34 [0.30, 0.38]', '0.00')
    """
    numbers = (figure.value, figure.low, figure.high)
    value, low, high = (f"{number:.2f}".replace("-0.00", "0.00") for number in numbers)
    return value if np.isnan(figure.low) else f"{value} [{low}, {high}]"
