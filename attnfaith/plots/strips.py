"""Strip plots: the distribution of a number in each of several groups, one strip for each group."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from attnfaith.functional.statistics import medians_of
from attnfaith.plots.lettering import write
from attnfaith.plots.style import INK, PLAIN, RULE, SMALL

Array = NDArray[np.float64]
POINTS = 40
"""The most values that are drawn as dots; more are drawn as a density."""
HALF = 0.4
"""The height of a strip on each side of its line."""
_ENDS = 0.04  # by how much the line of the median is longer


def draw_strips(
    axis: Axes, groups: NDArray[np.int64], names: Sequence[str], draw: Callable[[int, NDArray[np.bool_]], str]
) -> None:
    """Draw one strip for each group that is not empty, with a note at its right.

    Args:
        axis: Where to draw; its horizontal limits are set already.
        groups: The group of each value, an index in ``names``.
        names: The names of the groups, from bottom to top.
        draw: Draws the strip with this index from the values with True, and returns the note.
    """
    axis.set_ylim(-0.55, len(names) - 0.4)
    axis.set_yticks(range(len(names)), [name.replace("-", "–") for name in names])
    axis.grid(axis="x", color=RULE, linewidth=0.5)
    for strip in range(len(names)):
        inside = groups == strip
        if inside.any():
            note = draw(strip, inside)
            write(axis, note, (1, strip), (4, 0), size=SMALL, xycoords=axis.get_yaxis_transform(), va="center")


def draw_strip(
    axis: Axes, strip: int, values: Array, cells: Array, *, side: int = 0, colour: str = PLAIN, marker: str = "o"
) -> None:
    """Draw values and their median in a strip: dots, or a density if there are more than `POINTS`.

    Args:
        axis: Where to draw.
        strip: The height of the line of the strip.
        values: The values; those that are not finite are left out.
        cells: Edges of the cells in which dots are stacked and densities counted; values beyond are drawn at the ends.
        side: 1 for above the line, -1 for below it, 0 for both sides.
        colour: The colour of dots and density.
        marker: The marker of the dots.

    Example:
        >>> import numpy as np
        >>> from attnfaith.plots.style import axes
        >>> axis = axes(None, 3, 2)
        >>> draw_strip(axis, 0, np.array([0.1, 0.1, 0.4]), np.linspace(0, 1, 11), side=1)
        >>> [[round(float(number), 2) for number in dot] for dot in axis.collections[0].get_offsets()]
        [[0.1, 0.05], [0.1, 0.13], [0.4, 0.05]]
    """
    values = np.clip(values[np.isfinite(values)], cells[0], cells[-1])
    if not len(values):
        return
    counts, _ = np.histogram(values, cells)
    if len(values) > POINTS:
        edges, widths = np.repeat(cells, 2)[1:-1], np.repeat(HALF * counts / counts.max(), 2)
        low, high = strip - (side <= 0) * widths, strip + (side >= 0) * widths
        axis.fill_between(edges, low, high, color=colour, alpha=0.55, linewidth=0, zorder=2)
    else:
        heights = strip + _offsets(values, cells, int(counts.max()), side)
        dots = axis.scatter(values, heights, s=6, marker=marker, color=colour, alpha=0.75, linewidths=0)
        dots.set(zorder=3, clip_on=False)
    middle, reach = median(values), HALF + _ENDS
    ends = [strip if side else strip - reach, strip + (side or 1) * reach]
    axis.plot([middle, middle], ends, color=INK, linewidth=1.2, zorder=4)


def median(values: Array) -> float:
    """The median of the values that are not NaN.

    Example:
        >>> import numpy as np
        >>> median(np.array([1.0, 5.0, 2.0]))
        2.0
    """
    return float(medians_of(values[:, None])[0])


def _offsets(values: Array, cells: Array, highest: int, side: int) -> Array:
    """The offsets of dots from the line, so that those of one cell do not overlap."""
    cell = np.clip(np.searchsorted(cells, values, side="right") - 1, 0, len(cells) - 2)
    before = np.array([(cell[:index] == item).sum() for index, item in enumerate(cell)], dtype=np.float64)
    if side:
        return side * HALF / max(POINTS // 8, highest) * (before + 0.6)
    stacked = np.array([(cell == item).sum() for item in cell])
    return 2 * HALF / max(POINTS // 4, highest) * (before - (stacked - 1) / 2)
