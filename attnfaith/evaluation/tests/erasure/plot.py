"""Figures of the erasure test: a panel for each erase level."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from os import PathLike
from typing import TYPE_CHECKING

import pandas as pd  # type: ignore[import-untyped, unused-ignore]
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attnfaith.estimates.lookup import Unit
from attnfaith.estimates.pivot import numbers
from attnfaith.plots.curves import CURVES, resolve_highlight, survival
from attnfaith.plots.dots import efficiency
from attnfaith.plots.lettering import draw_empty
from attnfaith.plots.matrix import wins
from attnfaith.plots.panels import SUMMARY, all_texts_rows, keys_of, levels_of, require_columns, saved
from attnfaith.plots.style import COLUMN, PAGE, PaperFigure

if TYPE_CHECKING:
    from attnfaith.evaluation.results import Results

Path = str | PathLike[str]


def erasure_figure(
    curves: pd.DataFrame,
    summary: pd.DataFrame | None = None,
    unit: Unit = "tokens",
    *,
    highlight: Sequence[str] | None = None,
    path: Path | None = None,
) -> Figure:
    """A figure of the decisions kept while items are removed, with a panel for each erase level.

    Example:
        >>> import pandas as pd
        >>> columns = ["erase_level", "ranking_level", "ranking", "fraction", "kept", "low", "high"]
        >>> rows = [(level, "attention", "lrp", 0.5, 0.5, 0.4, 0.6) for level in ("attention", "input")]
        >>> len(erasure_figure(pd.DataFrame(rows, columns=columns)).axes)
        2
    """
    require_columns(curves, CURVES, figure="erasure")
    chosen = resolve_highlight(highlight, keys_of(curves))
    table = curves if summary is None else curves.assign(texts=_texts(curves, summary))

    def draw(axis: Axes, level: str) -> Axes:
        here = {name for _, name in keys_of(table[table["erase_level"] == level])}
        shown = None if chosen is None else [name for name in chosen if name in here]
        return survival(table, axis, erase_level=level, unit=unit, highlight=shown)

    return _by_level(curves, draw, lambda count: max(2.8, 0.8 + 0.112 * count), path)


def efficiency_figure(summary: pd.DataFrame, unit: Unit = "tokens", *, path: Path | None = None) -> Figure:
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

    return _by_level(all_texts_rows(summary, "erasure"), draw, lambda count: 1.2 + 0.15 * max(count, 3), path)


def wins_figure(summary: pd.DataFrame, *, path: Path | None = None) -> Figure:
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

    return _by_level(all_texts_rows(summary, "erasure"), draw, lambda count: 1.2 + 0.16 * max(count, 6), path)


def _by_level(
    table: pd.DataFrame, draw: Callable[[Axes, str], Axes], height: Callable[[int], float], path: Path | None
) -> Figure:
    levels = levels_of(table)
    rankings = {level: keys_of(table[table["erase_level"] == level]) for level in levels}
    tall = height(max((len(keys) for keys in rankings.values()), default=0))
    figure = PaperFigure.of_width(COLUMN if len(levels) < 2 else PAGE, tall)
    if not levels:
        draw_empty(figure.add_subplot(), "Nothing to draw: no text has been erased\nat any level.")
        return saved(figure, path)
    for axis, level in zip(figure.subplots(1, len(levels), squeeze=False)[0], levels, strict=True):
        draw(axis, level)
    return saved(figure, path)


def _texts(curves: pd.DataFrame, summary: pd.DataFrame) -> list[float]:
    """The number of texts behind each row of the curves; NaN if the summary has none."""
    require_columns(summary, SUMMARY, figure="erasure")
    about = ["erase_level", "ranking_level", "ranking"]
    rows = all_texts_rows(summary, "erasure")
    known: dict[tuple[str, ...], float] = {}
    for figure in ("mean_fraction", "never_flipped"):  # the second, where there is one: it never leaves a text out
        named = rows[rows["figure"] == figure]
        known |= dict(zip(named[about].itertuples(index=False, name=None), numbers(named["texts"]), strict=True))
    return [known.get(row, math.nan) for row in curves[about].itertuples(index=False, name=None)]


PLOTS: dict[str, Callable[[Results], Figure]] = {
    "curves": lambda results: erasure_figure(
        results.curves(), results.summary(), unit=results.manifest["facts"]["unit"]
    ),
    "efficiency": lambda results: efficiency_figure(results.summary(), unit=results.manifest["facts"]["unit"]),
    "wins": lambda results: wins_figure(results.summary()),
}
