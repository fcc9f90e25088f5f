"""How alike rankings are: Kendall's tau of every pair of them, on average over the texts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped, unused-ignore]
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from numpy.typing import NDArray

from attnfaith.evaluation.summaries.grid import numbers
from attnfaith.report.plots.lettering import Headline, nothing, write
from attnfaith.report.plots.names import Key, labels_for
from attnfaith.report.plots.style import (
    ALERT,
    COLUMN,
    FAINT,
    INK,
    PAGE,
    PLAIN,
    RULE,
    SMALL,
    Drawing,
    axes,
    hide_frame,
    name_axes,
    name_rows,
)
from attnfaith.report.plots.tables import SUMMARY, counted, joined, levels_of, need, of_level, overall, place_of

Array = NDArray[np.float64]
_SHADES = LinearSegmentedColormap.from_list(
    "agreement", ["#8c3b00", ALERT, "#f8d9c0", "#ffffff", "#c6dcef", PLAIN, "#00304d"]
)
_WIDE = 10  # more rankings than these need the width of a page


def agreements(summary: pd.DataFrame, axis: Axes | None = None, *, erase_level: str | None = None) -> Axes:
    """A matrix: the mean over texts of Kendall's tau between the row's ranking and the column's.

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
    need(summary, SUMMARY, figure="agreement")
    table, level = of_level(overall(summary, "agreement"), erase_level, figure="agreement")
    table = table[table["figure"] == "tau"]
    keys, tau = _matrix(table)
    axis = axes(axis, COLUMN if _narrow(keys, table) else PAGE, _height(len(keys)))
    where = joined(f"ranking the items of {place_of(level)}", counted(numbers(table["texts"])))
    if not np.isfinite(tau).any():
        Headline(axis, "Agreement", where)
        return nothing(axis, "Nothing to draw: the summary\nhas no pair with a value.")
    if _alone(keys, table):
        return _dots(axis, table, where)
    Headline(axis, "Agreement", where, "mean over texts of Kendall's τ, from −1 (opposite) to 1 (the same order)")
    axis.pcolormesh(tau, cmap=_SHADES, vmin=-1, vmax=1, edgecolors="white", linewidth=0.8)
    for row, column in np.ndindex(tau.shape):
        _cell(axis, row, column, float(tau[row, column]))
    labels, middles = labels_at_one_level(keys), [place + 0.5 for place in range(len(keys))]
    name_rows(axis, middles, keys, [f"{labels[key]} {place}" for place, key in enumerate(keys, 1)])
    axis.set_xticks(middles, [str(place) for place in range(1, len(keys) + 1)])
    axis.tick_params(axis="x", length=0, labelsize=SMALL)
    axis.invert_yaxis()
    hide_frame(axis)
    return axis


def _dots(axis: Axes, table: pd.DataFrame, where: str) -> Axes:
    """Attention with each other ranking, the one most like it on top; those without a value at the foot."""
    rows = table.sort_values("value", ascending=False, kind="stable")
    keys = [_key(other) for other in rows["other"]]
    value, low, high = (numbers(rows[name]) for name in ("value", "low", "high"))
    places = list(range(len(keys)))
    Headline(axis, "Agreement with attention", where)
    axis.axvline(0, color=FAINT, linewidth=0.6, zorder=0)
    axis.hlines(places, low, high, color=PLAIN, linewidth=1.2)
    axis.plot(value, places, "o", color=PLAIN, markersize=3.2)
    for place, tau in zip(places, value, strict=True):
        if np.isnan(tau):
            write(axis, "undefined", (0, place), (3, 0), size=SMALL, xycoords="data", va="center")
    labels = labels_at_one_level([("", ""), *keys])
    name_rows(axis, places, keys, [labels[key] for key in keys])
    left = min(-0.05, float(np.nanmin(np.append(low, value))) - 0.05)
    axis.set_xlim(left, 1)
    axis.set_ylim(len(keys) - 0.4, -0.6)
    axis.grid(axis="x", color=RULE, linewidth=0.5)
    name_axes(axis, "Kendall's τ, mean over texts")
    return axis


def agreement_figure(summary: pd.DataFrame, *, path: str | PathLike[str] | None = None) -> Figure:
    """Every pair of rankings, a panel for each level.

    Example:
        >>> import pandas as pd
        >>> row = dict(test="agreement", erase_level="input", ranking_level="input", ranking="attention", slice="all")
        >>> row |= dict(other="input/lrp", figure="tau", value=0.3, low=0.2, high=0.4, texts=9)
        >>> len(agreement_figure(pd.DataFrame([row])).axes)
        1
    """
    need(summary, SUMMARY, figure="agreement")
    table = overall(summary, "agreement")
    table = table[table["figure"] == "tau"]
    panels = {level: table[table["erase_level"] == level] for level in levels_of(table)}
    found = {level: _matrix(rows)[0] for level, rows in panels.items()}
    narrow = all(_narrow(found[level], rows) for level, rows in panels.items())
    heights = [_height(len(keys)) for keys in found.values()] or [2.0]
    across = len(panels) if narrow else 1
    figure = Drawing.of_width(COLUMN if narrow and across < 2 else PAGE, max(heights) if narrow else sum(heights))
    if not panels:
        nothing(figure.add_subplot(), "Nothing to draw: no text has\ntwo items to order.")
    else:
        shape: dict[str, Any] = {"ncols": across} if narrow else {"nrows": len(panels), "height_ratios": heights}
        for axis, level in zip(figure.subplots(**shape, squeeze=False).ravel(), panels, strict=True):
            agreements(summary, axis, erase_level=level)
    if path is not None:
        figure.savefig(path)
    return figure


def _matrix(table: pd.DataFrame) -> tuple[list[Key], Array]:
    """The rankings, attention first and then the one most like it; and the mean tau of each pair, in both its cells."""
    firsts = list(zip(table["ranking_level"], table["ranking"], strict=True))
    seconds = [_key(other) for other in table["other"]]
    keys = list(dict.fromkeys([*firsts, *seconds]))
    place, tau = {key: number for number, key in enumerate(keys)}, np.full((len(keys), len(keys)), np.nan)
    for one, two, value in zip(firsts, seconds, numbers(table["value"]), strict=True):
        tau[place[one], place[two]] = tau[place[two], place[one]] = value
    first = next((number for number, key in enumerate(keys) if key[1] == "attention"), 0)
    like = np.nan_to_num(tau[first], nan=-2.0) if keys else np.zeros(0)
    order = sorted(range(len(keys)), key=lambda number: (number != first, -like[number]))
    return [keys[number] for number in order], tau[np.ix_(order, order)]


def _key(other: str) -> Key:
    level, _, name = other.partition("/")
    return level, name


def _alone(keys: Sequence[Key], table: pd.DataFrame) -> bool:
    """Whether one ranking was compared with the others, and they not with each other."""
    return len(table) == len(keys) - 1


def _narrow(keys: Sequence[Key], table: pd.DataFrame) -> bool:
    """Whether a column of a page is enough."""
    return len(keys) <= _WIDE or _alone(keys, table)


def _cell(axis: Axes, row: int, column: int, tau: float) -> None:
    at = (column + 0.5, row + 0.5)
    placed: dict[str, Any] = {"xycoords": "data", "ha": "center", "va": "center"}
    if np.isnan(tau):
        axis.fill_between([column + 0.06, column + 0.94], row + 0.06, row + 0.94, color=RULE, linewidth=0)
        if row != column:
            write(axis, "–", at, size=SMALL, **placed)
        return
    red, green, blue, _ = _SHADES((tau + 1) / 2)
    colour = "white" if 0.3 * red + 0.59 * green + 0.11 * blue < 0.42 else INK
    write(axis, shown(tau).replace("0.", "."), at, size=SMALL, colour=colour, **placed)


def labels_at_one_level(keys: Collection[Key]) -> dict[Key, str]:
    """Labels with a level only where two rankings have the same name: all of them rank the same items."""
    names = [name for _, name in keys]
    plain = {key: ("attention", key[1]) if names.count(key[1]) == 1 else key for key in keys}
    labels = labels_for(list(plain.values()))
    return {key: labels[plain[key]] for key in keys}


def _height(rankings: int) -> float:
    return 1.2 + 0.17 * max(rankings, 4)


def shown(tau: float) -> str:
    """Two digits, with a real minus sign, and none before a zero."""
    return f"{tau:.2f}".replace("-0.00", "0.00").replace("-", "−")
