"""Plots of the permutation test: the change of the output against the largest attention weight."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd  # type: ignore[import-untyped, unused-ignore]
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from attnfaith.estimates.lookup import percent
from attnfaith.estimates.pivot import numbers
from attnfaith.estimates.weight_bins import BINS, bins_of
from attnfaith.functional.statistics import medians_of
from attnfaith.plots.labels import shortened
from attnfaith.plots.lettering import TitleBlock, draw_empty, write
from attnfaith.plots.panels import counted, panels_by_class, require_columns
from attnfaith.plots.style import COLUMN, INK, PLAIN, RULE, SMALL, axes, name_axes

if TYPE_CHECKING:
    from attnfaith.evaluation.results import Results

Array = NDArray[np.float64]
NEEDED = ("max_weight", "median_tvd", "never_changes")
POINTS = 40  # texts of a strip; more than these are drawn as a distribution
_CELLS, _HALF = 50, 0.38


def shuffles(
    table: pd.DataFrame,
    axis: Axes | None = None,
    *,
    title: str = "",
    kind: str = "multiclass",
    right: float | None = None,
) -> Axes:
    """Draw the change of the output by shuffled attention in strips by the largest weight.

    A strip shows each text's median over shuffles: as dots, or where there are many texts as a distribution, mirrored.
    The black line is the median of the strip; beside it stand the number of texts, and the share of them whose decision
    never changes, whatever the shuffle.

    Args:
        table: Columns ``max_weight``, ``median_tvd`` and ``never_changes``, a row for each text.
        axis: Where to draw; new axes when None.
        title: What texts these are.
        kind: Of the decision; a "regression" has no total variation distance, but a difference.
        right: The end of the axis, for a regression; None: what fits the data.

    Example:
        >>> import pandas as pd
        >>> table = pd.DataFrame({"max_weight": [0.1, 0.3], "median_tvd": [0.0, 0.2], "never_changes": [True, False]})
        >>> shuffles(table, title="positive").get_title(loc="left")
        'positive: median 0.10'
    """
    require_columns(table, NEEDED, figure="permutation")
    axis = axes(axis, COLUMN, 2.4)
    moved, never = numbers(table["median_tvd"]), numbers(table["never_changes"])
    title = shortened(title or "Shuffled attention")
    if not len(moved):
        TitleBlock(axis, title)
        return draw_empty(axis, "Nothing to draw: no text has\ntwo items to shuffle.")
    end = 1.0 if kind != "regression" else right or float(moved.max()) or 1.0
    strips, cells = bins_of(numbers(table["max_weight"])), np.linspace(0, end, _CELLS + 1)
    axis.set_xlim(-0.02 * end, 1.02 * end)
    axis.set_ylim(-0.55, len(BINS) - 0.45)
    axis.set_yticks(range(len(BINS)), [name.replace("-", "–") for name in BINS])
    axis.grid(axis="x", color=RULE, linewidth=0.5)
    for strip in range(len(BINS)):
        inside = strips == strip
        if inside.any():
            _draw(axis, strip, moved[inside], cells)
            note = f"{counted([inside.sum()])}\n{percent(float(never[inside].mean()))} never"
            write(axis, note, (1, strip), (4, 0), size=SMALL, xycoords=axis.get_yaxis_transform(), va="center")
    share = f"{counted([len(moved)])}; the decision of {percent(float(never.mean()))} never changes"
    TitleBlock(axis, f"{title}: median {_shown(_median(moved))}", share)
    unit = "change of the value" if kind == "regression" else "total variation distance"
    name_axes(axis, f"{unit}, median over shuffles", "largest attention weight")
    return axis


def permutation_figure(
    table: pd.DataFrame,
    labels: Sequence[str] = (),
    *,
    kind: str = "multiclass",
    path: str | PathLike[str] | None = None,
) -> Figure:
    """A figure with a panel for each predicted class; one panel for multi-label and regression models.

    Args:
        table: Of the permutation test, with its column ``prediction``.
        labels: The names of the classes.
        kind: Of the decision.
        path: Where to write it.

    Example:
        >>> import pandas as pd
        >>> table = pd.DataFrame({"max_weight": [0.1, 0.3], "median_tvd": [0.0, 0.2], "never_changes": [True, False]})
        >>> len(permutation_figure(table.assign(prediction=[0, 1]), ["bad", "good"]).axes)
        2
    """
    require_columns(table, (*NEEDED, "prediction"), figure="permutation")
    right = float(numbers(table["median_tvd"]).max(initial=0.0))

    def draw(rows: pd.DataFrame, axis: Axes, title: str) -> Axes:
        return shuffles(rows, axis, title=title, kind=kind, right=right)

    return panels_by_class(table, labels, kind, draw, path=path)


def _draw(axis: Axes, strip: int, moved: Array, cells: Array) -> None:
    """Draw the texts of a strip and their median."""
    inside = np.clip(moved, cells[0], cells[-1])
    counts, _ = np.histogram(inside, cells)
    width = _HALF * counts / counts.max()
    if len(moved) > POINTS:
        edges, heights = np.repeat(cells, 2)[1:-1], np.repeat(width, 2)
        axis.fill_between(edges, strip - heights, strip + heights, color=PLAIN, alpha=0.55, linewidth=0)
    else:
        axis.scatter(inside, strip + _apart(inside, cells), s=7, color=PLAIN, alpha=0.7, linewidths=0, zorder=3)
    middle = _median(moved)
    axis.plot([middle, middle], [strip - _HALF - 0.04, strip + _HALF + 0.04], color=INK, linewidth=1.2, zorder=4)


def _apart(moved: Array, cells: Array) -> Array:
    """Offsets of dots, so that those of one cell do not overlap."""
    indices = np.clip(np.searchsorted(cells, moved, side="right") - 1, 0, len(cells) - 2)
    heights, step = np.zeros(len(moved)), 2 * _HALF / max(POINTS // 4, int(np.bincount(indices).max()))
    for index in np.unique(indices):
        (here,) = np.nonzero(indices == index)
        heights[here] = step * (np.arange(len(here)) - (len(here) - 1) / 2)
    return heights


def _median(values: Array) -> float:
    return float(medians_of(values[:, None])[0])


def _shown(value: float) -> str:
    return "under 0.01" if 0 < value < 0.005 else f"{value:.2f}"


PLOTS: dict[str, Callable[[Results], Figure]] = {
    "distances": lambda results: permutation_figure(
        results.table("permutation"),
        results.manifest["facts"]["labels"],
        kind=results.manifest["run"]["decision"]["kind"],
    )
}
