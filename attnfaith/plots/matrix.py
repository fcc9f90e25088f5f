"""Matrices of pairs of rankings: which one flips the decision first, and how well two agree."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped, unused-ignore]
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from numpy.typing import NDArray

from attnfaith.attribution.method import ATTENTION
from attnfaith.errors import InputError
from attnfaith.estimates.pivot import numbers
from attnfaith.paper_figure import PaperFigure
from attnfaith.plots.labels import Key, labels_for
from attnfaith.plots.lettering import TitleBlock, draw_empty, write
from attnfaith.plots.panels import (
    SUMMARY,
    Target,
    all_texts_rows,
    counted,
    joined,
    keys_of,
    levels_of,
    of_level,
    place_of,
    require_columns,
)
from attnfaith.plots.style import (
    ALERT,
    COLUMN,
    FAINT,
    INK,
    PAGE,
    PLAIN,
    RULE,
    SMALL,
    axes,
    hide_frame,
    name_axes,
    name_rows,
    percent,
)

SIGNIFICANT = 0.05  # a pair is marked where its p is below this
_SHADES = LinearSegmentedColormap.from_list("share", ["#ffffff", "#9ecae1", "#2171b5", "#08306b"])
_MOST_ANNOTATED = 10


def wins(
    summary: pd.DataFrame, axis: Axes | None = None, *, erase_level: str | None = None, annotate: bool | None = None
) -> Axes:
    """Draw the share of texts on which the row's ranking flips with fewer removals than the column's.

    Rows and columns go from the ranking that wins most to the one that wins least. The better of a pair is marked
    where p < .05 (sign test, Holm over the pairs): by bold type and a star, or by a dot where numbers do not fit.

    Args:
        summary: The long table of figures; its rows ``wins`` and ``p_holm`` of the slice "all" are drawn. A pair's
            second ranking stands in ``other``, as ``level/name``, or ``name`` where that is clear.
        axis: Where to draw; new axes when None.
        erase_level: Which rows to draw; may be left out where there is only one level.
        annotate: Write the numbers into the cells; None: where there are ten rankings or fewer.

    Example:
        >>> import pandas as pd
        >>> row = dict(test="erasure", erase_level="input", ranking_level="input", slice="all", texts=9, figure="wins")
        >>> rows = [
        ...     row | dict(ranking=a, other=b, value=value, low=0.0, high=1.0)
        ...     for a, b, value in (("random", "lrp", 0.1), ("lrp", "random", 0.7))
        ... ]
        >>> [label.get_text() for label in wins(pd.DataFrame(rows)).get_yticklabels()]
        ['LRP (input) 1', 'random order 2']
    """
    require_columns(summary, SUMMARY, figure="wins")
    table, level = of_level(all_texts_rows(summary, "erasure"), erase_level, figure="wins")
    table = table[table["figure"].isin(["wins", "p_holm"])]
    keys, share, p = _matrices(table)
    annotate = len(keys) <= _MOST_ANNOTATED if annotate is None else annotate
    axis = axes(axis, COLUMN, 1.2 + 0.16 * max(len(keys), 6))
    where = joined(f"removed from {place_of(level)}", counted(numbers(table.loc[table["figure"] == "wins", "texts"])))
    legend = "% of texts where the row needs fewer removals than the column"
    mark = f"{'*' if annotate else 'dot'}: it is the better of the two, p < .05 (sign test, Holm)"
    has_values = bool(np.isfinite(share).any())
    TitleBlock(axis, "Who flips first", where, *(legend, mark) * has_values)
    if not has_values:
        return draw_empty(axis, "Nothing to draw: the summary\nhas no defined pair.")
    mesh = axis.pcolormesh(share, cmap=_SHADES, vmin=0, vmax=1, edgecolors="white", linewidth=0.8)
    for row, column in np.ndindex(share.shape):
        cell = float(share[row, column]), float(share[column, row]), float(p[row, column])
        _cell(axis, row, column, *cell, annotate=annotate)
    _name(axis, keys)
    if not annotate:
        bar = axis.figure.colorbar(mesh, ax=axis, shrink=0.6, aspect=18, pad=0.02, ticks=[0, 0.5, 1], format=percent())
        bar.ax.tick_params(labelsize=SMALL, length=2, width=0.5)
        bar.outline.set_visible(False)
        if bar.solids is not None:
            bar.solids.set(rasterized=False, edgecolor="face")  # no pixels in a vector file, and no seams
    return axis


def _matrices(table: pd.DataFrame) -> tuple[list[Key], NDArray[np.float64], NDArray[np.float64]]:
    """The rankings, best first, with the matrices of their shares of wins and of the p values."""
    first_keys = keys_of(table)
    second_keys = [
        _other(level, second, first_keys) for level, second in zip(table["ranking_level"], table["other"], strict=True)
    ]
    keys = list(dict.fromkeys([*first_keys, *second_keys]))
    index_of = {key: index for index, key in enumerate(keys)}
    share, p = np.full((2, len(keys), len(keys)), np.nan)
    columns = (table["ranking_level"], table["ranking"], second_keys, table["figure"], numbers(table["value"]))
    for level, name, second, figure, value in zip(*columns, strict=True):
        row, column = index_of[level, name], index_of[second]
        if figure == "wins":
            share[row, column] = value
        else:
            p[row, column] = p[column, row] = value
    mean = np.array([row[np.isfinite(row)].mean() if np.isfinite(row).any() else -1.0 for row in share])
    order = np.argsort(-mean, kind="stable")
    return [keys[number] for number in order], share[np.ix_(order, order)], p[np.ix_(order, order)]


def _other(level: str, other: str, keys: list[Key]) -> Key:
    """The key of the second ranking of a pair, whose name may lack its level."""
    by_full_name = {f"{key[0]}/{key[1]}": key for key in keys}
    if other in by_full_name:
        return by_full_name[other]
    namesakes = [key for key in keys if key[1] == other]
    if (level, other) not in namesakes and len(namesakes) > 1:
        levels = [key[0] for key in namesakes]
        raise InputError(
            f"There are several rankings called {other!r} to compare with. Name one of them: "
            f"{', '.join(f'{level}/{other}' for level in levels)}."
        )
    if namesakes and (level, other) not in namesakes:
        return namesakes[0]
    first, slash, name = other.partition("/")
    return (first, name) if slash and not namesakes else (level, other)


def _cell(axis: Axes, row: int, column: int, share: float, reverse: float, p: float, *, annotate: bool) -> None:
    position = (column + 0.5, row + 0.5)
    options: dict[str, Any] = {"xycoords": "data", "ha": "center", "va": "center"}
    if not np.isfinite(share):
        axis.fill_between([column + 0.06, column + 0.94], row + 0.06, row + 0.94, color=RULE, linewidth=0)
        if row != column:
            write(axis, "–", position, size=SMALL, **options)
        return
    better = share > (reverse if np.isfinite(reverse) else 0.5)  # above a half, the reverse can only be less
    marked = bool(p < SIGNIFICANT and better)
    if annotate:
        red, green, blue, _ = _SHADES(share)
        colour = "white" if 0.3 * red + 0.59 * green + 0.11 * blue < 0.5 else INK
        weight = "bold" if marked else "normal"
        write(
            axis, f"{100 * share:.0f}" + "*" * marked, position, size=SMALL, colour=colour, fontweight=weight, **options
        )
    elif marked:
        axis.plot(*position, marker="o", markersize=2.2, color="white", markeredgecolor=INK, markeredgewidth=0.3)


def _name(axis: Axes, keys: list[Key]) -> None:
    labels, middles = labels_for(keys), [number + 0.5 for number in range(len(keys))]
    name_rows(axis, middles, keys, [f"{labels[key]} {number}" for number, key in enumerate(keys, 1)])
    axis.set_xticks(middles, [str(number) for number in range(1, len(keys) + 1)])
    axis.tick_params(axis="x", length=0, labelsize=SMALL, labelrotation=90 if len(keys) > _MOST_ANNOTATED else 0)
    axis.invert_yaxis()
    hide_frame(axis)


Array = NDArray[np.float64]
_TAU_SHADES = LinearSegmentedColormap.from_list(
    "agreement", ["#8c3b00", ALERT, "#f8d9c0", "#ffffff", "#c6dcef", PLAIN, "#00304d"]
)
_EMPTY = "Nothing to draw: no text has\ntwo items to order."
_WIDE = 10  # more rankings than these need the width of a page


def agreements(summary: pd.DataFrame, axis: Axes | None = None, *, erase_level: str | None = None) -> Axes:
    """Draw the mean over texts of Kendall's tau between the row's ranking and the column's.

    Attention comes first, and then the ranking that is most like it. Blue is agreement, orange the opposite order. A
    pair without a value (a ranking that is constant) is grey. Where attention alone was compared, its means are dots
    with their intervals.

    Args:
        summary: The long table of figures; its rows ``tau`` of the slice "all" are drawn.
        axis: Where to draw; new axes when None.
        erase_level: Which rows to draw; may be left out where there is only one level.

    Example:
        >>> import pandas as pd
        >>> row = dict(test="agreement", erase_level="input", ranking_level="input", ranking="attention", slice="all")
        >>> row |= dict(other="input/lrp", figure="tau", value=0.3, low=0.2, high=0.4, texts=9)
        >>> [label.get_text() for label in agreements(pd.DataFrame([row])).get_yticklabels()]
        ['LRP']
    """
    require_columns(summary, SUMMARY, figure="agreement")
    table, level = of_level(all_texts_rows(summary, "agreement"), erase_level, figure="agreement")
    table = table[table["figure"] == "tau"]
    keys, tau = _matrix(table)
    axis = axes(axis, COLUMN if _narrow(keys, table) else PAGE, _height(len(keys)))
    where = joined(f"ranking the items of {place_of(level)}", counted(numbers(table["texts"])))
    if not np.isfinite(tau).any():
        TitleBlock(axis, "Agreement", where)
        return draw_empty(axis, "Nothing to draw: the summary\nhas no pair with a value.")
    if _alone(keys, table):
        return _dots(axis, table, where)
    TitleBlock(axis, "Agreement", where, "mean over texts of Kendall's τ, from −1 (opposite) to 1 (the same order)")
    axis.pcolormesh(tau, cmap=_TAU_SHADES, vmin=-1, vmax=1, edgecolors="white", linewidth=0.8)
    for row, column in np.ndindex(tau.shape):
        _tau_cell(axis, row, column, float(tau[row, column]))
    labels, middles = labels_for(keys, one_level=True), [row + 0.5 for row in range(len(keys))]
    name_rows(axis, middles, keys, [f"{labels[key]} {rank}" for rank, key in enumerate(keys, 1)])
    axis.set_xticks(middles, [str(number) for number in range(1, len(keys) + 1)])
    axis.tick_params(axis="x", length=0, labelsize=SMALL)
    axis.invert_yaxis()
    hide_frame(axis)
    return axis


def _dots(axis: Axes, table: pd.DataFrame, where: str) -> Axes:
    """Draw the agreement of attention with each other ranking, the highest on top."""
    rows = table.sort_values("value", ascending=False, kind="stable")
    keys = [_key(other) for other in rows["other"]]
    value, low, high = (numbers(rows[name]) for name in ("value", "low", "high"))
    positions = list(range(len(keys)))
    TitleBlock(axis, "Agreement with attention", where)
    axis.axvline(0, color=FAINT, linewidth=0.6, zorder=0)
    axis.hlines(positions, low, high, color=PLAIN, linewidth=1.2)
    axis.plot(value, positions, "o", color=PLAIN, markersize=3.2)
    for position, tau in zip(positions, value, strict=True):
        if np.isnan(tau):
            write(axis, "undefined", (0, position), (3, 0), size=SMALL, xycoords="data", va="center")
    labels = labels_for([("", ""), *keys], one_level=True)
    name_rows(axis, positions, keys, [labels[key] for key in keys])
    left = min(-0.05, float(np.nanmin(np.append(low, value))) - 0.05)
    axis.set_xlim(left, 1)
    axis.set_ylim(len(keys) - 0.4, -0.6)
    axis.grid(axis="x", color=RULE, linewidth=0.5)
    name_axes(axis, "Kendall's τ, mean over texts")
    return axis


def agreement_figure(
    summary: pd.DataFrame, *, path: str | PathLike[str] | None = None, axis: Axes | None = None
) -> Figure:
    """A figure of all pairs of rankings, with a panel for each level.

    Example:
        >>> import pandas as pd
        >>> row = dict(test="agreement", erase_level="input", ranking_level="input", ranking="attention", slice="all")
        >>> row |= dict(other="input/lrp", figure="tau", value=0.3, low=0.2, high=0.4, texts=9)
        >>> len(agreement_figure(pd.DataFrame([row])).axes)
        1
    """
    require_columns(summary, SUMMARY, figure="agreement")
    table = all_texts_rows(summary, "agreement")
    table = table[table["figure"] == "tau"]
    panels = {level: table[table["erase_level"] == level] for level in levels_of(table)}
    keys_by_level = {level: _matrix(rows)[0] for level, rows in panels.items()}
    narrow = all(_narrow(keys_by_level[level], rows) for level, rows in panels.items())
    heights = [_height(len(keys)) for keys in keys_by_level.values()] or [2.0]
    panels_in_row = len(panels) if narrow else 1
    target = Target(path, axis, max(len(panels), 1), "agreements")
    width, height = COLUMN if narrow and panels_in_row < 2 else PAGE, max(heights) if narrow else sum(heights)
    if not panels:
        return target.single(width, height, lambda axis: draw_empty(axis, _EMPTY))
    if axis is not None:
        return target.single(width, height, lambda axis: agreements(summary, axis))
    figure = PaperFigure.of_width(width, height)
    shape: dict[str, Any] = {"ncols": panels_in_row} if narrow else {"nrows": len(panels), "height_ratios": heights}
    for cell, level in zip(figure.subplots(**shape, squeeze=False).ravel(), panels, strict=True):
        agreements(summary, cell, erase_level=level)
    return target.saved(figure)


def _matrix(table: pd.DataFrame) -> tuple[list[Key], Array]:
    """The rankings by their agreement with attention, and the matrix of the mean tau of each pair."""
    firsts = list(zip(table["ranking_level"], table["ranking"], strict=True))
    seconds = [_key(other) for other in table["other"]]
    keys = list(dict.fromkeys([*firsts, *seconds]))
    index_of = {key: index for index, key in enumerate(keys)}
    tau = np.full((len(keys), len(keys)), np.nan)
    for first, second, value in zip(firsts, seconds, numbers(table["value"]), strict=True):
        row, column = index_of[first], index_of[second]
        tau[row, column] = tau[column, row] = value
    attention = next((number for number, key in enumerate(keys) if key[1] == ATTENTION), 0)
    likeness = np.nan_to_num(tau[attention], nan=-2.0) if keys else np.zeros(0)
    order = sorted(range(len(keys)), key=lambda index: (index != attention, -likeness[index]))
    return [keys[number] for number in order], tau[np.ix_(order, order)]


def _key(other: str) -> Key:
    level, _, name = other.partition("/")
    return level, name


def _alone(keys: Sequence[Key], table: pd.DataFrame) -> bool:
    """Whether only one ranking was compared with the others."""
    return len(table) == len(keys) - 1


def _narrow(keys: Sequence[Key], table: pd.DataFrame) -> bool:
    """Whether the figure fits the column of a page."""
    return len(keys) <= _WIDE or _alone(keys, table)


def _tau_cell(axis: Axes, row: int, column: int, tau: float) -> None:
    position = (column + 0.5, row + 0.5)
    options: dict[str, Any] = {"xycoords": "data", "ha": "center", "va": "center"}
    if np.isnan(tau):
        axis.fill_between([column + 0.06, column + 0.94], row + 0.06, row + 0.94, color=RULE, linewidth=0)
        if row != column:
            write(axis, "–", position, size=SMALL, **options)
        return
    red, green, blue, _ = _TAU_SHADES((tau + 1) / 2)
    colour = "white" if 0.3 * red + 0.59 * green + 0.11 * blue < 0.42 else INK
    write(axis, shown(tau).replace("0.", "."), position, size=SMALL, colour=colour, **options)


def _height(rankings: int) -> float:
    return 1.2 + 0.17 * max(rankings, 4)


def shown(tau: float) -> str:
    """Format a number with two digits and a typographic minus sign."""
    return f"{tau:.2f}".replace("-0.00", "0.00").replace("-", "−")
