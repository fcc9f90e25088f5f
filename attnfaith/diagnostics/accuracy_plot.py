"""A figure of accuracies: a dot with its interval for each kind of model, and a mark for each training."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attnfaith.diagnostics.base import Figures
from attnfaith.estimates.lookup import percent
from attnfaith.estimates.pivot import numbers
from attnfaith.plots.lettering import TitleBlock, write
from attnfaith.plots.panels import Target, counted
from attnfaith.plots.style import COLUMN, FAINT, INK, MUTED, PLAIN, RULE, SMALL, TEXT, axes, name_axes
from attnfaith.plots.style import percent as percent_ticks


def accuracies(table: pd.DataFrame, figures: Figures, title: str, rows: str) -> Figure:
    """Draw the accuracy of each kind of model.

    Args:
        table: columns ``kind``, ``seed``, ``gold`` and ``prediction``, a row for each text and training.
        figures: with the estimate "accuracy" of each kind.
        title: of the figure.
        rows: what a row is.
    """
    kinds = figures.names("accuracy")
    right = table.assign(right=numbers(table["prediction"]) == numbers(table["gold"]))
    trainings = right.groupby(["kind", "seed"])["right"].mean()

    def draw(axis: Axes) -> None:
        axis = axes(axis, COLUMN, 1.0 + 0.36 * len(kinds))
        axis.grid(axis="x", color=RULE, linewidth=0.5)
        for row, kind in enumerate(reversed(kinds)):
            found, single = figures.get("accuracy", kind), trainings[kind].to_numpy()
            axis.plot(single, np.full(len(single), row - 0.2), "|", color=MUTED, markersize=5, markeredgewidth=0.8)
            if not np.isnan(found.low):
                axis.plot([found.low, found.high], [row, row], color=PLAIN, linewidth=1.6)
            axis.plot([found.value], [row], "o", color=PLAIN, markersize=4.5, clip_on=False)
            note = percent(found.value)
            write(axis, note, (1, row), (4, 0), size=SMALL, xycoords=axis.get_yaxis_transform(), va="center")
        axis.set_yticks(range(len(kinds)), list(reversed(kinds)), fontsize=TEXT, color=INK)
        axis.tick_params(axis="y", length=0)
        axis.set_ylim(-0.6, len(kinds) - 0.4)
        chance = float(table.drop_duplicates("text_id")["gold"].value_counts(normalize=True).max())
        low, high = axis.get_xlim()
        low, high = max(min(low, 0.95), 0.0), min(high, 1.0)
        axis.set_xlim(low, high)
        if low - 0.25 * (high - low) < chance:
            axis.axvline(chance, color=FAINT, linewidth=0.8, linestyle=(0, (3, 2)), zorder=1)
        axis.xaxis.set_major_formatter(percent_ticks())
        axis.locator_params(axis="x", nbins=5, steps=(1, 2, 5, 10))
        texts = figures.get("accuracy", kinds[0]).texts
        seeds = table["seed"].nunique()
        TitleBlock(axis, title, f"{counted([texts])}; {seeds} training{'s' if seeds > 1 else ''} of each (marks)")
        name_axes(axis, "accuracy on the test texts", rows)

    return Target().single(COLUMN, 1.0 + 0.36 * len(kinds), draw)
