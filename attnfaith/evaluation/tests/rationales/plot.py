"""Plots of the rationales test: comprehensiveness, sufficiency, and agreement with human annotations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd  # type: ignore[import-untyped, unused-ignore]
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, NullLocator

from attnfaith.errors import InputError
from attnfaith.estimates.lookup import Unit, unit_at
from attnfaith.estimates.pivot import numbers
from attnfaith.evaluation.tests.rationales.summary import AGREEMENT, MEASURES, share_at
from attnfaith.parameter_names import parameter
from attnfaith.plots.curves import resolve_highlight
from attnfaith.plots.dots import draw_dots
from attnfaith.plots.labels import labels_for
from attnfaith.plots.lettering import EndLabels, TitleBlock, draw_empty
from attnfaith.plots.panels import (
    SUMMARY,
    all_texts_rows,
    counted,
    joined,
    keys_of,
    levels_of,
    of_level,
    place_of,
    require_columns,
    rows_of,
)
from attnfaith.plots.style import COLUMN, INK, MUTED, PAGE, RULE, LineStyle, PaperFigure, axes, looks_for, name_axes

if TYPE_CHECKING:
    from attnfaith.evaluation.results import Results

_TITLES = {"comprehensiveness": "Without the top {}", "sufficiency": "With the top {} alone"}
_BETTER = {"comprehensiveness": "higher is better", "sufficiency": "lower is better"}
_NAMES = {"auprc": "AUPRC", "token_f1": "Token F1", "iou_f1": "Span F1"}
_SAID = {
    "auprc": "area under precision\nagainst recall",
    "token_f1": "F1 of the top {}",
    "iou_f1": "F1 of their spans\n(half in common)",
}


def carried(
    summary: pd.DataFrame,
    axis: Axes | None = None,
    *,
    measure: str = "comprehensiveness",
    erase_level: str | None = None,
    unit: Unit = "tokens",
    kind: str = "multiclass",
    highlight: Sequence[str] | None = None,
) -> Axes:
    """Draw the drop of the explained probability when the top items, or all others, are erased: one curve per ranking.

    Without its top, a good ranking's curve is high; with the top alone, low. Dashed curves, with open markers, belong
    to rankings of the input level; the dotted ones to a random order.

    Args:
        summary: The long table of figures; rows of the slice "all" are drawn.
        axis: Where to draw; new axes when None.
        measure: "comprehensiveness" or "sufficiency".
        erase_level: Which rows to draw; may be left out where there is only one level.
        unit: What an item is, in the plural; or that for each erase level.
        kind: Of the decision; of a "regression" the value's change is drawn.
        highlight: Names of the rankings that stand out; None: those that are registered with a style.

    Example:
        >>> import pandas as pd
        >>> row = dict(test="rationales", erase_level="input", ranking_level="input", ranking="lrp", other="", texts=9)
        >>> row |= dict(slice="all", figure="sufficiency_at_10%", value=0.2, low=0.1, high=0.3)
        >>> carried(pd.DataFrame([row]), measure="sufficiency").get_title(loc="left")
        'With the top tokens alone'
    """
    require_columns(summary, SUMMARY, figure="carried")
    if measure not in MEASURES:
        raise InputError(f"Expected measure to be one of {', '.join(MEASURES)}; got {measure!r}.")
    table, level = of_level(all_texts_rows(summary, "rationales"), erase_level, figure="carried")
    shares = table["figure"].map(lambda name: share_at(name, measure)).astype(float)
    table = table.assign(share=shares)[shares.notna() & np.isfinite(numbers(table["value"]))]
    keys, unit = keys_of(table), unit_at(unit, level)
    looks, labels = looks_for(keys, resolve_highlight(highlight, keys)), labels_for(keys)
    axis = axes(axis, COLUMN, max(2.6, 0.75 + 0.112 * len(keys)))
    dashed = "dashed: rankings of the input level" if any(key[0] == "input" for key in keys) else ""
    where = joined(f"erased from {place_of(level)}", counted(numbers(table["texts"])))
    TitleBlock(axis, _TITLES[measure].format(unit), where, joined(_BETTER[measure], dashed, by="; ") if keys else "")
    if not keys:
        return draw_empty(axis, "Nothing to draw: the summary\nhas no such figure.")
    ends = [_curve(axis, rows_of(table, key), look, labels[key], key[0] != "input") for key, look in looks.items()]
    EndLabels(axis, [(end, label, colour, strong) for end, label, colour, strong in sorted(ends)])
    _place_shares(axis, sorted(set(table["share"])))
    axis.axhline(0, color=INK, linewidth=0.6, zorder=1)
    axis.grid(color=RULE, linewidth=0.5)
    axis.locator_params(axis="y", nbins=6)
    done = "erased" if measure == "comprehensiveness" else "kept"
    fall = "change of the value" if kind == "regression" else "fall in the explained probability"
    name_axes(axis, f"{unit} {done} (% of the text)", f"{fall} (mean)")
    return axis


def _curve(axis: Axes, rows: pd.DataFrame, look: LineStyle, label: str, solid: bool) -> tuple[float, str, str, bool]:
    """Draw one curve and its band, and return its end and label."""
    rows = rows.sort_values("share")
    share, value, low, high = (numbers(rows[name]) for name in ("share", "value", "low", "high"))
    over, shade = (5, 0.15) if look.highlighted else (3, 0.05)
    axis.fill_between(share, low, high, color=look.colour, alpha=shade, linewidth=0, zorder=over - 1)
    (line,) = axis.plot(share, value, color=look.colour, linestyle=look.line, linewidth=look.width, zorder=over)
    line.set(label=label, clip_on=False)
    if len(share) == 1:
        axis.vlines(share, low, high, color=look.colour, linewidth=1.2, clip_on=False, zorder=over)
    marker = look.marker or ("o" if len(share) == 1 else "")
    if marker:
        line.set(marker=marker, markersize=3.2, markerfacecolor=look.colour if solid else "white", markeredgewidth=0.8)
    return float(value[-1]), label, look.colour if look.highlighted else MUTED, look.highlighted


def _place_shares(axis: Axes, shares: Sequence[float]) -> None:
    """Set ticks at the shares that were erased, equally spaced."""
    axis.set_xscale("log")
    axis.set_xlim(shares[0] / 1.15, shares[-1])
    axis.xaxis.set_minor_locator(NullLocator())
    axis.set_xticks(shares, [f"{100 * share:.4g}" for share in shares])
    axis.xaxis.set_minor_formatter(NullFormatter())


def rationales_figure(
    summary: pd.DataFrame,
    unit: Unit = "tokens",
    *,
    kind: str = "multiclass",
    highlight: Sequence[str] | None = None,
    path: str | PathLike[str] | None = None,
) -> Figure:
    """A figure of comprehensiveness and sufficiency, with a row of panels for each erase level.

    Example:
        >>> import pandas as pd
        >>> row = dict(test="rationales", erase_level="input", ranking_level="input", ranking="lrp", other="", texts=9)
        >>> row |= dict(slice="all", figure="sufficiency_at_10%", value=0.2, low=0.1, high=0.3)
        >>> len(rationales_figure(pd.DataFrame([row])).axes)
        2
    """
    require_columns(summary, SUMMARY, figure="rationales")
    table = all_texts_rows(summary, "rationales")
    levels = levels_of(table)
    counts = [len(keys_of(table[table["erase_level"] == level])) for level in levels]
    heights = [max(2.7, 0.8 + 0.112 * count) for count in counts]
    figure = PaperFigure.of_width(PAGE, sum(heights) or 2.6)
    if not levels:
        draw_empty(figure.add_subplot(), "Nothing to draw: no text has been erased\nat any level.")
    grid = figure.subplots(len(levels), 2, squeeze=False, height_ratios=heights) if levels else ()
    for row, level in zip(grid, levels, strict=True):
        for axis, measure in zip(row, MEASURES, strict=True):
            carried(summary, axis, measure=measure, erase_level=level, unit=unit, kind=kind, highlight=highlight)
        drawn = [axis for axis in row if axis.lines]
        ends = np.array([axis.get_ylim() for axis in drawn])
        for axis in drawn:
            axis.set_ylim(ends[:, 0].min(), ends[:, 1].max())
    if path is not None:
        figure.savefig(path)
    return figure


def plausibility_figure(
    summary: pd.DataFrame, unit: Unit = "tokens", *, path: str | PathLike[str] | None = None
) -> Figure:
    """A figure of the agreement with human annotations in three measures, with a row of panels for each erase level.

    The rankings stand in the order of the first measure. The dotted lines are the random control.

    Example:
        >>> import pandas as pd
        >>> row = dict(test="rationales", erase_level="input", ranking_level="input", ranking="lrp", other="", texts=9)
        >>> row |= dict(slice="all", figure="auprc", value=0.4, low=0.3, high=0.5)
        >>> plausibility_figure(pd.DataFrame([row])).axes[0].get_title(loc="left")
        'AUPRC'
    """
    require_columns(summary, SUMMARY, figure="agreement with people")
    table = all_texts_rows(summary, "rationales")
    table = table[table["figure"].isin([*AGREEMENT, "rationale_share"])]
    of_agreement = table[table["figure"].isin(AGREEMENT)]
    levels = levels_of(of_agreement)
    heights = [
        1.35 + 0.15 * max(3, len(keys_of(of_agreement[of_agreement["erase_level"] == level]))) for level in levels
    ]
    figure = PaperFigure.of_width(PAGE if levels else COLUMN, sum(heights) or 2.0)
    if not levels:
        reason = f"Nothing to draw: people marked nothing\n({parameter('rationale_column')} names the column)."
        draw_empty(figure.add_subplot(), reason)
    grid = figure.subplots(len(levels), len(AGREEMENT), squeeze=False, height_ratios=heights) if levels else ()
    for row, level in zip(grid, levels, strict=True):
        here = table[table["erase_level"] == level]
        first = here[here["figure"] == AGREEMENT[0]]
        keys = keys_of(first.iloc[np.argsort(-numbers(first["value"]), kind="stable")])
        for index, (axis, measure) in enumerate(zip(row, AGREEMENT, strict=True)):
            lines = pd.concat([rows_of(here[here["figure"] == measure], key) for key in keys])
            _agreement(axis, lines, measure, unit_at(unit, level))
            if index:
                axis.set_yticklabels([])
                continue
            about = joined(f"tested at {place_of(level)}", counted(numbers(lines["texts"])))
            TitleBlock(axis, _NAMES[measure], about, "lines: intervals; dotted: random control")
    if path is not None:
        figure.savefig(path)
    return figure


def _agreement(axis: Axes, lines: pd.DataFrame, measure: str, unit: str) -> None:
    axes(axis, COLUMN, 2.0)
    TitleBlock(axis, _NAMES[measure])
    draw_dots(lines, axis, lambda value: f"{value:.2f}")
    axis.set_xlim(0, 1)
    axis.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
    name_axes(axis, _SAID[measure].format(unit))


PLOTS: dict[str, Callable[[Results], Figure]] = {
    "curves": lambda results: rationales_figure(
        results.summary(), unit=results.manifest["facts"]["unit"], kind=results.manifest["facts"]["decision"]
    ),
    "agreement": lambda results: plausibility_figure(results.summary(), unit=results.manifest["facts"]["unit"]),
}
