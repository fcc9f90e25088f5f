"""Figures with a line for each ranking: charts beside each other, each in one axes, or with a panel for each ranking.

In one axes only a few lines can be distinguished. Of more rankings each has a small panel of its own, the best one
first, with attention and a random order in every panel, and all other rankings in light grey behind them.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from os import PathLike
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from attnfaith.attribution.display_names import role_of
from attnfaith.attribution.method import ATTENTION
from attnfaith.paper_figure import PaperFigure
from attnfaith.plots.labels import Key
from attnfaith.plots.lettering import TitleBlock, draw_empty
from attnfaith.plots.line_charts import TOGETHER, Array, Chart, Line, draw_line, draw_together
from attnfaith.plots.panels import Target, joined
from attnfaith.plots.style import (
    COLUMN,
    INK,
    PAGE,
    PLAIN,
    SMALL,
    TEXT,
    TITLE,
    LineStyle,
    axes,
    looks_for,
)

ACROSS = 3
"""Panels beside each other in the width of a column."""
PANEL, AROUND = 1.05, 1.4
"""Inches: the height of a panel with its name, and of all that stands above and below the panels."""
NAMED = 3
"""The most rankings that a panel names because their lines coincide with its own."""
_RIGHT = 0.98  # of the width is for panels; the rest for names that are longer than the last panel is wide
_WRAP, _SHORT = 17, 12  # characters of a name in a line over a panel, and of one in a note there
_BEHIND = "#d4d4d4"
TITLED: dict[str, Any] = {"x": 0.01, "ha": "left", "fontsize": TITLE, "fontweight": "bold", "color": INK}


def charts_figure(
    charts: Sequence[Sequence[Chart]],
    *,
    empty: str,
    highlight: Sequence[str] | None = None,
    path: str | PathLike[str] | None = None,
    axis: Axes | None = None,
    alone: str = "",
) -> Figure:
    """A figure of charts in rows: each in one axes where no more than `TOGETHER` rankings are drawn, else in panels.

    Args:
        charts: rows of charts.
        empty: the text of an empty figure.
        highlight: names of rankings that stand out; every chart is then drawn in one axes.
        path: where to write it.
        axis: where to draw; a new figure when None.
        alone: the function of `attnfaith.plots` that draws one chart into axes.
    """
    apart = highlight is None and any(len(chart.drawn) > TOGETHER for row in charts for chart in row)
    count = sum(panels_of(chart) if apart else 1 for row in charts for chart in row) or 1
    target = Target(path, axis, count, alone)
    if not charts:
        return target.single(COLUMN, 2.0, lambda axis: draw_empty(axis, empty))
    if axis is not None:
        return target.single(COLUMN, 2.8, lambda axis: draw_together(charts[0][0], axis, highlight=highlight))
    beside = max(map(len, charts))
    if not apart:
        heights = [max(chart.height for chart in row) for row in charts]
        figure = PaperFigure.of_width(PAGE if beside > 1 or charts[0][0].wide else COLUMN, sum(heights))
        grid = figure.subplots(len(charts), beside, squeeze=False, height_ratios=heights)
        for row, cells in zip(charts, grid, strict=True):
            for chart, cell in zip(row, cells, strict=True):
                here = None if highlight is None else [name for name in highlight if name in _names(chart)]
                draw_together(chart, cell, highlight=here)
        return target.saved(figure)
    if len(charts) == 1:  # below each other: one may have many more panels
        charts = [[chart] for chart in charts[0]]
    wide = len(charts[0]) == 1 and (beside > 1 or charts[0][0].wide)
    beside = max(map(len, charts))
    downs = [max(math.ceil(panels_of(chart) / _across(chart, wide)) for chart in row) for row in charts]
    heights = [
        AROUND + PANEL * down + max(chart.ticks for chart in row) for row, down in zip(charts, downs, strict=True)
    ]
    figure = PaperFigure.of_width(PAGE if wide or beside > 1 else COLUMN, sum(heights))
    layout: Any = figure.get_layout_engine()
    layout.set(rect=(0, 0, _RIGHT, 1))
    parts = figure.subfigures(len(charts), beside, squeeze=False, height_ratios=heights)
    for row, down, cells in zip(charts, downs, parts, strict=True):
        for chart, part in zip(row, cells, strict=True):
            draw_apart(chart, part, across=_across(chart, wide), down=down)
    return target.saved(figure)


def _across(chart: Chart, wide: bool) -> int:
    """How many panels of a chart are beside each other: on a wide figure such that its rows are filled evenly."""
    return math.ceil(panels_of(chart) / math.ceil(panels_of(chart) / (2 * ACROSS))) if wide else ACROSS


def panels_of(chart: Chart) -> int:
    """How many panels a chart has when each ranking has its own."""
    return max(len(chart.drawn), 1)


def draw_apart(chart: Chart, figure: Figure | SubFigure, *, across: int = ACROSS, down: int | None = None) -> None:
    """Draw each ranking into a panel of its own, the best one first, under its rank and name.

    Attention and the random order are in every panel, all other rankings are light grey. A panel whose line coincides
    with that of another ranking says so, by name or rank.

    Args:
        chart: what to draw.
        figure: a figure, or a part of one, with nothing in it.
        across: so many panels are beside each other.
        down: so many rows of panels are made room for; None: as many as there are.
    """
    lines = sorted(chart.drawn, key=lambda line: (-line.merit, line.key))
    if not lines:
        figure.suptitle(chart.title, **TITLED)
        draw_empty(axes(figure.add_subplot(), COLUMN, PANEL), chart.why)
        return
    panels = small_axes(figure, len(lines), across, down)
    references = _references(chart)
    looks = looks_for(line.key for line in lines)
    ranks = {line.key: rank for rank, line in enumerate(lines, 1)}
    names = {key: str(rank) for key, rank in ranks.items()}
    names |= {key: chart.labels[key] for key in references if len(chart.labels[key]) <= _SHORT}
    coinciding = False
    for line, axis in zip(lines, panels, strict=True):
        coincident = [other.key for other in lines if other is not line and chart.coincide(line, other)]
        coinciding |= bool(coincident)
        _panel(chart, axis, line, [other for other in lines if other is not line], references, looks)
        subtitle = joined(
            line.number, f"= {_listed([names[key] for key in coincident])}" if coincident else "", by="; "
        )
        title = textwrap.fill(f"{ranks[line.key]} {chart.labels[line.key]}", _WRAP, break_on_hyphens=False)
        TitleBlock(axis, title, subtitle, size=SMALL)
        chart.dress(axis, True)
    number = f"under the names: {chart.number}" if any(line.number for line in lines) else ""
    same_line = "=: the line coincides with that of this number or name" if coinciding else ""
    remarks = [number, same_line, chart.remark.replace("\n", " "), chart.undefined]
    name_edges(figure, chart.names, *chart.about, *remarks)
    _legend(figure, chart, references, looks, wide=across > ACROSS)


def small_axes(figure: Figure | SubFigure, count: int, across: int, down: int | None = None) -> list[Axes]:
    """Small axes in rows; only those at the left and in the last row have labels at their ticks.

    Args:
        figure: a figure, or a part of one, with nothing in it.
        count: how many.
        across: so many are beside each other.
        down: so many rows are made room for; None: as many as there are.
    """
    grid = figure.subplots(down or math.ceil(count / across), across, squeeze=False).ravel()
    for axis in grid[count:]:
        axis.remove()
    for index, axis in enumerate(grid[:count]):
        axes(axis, COLUMN, PANEL).tick_params(
            labelsize=SMALL,
            pad=1.5,
            labelleft=index % across == 0,
            labelbottom=index // across == (count - 1) // across,
        )
    return list(grid[:count])


def name_edges(figure: Figure | SubFigure, names: tuple[str, str], *notes: str) -> None:
    """Write the names of the axes of all panels at the edges of a figure, and notes below."""
    below = "\n".join([names[0], *(note for note in notes if note)])
    for name, label in ((below, figure.supxlabel), (names[1], figure.supylabel)):
        label(name, fontsize=TEXT, color=INK, parse_math=False, linespacing=1.3)


def _panel(
    chart: Chart, axis: Axes, line: Line, others: Sequence[Line], references: Sequence[Key], looks: dict[Key, LineStyle]
) -> None:
    """Draw a line, the references, and all others behind them."""
    behind = [_corners(other, chart.steps) for other in others if other.key not in references]
    axis.add_collection(LineCollection(behind, colors=_BEHIND, linewidths=0.5, zorder=2), autolim=False)
    for other in others:
        if other.key in references:
            corners = _corners(other, chart.steps)
            axis.plot(*corners.T, zorder=4, clip_on=False, **_thin(looks[other.key], len(corners)))
    own = looks[line.key]
    look = own if line.key in references else LineStyle(PLAIN, "", "-", True)
    draw_line(axis, line, LineStyle(look.colour, "", look.line, True), steps=chart.steps)


def _references(chart: Chart) -> list[Key]:
    """The keys of attention and of the random order that stand in every panel."""
    keys = [line.key for line in chart.drawn]
    attention = sorted((key for key in keys if key[1] == ATTENTION), key=lambda key: key[0] != "attention")
    control = sorted((key for key in keys if role_of(key) == "control"), key=lambda key: key[0] != chart.level)
    return [*attention[:1], *control[:1]]


def _corners(line: Line, steps: bool) -> Array:
    """The corners of a line, ``[points, 2]``, without its loose points."""
    tied = len(line.x) - line.loose
    x, value = line.x[:tied], line.value[:tied]
    if steps:
        x, value = np.repeat(x, 2)[1:], np.repeat(value, 2)[:-1]
    return np.stack([x, value], axis=1)


def _thin(look: LineStyle, points: int = 2) -> dict[str, Any]:
    """How a reference is drawn in the panels of other rankings."""
    style: dict[str, Any] = {"color": look.colour, "linestyle": look.line, "linewidth": 0.8}
    if look.line == "-":
        style |= {"marker": look.marker, "markersize": 2.0, "markevery": max(points // 5, 1)}
    return style


def _legend(
    figure: Figure | SubFigure, chart: Chart, references: Sequence[Key], looks: dict[Key, LineStyle], *, wide: bool
) -> None:
    """Write the title over all panels, with the lines that they have in common."""
    band = (Patch(facecolor=PLAIN, alpha=0.15), Line2D([], [], color=PLAIN, linewidth=1.5))
    handles: list[Any] = [band, *(Line2D([], [], **_thin(looks[key])) for key in references)]
    names = ["the ranking named", *(chart.labels[key] for key in references), "the other rankings"]
    legend = figure.legend(
        [*handles, Line2D([], [], color=_BEHIND, linewidth=0.8)],
        names,
        loc="outside upper left",
        ncols=len(names) if wide else 2,
        fontsize=SMALL,
        frameon=False,
        title=chart.title,
        title_fontproperties={"size": TITLE, "weight": "bold"},
        alignment="left",
        handlelength=1.8,
        columnspacing=1.2,
        labelspacing=0.25,
        borderpad=0.0,
        borderaxespad=0.3,
    )
    for text in (legend.get_title(), *legend.get_texts()):
        text.set(color=INK, parse_math=False)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= NAMED else f"{len(names)} others"


def _names(chart: Chart) -> set[str]:
    return {line.key[1] for line in chart.lines}
