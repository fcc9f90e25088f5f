"""Figures of several panels: one for each predicted class or level, at the same scale."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from os import PathLike

import numpy as np
import pandas as pd  # type: ignore[import-untyped, unused-ignore]
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from attnfaith import validation
from attnfaith.errors import InputError
from attnfaith.estimates.pivot import numbers
from attnfaith.estimates.summary_table import COLUMNS
from attnfaith.paper_figure import PaperFigure, figure_of
from attnfaith.plots.files import check_path, write_figure
from attnfaith.plots.labels import Key
from attnfaith.plots.lettering import TitleBlock
from attnfaith.plots.style import COLUMN, PAGE

PANELS = 9  # classes with a panel of their own


def panels_by_class(
    table: pd.DataFrame,
    labels: Sequence[str],
    kind: str,
    draw: Callable[[pd.DataFrame, Axes, str], object],
    *,
    path: str | PathLike[str] | None = None,
    axis: Axes | None = None,
    height: float = 2.4,
    alone: str = "",
) -> Figure:
    """A figure with a panel for each predicted class; one panel for multi-label and regression models.

    Args:
        table: A row for each text, with its ``prediction``.
        labels: The names of the classes.
        kind: The kind of the decision.
        draw: Called with the rows of a class, axes, and the name of the class ("" for all texts).
        path: The file to write the figure to.
        axis: Where to draw a single panel; a new figure when None.
        height: The height of a panel, in inches.
        alone: The function of `attnfaith.plots` that draws a panel.
    """
    masks = masks_by_class(table, labels) if kind in ("multiclass", "sigmoid") else {}
    parts = {name: table[mask] for name, mask in masks.items()} or {"": table}

    def draw_at(index: int, axis: Axes) -> None:
        title = list(parts)[index]
        draw(parts[title], axis, title)

    return panels(len(parts), draw_at, height=height, path=path, axis=axis, alone=alone)


def panels(
    count: int,
    draw: Callable[[int, Axes], object],
    *,
    height: float,
    path: str | PathLike[str] | None = None,
    axis: Axes | None = None,
    alone: str = "",
) -> Figure:
    """A figure of panels that share both axes.

    Args:
        count: How many; at least one.
        draw: Called with the number of a panel and its axes.
        height: The height of a panel, in inches.
        path: The file to write the figure to.
        axis: Where to draw a single panel; a new figure when None.
        alone: The function of `attnfaith.plots` that draws a panel.
    """
    target = Target(path, axis, count, alone)
    if count == 1:
        return target.single(COLUMN, height, lambda axis: draw(0, axis))
    columns = min(count, 2 if count in (2, 4) else 3)
    rows = math.ceil(count / columns)
    figure = PaperFigure.of_width(COLUMN if columns == 1 else PAGE, height * rows)
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for index in range(count):
        draw(index, grid[index])
        for headline in grid[index].findobj(TitleBlock) if columns > 2 else ():
            headline.fold()
        if index % columns:
            grid[index].set_ylabel("")
        if index + columns < count:
            grid[index].set_xlabel("")
    for axis in grid[count:]:
        axis.remove()
    return target.saved(figure)


@dataclass(frozen=True)
class Target:
    """Where a figure goes: into a new one, which may be written to a file, or into axes of the caller.

    Attributes:
        path: of the file; None for no file.
        axis: of the caller; None for a new figure.
        panels: how many axes the figure has.
        alone: the function of `attnfaith.plots` that draws one panel into axes.
    """

    path: str | PathLike[str] | None = None
    axis: Axes | None = None
    panels: int = 1
    alone: str = ""

    def __post_init__(self) -> None:
        if self.path is not None:
            check_path(self.path)
        if self.axis is not None and not isinstance(self.axis, Axes):
            given = validation.short_repr(self.axis)
            raise InputError(f"Expected axes of matplotlib, such as plt.subplots(1, 2)[1][0]; got {given}.")
        if self.axis is not None and self.path is not None:
            raise InputError("Axes of yours belong to a figure of yours: save that one, and leave out path.")
        if self.axis is not None and self.panels != 1:
            hint = f" attnfaith.plots.{self.alone} draws one of them into axes." if self.alone else ""
            raise InputError(
                f"This figure has {self.panels} panels, and axes of yours hold one. Leave out the axes.{hint}"
            )

    def single(self, width: float, height: float, draw: Callable[[Axes], object]) -> Figure:
        """Draw the only panel of a figure."""
        axis = PaperFigure.of_width(width, height).add_subplot() if self.axis is None else self.axis
        draw(axis)
        return self.saved(figure_of(axis))

    def saved(self, figure: Figure) -> Figure:
        """Return the figure, written to its file if there is one."""
        if self.path is not None:
            write_figure(figure, self.path)
        return figure


def masks_by_class(table: pd.DataFrame, labels: Sequence[str]) -> dict[str, NDArray[np.bool_]]:
    """The texts of each predicted class by name; rare classes are grouped if there are very many.

    Example:
        >>> masks = masks_by_class(pd.DataFrame({"prediction": [1, 0, 1]}), ["bad", "good"])
        >>> {name: int(rows.sum()) for name, rows in masks.items()}
        {'bad': 1, 'good': 2}
    """
    classes = numbers(table["prediction"]).astype(int)
    counts = pd.Series(classes).value_counts()
    drawn = sorted(counts.index if len(counts) <= PANELS else counts.index[: PANELS - 1])
    names = {number: labels[number] if number < len(labels) else f"class {number}" for number in drawn}
    if len(set(names.values())) < len(names):
        names = {number: f"{name} ({number})" for number, name in names.items()}
    masks = {names[number]: classes == number for number in drawn}
    others = ~np.isin(classes, drawn)
    if others.any():
        masks[f"{len(counts) - len(drawn)} other classes"] = others
    return masks


SUMMARY = tuple(name for name in COLUMNS if name != "note")
_PLACES = {"attention": "the final attention", "input": "the input"}


def require_columns(table: pd.DataFrame, columns: Sequence[str], *, figure: str) -> None:
    """Refuse a table without a column that the figure needs."""
    missing = [column for column in columns if column not in table.columns]
    if missing:
        raise InputError(
            f"The figure {figure!r} is drawn from a table with the columns {', '.join(columns)}. This one has no "
            f"{', '.join(missing)}; its columns are: {', '.join(map(str, table.columns)) or 'none'}."
        )


def keys_of(table: pd.DataFrame) -> list[Key]:
    """The rankings of a table as (level, name), in the order in which they first appear."""
    keys = dict.fromkeys(zip(table["ranking_level"], table["ranking"], strict=True))
    return [key for key in keys if key[1]]  # rows that are not about a ranking have an empty name


def rows_of(table: pd.DataFrame, key: Key) -> pd.DataFrame:
    """The rows of one ranking."""
    return table[(table["ranking_level"] == key[0]) & (table["ranking"] == key[1])]


def levels_of(table: pd.DataFrame) -> list[str]:
    """The levels at which something was erased, the attention's first."""
    levels = {level for level in table["erase_level"].dropna() if level}
    return sorted(levels, key=lambda level: (level != "attention", level != "input", level))


def of_level(table: pd.DataFrame, erase_level: str | None, *, figure: str) -> tuple[pd.DataFrame, str]:
    """The rows of one erase level and its name; None stands for the only one there is."""
    levels = levels_of(table)
    if erase_level is None and len(levels) > 1:
        raise InputError(
            f"The table holds {len(levels)} erase levels, and {figure} draws one. Choose it with erase_level=, one of "
            f"{levels}."
        )
    if erase_level is not None and levels and erase_level not in levels:
        raise InputError(f"erase_level is {erase_level!r}; the table holds {levels}.")
    level = erase_level or (levels[0] if levels else "attention")
    return table[table["erase_level"] == level], level


def all_texts_rows(summary: pd.DataFrame, test: str) -> pd.DataFrame:
    """The rows of a summary for all texts."""
    return summary[(summary["test"] == test) & (summary["slice"] == "all")]


def place_of(erase_level: str) -> str:
    """The name of an erase level for titles.

    Example:
        >>> place_of("attention"), place_of("input")
        ('the final attention', 'the input')
    """
    return _PLACES.get(erase_level, f"the level {erase_level!r}")


def counted(texts: Iterable[float]) -> str:
    """Format the number of texts; a range if it differs between the rows of a table.

    Example:
        >>> counted([1200, 1200]), counted([131, 150]), counted([1]), counted([])
        ('1,200 texts', '131 to 150 texts', '1 text', '')
    """
    distinct = sorted({int(count) for count in texts if np.isfinite(count)})
    if not distinct:
        return ""
    span = f"{distinct[0]:,}" if len(distinct) == 1 else f"{distinct[0]:,} to {distinct[-1]:,}"
    return f"{span} text" + ("" if distinct == [1] else "s")


def joined(*parts: str, by: str = ", ") -> str:
    """Join the parts that are not empty."""
    return by.join(part for part in parts if part)
