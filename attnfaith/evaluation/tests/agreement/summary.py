"""Figures of the agreement test, and what they say: how alike are the orders in which two rankings put the items?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from attnfaith.attribution.display_names import display_name
from attnfaith.attribution.method import ATTENTION
from attnfaith.estimates.comparison_columns import ComparisonColumns, Name
from attnfaith.estimates.lookup import SummaryLookup, SummaryValue
from attnfaith.estimates.pivot import Array, Key, Pivot
from attnfaith.estimates.summary_table import (
    EstimateTable,
    IntervalOptions,
    TextSlice,
    build_summary,
    start_slice,
    written,
)
from attnfaith.evaluation.verdict_rule import FEW
from attnfaith.functional.statistics import Resamples, means_of

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


def summarise(
    agreement: pd.DataFrame, texts: pd.DataFrame, *, by: str | None = None, alpha: float = 0.05, **statistics: Any
) -> pd.DataFrame:
    """The figures of the agreement test, for each pair of rankings of a level.

    Each pair is there once, the second ranking in ``other`` as "level/name"; attention is the first of its pairs.

    - ``tau``: the mean over texts of Kendall's tau-b; ``tau_sd``: its standard deviation over texts (divided by their
      number)
    - ``significant``: the share of texts with a p of at most ``alpha``, whichever way the two are related
    - ``spearman``, ``overlap``: means over texts of Spearman's rho, and of the share of common items among the first
    - ``undefined``: the share of texts where tau has no value; they are left out of all others but ``overlap``

    Args:
        agreement: one row for each text, level and pair.
        texts: one row for each text.
        by: "class", "length", "confidence" or "correct", for the figures of parts of the texts.
        alpha: see ``significant``.
        **statistics: as `IntervalOptions` takes them.

    Example:
        >>> same = {"level": "input", "ranking_level": "input", "ranking": "attention", "other_level": "input"}
        >>> same |= {"other": "leave_one_out", "spearman": 0.5, "overlap": 1.0}
        >>> texts = pd.DataFrame({"text_id": [0, 1, 2], "aside": None})
        >>> table = summarise(texts.assign(**same, tau=[0.2, 0.4, np.nan], p=[0.3, 0.01, np.nan]), texts)
        >>> figures = table[table.other == "input/leave_one_out"].set_index("figure").value.round(3)
        >>> figures[["tau", "tau_sd", "significant", "undefined"]].tolist()
        [0.3, 0.1, 0.5, 0.333]
    """
    intervals, pivots = IntervalOptions(**statistics), pivots_of(agreement)

    def lots_of(part: TextSlice) -> Iterator[EstimateTable]:
        for level, pivot in pivots.items():
            rows, places = start_slice("agreement", part, pivot.text_ids, level, note=TOO_SHORT)
            if len(places):
                _add_figures(rows, pivot, places, intervals.resamples(len(places)), alpha)
            yield rows

    return build_summary("agreement", texts, by, lots_of)


def pivots_of(agreement: pd.DataFrame) -> dict[str, Pivot]:
    """The table laid out by text and pair, level by level; in the order in which levels first appear."""
    return {level: Pivot(agreement[agreement["level"] == level], _PAIR) for level in agreement["level"].unique()}


def _add_figures(rows: EstimateTable, pivot: Pivot, places: NDArray[Any], resamples: Resamples, alpha: float) -> None:
    """All figures of some of the texts; the resamples are of those."""
    keys, others = [key[:2] for key in pivot.keys], [written(key[2:]) for key in pivot.keys]
    tau, p, rho, common = (pivot.matrix(name)[places] for name in ("tau", "p", "spearman", "overlap"))
    base = np.nan_to_num(means_of(tau))  # squares are taken of what is left, or nothing might be left of the spread
    columns = [tau, (tau - base) ** 2, rho, common]
    drawn = np.split(resamples.draws(np.hstack(columns)), len(columns), axis=1)
    means, texts = [means_of(column) for column in columns], [(~np.isnan(column)).sum(0) for column in columns]
    spread = np.where(texts[0] > 1, np.sqrt(means[1]), np.nan)
    spreads = np.sqrt(np.maximum(drawn[1] - (drawn[0] - base) ** 2, 0.0))
    known = np.isnan(tau)
    for figure, found in {
        "tau": resamples.estimate(means[0], drawn[0], texts[0]),
        "tau_sd": resamples.estimate(spread, spreads, texts[0]),
        "significant": resamples.share(np.where(np.isnan(p), np.nan, p <= alpha)),
        "spearman": resamples.estimate(means[2], drawn[2], texts[2]),
        "overlap": resamples.estimate(means[3], drawn[3], texts[3]),
        "undefined": resamples.share(np.where(pivot.present[places], known, np.nan)),
    }.items():
        rows.add_each(figure, found, keys, others=others, notes=CONSTANT if figure == "undefined" else "")


def sides(agreement: pd.DataFrame) -> dict[str, ComparisonColumns]:
    """What two runs are compared by: attention's mean tau with each other ranking."""
    found = {}
    for level, pivot in pivots_of(agreement).items():
        tau = pivot.matrix("tau")
        means: dict[Name, Array] = {
            (f"tau:{written(key[2:])}", (key[0], key[1])): tau[:, place]
            for place, key in enumerate(pivot.keys)
            if key[:2] == (level, ATTENTION)
        }
        found[level] = ComparisonColumns(pivot.text_ids, means)
    return found


def sentences(figures: SummaryLookup) -> Iterator[str]:
    """What the figures of all texts say of attention and the two measures, level by level."""
    compared = {level: _compared(figures, level) for level in _PLACES}
    several = sum(map(bool, compared.values())) > 1
    for level, keys in compared.items():
        for key in keys:
            own: Key = (level, ATTENTION)
            tau, share, lost = (figures.get(level, name, own, key) for name in ("tau", "significant", "undefined"))
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
    """The rankings that attention is compared with at a level."""
    own: Key = (level, ATTENTION)
    measures: list[Key] = [("input", name) for name in MEASURES]
    known = [key for key in measures if figures.get(level, "tau", own, key).known]
    return known or [key for key in _INSTEAD if figures.get(level, "tau", own, key).known]


def _conclusion(tau: SummaryValue) -> str:
    if tau.texts < FEW:
        return ""
    if tau.high < LITTLE:
        return ": little agreement"
    return ": close agreement" if tau.low > CLOSE else ": some agreement"


def mean_of(figure: SummaryValue) -> str:
    """A coefficient with its interval.

    Example:
        >>> mean_of(SummaryValue(0.3412, 0.3, 0.38)), mean_of(SummaryValue(-0.001))
        ('0.34 [0.30, 0.38]', '0.00')
    """
    numbers = (figure.value, figure.low, figure.high)
    value, low, high = (f"{number:.2f}".replace("-0.00", "0.00") for number in numbers)
    return value if np.isnan(figure.low) else f"{value} [{low}, {high}]"
