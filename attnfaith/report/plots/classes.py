"""A panel for each predicted class, at the same scale."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from os import PathLike

import numpy as np
import pandas as pd  # type: ignore[import-untyped, unused-ignore]
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from attnfaith.evaluation.summaries.grid import numbers
from attnfaith.report.plots.lettering import Headline
from attnfaith.report.plots.style import COLUMN, PAGE, Drawing

PANELS = 9  # classes with a panel of their own


def panels_by_class(
    table: pd.DataFrame,
    labels: Sequence[str],
    kind: str,
    draw: Callable[[pd.DataFrame, Axes, str], object],
    *,
    path: str | PathLike[str] | None = None,
    height: float = 2.4,
) -> Figure:
    """A figure of all texts by predicted class; several labels and numbers have one panel of all texts.

    Args:
        table: A row for each text, with its ``prediction``.
        labels: The names of the classes.
        kind: Of the decision.
        draw: Called with the rows of a class, axes, and the name of the class ("" for all texts).
        path: Where to write it.
        height: Of a panel, in inches.
    """
    masks = masks_by_class(table, labels) if kind in ("multiclass", "sigmoid") else {}
    parts = {name: table[mask] for name, mask in masks.items()} or {"": table}

    def draw_at(place: int, axis: Axes) -> None:
        title = list(parts)[place]
        draw(parts[title], axis, title)

    return panels(len(parts), draw_at, height=height, path=path)


def panels(
    count: int,
    draw: Callable[[int, Axes], object],
    *,
    height: float,
    path: str | PathLike[str] | None = None,
) -> Figure:
    """A figure of some panels that have both axes in common.

    Args:
        count: How many; at least one.
        draw: Called with the number of a panel and its axes.
        height: Of a panel, in inches.
        path: Where to write it.
    """
    across = min(count, 2 if count in (2, 4) else 3)
    down = math.ceil(count / across)
    figure = Drawing.of_width(COLUMN if across == 1 else PAGE, height * down)
    grid = figure.subplots(down, across, squeeze=False).ravel()
    for place in range(count):
        draw(place, grid[place])
        for headline in grid[place].findobj(Headline) if across > 2 else ():
            headline.fold()
        if place % across:
            grid[place].set_ylabel("")
        if place + across < count:
            grid[place].set_xlabel("")
    for axis in grid[count:]:
        axis.remove()
    if path is not None:
        figure.savefig(path)
    return figure


def masks_by_class(table: pd.DataFrame, labels: Sequence[str]) -> dict[str, NDArray[np.bool_]]:
    """The texts of each predicted class by its name, the least predicted of very many together.

    Example:
        >>> found = masks_by_class(pd.DataFrame({"prediction": [1, 0, 1]}), ["bad", "good"])
        >>> {name: int(rows.sum()) for name, rows in found.items()}
        {'bad': 1, 'good': 2}
    """
    classes = numbers(table["prediction"]).astype(int)
    counts = pd.Series(classes).value_counts()
    shown = sorted(counts.index if len(counts) <= PANELS else counts.index[: PANELS - 1])
    names = {one: labels[one] if one < len(labels) else f"class {one}" for one in shown}
    unique = names if len(set(names.values())) == len(names) else {one: f"{names[one]} ({one})" for one in shown}
    found = {unique[one]: classes == one for one in shown}
    rest = ~np.isin(classes, shown)
    if rest.any():
        found[f"{len(counts) - len(shown)} other classes"] = rest
    return found
