"""The figure of seed variance: the divergence by the largest weight."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from attnfaith.diagnostics.seeds.diagnostic import by_seed
from attnfaith.estimates.weight_bins import BINS, bins_of
from attnfaith.plots.lettering import TitleBlock
from attnfaith.plots.panels import Target, counted
from attnfaith.plots.strips import draw_strip, draw_strips, median
from attnfaith.plots.style import ALERT, COLUMN, MUTED, RULE, axes, name_axes

_CELLS = 45


def seed_divergences(table: pd.DataFrame) -> Figure:
    """Draw the divergence of attention between seeds in strips by the largest weight of the diagnosed model.

    Args:
        table: of the diagnostic.
    """
    wide = by_seed(table)
    typical, uniform = np.median(wide["jsd"], axis=1), wide["uniform_jsd"]
    strips = bins_of(wide["max_weight"])

    def draw(axis: Axes) -> None:
        axis = divergence_axes(axis)

        def draw_one(strip: int, inside: NDArray[np.bool_]) -> str:
            axis.axhline(strip, color=RULE, linewidth=0.5, zorder=1)
            cells = np.linspace(0, math.log(2), _CELLS + 1)
            draw_strip(axis, strip, typical[inside], cells, side=1)
            draw_strip(axis, strip, uniform[inside], cells, side=-1, colour=ALERT, marker="v")
            return counted([inside.sum()])

        draw_strips(axis, strips, BINS, draw_one)
        seeds = len(wide["seeds"])
        TitleBlock(
            axis,
            f"Other seeds: median {median(typical):.2f}, uniform {median(uniform):.2f}",
            f"{counted([len(typical)])}; above: median over {seeds} seeds",
            "below: uniform attention; medians in black",
        )
        name_axes(axis, "JS divergence of attention (nats)", "largest attention weight")

    return Target().single(COLUMN, 2.6, draw)


def divergence_axes(axis: Axes) -> Axes:
    """Axes whose horizontal one is a Jensen-Shannon divergence, from 0 to ln 2."""
    axis = axes(axis, COLUMN, 2.6)
    axis.set_xlim(-0.02, math.log(2) + 0.02)
    axis.set_xticks([*np.arange(0, 0.7, 0.1), math.log(2)], [*(f"{part / 10:g}" for part in range(6)), "", "ln 2"])
    axis.axvline(math.log(2), color=MUTED, linewidth=0.8, linestyle=(0, (3, 2)), zorder=1)
    return axis
