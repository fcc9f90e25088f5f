"""Dot plots: one number per ranking with its interval, and a line for the random control."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped, unused-ignore]
from matplotlib.axes import Axes

from attnfaith.attribution.display_names import role_of
from attnfaith.estimates.lookup import Unit, unit_at
from attnfaith.estimates.pivot import numbers
from attnfaith.plots.labels import Key, labels_for
from attnfaith.plots.lettering import TitleBlock, draw_empty, write
from attnfaith.plots.panels import (
    SUMMARY,
    all_texts_rows,
    counted,
    joined,
    keys_of,
    of_level,
    place_of,
    require_columns,
)
from attnfaith.plots.style import (
    COLUMN,
    INK,
    MUTED,
    RULE,
    SMALL,
    LineStyle,
    axes,
    hide_frame,
    looks_for,
    name_axes,
    name_rows,
    percent,
)


@dataclass(frozen=True)
class _Quantity:
    title: str
    label: str
    more_is_better: bool

    def shown(self, value: float) -> str:
        return f"{value:.2f}" if self.more_is_better else f"{100 * value:.0f} %"


def efficiency(
    summary: pd.DataFrame, axis: Axes | None = None, *, erase_level: str | None = None, unit: Unit = "tokens"
) -> Axes:
    """Dots with intervals, the best ranking on top; the dotted line is the random control.

    The figure drawn is ``efficiency`` (items of the smallest flipping set over items removed), or
    ``mean_fraction`` (share of the items removed) where no ranking has an efficiency. Open dots belong to rankings of
    the input level, diamonds to the control.

    Args:
        summary: The long table of figures; rows of the slice "all" are drawn.
        axis: Where to draw; new axes when None.
        erase_level: Which rows to draw; may be left out where there is only one level.
        unit: The plural noun for items, or such a noun for each erase level.

    Example:
        >>> import pandas as pd
        >>> row = dict(test="erasure", erase_level="input", ranking_level="input", other="", slice="all", texts=9)
        >>> rows = [
        ...     row | dict(ranking=name, figure="efficiency", value=value, low=value, high=value)
        ...     for name, value in (("random", 0.1), ("lrp", 0.6))
        ... ]
        >>> [label.get_text() for label in efficiency(pd.DataFrame(rows)).get_yticklabels()]
        ['LRP (input)', 'random order']
    """
    require_columns(summary, SUMMARY, figure="efficiency")
    table, level = of_level(all_texts_rows(summary, "erasure"), erase_level, figure="efficiency")
    figure = next((name for name in ("efficiency", "mean_fraction") if _defined(table, name)), "efficiency")
    quantity, table = _quantity(figure, unit_at(unit, level)), table[table["figure"] == figure]
    values = numbers(table["value"])
    table = table.iloc[np.argsort(-values if quantity.more_is_better else values, kind="stable")]  # NaN goes last
    keys = keys_of(table)
    axis = axes(axis, COLUMN, 1.05 + 0.15 * max(len(keys), 3))
    opened = "open dots: rankings of the input level" if any(key[0] == "input" for key in keys) else ""
    where = joined(f"removed from {place_of(level)}", counted(numbers(table["texts"])))
    TitleBlock(axis, quantity.title, where, joined("lines: intervals", opened, by="; ") if keys else "")
    if not keys:
        return draw_empty(axis, "Nothing to draw: the summary\nhas no such figure.")
    draw_dots(table, axis, quantity.shown)
    axis.set_xlim(0, 1)
    axis.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "0.25", "0.5", "0.75", "1"])
    if not quantity.more_is_better:
        axis.xaxis.set_major_formatter(percent())
    name_axes(axis, quantity.label)
    return axis


def draw_dots(table: pd.DataFrame, axis: Axes, format_value: Callable[[float], str]) -> None:
    """Draw a dot with its interval for each row of a table, the first on top, and a line for the control.

    Args:
        table: Columns ``ranking_level``, ``ranking``, ``value``, ``low`` and ``high``.
        axis: Where to draw.
        format_value: Formats a value, for the label at its right.
    """
    keys = keys_of(table)
    looks, labels = looks_for(keys), labels_for(keys)
    columns = zip(*(numbers(table[name]) for name in ("value", "low", "high")), strict=True)
    for row, (key, estimate) in enumerate(zip(keys, columns, strict=True)):
        _dot(axis, row, estimate, looks[key], key, format_value)
    name_rows(axis, range(len(keys)), keys, [labels[key] for key in keys])
    axis.set_ylim(len(keys) - 0.4, -0.6)
    axis.grid(axis="x", color=RULE, linewidth=0.5)
    hide_frame(axis, "left")


def _quantity(figure: str, unit: str) -> _Quantity:
    if figure == "efficiency":
        label = f"{unit} of the smallest set that flips\n÷ {unit} removed (mean; 1 = as few as can be)"
        return _Quantity("Efficiency", label, True)
    label = f"{unit} removed until the decision flips\n(mean share of the text; never = 100 %)"
    return _Quantity(f"{unit.capitalize()} needed for a flip", label, False)


def _defined(table: pd.DataFrame, figure: str) -> bool:
    return bool(np.isfinite(numbers(table.loc[table["figure"] == figure, "value"])).any())


def _dot(
    axis: Axes,
    row: int,
    estimate: tuple[float, float, float],
    style: LineStyle,
    key: Key,
    format_value: Callable[[float], str],
) -> None:
    value, low, high = estimate
    options: dict[str, Any] = {"xycoords": axis.get_yaxis_transform(), "va": "center_baseline"}
    if not np.isfinite(value):
        write(axis, "undefined", (1, row), (5, 0), size=SMALL, **options)
        return
    write(axis, format_value(value), (1, row), (5, 0), size=SMALL, colour=INK, **options)
    colour, control = style.colour if style.highlighted else MUTED, role_of(key) == "control"
    marker, face = "D" if control else "o", "white" if key[0] == "input" else colour
    (dot,) = axis.plot([value], [row], color=colour, marker=marker, markerfacecolor=face, markersize=3.8, zorder=4)
    dot.set_clip_on(False)  # a dot at 0 or 1 is not cut by the frame
    if control:
        axis.axvline(value, color=colour, linewidth=0.8, linestyle=style.line, zorder=1)
    if np.isfinite([low, high]).all():
        axis.hlines(row, low, high, color=colour, linewidth=1.4, zorder=3)
        if control:
            axis.axvspan(low, high, color=colour, alpha=0.10, linewidth=0, zorder=0)
