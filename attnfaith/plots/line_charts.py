"""Charts with a line for each ranking, in one axes: lines, bands, labels at their ends, and which lines coincide."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from attnfaith.errors import InputError
from attnfaith.plots.labels import Key, labels_for
from attnfaith.plots.lettering import EndLabels, TitleBlock, draw_empty, write
from attnfaith.plots.panels import joined
from attnfaith.plots.style import COLUMN, PAGE, LineStyle, axes, looks_for, name_axes

Array = NDArray[np.float64]
TOGETHER = 6
"""The most rankings that can be distinguished in one axes, each by its colour, marker and line."""
SAME = 0.01
"""Lines that are nowhere farther apart, in heights of the axes, coincide: a printed line is as thick."""
_MARKED = 40  # a line of more points has markers on some of them
_RIM = 2.0  # points by which a line is wider than the one above it, where both coincide


@dataclass(frozen=True)
class Line:
    """What is drawn of one ranking.

    Attributes:
        key: the ranking.
        x: ``[points]``, ascending.
        value: ``[points]``, NaN where undefined.
        low: ``[points]``, the lower ends of the intervals.
        high: ``[points]``, the upper ends.
        merit: what the rankings are ordered by, the best one has the largest.
        number: the number that sums the line up; empty if there is none.
        loose: so many of the last points are not connected to the others.
    """

    key: Key
    x: Array
    value: Array
    low: Array
    high: Array
    merit: float
    number: str = ""
    loose: int = 0

    @property
    def known(self) -> bool:
        """Whether there is anything to draw."""
        return bool(np.isfinite(self.value).any())

    @property
    def end(self) -> tuple[float, float]:
        """The last value, and the mean value; the second decides the order of labels of lines that end together."""
        known = self.value[np.isfinite(self.value)]
        return float(known[-1]), float(known.mean())


@dataclass(frozen=True)
class Chart:
    """The lines of all rankings with what stands around them.

    Attributes:
        title: of the chart.
        about: the lines under the title: what data is behind it, and how it is read.
        names: of the horizontal and of the vertical axis, with units.
        lines: of the rankings, those without a defined value too.
        limits: of the vertical axis.
        dress: sets limits, ticks and grid of axes; True as its second argument stands for a small panel.
        why: the text where no line can be drawn.
        level: whose attention is the reference, where rankings of two levels have the name.
        number: what the number of each line is.
        remark: a sentence in the middle of the axes.
        steps: whether a value holds until the next point.
        height: of the axes with all that stands around them, in inches.
        wide: whether the horizontal axis needs the width of a page.
        ticks: what the labels of its ticks need below small panels beyond a line, in inches.
    """

    title: str
    about: tuple[str, ...]
    names: tuple[str, str]
    lines: tuple[Line, ...]
    limits: tuple[float, float]
    dress: Callable[[Axes, bool], None]
    why: str
    level: str = "attention"
    number: str = ""
    remark: str = ""
    steps: bool = False
    height: float = 2.8
    wide: bool = False
    ticks: float = 0.0

    @property
    def drawn(self) -> list[Line]:
        """The lines with a defined value."""
        return [line for line in self.lines if line.known]

    @property
    def labels(self) -> dict[Key, str]:
        """The labels of all rankings."""
        return labels_for([line.key for line in self.lines])

    @property
    def undefined(self) -> str:
        """The rankings without a defined value, in words."""
        missing = [self.labels[line.key] for line in self.lines if not line.known]
        listed = ", ".join(missing) if len(missing) < 4 else f"{len(missing)} rankings"
        return f"undefined: {listed}" if missing and self.drawn else ""

    def coincide(self, first: Line, second: Line) -> bool:
        """Whether two lines look like one.

        Example:
            >>> import numpy as np
            >>> def line(*values):
            ...     ends = np.array(values)
            ...     return Line(("attention", "lrp"), np.arange(len(values)), ends, ends, ends, 0.0)
            >>> chart = Chart("", (), ("", ""), (), (0.0, 1.0), print, "")
            >>> chart.coincide(line(1.0, 0.5), line(1.0, 0.505)), chart.coincide(line(1.0, 0.5), line(1.0, 0.6))
            (True, False)
        """
        if not np.array_equal(first.x, second.x):
            return False
        apart = np.abs(first.value - second.value)
        same_holes = np.array_equal(np.isnan(first.value), np.isnan(second.value))
        return same_holes and bool(np.nanmax(apart, initial=0.0) <= SAME * (self.limits[1] - self.limits[0]))


def draw_together(chart: Chart, axis: Axes | None = None, *, highlight: Sequence[str] | None = None) -> Axes:
    """Draw all lines into one axes, with labels at the ends of those that stand out.

    Where there are more than `TOGETHER` rankings, those that do not stand out are thin and grey, without a label. Of
    lines that coincide the lower ones are wider, so that they show as a rim, and their labels say so.

    Args:
        chart: what to draw.
        axis: where to draw; new axes when None.
        highlight: names of the rankings that stand out; None: all of them if there are few, else those that are
            registered with a style.
    """
    keys, labels = [line.key for line in chart.lines], chart.labels
    chosen = resolve_highlight(highlight, keys)
    if chosen is None and len(chart.drawn) <= TOGETHER:
        chosen = [name for _, name in keys]
    axis = axes(axis, PAGE if chart.wide else COLUMN, chart.height)
    looks = looks_for([line.key for line in chart.drawn], chosen)
    groups = _groups(chart, [line for line in chart.drawn if looks[line.key].highlighted])
    grey = [line for line in chart.drawn if not looks[line.key].highlighted]
    covered = sum(any(chart.coincide(line, group[0]) for group in groups) for line in grey)
    dashed = "dashed: rankings of the input level" if any(line.key[0] == "input" for line in chart.drawn) else ""
    subtitles = [*chart.about[:-1], joined(*chart.about[-1:], dashed, by="; ")]
    if grey:
        hidden = f" ({covered} under a coloured line)" if covered else ""
        subtitles.append(f"thin grey: {len(grey)} other ranking{'s' * (len(grey) > 1)}{hidden}")
    if any(len(group) > 1 for group in groups):
        subtitles.append("=: the same line as the one above")
    TitleBlock(axis, chart.title, *subtitles, chart.undefined)
    if not chart.drawn:
        return draw_empty(axis, chart.why)
    for line in grey:
        draw_line(axis, line, looks[line.key], steps=chart.steps).set_label(labels[line.key])
    ends = []
    for group in groups:
        for number, line in enumerate(group):
            drawn = draw_line(axis, line, looks[line.key], steps=chart.steps, rim=number)
            drawn.set_label(labels[line.key])
            ends.append((line.end[0], "= " * bool(number) + labels[line.key], looks[line.key].colour, True))
    EndLabels(axis, ends[::-1])
    chart.dress(axis, False)
    name_axes(axis, *chart.names)
    if chart.remark:
        write(axis, chart.remark, (0.5, 0.5), ha="center", va="center")
    return axis


def draw_line(axis: Axes, line: Line, look: LineStyle, *, steps: bool = False, rim: int = 0) -> Line2D:
    """Draw one line with its band and its loose points, and return it.

    Args:
        axis: where to draw.
        line: what to draw.
        look: how.
        steps: whether a value holds until the next point.
        rim: how many lines that coincide with this one lie above it.
    """
    over, shade = (5 - rim / 10, 0.15) if look.highlighted else (3 - rim / 10, 0.05)
    colour, width = look.colour, look.width + _RIM * rim
    marks: dict[str, Any] = {"marker": look.marker or "o", "markersize": 3.2 + _RIM * rim, "markeredgewidth": 0.8}
    marks["markerfacecolor"] = "white" if line.key[0] == "input" else colour
    tied = len(line.x) - line.loose
    x, value, low, high = (values[:tied] for values in (line.x, line.value, line.low, line.high))
    step: Any = "post" if steps else None
    axis.fill_between(x, low, high, step=step, color=colour, alpha=shade, linewidth=0, zorder=over - 1)
    (drawn,) = axis.plot(x, value, color=colour, linestyle=look.line, linewidth=width, zorder=over, clip_on=False)
    if steps:
        drawn.set_drawstyle("steps-post")
    if tied == 1:
        axis.vlines(x, low, high, color=colour, linewidth=1.2, clip_on=False, zorder=over)
    if look.marker or tied == 1:
        drawn.set(**marks)
        drawn.set_markevery(_on_the_way(value) if tied > _MARKED else None)
    if not look.marker:
        marks["markersize"] = 1.6
    for index in range(tied, len(line.x)):
        ends = [line.low[index], line.high[index]]
        axis.plot([line.x[index]] * 2, ends, color=colour, linewidth=0.8, zorder=over)
        axis.plot([line.x[index]], [line.value[index]], color=colour, linestyle="", zorder=over, **marks)
    return drawn


def resolve_highlight(highlight: Sequence[str] | None, keys: Sequence[Key]) -> Sequence[str] | None:
    """Check the names of the rankings to highlight; None selects the default ones.

    Example:
        >>> resolve_highlight(["lrp"], [("attention", "lrp"), ("attention", "random")])
        ['lrp']
    """
    if highlight is None:
        return None
    if isinstance(highlight, str):
        raise InputError(f"highlight is the text {highlight!r}: give a list of names, as [{highlight!r}].")
    names = sorted({name for _, name in keys})
    unknown = [name for name in highlight if name not in names]
    if unknown and keys:
        raise InputError(f"highlight names {unknown}; the rankings here are {names}.")
    return highlight


def _groups(chart: Chart, lines: Sequence[Line]) -> list[list[Line]]:
    """The lines in groups that coincide with their first, from the top of the axes to the bottom."""
    groups: list[list[Line]] = []
    for line in sorted(lines, key=lambda line: line.end, reverse=True):
        group = next((group for group in groups if chart.coincide(group[0], line)), None)
        if group is None:
            groups.append([line])
        else:
            group.append(line)
    return groups


def _on_the_way(value: Array) -> list[int]:
    """The points where a line has fallen by 20, 40, 60 and 80 % of its range: lines seldom coincide there."""
    top, bottom = np.nanmax(value), np.nanmin(value)
    heights = [top - part * (top - bottom) for part in (0.2, 0.4, 0.6, 0.8)] if bottom < top else []
    return sorted({int(np.argmax(value <= height)) for height in heights})
