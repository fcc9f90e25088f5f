"""Text in a figure: title blocks, labels at the ends of curves, and the reason for an empty figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backend_bases import RendererBase
from matplotlib.lines import Line2D
from matplotlib.text import Annotation

from attnfaith.escaping import visible
from attnfaith.plots.style import FAINT, INK, MUTED, SMALL, TEXT, TITLE, hide_frame

_REACH = 14.0  # points from the right edge of the axes to the labels of curves
_LEADING = 1.22  # a line's height in sizes of its type


def write(
    axis: Axes,
    text: str,
    position: tuple[float, float],
    shift: tuple[float, float] = (0, 0),
    *,
    size: float = TEXT,
    colour: str = MUTED,
    **options: Any,
) -> Annotation:
    """Write text at a point of the axes (0 to 1, or ``xycoords``), with an offset in points and without mathtext."""
    options = {"xycoords": "axes fraction", "textcoords": "offset points", "annotation_clip": False, **options}
    note = axis.annotate(visible(text, "\n"), position, shift, fontsize=size, color=colour, **options)
    note.set_parse_math(False)
    return note


def draw_empty(axis: Axes, why: str) -> Axes:
    """Write the reason into empty axes, so that nobody takes them for a result."""
    axis.set_xticks([])
    axis.set_yticks([])
    hide_frame(axis)
    write(axis, why, (0.5, 0.5), ha="center", va="center")
    return axis


class _Placed(Artist):
    """An invisible artist that is drawn first and places other artists."""

    def __init__(self) -> None:
        super().__init__()
        self.set_zorder(-1)
        self.set_in_layout(False)


class TitleBlock(_Placed):
    """A bold title over lines that state the data behind the figure.

    They begin where the labels of the vertical axis begin, which is known only when the figure is drawn.
    """

    def __init__(self, axis: Axes, title: str, *below: str, size: float = TITLE) -> None:
        super().__init__()
        lines = [line for line in below if line]
        pad = 4.5 + len(lines) * SMALL * 1.35
        weight = {"fontsize": size, "fontweight": "bold", "color": INK, "verticalalignment": "bottom"}
        self.title = axis.set_title(visible(title, "\n"), weight, loc="left", pad=pad)
        self.title.set_parse_math(False)
        self.below = write(axis, "\n".join(lines), (0, 1), (0, 5), size=SMALL, va="bottom", linespacing=1.25)
        self.below.set_in_layout(False)  # the title keeps the height free; a long line must not narrow the axes
        axis.add_artist(self)

    def fold(self) -> None:
        """Break the title after its colon, for narrow panels."""
        self.title.set_text(self.title.get_text().replace(": ", "\n", 1))

    def draw(self, renderer: RendererBase) -> None:
        """Place the texts, which matplotlib draws afterwards."""
        if self.axes is None:
            return
        box, labels = self.axes.get_window_extent(renderer), self.axes.yaxis.get_tightbbox(renderer)
        offset = min(box.x0, labels.x0) - box.x0 if labels is not None else 0.0
        self.title.set_x(offset / box.width)
        self.below.set_position((offset / _point(renderer), 5))


class EndLabels(_Placed):
    """Labels right of the axes, each connected by a thin line to the end of its curve.

    They are placed when the figure is drawn, and again when it changes its size: only then is it known which of them
    would cover each other. ``labels`` go upwards: height, text, colour, bold or not.
    """

    def __init__(self, axis: Axes, labels: Sequence[tuple[float, str, str, bool]]) -> None:
        super().__init__()
        transform = axis.get_yaxis_transform()  # x in widths of the axes, y in data
        self.ends, self.texts, self.threads = [], [], []
        for height, text, colour, strong in labels:
            options = {"xycoords": transform, "va": "center", "fontweight": "bold" if strong else "normal"}
            self.ends.append(height)
            self.texts.append(write(axis, text, (1, height), (_REACH, 0), size=SMALL, colour=colour, **options))
            self.threads.append(Line2D([], [], color=colour if strong else FAINT, linewidth=0.4))
        axis.add_artist(self)

    def draw(self, renderer: RendererBase) -> None:
        """Place the labels, which matplotlib draws afterwards, and draw the lines to them."""
        if self.axes is None or not self.texts:
            return
        point = _point(renderer)
        transform, box = self.axes.get_yaxis_transform(), self.axes.get_window_extent(renderer)
        ends = [float(transform.transform((1, height))[1]) for height in self.ends]
        sizes = [_LEADING * SMALL * point * (text.get_text().count("\n") + 1) for text in self.texts]
        heights = spread(ends, sizes, box.y0, box.y1)
        for text, thread, end, level in zip(self.texts, self.threads, ends, heights, strict=True):
            text.set_position((_REACH, (level - end) / point))
            thread.set_figure(self.axes.figure)
            thread.set_data([box.x1 + point * x for x in (2.0, _REACH - 4.5, _REACH - 1.5)], [end, level, level])
            thread.draw(renderer)


def _point(renderer: RendererBase) -> float:
    pixels = renderer.points_to_pixels(1.0)
    assert isinstance(pixels, float | int)
    return float(pixels)


def spread(targets: Sequence[float], sizes: Sequence[float], low: float, high: float) -> list[float]:
    """Move label centres as little as possible (least squares) so that none overlaps its neighbour.

    ``targets`` go upwards. Where all fit they stay between ``low`` and ``high``; else they hang from ``high``.

    Example:
        >>> spread([0.0, 0.0, 5.0], [1.0, 1.0, 1.0], -1.0, 6.0)
        [-0.5, 0.5, 5.0]
    """
    if not len(targets):
        return []
    size = np.asarray(sizes, float)
    offset = np.cumsum(size) - size / 2  # from the foot of a pile of all labels to the centre of each
    blocks: list[tuple[float, int]] = []  # labels that touch: the foot of their pile, and how many they are
    for foot in np.asarray(targets, float) - offset:
        blocks.append((float(foot), 1))
        while len(blocks) > 1 and blocks[-2][0] >= blocks[-1][0]:
            (first, first_count), (second, second_count) = blocks[-2:]
            count = first_count + second_count
            blocks[-2:] = [((first * first_count + second * second_count) / count, count)]
    feet = np.repeat([foot for foot, _ in blocks], [count for _, count in blocks])
    highest = high - float(size.sum())
    return [float(centre) for centre in np.clip(feet, min(low, highest), highest) + offset]
