"""Plots of the adversarial test: the divergence against the largest attention weight."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from os import PathLike
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd  # type: ignore[import-untyped, unused-ignore]
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from attnfaith.estimates.pivot import numbers
from attnfaith.estimates.weight_bins import BINS, bins_of
from attnfaith.evaluation.tests.adversarial.summary import ends_of
from attnfaith.functional.statistics import medians_of
from attnfaith.plots.labels import shortened
from attnfaith.plots.lettering import TitleBlock, draw_empty, write
from attnfaith.plots.panels import counted, joined, panels_by_class, require_columns
from attnfaith.plots.style import ALERT, COLUMN, INK, MUTED, PLAIN, RULE, SMALL, axes, name_axes

if TYPE_CHECKING:
    from attnfaith.evaluation.results import Results

Array = NDArray[np.float64]
NEEDED = ("max_weight", "js", "js_low", "js_high")
POINTS = 40  # texts of a strip; more than these are drawn as a distribution
_CELLS, _HALF = 45, 0.4
_SAID = {"exact": "exact", "low": "at least"}


def divergences(table: pd.DataFrame, axis: Axes | None = None, *, title: str = "") -> Axes:
    """Draw the divergence of adversarial attention in strips by the largest weight.

    A strip shows each text as a dot, or where there are many texts their distribution: in blue, above its line, what
    the search reached; in orange, below it, the farthest there is, exactly or at least, where that is known. The black
    lines are medians, the dashed one at the right the largest divergence that two distributions can have.

    Args:
        table: Columns ``max_weight``, ``js``, ``js_low`` and ``js_high`` (nats), a row for each text.
        axis: Where to draw; new axes when None.
        title: What texts these are.

    Example:
        >>> import pandas as pd
        >>> table = pd.DataFrame({"max_weight": [0.1, 0.3], "js": [0.5, 0.6], "js_low": [0.6, 0.68]})
        >>> divergences(table.assign(js_high=table.js_low), title="positive").get_title(loc="left")
        'positive: search 0.55, exact 0.64'
    """
    require_columns(table, NEEDED, figure="adversarial")
    axis = axes(axis, COLUMN, 2.4)
    title = shortened(title or "Adversarial attention")
    result, ends = numbers(table["js"]), ends_of(table)
    if not len(result):
        TitleBlock(axis, title)
        return draw_empty(axis, "Nothing to draw: no text has\ntwo items to move weight between.")
    end, known = next(iter(ends.items()), ("", np.full(len(result), np.nan)))
    strips, cells = bins_of(numbers(table["max_weight"])), np.linspace(0, math.log(2), _CELLS + 1)
    axis.set_xlim(-0.02, math.log(2) + 0.02)
    axis.set_ylim(-0.55, len(BINS) - 0.3)
    axis.set_yticks(range(len(BINS)), [name.replace("-", "–") for name in BINS])
    axis.set_xticks([*np.arange(0, 0.7, 0.1), math.log(2)], [*(f"{part / 10:g}" for part in range(6)), "", "ln 2"])
    axis.grid(axis="x", color=RULE, linewidth=0.5)
    axis.axvline(math.log(2), color=MUTED, linewidth=0.8, linestyle=(0, (3, 2)), zorder=1)
    for strip in range(len(BINS)):
        inside = strips == strip
        if inside.any():
            axis.axhline(strip, color=RULE, linewidth=0.5, zorder=1)
            _half(axis, strip, result[inside], cells, up=True)
            _half(axis, strip, known[inside], cells, up=False)
            texts, across = counted([inside.sum()]), axis.get_yaxis_transform()
            write(axis, texts, (1, strip), (4, 0), size=SMALL, xycoords=across, va="center")
    below = _SAID.get(end, "")
    medians = [("search", result), (below, known)] if below else [("search", result)]
    TitleBlock(
        axis,
        f"{title}: {', '.join(f'{name} {_median(values):.2f}' for name, values in medians)}",
        f"{counted([len(result)])}; medians in black",
        joined("above: the search", below and f"below: {below}"),
    )
    name_axes(axis, "JS divergence from the original (nats)", "largest attention weight")
    return axis


def adversarial_figure(
    table: pd.DataFrame,
    labels: Sequence[str] = (),
    *,
    kind: str = "multiclass",
    path: str | PathLike[str] | None = None,
) -> Figure:
    """A figure with a panel for each predicted class; one panel for multi-label and regression models.

    Args:
        table: Of the adversarial test, with its column ``prediction``.
        labels: The names of the classes.
        kind: Of the decision.
        path: Where to write it.

    Example:
        >>> import pandas as pd
        >>> table = pd.DataFrame({"max_weight": [0.1, 0.3], "js": [0.5, 0.6], "js_low": None, "js_high": None})
        >>> len(adversarial_figure(table.assign(prediction=[0, 1]), ["bad", "good"]).axes)
        2
    """
    require_columns(table, (*NEEDED, "prediction"), figure="adversarial")

    def draw(rows: pd.DataFrame, axis: Axes, title: str) -> Axes:
        return divergences(rows, axis, title=title)

    return panels_by_class(table, labels, kind, draw, path=path, height=2.6)


def _half(axis: Axes, strip: int, values: Array, cells: Array, *, up: bool) -> None:
    """Draw the texts of one half of a strip and their median; many texts are drawn as a density."""
    values = values[np.isfinite(values)]
    if not len(values):
        return
    side, colour = (1, PLAIN) if up else (-1, ALERT)
    counts, _ = np.histogram(np.clip(values, cells[0], cells[-1]), cells)
    if len(values) > POINTS:
        heights = strip + side * np.repeat(_HALF * counts / counts.max(), 2)
        axis.fill_between(np.repeat(cells, 2)[1:-1], strip, heights, color=colour, alpha=0.55, linewidth=0, zorder=2)
    else:
        step = _HALF / max(POINTS // 8, int(counts.max()))
        heights = strip + side * step * (_counts_before(values, cells) + 0.6)
        dots = axis.scatter(values, heights, s=6, marker="o" if up else "v", color=colour, alpha=0.75, linewidths=0)
        dots.set(zorder=3, clip_on=False)
    middle = _median(values)
    axis.plot([middle, middle], [strip, strip + side * (_HALF + 0.04)], color=INK, linewidth=1.2, zorder=4)


def _counts_before(values: Array, cells: Array) -> Array:
    """For each value, the number of earlier values in the same cell."""
    cell = np.clip(np.searchsorted(cells, values, side="right") - 1, 0, len(cells) - 2)
    return np.array([(cell[:index] == item).sum() for index, item in enumerate(cell)], dtype=np.float64)


def _median(values: Array) -> float:
    return float(medians_of(values[:, None])[0])


PLOTS: dict[str, Callable[[Results], Figure]] = {
    "divergences": lambda results: adversarial_figure(
        results.table("adversarial"),
        results.manifest["facts"]["labels"],
        kind=results.manifest["run"]["decision"]["kind"],
    )
}
