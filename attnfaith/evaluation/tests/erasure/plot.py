"""Figures of the erasure test: a panel for each erase level."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from os import PathLike

import pandas as pd  # type: ignore[import-untyped, unused-ignore]
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attnfaith.estimates.lookup import Unit
from attnfaith.estimates.pivot import numbers
from attnfaith.paper_figure import PaperFigure
from attnfaith.plots.curves import CURVES, survival_chart
from attnfaith.plots.dots import efficiency
from attnfaith.plots.lettering import draw_empty
from attnfaith.plots.line_charts import resolve_highlight
from attnfaith.plots.matrix import wins
from attnfaith.plots.multiples import charts_figure
from attnfaith.plots.panels import SUMMARY, Target, all_texts_rows, keys_of, levels_of, require_columns
from attnfaith.plots.style import COLUMN, PAGE

Path = str | PathLike[str]
_EMPTY = "Nothing to draw: no text has been erased\nat any level."


def erasure_figure(
    curves: pd.DataFrame,
    summary: pd.DataFrame | None = None,
    unit: Unit = "tokens",
    *,
    highlight: Sequence[str] | None = None,
    path: Path | None = None,
    axis: Axes | None = None,
) -> Figure:
    """A figure of the decisions kept while items are removed, for each erase level.

    Up to six rankings stand in one axes. More have a small panel each, the ranking that removes least first.

    Args:
        curves: As for `survival`.
        summary: The long table of figures, for the numbers of texts and the mean shares removed.
        unit: What an item is, in the plural; or that for each erase level.
        highlight: Names of rankings that stand out among the others, in one axes; None: every ranking can be told.
        path: Where to write it.
        axis: Where to draw; a new figure when None.

    Example:
        >>> import pandas as pd
        >>> columns = ["erase_level", "ranking_level", "ranking", "fraction", "kept", "low", "high"]
        >>> rows = [(level, "attention", "lrp", 0.5, 0.5, 0.4, 0.6) for level in ("attention", "input")]
        >>> len(erasure_figure(pd.DataFrame(rows, columns=columns)).axes)
        2
    """
    require_columns(curves, CURVES, figure="erasure")
    chosen = resolve_highlight(highlight, keys_of(curves))
    table = curves if summary is None else _with_summary(curves, summary)
    charts = [survival_chart(table, erase_level=level, unit=unit) for level in levels_of(table)]
    return charts_figure(
        [charts] if charts else [], empty=_EMPTY, highlight=chosen, path=path, axis=axis, alone="survival"
    )


def efficiency_figure(
    summary: pd.DataFrame, unit: Unit = "tokens", *, path: Path | None = None, axis: Axes | None = None
) -> Figure:
    """A figure of the efficiency of each ranking, with a panel for each erase level.

    Example:
        >>> import pandas as pd
        >>> row = dict(test="erasure", erase_level="input", ranking="lrp", ranking_level="input", other="", slice="all")
        >>> row |= dict(figure="efficiency", value=0.5, low=0.4, high=0.6, texts=9, note="")
        >>> efficiency_figure(pd.DataFrame([row])).axes[0].get_title(loc="left")
        'Efficiency'
    """
    require_columns(summary, SUMMARY, figure="efficiency")

    def draw(axis: Axes, level: str) -> Axes:
        return efficiency(summary, axis, erase_level=level, unit=unit)

    table = all_texts_rows(summary, "erasure")
    return _by_level(table, draw, lambda count: 1.2 + 0.15 * max(count, 3), path, axis, "efficiency")


def wins_figure(summary: pd.DataFrame, *, path: Path | None = None, axis: Axes | None = None) -> Figure:
    """A figure of which ranking flips the decision first, with a panel for each erase level.

    Example:
        >>> import pandas as pd
        >>> row = dict(test="erasure", erase_level="input", ranking="lrp", ranking_level="input", other="random")
        >>> row |= dict(slice="all", figure="wins", value=0.8, low=0.7, high=0.9, texts=9, note="")
        >>> wins_figure(pd.DataFrame([row])).axes[0].get_title(loc="left")
        'Who flips first'
    """
    require_columns(summary, SUMMARY, figure="wins")

    def draw(axis: Axes, level: str) -> Axes:
        return wins(summary, axis, erase_level=level)

    table = all_texts_rows(summary, "erasure")
    return _by_level(table, draw, lambda count: 1.2 + 0.16 * max(count, 6), path, axis, "wins")


def _by_level(
    table: pd.DataFrame,
    draw: Callable[[Axes, str], Axes],
    height: Callable[[int], float],
    path: Path | None,
    axis: Axes | None,
    alone: str,
) -> Figure:
    levels = levels_of(table)
    target = Target(path, axis, max(len(levels), 1), alone)
    rankings = {level: keys_of(table[table["erase_level"] == level]) for level in levels}
    tall = height(max((len(keys) for keys in rankings.values()), default=0))
    if len(levels) < 2:
        return target.single(COLUMN, tall, lambda axis: draw(axis, levels[0]) if levels else draw_empty(axis, _EMPTY))
    figure = PaperFigure.of_width(PAGE, tall)
    for panel, level in zip(figure.subplots(1, len(levels), squeeze=False)[0], levels, strict=True):
        draw(panel, level)
    return target.saved(figure)


def _with_summary(curves: pd.DataFrame, summary: pd.DataFrame) -> pd.DataFrame:
    """The curves with the number of texts behind each row, and the mean share that its ranking removes."""
    require_columns(summary, SUMMARY, figure="erasure")
    about = ["erase_level", "ranking_level", "ranking"]
    rows = all_texts_rows(summary, "erasure")
    texts: dict[tuple[str, ...], float] = {}
    means: dict[tuple[str, ...], float] = {}
    for figure in ("mean_fraction", "never_flipped"):  # the second, where there is one: it never leaves a text out
        named = rows[rows["figure"] == figure]
        keys = list(named[about].itertuples(index=False, name=None))
        texts |= dict(zip(keys, numbers(named["texts"]), strict=True))
        if figure == "mean_fraction":
            means = dict(zip(keys, numbers(named["value"]), strict=True))
    asked = list(curves[about].itertuples(index=False, name=None))
    return curves.assign(
        texts=[texts.get(row, math.nan) for row in asked], mean=[means.get(row, math.nan) for row in asked]
    )


PLOTS: dict[str, Callable[..., Figure]] = {
    "curves": lambda results, axis=None: erasure_figure(
        results.curves(), results.summary(), unit=results.manifest["facts"]["unit"], axis=axis
    ),
    "efficiency": lambda results, axis=None: efficiency_figure(
        results.summary(), unit=results.manifest["facts"]["unit"], axis=axis
    ),
    "wins": lambda results, axis=None: wins_figure(results.summary(), axis=axis),
}
