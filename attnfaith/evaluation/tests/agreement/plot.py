"""Plots of the agreement test: the distribution over texts of Kendall's tau with attention."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped, unused-ignore]
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from attnfaith.escaping import visible
from attnfaith.estimates.pivot import numbers
from attnfaith.evaluation.tests.agreement.summary import MEASURES
from attnfaith.plots.labels import labels_for, shortened
from attnfaith.plots.lettering import TitleBlock, draw_empty
from attnfaith.plots.matrix import agreement_figure, shown
from attnfaith.plots.panels import counted, joined, masks_by_class, panels, place_of, require_columns
from attnfaith.plots.style import (
    ALERT,
    COLUMN,
    FAINT,
    PLAIN,
    RULE,
    SMALL,
    axes,
    name_axes,
    percent,
)

NEEDED = ("level", "ranking_level", "ranking", "other_level", "other", "tau", "prediction")
CLASSES = 4  # more predicted classes than these are drawn as one
PANELS = 6  # other rankings with a panel of their own
_STYLES: tuple[tuple[str, Any], ...] = (
    (PLAIN, "-"),
    (ALERT, (0, (4.0, 1.6))),
    ("#009E73", (0, (1.2, 1.4))),
    ("#7a4a8a", (0, (6.0, 1.5, 1.2, 1.5))),
)
_BINS = 20


def taus(
    table: pd.DataFrame,
    axis: Axes | None = None,
    *,
    title: str = "",
    where: str = "",
    parts: Mapping[str, NDArray[np.bool_]] | None = None,
) -> Axes:
    """Draw the distribution of Kendall's tau of one pair of rankings, one outline for each group of texts.

    Each outline is the share of that part's texts in each of 20 bins from -1 to 1; a line marks the part's mean.

    Args:
        table: Column ``tau``, a row for each text.
        axis: Where to draw; new axes when None.
        title: What attention is compared with.
        where: Whose items they rank.
        parts: The rows of each part, by its name; None for all in one.

    Example:
        >>> import pandas as pd
        >>> taus(pd.DataFrame({"tau": [0.2, 0.4, None]}), title="LRP").get_title(loc="left")
        'LRP: mean τ 0.30'
    """
    require_columns(table, ("tau",), figure="agreement")
    axis = axes(axis, COLUMN, 2.2)
    tau = numbers(table["tau"])
    known = np.isfinite(tau)
    title = shortened(title or "Agreement")
    lost = f"undefined on {counted([(~known).sum()])}" if not known.all() else ""
    if not known.any():
        TitleBlock(axis, title, joined(where, lost))
        return draw_empty(axis, "Nothing to draw: tau has\nno value on any text.")
    TitleBlock(axis, f"{title}: mean τ {shown(tau[known].mean())}", joined(where, counted([known.sum()]), lost))
    edges, tau = np.linspace(-1, 1, _BINS + 1).round(9), tau.round(9)  # what is at an edge falls to one side of it
    chosen = {name: rows & known for name, rows in (parts or {"": known}).items() if (rows & known).any()}
    for (colour, dashes), (name, rows) in zip(_STYLES, chosen.items(), strict=False):
        shares = np.histogram(tau[rows], edges)[0] / rows.sum()
        label = f"{shortened(visible(name), 18)} ({shown(tau[rows].mean())})" if name else ""
        axis.stairs(shares, edges, fill=True, color=colour, alpha=0.18, linewidth=0)
        axis.stairs(shares, edges, color=colour, linewidth=1.1, linestyle=dashes, label=label)
        axis.axvline(tau[rows].mean(), color=colour, linewidth=1.4, linestyle=dashes)
    axis.axvline(0, color=FAINT, linewidth=0.6, zorder=0)
    axis.set_xlim(-1, 1)
    axis.set_xticks([-1, -0.5, 0, 0.5, 1], ["−1", "−0.5", "0", "0.5", "1"])
    top = axis.get_ylim()[1]
    axis.set_ylim(0, top * (1 + 0.12 * len(chosen) * any(chosen)))  # room for the legend
    axis.yaxis.set_major_formatter(percent())
    axis.locator_params(axis="y", nbins=4)
    axis.grid(axis="y", color=RULE, linewidth=0.5)
    if any(chosen):
        legend = axis.legend(
            fontsize=SMALL, frameon=False, loc="upper left", handlelength=2.4, borderaxespad=0.1, labelspacing=0.3
        )
        for text in legend.get_texts():
            text.set_parse_math(False)
    name_axes(axis, "Kendall's τ with attention", "share of the texts")
    return axis


def agreement_distributions(
    table: pd.DataFrame,
    labels: Sequence[str] = (),
    *,
    others: Sequence[str] | None = None,
    kind: str = "multiclass",
    path: str | PathLike[str] | None = None,
    axis: Axes | None = None,
) -> Figure:
    """A figure of Kendall's tau by predicted class, with a panel for each ranking compared with attention.

    Args:
        table: Of the agreement test.
        labels: The names of the classes.
        others: Names of the rankings that attention is compared with; by default the two of the paper, and where a
            level does not have them the first six.
        kind: Of the decision; several labels and numbers are not told apart by class.
        path: Where to write it.
        axis: Where to draw a single panel; a new figure when None.

    Example:
        >>> import pandas as pd
        >>> same = dict(level="input", ranking_level="input", ranking="attention", other_level="input")
        >>> table = pd.DataFrame({"tau": [0.2, 0.4], "prediction": [0, 1], "other": ["lrp", "rollout"]})
        >>> len(agreement_distributions(table.assign(**same), ["bad", "good"]).axes)
        2
    """
    require_columns(table, NEEDED, figure="agreement")
    result = _panels(table, others)

    def draw(index: int, axis: Axes) -> None:
        if not result:
            draw_empty(axis, "Nothing to draw: attention is compared\nwith none of these rankings.")
            return
        title, where, rows = result[index]
        taus(rows, axis, title=title, where=where, parts=_by_class(rows, labels, kind))

    return panels(max(len(result), 1), draw, height=2.3, path=path, axis=axis, alone="taus")


def _panels(table: pd.DataFrame, others: Sequence[str] | None) -> list[tuple[str, str, pd.DataFrame]]:
    """The title, level and rows of each panel."""
    result = []
    levels = list(dict.fromkeys(table["level"]))
    for level in levels:
        of_attention = (table["level"] == level) & (table["ranking_level"] == level) & (table["ranking"] == "attention")
        rows = table[of_attention]
        keys = list(dict.fromkeys(zip(rows["other_level"], rows["other"], strict=True)))
        wanted = MEASURES if others is None else others
        chosen = [key for key in keys if key[1] in wanted]
        if others is None and not chosen:
            chosen = keys[:PANELS]
        words, where = labels_for([("", ""), *keys], one_level=True), place_of(level) if len(levels) > 1 else ""
        for key in chosen:
            result.append((words[key], where, rows[(rows["other_level"] == key[0]) & (rows["other"] == key[1])]))
    return result


def _by_class(table: pd.DataFrame, labels: Sequence[str], kind: str) -> dict[str, NDArray[np.bool_]] | None:
    """The rows of each predicted class; None if there are too many classes, or none."""
    if kind not in ("multiclass", "sigmoid") or table["prediction"].nunique() > CLASSES:
        return None
    return masks_by_class(table, labels)


PLOTS: dict[str, Callable[..., Figure]] = {
    "matrix": lambda results, axis=None: agreement_figure(results.summary(), axis=axis),
    "distributions": lambda results, axis=None: agreement_distributions(
        results.table("agreement"),
        results.manifest["facts"]["labels"],
        kind=results.manifest["run"]["decision"]["kind"],
        axis=axis,
    ),
}
