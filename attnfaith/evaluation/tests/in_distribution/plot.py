"""Figure of the in-distribution test: the distribution of p values at the flip, for each ranking."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike

import numpy as np
import pandas as pd  # type: ignore[import-untyped, unused-ignore]
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attnfaith.estimates.lookup import percent as percent_of
from attnfaith.estimates.pivot import levels_of, numbers
from attnfaith.evaluation.tests.in_distribution.p_values import BY_TEXT
from attnfaith.functional.statistics import wilson
from attnfaith.plots.labels import Key
from attnfaith.plots.line_charts import Chart, Line
from attnfaith.plots.multiples import charts_figure
from attnfaith.plots.panels import counted, joined, place_of, require_columns
from attnfaith.plots.style import FAINT, RULE, percent

NEEDED = ("erase_level", "ranking_level", "ranking", "p")
_EMPTY = "Nothing to draw: there are no p values\nof texts with holes."
_POINTS = 101


def in_distribution_figure(
    p_values: pd.DataFrame,
    *,
    alpha: float = 0.05,
    confidence_level: float = 0.95,
    path: str | PathLike[str] | None = None,
    axis: Axes | None = None,
) -> Figure:
    """A figure of the shares of flips by p value, with a chart for each erase level.

    Args:
        p_values: The table "in_distribution_p".
        alpha: The level of significance, for the numbers beside the lines.
        confidence_level: Of the bands, Wilson's at each p value.
        path: Where to write it.
        axis: Where to draw a single chart; a new figure when None.

    Example:
        >>> import pandas as pd
        >>> rows = pd.DataFrame({"p": [0.1, 0.6], "ranking": ["lrp", None], "ranking_level": "input"})
        >>> len(in_distribution_figure(rows.assign(erase_level="input")).axes)
        1
    """
    require_columns(p_values, NEEDED, figure="in_distribution")
    charts = [
        _chart(p_values[p_values["erase_level"] == level], level, alpha, confidence_level)
        for level in levels_of(p_values)
    ]
    drawn = [chart for chart in charts if chart.drawn]
    return charts_figure([drawn] if drawn else [], empty=_EMPTY, path=path, axis=axis)


def _chart(table: pd.DataFrame, level: str, alpha: float, confidence_level: float) -> Chart:
    erased = table[table["ranking"].notna()]
    keys = list(dict.fromkeys(zip(erased["ranking_level"], erased["ranking"], strict=True)))
    lines = [_line(erased, key, alpha, confidence_level) for key in keys]
    flips = [len(part) for part in (_p_of(erased, key) for key in keys) if len(part)]
    return Chart(
        title=f"Erased at {place_of(level)}",
        about=(joined(counted(np.array(flips, dtype=np.float64)), "dotted: whole texts", by="; "),),
        names=("p value of what is left, beside whole texts", "flips with such a p value or less"),
        lines=tuple(lines),
        limits=(0.0, 1.0),
        dress=_dress,
        level=level,
        why="No line to draw: there\nare no p values here.",
        number=f"share of flips with a p value of at most {alpha:g}",
        steps=True,
    )


def _p_of(table: pd.DataFrame, key: Key) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    p = numbers(table["p"][(table["ranking_level"] == key[0]) & (table["ranking"] == key[1])])
    known: np.ndarray[tuple[int], np.dtype[np.float64]] = np.sort(p[np.isfinite(p)])
    return known


def _line(table: pd.DataFrame, key: Key, alpha: float, confidence_level: float) -> Line:
    p, at = _p_of(table, key), np.arange(_POINTS) / (_POINTS - 1)
    if not len(p):
        nothing = np.full(_POINTS, np.nan)
        return Line(key, at, nothing, nothing, nothing, np.nan)
    hits = np.searchsorted(p, at + 1e-9, "right").astype(np.float64)
    share = wilson(hits[:, None], np.full((_POINTS, 1), len(p)), confidence_level)
    unusual = float((p <= alpha).mean())
    return Line(key, at, hits / len(p), share.low[:, 0], share.high[:, 0], -unusual, percent_of(unusual))


def _dress(axis: Axes, small: bool) -> None:
    axis.set_xlim(0, 1)
    axis.set_ylim(0, 1)
    axis.plot([0, 1], [0, 1], color=FAINT, linewidth=0.9, linestyle=":", zorder=1)
    axis.grid(color=RULE, linewidth=0.5)
    axis.yaxis.set_major_formatter(percent())
    for mpl_axis in (axis.xaxis, axis.yaxis):
        mpl_axis.set_ticks([0, 0.5, 1] if small else [0, 0.25, 0.5, 0.75, 1])


PLOTS: dict[str, Callable[..., Figure]] = {
    "p_values": lambda results, axis=None: in_distribution_figure(
        results.table(BY_TEXT), alpha=results.tests["in_distribution"]["alpha"], axis=axis
    )
}
