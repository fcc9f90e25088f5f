"""Plots of the single-weight test: the top item of a ranking against a random other item."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any, TypeAlias

import numpy as np
import pandas as pd  # type: ignore[import-untyped, unused-ignore]
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from attnfaith.errors import InputError
from attnfaith.estimates.pivot import numbers
from attnfaith.evaluation.tests.single_weight.summary import LEVEL
from attnfaith.paper_figure import PaperFigure
from attnfaith.plots.labels import labels_for
from attnfaith.plots.lettering import TitleBlock, draw_empty, write
from attnfaith.plots.multiples import TITLED, name_edges, small_axes
from attnfaith.plots.panels import Target, counted, joined, require_columns
from attnfaith.plots.style import (
    ALERT,
    COLUMN,
    INK,
    MUTED,
    PAGE,
    PLAIN,
    RULE,
    SMALL,
    TEXT,
    axes,
    hide_frame,
    name_axes,
)

Limits: TypeAlias = tuple[float, float, float, float]
LARGE = 3
"""The most rankings with large panels and tables; more have small panels."""
ACROSS = 4  # small panels beside each other
_AXES = ("attention weight: top − random", "JS divergence: top − random (nats)")
POINTS = 2000  # more than these are counted in hexagons
_USUAL = LinearSegmentedColormap.from_list("usual", ["#cfe3f1", PLAIN, "#00243a"])
_NEGATIVE = LinearSegmentedColormap.from_list("negative", ["#f8c9a4", ALERT, "#6b2f00"])


def single_weight(
    table: pd.DataFrame, axis: Axes | None = None, *, ranking: str | None = None, limits: Limits | None = None
) -> Axes:
    """Draw the difference in effect of the top item and a random item against their difference in weight.

    A negative difference, in orange, is a text where the random item moved the output more than the top one did.

    Args:
        table: Columns ``ranking``, ``delta_js`` (nats) and ``delta_attention``, a row for each text.
        axis: Where to draw; new axes when None.
        ranking: Which rows to draw; may be left out where there is only one ranking.
        limits: Left, right, bottom and top of the axes, so that several can be compared; None: what fits the data.

    Example:
        >>> import pandas as pd
        >>> table = pd.DataFrame({"ranking": "lrp", "delta_js": [0.2, -0.1], "delta_attention": [0.5, 0.1]})
        >>> single_weight(table).get_title(loc="left")
        'LRP: 50 % negative'
    """
    require_columns(table, ("ranking", "delta_js", "delta_attention"), figure="single_weight")
    rows, name = _of_ranking(table, ranking, figure="single_weight")
    gap, delta = numbers(rows["delta_attention"]), numbers(rows["delta_js"])
    known = np.isfinite(gap) & np.isfinite(delta)
    below = known & (delta < 0)
    axis = axes(axis, COLUMN, 2.6)
    undefined = _undefined(known)
    if not known.any():
        TitleBlock(axis, name, undefined)
        return draw_empty(axis, "Nothing to draw: no text has\na defined difference.")
    legend = _scatter(axis, gap, delta, limits or limits_of(rows))
    count = joined(f"{int(below.sum()):,} of {counted([known.sum()])}", undefined)
    TitleBlock(axis, f"{name}: {_share(below.sum() / known.sum())} negative", count, legend)
    name_axes(axis, *_AXES)
    return axis


def _scatter(axis: Axes, gap: NDArray[np.float64], delta: NDArray[np.float64], limits: Limits) -> str:
    """Draw a point for each text, or where there are many their counts; returns how the counts are read."""
    known = np.isfinite(gap) & np.isfinite(delta)
    below = known & (delta < 0)
    left, right, bottom, top = limits
    axis.set_xlim(left, right)
    axis.set_ylim(bottom, top)
    draw = _points if known.sum() <= POINTS else _hexagons
    legend = draw(axis, gap, delta, known & ~below, below)
    axis.axhline(0, color=INK, linewidth=0.6, zorder=4)
    axis.grid(color=RULE, linewidth=0.5)
    axis.locator_params(nbins=5)
    return legend


def limits_of(table: pd.DataFrame) -> Limits:
    """The limits of axes that contain every defined point and 0, with a margin.

    Example:
        >>> limits_of(pd.DataFrame({"delta_attention": [0.0, 1.0], "delta_js": [0.0, 0.5]}))
        (-0.04, 1.04, -0.02, 0.52)
    """
    gap, delta = numbers(table["delta_attention"]), numbers(table["delta_js"])
    known = np.isfinite(gap) & np.isfinite(delta)
    (left, right), (bottom, top) = _ends(gap[known]), _ends(delta[known])
    return left, right, bottom, top


def _ends(values: NDArray[np.float64]) -> tuple[float, float]:
    low, high = float(min(values.min(initial=0.0), 0.0)), float(max(values.max(initial=0.0), 0.0))
    room = 0.04 * (high - low or 1.0)
    return low - room, high + room


def _points(
    axis: Axes,
    gap: NDArray[np.float64],
    delta: NDArray[np.float64],
    usual: NDArray[np.bool_],
    below: NDArray[np.bool_],
) -> str:
    clear = float(np.clip(12 / np.sqrt(usual.sum() + below.sum()), 0.35, 0.9))
    axis.scatter(gap[usual], delta[usual], s=7, color=PLAIN, alpha=clear, linewidths=0, zorder=2, label="0 or more")
    axis.scatter(
        gap[below], delta[below], s=9, marker="v", color=ALERT, alpha=0.9, linewidths=0, zorder=3, label="negative"
    )
    return ""


def _hexagons(
    axis: Axes,
    gap: NDArray[np.float64],
    delta: NDArray[np.float64],
    usual: NDArray[np.bool_],
    below: NDArray[np.bool_],
) -> str:
    (left, right), (bottom, top) = axis.get_xlim(), axis.get_ylim()
    common: dict[str, Any] = {
        "gridsize": (36, 22),
        "extent": (left, right, bottom, top),
        "mincnt": 1,
        "linewidths": 0.1,
    }
    cells = []
    for which, shades, foot, head, label in (
        (usual, _USUAL, 0.0, top, "0 or more"),
        (below, _NEGATIVE, bottom, 0.0, "negative"),
    ):
        if which.any():
            cell = axis.hexbin(gap[which], delta[which], cmap=shades, zorder=2, label=label, **common)
            # A hexagon that lies across 0 is drawn once for each side, each time as far as 0.
            cell.set_clip_path(Rectangle((left, foot), right - left, head - foot, transform=axis.transData))
            cells.append(cell)
    most = max(float(np.max(np.asarray(cell.get_array()))) for cell in cells)
    for cell in cells:
        cell.set_norm(LogNorm(1, max(most, 2)))
    axis.set_xlim(left, right)
    axis.set_ylim(bottom, top)
    return f"darker: more of them (1 to {most:,.0f} in a cell)"


def flips_table(table: pd.DataFrame, axis: Axes | None = None, *, ranking: str | None = None) -> Axes:
    """Draw the shares of texts on which the top item, a random item, both or neither flip the decision.

    Args:
        table: Columns ``ranking``, ``top_flips`` and ``drawn_flips``, a row for each text.
        axis: Where to draw; new axes when None.
        ranking: Which rows to draw; may be left out where there is only one ranking.

    Example:
        >>> import pandas as pd
        >>> table = pd.DataFrame({"ranking": "lrp", "top_flips": [True, False], "drawn_flips": [False, False]})
        >>> [note.get_text() for note in flips_table(table).texts if note.get_text().endswith("%")]
        ['0 %', '50 %', '0 %', '50 %']
    """
    require_columns(table, ("ranking", "top_flips", "drawn_flips"), figure="flips_table")
    rows, name = _of_ranking(table, ranking, figure="flips_table")
    axis = axes(axis, COLUMN, 2.0)
    top, drawn = numbers(rows["top_flips"]), numbers(rows["drawn_flips"])
    known = np.isfinite(top) & np.isfinite(drawn)
    count = counted([known.sum()]) if known.any() else ""
    TitleBlock(axis, f"{name}: flips", joined(count, _undefined(known)))
    if not known.any():
        return draw_empty(axis, "Nothing to draw: no text has\na defined decision.")
    for row, top_flips in enumerate((True, False)):
        for column, drawn_flips in enumerate((True, False)):
            cell = known & (top == top_flips) & (drawn == drawn_flips)
            _quarter(axis, row, column, int(cell.sum()), int(known.sum()), alert=drawn_flips and not top_flips)
    axis.set_xlim(0, 2)
    axis.set_ylim(2, 0)
    axis.set_xticks([0.5, 1.5], ["flips", "keeps"])
    axis.set_yticks([0.5, 1.5], ["flips", "keeps"], rotation=90, va="center")
    axis.tick_params(length=0)
    hide_frame(axis)
    name_axes(axis, "erasing a random other item", "erasing the top item")
    return axis


def _quarter(axis: Axes, row: int, column: int, count: int, texts: int, *, alert: bool) -> None:
    share, at = count / texts, (column + 0.5, row + 0.5)
    across, down = [column + 0.03, column + 0.97], (row + 0.03, row + 0.97)
    axis.fill_between(across, *down, color=ALERT if alert else PLAIN, alpha=0.06 + 0.34 * share, linewidth=0)
    placed: dict[str, Any] = {"xycoords": "data", "ha": "center"}
    colour = ALERT if alert else INK
    write(axis, _share(share), at, size=TEXT + 2, colour=colour, fontweight="bold", va="bottom", **placed)
    write(axis, counted([count]) if count else "no text", at, (0, -3), size=SMALL, colour=MUTED, va="top", **placed)


def _of_ranking(table: pd.DataFrame, ranking: str | None, *, figure: str) -> tuple[pd.DataFrame, str]:
    """The rows of one ranking, and its display name."""
    names = list(dict.fromkeys(table["ranking"]))
    if ranking is None and len(names) > 1:
        raise InputError(
            f"The table holds {len(names)} rankings, and {figure} draws one. Choose it with ranking=, one of {names}."
        )
    if ranking is not None and names and ranking not in names:
        raise InputError(f"ranking is {ranking!r}; the table holds {names}.")
    name = ranking or (names[0] if names else "")
    key = (LEVEL, name)
    return table[table["ranking"] == name], labels_for([key])[key] if name else "Single weights"


def _undefined(known: NDArray[np.bool_]) -> str:
    return "" if known.all() else f"{counted([(~known).sum()])} undefined"


def _share(share: float) -> str:
    """Format a share in per cent, with a decimal if it is small; only 0 is printed as 0 %, and only 1 as 100 %."""
    per_cent = 100 * float(share)
    if 0 < per_cent < 0.1:
        return "under 0.1 %"
    if 99.5 <= per_cent < 100:
        return "over 99 %"
    return f"{per_cent:.1f} %" if 0 < per_cent < 9.95 else f"{per_cent:.0f} %"


def single_weight_figure(table: pd.DataFrame, *, path: str | PathLike[str] | None = None) -> Figure:
    """A figure of the differences for each ranking at the same scale, with the shares of flips.

    Up to three rankings have large panels above tables of flips, more have small panels, the ranking with the fewest
    negative differences first.

    Example:
        >>> import pandas as pd
        >>> table = pd.DataFrame({"ranking": ["attention", "gradient"], "delta_js": 0.1, "delta_attention": 0.5})
        >>> len(single_weight_figure(table.assign(top_flips=True, drawn_flips=False)).axes)
        4
    """
    require_columns(
        table, ("ranking", "delta_js", "delta_attention", "top_flips", "drawn_flips"), figure="single_weight"
    )
    target = Target(path)
    names = list(dict.fromkeys(table["ranking"]))
    if not names:
        return target.single(COLUMN, 2.0, lambda axis: draw_empty(axis, "Nothing to draw: the table is empty."))
    if len(names) > LARGE:
        return target.saved(_small_panels(table, names))
    across = len(names)
    figure = PaperFigure.of_width(COLUMN if across == 1 else PAGE, 4.3)
    grid = figure.add_gridspec(2, across, height_ratios=[1.9, 1.2])
    limits = limits_of(table)
    for column, name in enumerate(names):
        upper = single_weight(table, figure.add_subplot(grid[0, column]), ranking=name, limits=limits)
        lower = flips_table(table, figure.add_subplot(grid[1, column]), ranking=name)
        for headline in upper.findobj(TitleBlock) if across > 1 else ():
            headline.fold()
        if column:
            upper.set_ylabel("")
            lower.set_ylabel("")
    figure.align_ylabels()
    return target.saved(figure)


def _small_panels(table: pd.DataFrame, names: Sequence[str]) -> Figure:
    """A small panel for each ranking, with its shares in words."""
    parts = {name: table[table["ranking"] == name] for name in names}
    columns = {name: (numbers(rows["delta_attention"]), numbers(rows["delta_js"])) for name, rows in parts.items()}
    known = {name: np.isfinite(gap) & np.isfinite(delta) for name, (gap, delta) in columns.items()}
    negative = {
        name: float((delta[known[name]] < 0).mean()) if known[name].any() else math.inf
        for name, (_, delta) in columns.items()
    }
    figure = PaperFigure.of_width(PAGE, 1.0 + 1.55 * math.ceil(len(names) / ACROSS))
    labels, limits = labels_for([(LEVEL, name) for name in names]), limits_of(table)
    legend = ""
    ordered = sorted(names, key=lambda name: (negative[name], name))
    for name, axis in zip(ordered, small_axes(figure, len(names), ACROSS), strict=True):
        said = "undefined" if np.isinf(negative[name]) else f"{_share(negative[name])} negative"
        lost = _undefined(known[name]) if known[name].any() else ""
        TitleBlock(axis, labels[LEVEL, name], joined(said, lost), _flips(parts[name]), size=SMALL)
        legend = _scatter(axis, *columns[name], limits) if known[name].any() else legend
    read = "flips: by the top item alone, by the random item alone, by each of them"
    figure.suptitle("Single weights", **TITLED)
    name_edges(figure, _AXES, joined(counted(map(len, parts.values())), read, legend, by="; "))
    return figure


def _flips(rows: pd.DataFrame) -> str:
    """The shares of texts on which the top item alone flips the decision, the other item alone, and both."""
    top, drawn = numbers(rows["top_flips"]), numbers(rows["drawn_flips"])
    known = np.isfinite(top) & np.isfinite(drawn)
    if not known.any():
        return "flips: undefined"
    cells = ((top == 1) & (drawn == 0), (top == 0) & (drawn == 1), (top == 1) & (drawn == 1))
    return f"flips: {', '.join(_share(float(cell[known].mean())) for cell in cells)}"


PLOTS: dict[str, Callable[..., Figure]] = {
    "differences": lambda results: single_weight_figure(results.table("single_weight")),
}
