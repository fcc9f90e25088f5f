"""Plots of the rationales test: comprehensiveness, sufficiency, and agreement with human annotations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike

import numpy as np
import pandas as pd  # type: ignore[import-untyped, unused-ignore]
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, NullLocator

from attnfaith.errors import InputError
from attnfaith.estimates.lookup import Unit, unit_at
from attnfaith.estimates.pivot import numbers
from attnfaith.evaluation.tests.rationales.summary import AGREEMENT, MEASURES, share_at
from attnfaith.paper_figure import PaperFigure
from attnfaith.parameter_names import parameter
from attnfaith.plots.dots import draw_dots
from attnfaith.plots.labels import Key
from attnfaith.plots.lettering import TitleBlock, draw_empty
from attnfaith.plots.line_charts import Chart, Line, draw_together, resolve_highlight
from attnfaith.plots.matrix import shown
from attnfaith.plots.multiples import charts_figure
from attnfaith.plots.panels import (
    SUMMARY,
    Target,
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
from attnfaith.plots.style import COLUMN, INK, PAGE, RULE, axes, name_axes

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
        highlight: The names of the rankings to highlight; by default all if they are six or fewer, else those that are
            registered with a style.

    Example:
        >>> import pandas as pd
        >>> row = dict(test="rationales", erase_level="input", ranking_level="input", ranking="lrp", other="", texts=9)
        >>> row |= dict(slice="all", figure="sufficiency_at_10%", value=0.2, low=0.1, high=0.3)
        >>> carried(pd.DataFrame([row]), measure="sufficiency").get_title(loc="left")
        'With the top tokens alone'
    """
    chart = _chart(summary, measure, erase_level, unit, kind)
    return draw_together(chart, axis, highlight=highlight)


def _chart(
    summary: pd.DataFrame,
    measure: str,
    erase_level: str | None,
    unit: Unit,
    kind: str,
    limits: tuple[float, float] | None = None,
) -> Chart:
    """What `carried` draws; with the limits of the vertical axis, if they are not those that fit."""
    require_columns(summary, SUMMARY, figure="carried")
    if measure not in MEASURES:
        raise InputError(f"Expected measure to be one of {', '.join(MEASURES)}; got {measure!r}.")
    of_test, level = of_level(all_texts_rows(summary, "rationales"), erase_level, figure="carried")
    shares = of_test["figure"].map(lambda name: share_at(name, measure)).astype(float)
    table = of_test.assign(share=shares)[shares.notna() & np.isfinite(numbers(of_test["value"]))]
    lines = tuple(_line(rows_of(table, key), key, measure) for key in keys_of(table))
    unit = unit_at(unit, level)
    where = joined(f"erased from {place_of(level)}", counted(numbers(table["texts"])))
    done = "erased" if measure == "comprehensiveness" else "kept"
    fall = "change of the value" if kind == "regression" else "fall in the explained probability"
    chosen = limits or _limits(lines)
    places = sorted(set(table["share"]))
    return Chart(
        title=_TITLES[measure].format(unit),
        about=(where, _BETTER[measure]) if lines else (where,),
        names=(f"{unit} {done} (% of the text)", f"{fall} (mean)"),
        lines=lines,
        limits=chosen,
        dress=lambda axis, small: _dress(axis, places, chosen, small=small),
        why="Nothing to draw: the summary\nhas no such figure.",
        level=level,
        number="mean over the shares",
        height=2.7,
    )


def _line(rows: pd.DataFrame, key: Key, measure: str) -> Line:
    rows = rows.sort_values("share")
    share, value, low, high = (numbers(rows[name]) for name in ("share", "value", "low", "high"))
    mean = float(value.mean())
    return Line(key, share, value, low, high, mean if measure == "comprehensiveness" else -mean, shown(mean))


def _limits(lines: Sequence[Line]) -> tuple[float, float]:
    """The limits of an axis that holds 0 and all lines with their intervals, and a margin."""
    ends = np.concatenate([[0.0], *(np.concatenate([line.value, line.low, line.high]) for line in lines)])
    low, high = float(np.nanmin(ends)), float(np.nanmax(ends))
    room = 0.04 * ((high - low) or 1.0)
    return low - room, high + room


def _dress(axis: Axes, shares: Sequence[float], limits: tuple[float, float], *, small: bool) -> None:
    """Set the limits and the line of no change, and ticks at the shares that were erased, equally spaced."""
    axis.set_xscale("log")
    axis.set_xlim(shares[0] / 1.15, shares[-1] if len(shares) > 1 else shares[0] * 1.15)
    axis.xaxis.set_minor_locator(NullLocator())
    axis.set_xticks(shares, [f"{100 * share:.4g}" for share in shares])
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.set_ylim(*limits)
    axis.axhline(0, color=INK, linewidth=0.6, zorder=1)
    axis.grid(color=RULE, linewidth=0.5)
    axis.locator_params(axis="y", nbins=3 if small else 6)


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
    chosen = resolve_highlight(highlight, keys_of(table))
    charts = []
    for level in levels_of(table):
        row = [_chart(summary, measure, level, unit, kind) for measure in MEASURES]
        both = _limits([line for chart in row for line in chart.lines])
        charts.append([_chart(summary, measure, level, unit, kind, both) for measure in MEASURES])
    empty = "Nothing to draw: no text has been erased\nat any level."
    return charts_figure(charts, empty=empty, highlight=chosen, path=path, alone="carried")


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
    target = Target(path)
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
    return target.saved(figure)


def _agreement(axis: Axes, lines: pd.DataFrame, measure: str, unit: str) -> None:
    axes(axis, COLUMN, 2.0)
    TitleBlock(axis, _NAMES[measure])
    draw_dots(lines, axis, lambda value: f"{value:.2f}")
    axis.set_xlim(0, 1)
    axis.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
    name_axes(axis, _SAID[measure].format(unit))


PLOTS: dict[str, Callable[..., Figure]] = {
    "curves": lambda results: rationales_figure(
        results.summary(), unit=results.manifest["facts"]["unit"], kind=results.manifest["facts"]["decision"]
    ),
    "agreement": lambda results: plausibility_figure(results.summary(), unit=results.manifest["facts"]["unit"]),
}
