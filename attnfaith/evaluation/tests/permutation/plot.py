"""Plots of the permutation test: the change of the output against the largest attention weight."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike

import numpy as np
import pandas as pd  # type: ignore[import-untyped, unused-ignore]
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from attnfaith.estimates.lookup import percent
from attnfaith.estimates.pivot import numbers
from attnfaith.estimates.weight_bins import BINS, bins_of
from attnfaith.plots.labels import shortened
from attnfaith.plots.lettering import TitleBlock, draw_empty
from attnfaith.plots.panels import counted, panels_by_class, require_columns
from attnfaith.plots.strips import draw_strip, draw_strips, median
from attnfaith.plots.style import COLUMN, axes, name_axes

NEEDED = ("max_weight", "median_tvd", "never_changes")
_CELLS = 50


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

    def draw(strip: int, inside: NDArray[np.bool_]) -> str:
        draw_strip(axis, strip, moved[inside], cells)
        return f"{counted([inside.sum()])}\n{percent(float(never[inside].mean()))} never"

    draw_strips(axis, strips, BINS, draw)
    share = f"{counted([len(moved)])}; the decision of {percent(float(never.mean()))} never changes"
    TitleBlock(axis, f"{title}: median {_shown(median(moved))}", share)
    unit = "change of the value" if kind == "regression" else "total variation distance"
    name_axes(axis, f"{unit}, median over shuffles", "largest attention weight")
    return axis


def permutation_figure(
    table: pd.DataFrame,
    labels: Sequence[str] = (),
    *,
    kind: str = "multiclass",
    path: str | PathLike[str] | None = None,
    axis: Axes | None = None,
) -> Figure:
    """A figure with a panel for each predicted class; one panel for multi-label and regression models.

    Args:
        table: Of the permutation test, with its column ``prediction``.
        labels: The names of the classes.
        kind: Of the decision.
        path: Where to write it.
        axis: Where to draw a single panel; a new figure when None.

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

    return panels_by_class(table, labels, kind, draw, path=path, axis=axis, alone="shuffles")


def _shown(value: float) -> str:
    return "under 0.01" if 0 < value < 0.005 else f"{value:.2f}"


PLOTS: dict[str, Callable[..., Figure]] = {
    "distances": lambda results, axis=None: permutation_figure(
        results.table("permutation"),
        results.manifest["facts"]["labels"],
        kind=results.manifest["run"]["decision"]["kind"],
        axis=axis,
    )
}
