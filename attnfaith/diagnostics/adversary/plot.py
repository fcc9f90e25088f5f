"""The figure of the adversarial model: outputs against attention, over lambda."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attnfaith.diagnostics.base import Figures
from attnfaith.diagnostics.session import exact
from attnfaith.plots.lettering import TitleBlock, write
from attnfaith.plots.panels import Target, counted
from attnfaith.plots.style import ALERT, COLUMN, INK, MUTED, PLAIN, RULE, SMALL, axes, name_axes

_LABELLED = 8  # adversaries whose lambda is written beside them


def trade_off(selection: pd.DataFrame, figures: Figures) -> Figure:
    """Draw the distance of outputs against the divergence of attention: adversaries, other seeds, uniform attention.

    Args:
        selection: columns ``model``, ``lambda`` and ``chosen``, a row for each adversary.
        figures: with the estimates "tvd" and "jsd" of every model.
    """
    ordered = selection.sort_values("lambda")
    points = {model: (figures.get("jsd", model), figures.get("tvd", model)) for model in ordered["model"]}
    seeds = [name for name in figures.names("jsd") if name.startswith("seed ")]

    def draw(axis: Axes) -> None:
        axis = axes(axis, COLUMN, 2.8)
        axis.grid(color=RULE, linewidth=0.5)
        uniform = figures.get("jsd", "uniform").value
        axis.axvline(uniform, color=MUTED, linewidth=0.8, linestyle=(0, (3, 2)), zorder=1)
        axis.plot(
            [jsd.value for jsd, _ in points.values()],
            [tvd.value for _, tvd in points.values()],
            color=PLAIN,
            linewidth=0.9,
            zorder=2,
        )
        rows = zip(ordered["model"], ordered["lambda"], ordered["chosen"], strict=True)
        for number, (model, weight, chosen) in enumerate(rows):
            jsd, tvd = points[model]
            axis.plot([jsd.low, jsd.high], [tvd.value, tvd.value], color=PLAIN, linewidth=0.6, zorder=2)
            axis.plot([jsd.value, jsd.value], [tvd.low, tvd.high], color=PLAIN, linewidth=0.6, zorder=2)
            face = PLAIN if chosen else "white"
            axis.plot(
                [jsd.value], [tvd.value], "o", color=PLAIN, markerfacecolor=face, markersize=5, zorder=4, clip_on=False
            )
            if number < _LABELLED:
                shift = (5, 3 + 7 * (number % 2))
                options = {"xycoords": "data", "ha": "left", "va": "bottom"}
                write(axis, exact(weight), (jsd.value, tvd.value), shift, size=SMALL, **options)
        jsds, tvds = (np.array([figures.get(name, seed).value for seed in seeds]) for name in ("jsd", "tvd"))
        axis.plot(jsds, tvds, "^", color=ALERT, markersize=4, zorder=3, clip_on=False)
        axis.set_xlim(-0.02, math.log(2) + 0.02)
        axis.set_ylim(bottom=0)
        top = axis.get_ylim()[1]
        axis.set_ylim(0, max(top * 1.12, 0.02))
        texts = figures.get("jsd", ordered["model"].iloc[0]).texts
        beside = f"triangles: {len(seeds)} other seeds; " if seeds else ""
        TitleBlock(
            axis,
            "Adversaries by lambda",
            f"{counted([texts])}; filled: chosen on the texts for validation",
            f"{beside}dashed: uniform attention",
        )
        name_axes(axis, "JS divergence of attention (nats, mean)", "distance of outputs (TVD, mean)")
        axis.yaxis.label.set_color(INK)

    return Target().single(COLUMN, 2.8, draw)
