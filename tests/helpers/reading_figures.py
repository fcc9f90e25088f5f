"""Reading a figure back: its texts, whether all of them can be read, and its colours."""

from __future__ import annotations

import numpy as np
from matplotlib.text import Text


def texts_of(drawn) -> list[str]:
    """What is written in axes or a figure, without ticks that are not drawn."""
    return [text.get_text() for text in _shown(drawn)]


def unreadable(figure) -> list[str]:
    """Texts that leave the figure, and pairs of texts that cover each other, when the figure is drawn."""
    whole, texts = figure.bbox.padded(1), _shown(figure)
    boxes = np.array([text.get_window_extent().extents for text in texts]).reshape(-1, 4)
    written, result = [text.get_text() for text in texts], []
    for text, (left, low, right, high) in zip(written, boxes, strict=True):
        if not (whole.x0 <= left and right <= whole.x1 and whole.y0 <= low and high <= whole.y1):
            result.append(f"cut off: {text!r}")
    pixel = figure.dpi / 72  # the boxes of two lines of type may touch
    common = [
        np.minimum.outer(boxes[:, end], boxes[:, end]) - np.maximum.outer(boxes[:, start], boxes[:, start])
        for start, end in ((0, 2), (1, 3))
    ]
    for first, second in np.argwhere(np.triu((common[0] > pixel) & (common[1] > pixel), k=1)):
        result.append(f"overlap: {written[first]!r} and {written[second]!r}")
    return result


def smallest_type(figure) -> float:
    """The size of the smallest text, in points."""
    return min(text.get_fontsize() for text in _shown(figure))


def luminance(colour: tuple[float, ...]) -> float:
    """How light a colour is to the eye, from 0 to 1 (WCAG's relative luminance)."""
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour[:3]]
    return float(np.dot([0.2126, 0.7152, 0.0722], linear))


def contrast(first: tuple[float, ...], second: tuple[float, ...]) -> float:
    """WCAG's contrast ratio of two colours, from 1 to 21."""
    light, dark = sorted((luminance(first), luminance(second)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _shown(drawn) -> list[Text]:
    figure = drawn
    while figure.figure is not figure:  # axes may stand in a part of a figure
        figure = figure.figure
    figure.draw_without_rendering()
    box = [axis.get_window_extent().padded(0.4) for axis in figure.axes]
    ticks = {
        id(label): (axis, box[index])
        for index, axis in enumerate(figure.axes)
        for label in (*axis.get_xticklabels(which="both"), *axis.get_yticklabels(which="both"))
    }
    result = []
    for text in drawn.findobj(Text):
        if not text.get_visible() or not text.get_text().strip():
            continue
        if id(text) in ticks:
            axis, inside = ticks[id(text)]
            x, y = text.get_transform().transform(text.get_position())
            along_x = any(text is label for label in axis.get_xticklabels(which="both"))
            if not (inside.x0 <= x <= inside.x1 if along_x else inside.y0 <= y <= inside.y1):
                continue  # a tick outside the limits is not drawn
        result.append(text)
    return result
