"""Plots of the information test: mutual information by attention rank, above the mean attention."""

from __future__ import annotations

import math
from collections.abc import Callable
from os import PathLike

import numpy as np
import pandas as pd  # type: ignore[import-untyped, unused-ignore]
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from attnfaith.errors import InputError
from attnfaith.estimates.pivot import numbers
from attnfaith.evaluation.tests.information.summary import ALL, bracketed
from attnfaith.paper_figure import PaperFigure
from attnfaith.plots.lettering import EndLabels, TitleBlock, draw_empty
from attnfaith.plots.panels import SUMMARY, Target, all_texts_rows, counted, joined, require_columns
from attnfaith.plots.style import ALERT, COLUMN, FAINT, INK, MUTED, PAGE, PLAIN, RULE, axes, name_axes

Array = NDArray[np.float64]
ACROSS = 4  # heads beside each other
RANKS = "attention rank (0 = attended most)"
_LABELS = (("mi", "as measured", PLAIN), ("mi_corrected", "beyond chance", ALERT), ("null", "by chance", MUTED))


def information(summary: pd.DataFrame, axis: Axes | None = None, *, group: str = ALL) -> Axes:
    """Draw the mutual information by rank: measured, expected by chance, and the difference.

    Shaded is what permutations of the outputs say; lines are intervals.

    Args:
        summary: The long table of figures; rows of the slice "all" are drawn.
        axis: Where to draw; new axes when None.
        group: "all" heads together, or a head's number.

    Example:
        >>> import pandas as pd
        >>> row = dict(test="information", erase_level="", ranking_level="attention", ranking="all", slice="all", low=0)
        >>> rows = [row | dict(other="0", figure="mi", value=0.5), row | dict(other="1", figure="mi", value=0.1)]
        >>> information(pd.DataFrame(rows).assign(high=1, texts=9)).get_ylabel()
        'information (nats)'
    """
    table = _of_group(summary, group)
    axis = axes(axis, COLUMN, 2.3)
    TitleBlock(axis, _title(table, group), *_told(table))
    if not _measured(table):
        return draw_empty(axis, "Nothing was measured:\n" + _why(table))
    _lines(axis, table)
    _labels(axis, table)
    name_axes(axis, RANKS, "information (nats)")
    return axis


def attention_by_rank(summary: pd.DataFrame, axis: Axes | None = None, *, group: str = ALL) -> Axes:
    """Draw the mean attention of each rank as bars.

    Args:
        summary: As for `information`.
        axis: Where to draw; new axes when None.
        group: As for `information`.
    """
    table = _of_group(summary, group)
    axis = axes(axis, COLUMN, 1.2)
    weights = _by_rank(table, "mean_weight")[0]
    if not np.isfinite(weights).any():
        return draw_empty(axis, "There is no attention to draw.")
    axis.bar(range(len(weights)), weights, width=0.7, color=FAINT)
    axis.set_xlim(-0.5, len(weights) - 0.5)
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.locator_params(axis="y", nbins=3)
    axis.grid(axis="y", color=RULE, linewidth=0.5)
    name_axes(axis, RANKS, "mean weight")
    return axis


def information_figure(summary: pd.DataFrame, *, group: str = ALL, path: str | PathLike[str] | None = None) -> Figure:
    """A figure of information by rank above mean attention by rank.

    Args:
        summary: As for `information`.
        group: As for `information`.
        path: Where to write it.
    """
    target = Target(path)
    measured = _measured(_of_group(summary, group))
    figure = PaperFigure.of_width(COLUMN, 3.5 if measured else 2.3)
    upper, lower = figure.subplots(2, 1, height_ratios=[2.2, 1] if measured else [0.4, 1])
    information(summary, upper, group=group)
    attention_by_rank(summary, lower, group=group)
    upper.set_xlabel("")
    figure.align_ylabels()
    return target.saved(figure)


def information_heads_figure(summary: pd.DataFrame, *, path: str | PathLike[str] | None = None) -> Figure:
    """A figure of information by rank with a panel for each head, at the same scale.

    Over each panel stands weighted Kendall's tau of what is beyond chance.

    Args:
        summary: As for `information`.
        path: Where to write it.
    """
    target = Target(path)
    require_columns(summary, SUMMARY, figure="information")
    names = [name for name in dict.fromkeys(all_texts_rows(summary, "information")["ranking"]) if name not in ("", ALL)]
    tables = {name: _of_group(summary, name) for name in names}
    if not any(_measured(table) for table in tables.values()):
        figure = PaperFigure.of_width(COLUMN, 1.6)
        why = _why(tables[names[0]]) if names else "no heads were measured by themselves"
        draw_empty(figure.add_subplot(), f"Nothing to draw:\n{why}.")
        return target.saved(figure)
    across = min(len(names), ACROSS)
    down = math.ceil(len(names) / across)
    figure = PaperFigure.of_width(COLUMN if across == 1 else PAGE, 0.35 + 1.6 * down)
    grid = figure.subplots(down, across, squeeze=False).ravel()
    ends = [_by_rank(table, figure)[index] for table in tables.values() for figure, *_ in _LABELS for index in range(3)]
    known = np.concatenate([*(end[np.isfinite(end)] for end in ends), [0.0]])
    room = 0.05 * (np.ptp(known) or 1.0)
    for position, (name, table) in enumerate(tables.items()):
        axis = axes(grid[position], COLUMN, 1.6)
        TitleBlock(axis, f"Head {name}", f"τ {_tau(table, 'weighted_kendall_corrected')}")
        if not _measured(table):
            draw_empty(axis, _why(table).replace(": ", ":\n"))
            continue
        _lines(axis, table)
        axis.set_ylim(known.min() - room, known.max() + room)
        name_axes(axis, "" if position + across < len(names) else "attention rank", "" if position % across else "nats")
        if position == min(across, len(names)) - 1:
            _labels(axis, table)
    for axis in grid[len(names) :]:
        axis.remove()
    return target.saved(figure)


def _lines(axis: Axes, table: pd.DataFrame) -> None:
    null, low, high = _by_rank(table, "null")
    ranks = np.arange(len(null))
    axis.axhline(0, color=INK, linewidth=0.6, zorder=1)
    axis.fill_between(ranks, low, high, color=MUTED, alpha=0.25, linewidth=0, zorder=2)
    axis.plot(ranks, null, color=MUTED, linewidth=0.9, linestyle=(0, (1.2, 1.4)), zorder=3)
    for figure, _, colour in _LABELS[:2]:
        value, low, high = _by_rank(table, figure)
        opened = "white" if figure == "mi" else colour
        axis.vlines(ranks, low, high, color=colour, linewidth=1.0, alpha=0.6, zorder=4)
        axis.plot(ranks, value, color=colour, linewidth=1.2, marker="o", markersize=3, markerfacecolor=opened, zorder=5)
    axis.set_xlim(-0.5, len(ranks) - 0.5)
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.locator_params(axis="y", nbins=5)
    axis.grid(axis="y", color=RULE, linewidth=0.5)


def _labels(axis: Axes, table: pd.DataFrame) -> None:
    """Label the three lines at their ends."""
    ends = [(float(_by_rank(table, figure)[0][-1]), label, colour, False) for figure, label, colour in _LABELS]
    EndLabels(axis, sorted(end for end in ends if np.isfinite(end[0])))


def _of_group(summary: pd.DataFrame, group: str) -> pd.DataFrame:
    require_columns(summary, SUMMARY, figure="information")
    table = all_texts_rows(summary, "information")
    known = [name for name in dict.fromkeys(table["ranking"]) if name]
    if group not in known and known:
        raise InputError(f"group is {group!r}; the summary has {known}.")
    return table[table["ranking"] == group]


def _by_rank(table: pd.DataFrame, figure: str) -> tuple[Array, Array, Array]:
    """An estimate by rank, ``[k]``, with the ends of its intervals; NaN if undefined."""
    ranked = table[table["other"] != ""]
    rows = ranked[ranked["figure"] == figure]
    indices = rows["other"].astype(int).to_numpy()
    result = np.full((3, ranked["other"].nunique()), np.nan)
    result[:, indices] = [numbers(rows[name]) for name in ("value", "low", "high")]
    return result[0], result[1], result[2]


def _measured(table: pd.DataFrame) -> bool:
    return bool(np.isfinite(_by_rank(table, "mi")[0]).any())


def _figure(table: pd.DataFrame, name: str) -> tuple[float, float, float]:
    rows = table[(table["figure"] == name) & (table["other"] == "")]
    if rows.empty:
        return math.nan, math.nan, math.nan
    value, low, high = (float(numbers(rows[end])[0]) for end in ("value", "low", "high"))
    return value, low, high


def _title(table: pd.DataFrame, group: str) -> str:
    return "Information by attention rank" if group == ALL else f"Information by attention rank: head {group}"


def _told(table: pd.DataFrame) -> tuple[str, ...]:
    """The lines under the title: Kendall's tau and the number of texts."""
    samples, clusters = _figure(table, "samples")[0], _figure(table, "clusters")[0]
    base = joined(counted([samples]), f"{clusters:.0f} clusters" if np.isfinite(clusters) else "")
    corrected, raw = _tau(table, "weighted_kendall_corrected"), _tau(table, "weighted_kendall")
    if "undefined" in (corrected, raw):
        return "weighted Kendall's τ undefined", base
    return f"weighted Kendall's τ {corrected} beyond chance,", f"{raw} as measured", base


def _tau(table: pd.DataFrame, figure: str) -> str:
    value, low, high = _figure(table, figure)
    return bracketed(value, low, high) if np.isfinite(value) else "undefined"


def _why(table: pd.DataFrame) -> str:
    notes = [note for note in table.get("note", pd.Series(dtype=str)) if isinstance(note, str) and note]
    return notes[0] if notes else "the summary has no figures of it"


PLOTS: dict[str, Callable[..., Figure]] = {
    "ranks": lambda results: information_figure(results.summary()),
    "heads": lambda results: information_heads_figure(results.summary()),
}
