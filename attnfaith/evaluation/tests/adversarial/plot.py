"""Plots of the adversarial test: the divergence against the largest attention weight."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from os import PathLike

import numpy as np
import pandas as pd  # type: ignore[import-untyped, unused-ignore]
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from attnfaith.estimates.pivot import numbers
from attnfaith.estimates.weight_bins import BINS, bins_of
from attnfaith.evaluation.tests.adversarial.summary import ends_of
from attnfaith.plots.labels import shortened
from attnfaith.plots.lettering import TitleBlock, draw_empty
from attnfaith.plots.panels import counted, joined, panels_by_class, require_columns
from attnfaith.plots.strips import draw_strip, draw_strips, median
from attnfaith.plots.style import ALERT, COLUMN, MUTED, RULE, axes, name_axes

NEEDED = ("max_weight", "js", "js_low", "js_high")
_CELLS = 45
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
    axis.set_xticks([*np.arange(0, 0.7, 0.1), math.log(2)], [*(f"{part / 10:g}" for part in range(6)), "", "ln 2"])
    axis.axvline(math.log(2), color=MUTED, linewidth=0.8, linestyle=(0, (3, 2)), zorder=1)

    def draw(strip: int, inside: NDArray[np.bool_]) -> str:
        axis.axhline(strip, color=RULE, linewidth=0.5, zorder=1)
        draw_strip(axis, strip, result[inside], cells, side=1)
        draw_strip(axis, strip, known[inside], cells, side=-1, colour=ALERT, marker="v")
        return counted([inside.sum()])

    draw_strips(axis, strips, BINS, draw)
    below = _SAID.get(end, "")
    medians = [("search", result), (below, known)] if below else [("search", result)]
    TitleBlock(
        axis,
        f"{title}: {', '.join(f'{name} {median(values):.2f}' for name, values in medians)}",
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
    axis: Axes | None = None,
) -> Figure:
    """A figure with a panel for each predicted class; one panel for multi-label and regression models.

    Args:
        table: Of the adversarial test, with its column ``prediction``.
        labels: The names of the classes.
        kind: Of the decision.
        path: Where to write it.
        axis: Where to draw a single panel; a new figure when None.

    Example:
        >>> import pandas as pd
        >>> table = pd.DataFrame({"max_weight": [0.1, 0.3], "js": [0.5, 0.6], "js_low": None, "js_high": None})
        >>> len(adversarial_figure(table.assign(prediction=[0, 1]), ["bad", "good"]).axes)
        2
    """
    require_columns(table, (*NEEDED, "prediction"), figure="adversarial")

    def draw(rows: pd.DataFrame, axis: Axes, title: str) -> Axes:
        return divergences(rows, axis, title=title)

    return panels_by_class(table, labels, kind, draw, path=path, axis=axis, height=2.6, alone="divergences")


PLOTS: dict[str, Callable[..., Figure]] = {
    "divergences": lambda results, axis=None: adversarial_figure(
        results.table("adversarial"),
        results.manifest["facts"]["labels"],
        kind=results.manifest["run"]["decision"]["kind"],
        axis=axis,
    )
}
