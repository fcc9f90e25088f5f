"""The share of decisions that are kept while items are removed: a survival curve for each ranking."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd  # type: ignore[import-untyped, unused-ignore]
from matplotlib.axes import Axes

from attnfaith.estimates.lookup import Unit, unit_at
from attnfaith.estimates.lookup import percent as percent_of
from attnfaith.estimates.pivot import numbers
from attnfaith.plots.labels import Key
from attnfaith.plots.line_charts import Chart, Line, draw_together
from attnfaith.plots.panels import counted, joined, keys_of, of_level, place_of, require_columns, rows_of
from attnfaith.plots.style import RULE, percent

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
    order in which the curves end; where they end together, the one that fell last is on top. A label that begins with
    "=" is of the same line as the one above it. Of more than six rankings, those that are not highlighted are thin and
    grey, without a label; `erasure_figure` draws each of them into a panel of its own.

    Args:
        curves: Columns ``erase_level``, ``ranking_level``, ``ranking``, ``fraction``, ``kept``, ``low``, ``high``
            (shares of 1), and optionally ``texts``.
        axis: Where to draw; new axes when None.
        erase_level: Which rows to draw; may be left out where there is only one level.
        unit: The plural noun for items, or such a noun for each erase level.
        highlight: The names of the rankings to highlight; by default all if they are six or fewer, else those that are
            registered with a style.
        texts: The number of texts, if ``curves`` has no column for it.

    Example:
        >>> import pandas as pd
        >>> rows = [("attention", "attention", "lrp", share, 1 - share, 0.9 - share, 1.0) for share in (0.0, 0.5)]
        >>> axis = survival(pd.DataFrame(rows, columns=CURVES), texts=20)
        >>> axis.get_title(loc="left"), axis.get_xlabel()
        ('Removed from the final attention', 'tokens removed (share of the text)')
    """
    return draw_together(
        survival_chart(curves, erase_level=erase_level, unit=unit, texts=texts), axis, highlight=highlight
    )


def survival_chart(
    curves: pd.DataFrame, *, erase_level: str | None = None, unit: Unit = "tokens", texts: int | None = None
) -> Chart:
    """What `survival` draws.

    Args:
        curves: as for `survival`, with a column ``mean`` (the mean share removed) if at hand.
        erase_level: as for `survival`.
        unit: as for `survival`.
        texts: as for `survival`.
    """
    require_columns(curves, CURVES, figure="survival")
    table, level = of_level(curves, erase_level, figure="survival")
    unit = unit_at(unit, level)
    lines = tuple(_line(rows_of(table, key), key) for key in keys_of(table))
    counts = numbers(table["texts"]) if texts is None and "texts" in table else np.array([texts or np.nan])
    drawn = [line for line in lines if line.known]
    still = drawn and all(np.nanmin(line.value) >= 1 for line in drawn)
    return Chart(
        title=f"Removed from {place_of(level)}",
        about=(joined(counted(counts), "shaded: intervals" if drawn else "", by="; "),),
        names=(f"{unit} removed (share of the text)", "decisions kept (share of texts)"),
        lines=lines,
        limits=(0.0, 1.0),
        dress=_dress,
        level=level,
        why="No curve to draw: no ranking\nhas a defined value here.",
        number="mean share removed until the decision flips",
        remark=f"No decision flips,\nwhichever {unit} are removed." if still else "",
        steps=True,
    )


def _line(rows: pd.DataFrame, key: Key) -> Line:
    rows = rows.sort_values("fraction")
    columns = {name: numbers(rows[name]) for name in ("fraction", "kept", "low", "high")}
    share, kept, low, high = columns.values()
    known = kept[np.isfinite(kept)]
    mean = float(numbers(rows["mean"])[0]) if "mean" in rows else np.nan
    number = percent_of(mean) if np.isfinite(mean) else ""
    merit = -mean if np.isfinite(mean) else -float(known.mean()) if len(known) else np.nan
    return Line(key, share, kept, low, high, merit, number)


def _dress(axis: Axes, small: bool) -> None:
    axis.set_xlim(0, 1)
    axis.set_ylim(0, 1)
    axis.grid(color=RULE, linewidth=0.5)
    for mpl_axis in (axis.xaxis, axis.yaxis):
        mpl_axis.set_major_formatter(percent())
        mpl_axis.set_ticks([0, 0.5, 1] if small else [0, 0.25, 0.5, 0.75, 1])
