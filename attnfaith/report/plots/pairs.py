"""Which ranking beats which: the share of texts on which one flips the decision with fewer removals than another."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped, unused-ignore]
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from numpy.typing import NDArray

from attnfaith.errors import InputError
from attnfaith.evaluation.summaries.grid import numbers
from attnfaith.report.plots.lettering import Headline, nothing, write
from attnfaith.report.plots.names import Key, labels_for
from attnfaith.report.plots.style import COLUMN, INK, RULE, SMALL, axes, hide_frame, name_rows, percent
from attnfaith.report.plots.tables import SUMMARY, counted, joined, keys_of, need, of_level, overall, place_of

SIGNIFICANT = 0.05  # a pair is marked where its p is below this
_SHADES = LinearSegmentedColormap.from_list("share", ["#ffffff", "#9ecae1", "#2171b5", "#08306b"])
_MOST_ANNOTATED = 10


def wins(
    summary: pd.DataFrame, axis: Axes | None = None, *, erase_level: str | None = None, annotate: bool | None = None
) -> Axes:
    """A matrix: the share of texts on which the row's ranking flips with fewer removals than the column's.

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
        ['LRP (input) 1', 'random 2']
    """
    need(summary, SUMMARY, figure="wins")
    table, level = of_level(overall(summary, "erasure"), erase_level, figure="wins")
    table = table[table["figure"].isin(["wins", "p_holm"])]
    keys, share, p = _matrices(table)
    annotate = len(keys) <= _MOST_ANNOTATED if annotate is None else annotate
    axis = axes(axis, COLUMN, 1.2 + 0.16 * max(len(keys), 6))
    where = joined(f"removed from {place_of(level)}", counted(numbers(table.loc[table["figure"] == "wins", "texts"])))
    legend = "% of texts where the row needs fewer removals than the column"
    mark = f"{'*' if annotate else 'dot'}: it is the better of the two, p < .05 (sign test, Holm)"
    found = bool(np.isfinite(share).any())
    Headline(axis, "Who flips first", where, *(legend, mark) * found)
    if not found:
        return nothing(axis, "Nothing to draw: the summary\nhas no defined pair.")
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
    """The rankings, the best first; the share of wins of each over each; and the p of each pair, in both its cells."""
    known = keys_of(table)
    others = [_other(level, other, known) for level, other in zip(table["ranking_level"], table["other"], strict=True)]
    keys = list(dict.fromkeys([*known, *others]))
    place = {key: number for number, key in enumerate(keys)}
    share, p = np.full((2, len(keys), len(keys)), np.nan)
    columns = (table["ranking_level"], table["ranking"], others, table["figure"], numbers(table["value"]))
    for level, name, other, figure, value in zip(*columns, strict=True):
        row, column = place[level, name], place[other]
        if figure == "wins":
            share[row, column] = value
        else:
            p[row, column] = p[column, row] = value
    mean = np.array([row[np.isfinite(row)].mean() if np.isfinite(row).any() else -1.0 for row in share])
    order = np.argsort(-mean, kind="stable")
    return [keys[number] for number in order], share[np.ix_(order, order)], p[np.ix_(order, order)]


def _other(level: str, other: str, known: list[Key]) -> Key:
    """The second ranking of a pair: named with its level, else of the same level, else the only one of its name."""
    written = {f"{key[0]}/{key[1]}": key for key in known}
    if other in written:
        return written[other]
    namesakes = [key for key in known if key[1] == other]
    if (level, other) not in namesakes and len(namesakes) > 1:
        levels = [key[0] for key in namesakes]
        raise InputError(
            f"The other of a pair is {other!r}, of which there are several: write one of {levels}/{other}."
        )
    if namesakes and (level, other) not in namesakes:
        return namesakes[0]
    first, slash, name = other.partition("/")
    return (first, name) if slash and not namesakes else (level, other)


def _cell(axis: Axes, row: int, column: int, share: float, reverse: float, p: float, *, annotate: bool) -> None:
    at = (column + 0.5, row + 0.5)
    placed: dict[str, Any] = {"xycoords": "data", "ha": "center", "va": "center"}
    if not np.isfinite(share):
        axis.fill_between([column + 0.06, column + 0.94], row + 0.06, row + 0.94, color=RULE, linewidth=0)
        if row != column:
            write(axis, "–", at, size=SMALL, **placed)
        return
    better = share > (reverse if np.isfinite(reverse) else 0.5)  # above a half, the reverse can only be less
    marked = bool(p < SIGNIFICANT and better)
    if annotate:
        red, green, blue, _ = _SHADES(share)
        colour = "white" if 0.3 * red + 0.59 * green + 0.11 * blue < 0.5 else INK
        weight = "bold" if marked else "normal"
        write(axis, f"{100 * share:.0f}" + "*" * marked, at, size=SMALL, colour=colour, fontweight=weight, **placed)
    elif marked:
        axis.plot(*at, marker="o", markersize=2.2, color="white", markeredgecolor=INK, markeredgewidth=0.3)


def _name(axis: Axes, keys: list[Key]) -> None:
    labels, middles = labels_for(keys), [number + 0.5 for number in range(len(keys))]
    name_rows(axis, middles, keys, [f"{labels[key]} {number}" for number, key in enumerate(keys, 1)])
    axis.set_xticks(middles, [str(number) for number in range(1, len(keys) + 1)])
    axis.tick_params(axis="x", length=0, labelsize=SMALL if len(keys) < 13 else SMALL - 1)
    axis.invert_yaxis()
    hide_frame(axis)
