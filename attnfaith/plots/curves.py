"""The share of decisions that are kept while items are removed: a survival curve for each ranking."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd  # type: ignore[import-untyped, unused-ignore]
from matplotlib.axes import Axes
from numpy.typing import NDArray

from attnfaith.errors import InputError
from attnfaith.estimates.lookup import Unit, unit_at
from attnfaith.estimates.pivot import numbers
from attnfaith.plots.labels import Key, labels_for
from attnfaith.plots.lettering import EndLabels, TitleBlock, draw_empty, write
from attnfaith.plots.panels import counted, joined, keys_of, of_level, place_of, require_columns, rows_of
from attnfaith.plots.style import COLUMN, MUTED, RULE, LineStyle, axes, looks_for, name_axes, percent

CURVES = ("erase_level", "ranking_level", "ranking", "fraction", "kept", "low", "high")


def survival(
    curves: pd.DataFrame,
    axis: Axes | None = None,
    *,
    erase_level: str | None = None,
    unit: Unit = "tokens",
    highlight: Sequence[str] | None = None,
    texts: int | None = None,
) -> Axes:
    """Decisions kept against the share of items removed: one curve per ranking, each with its band.

    A curve that falls early belongs to a ranking that finds what the decision rests on. Dashed curves, with open
    markers, belong to rankings of the input level; dotted ones to random removal. The labels at the right stand in the
    order in which the curves end; where they end together, the one that fell last is on top.

    Args:
        curves: Columns ``erase_level``, ``ranking_level``, ``ranking``, ``fraction``, ``kept``, ``low``, ``high``
            (shares of 1), and optionally ``texts``.
        axis: Where to draw; new axes when None.
        erase_level: Which rows to draw; may be left out where there is only one level.
        unit: The plural noun for items, or such a noun for each erase level.
        highlight: The names of the rankings to highlight; by default those that are registered with a style.
        texts: The number of texts, if ``curves`` has no column for it.

    Example:
        >>> import pandas as pd
        >>> rows = [("attention", "attention", "lrp", share, 1 - share, 0.9 - share, 1.0) for share in (0.0, 0.5)]
        >>> axis = survival(pd.DataFrame(rows, columns=CURVES), texts=20)
        >>> axis.get_title(loc="left"), axis.get_xlabel()
        ('Removed from the final attention', 'tokens removed (share of the text)')
    """
    require_columns(curves, CURVES, figure="survival")
    table, level = of_level(curves, erase_level, figure="survival")
    unit, keys = unit_at(unit, level), keys_of(table)
    drawn = [key for key in keys if np.isfinite(numbers(rows_of(table, key)["kept"])).any()]
    looks = looks_for(drawn, resolve_highlight(highlight, keys))
    axis = axes(axis, COLUMN, max(2.6, 0.75 + 0.112 * len(keys)))
    counts = numbers(table["texts"]) if texts is None and "texts" in table else np.array([texts or np.nan])
    dashed = "dashed: rankings of the input level" if any(key[0] == "input" for key in drawn) else ""
    labels = labels_for(keys)
    missing = [labels[key] for key in keys if key not in looks]
    subtitle = joined(counted(counts), "shaded: intervals" if drawn else "", dashed, by="; ")
    TitleBlock(axis, f"Removed from {place_of(level)}", subtitle, _undefined(missing) if drawn else "")
    if not drawn:
        return draw_empty(axis, "No curve to draw: no ranking\nhas a defined value here.")
    ends = [
        _curve(axis, rows_of(table, key), style, labels[key], solid=key[0] != "input") for key, style in looks.items()
    ]
    EndLabels(axis, [(end, label, colour, strong) for end, _, label, colour, strong in sorted(ends)])
    axis.set_xlim(0, 1)
    axis.set_ylim(0, 1)
    axis.grid(color=RULE, linewidth=0.5)
    for mpl_axis in (axis.xaxis, axis.yaxis):
        mpl_axis.set_major_formatter(percent())
        mpl_axis.set_ticks([0, 0.25, 0.5, 0.75, 1])
    name_axes(axis, f"{unit} removed (share of the text)", "decisions kept (share of texts)")
    if all(np.nanmin(numbers(rows_of(table, key)["kept"])) >= 1 for key in drawn):
        write(axis, f"No decision flips,\nwhichever {unit} are removed.", (0.5, 0.5), ha="center", va="center")
    return axis


def _curve(
    axis: Axes, rows: pd.DataFrame, style: LineStyle, label: str, *, solid: bool
) -> tuple[float, float, str, str, bool]:
    """Draw one curve and its band, and return its end, mean height and label."""
    rows = rows.sort_values("fraction")
    share, kept, low, high = (numbers(rows[column]) for column in ("fraction", "kept", "low", "high"))
    zorder, alpha = (5, 0.15) if style.highlighted else (3, 0.07)
    axis.fill_between(share, low, high, step="post", color=style.colour, alpha=alpha, linewidth=0, zorder=zorder - 1)
    (line,) = axis.plot(share, kept, color=style.colour, linestyle=style.line, linewidth=style.width, zorder=zorder)
    line.set(drawstyle="steps-post", label=label, clip_on=False)
    if style.marker:
        face = style.colour if solid else "white"
        line.set(marker=style.marker, markersize=3.2, markerfacecolor=face, markeredgewidth=0.8)
        line.set_markevery(_on_the_way(kept))
    finite = kept[np.isfinite(kept)]
    colour = style.colour if style.highlighted else MUTED
    return float(finite[-1]), float(finite.mean()), label, colour, style.highlighted


def _on_the_way(kept: NDArray[np.float64]) -> list[int]:
    """The points where a curve has fallen by 20, 40, 60 and 80 % of its range: curves seldom coincide there."""
    top, bottom = np.nanmax(kept), np.nanmin(kept)
    heights = [top - part * (top - bottom) for part in (0.2, 0.4, 0.6, 0.8)] if bottom < top else []
    return sorted({int(np.argmax(kept <= height)) for height in heights})


def _undefined(labels: list[str]) -> str:
    listed = ", ".join(labels) if len(labels) < 4 else f"{len(labels)} rankings"
    return f"undefined: {listed}" if labels else ""


def resolve_highlight(highlight: Sequence[str] | None, keys: Sequence[Key]) -> Sequence[str] | None:
    """Check the names of the rankings to highlight; None selects the default ones.

    Example:
        >>> resolve_highlight(["lrp"], [("attention", "lrp"), ("attention", "random")])
        ['lrp']
    """
    if highlight is None:
        return None
    if isinstance(highlight, str):
        raise InputError(f"highlight is the text {highlight!r}: give a list of names, as [{highlight!r}].")
    names = sorted({name for _, name in keys})
    unknown = [name for name in highlight if name not in names]
    if unknown and keys:
        raise InputError(f"highlight names {unknown}; the rankings here are {names}.")
    return highlight
