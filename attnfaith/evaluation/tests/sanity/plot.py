"""Plots of the sanity test: the agreement of each ranking with itself while layers are re-initialised."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped, unused-ignore]
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attnfaith.errors import InputError
from attnfaith.escaping import visible
from attnfaith.estimates.pivot import Array, numbers
from attnfaith.evaluation.tests.sanity.summary import MEASURES, RANDOM_LABELS
from attnfaith.plots.curves import resolve_highlight
from attnfaith.plots.labels import labels_for, shortened
from attnfaith.plots.lettering import EndLabels, TitleBlock, draw_empty
from attnfaith.plots.panels import SUMMARY, all_texts_rows, counted, joined, keys_of, require_columns, rows_of
from attnfaith.plots.style import (
    COLUMN,
    INK,
    MUTED,
    PAGE,
    RULE,
    SMALL,
    LineStyle,
    PaperFigure,
    axes,
    looks_for,
    name_axes,
)

if TYPE_CHECKING:
    from attnfaith.evaluation.results import Results

TRAINED = "as trained"
TICKS = 30  # layers named on an axis; of more, some are
WIDE = 9  # layers from which on a figure is as wide as a page
_NAMES = {
    "spearman": "Spearman's rho",
    "spearman_absolute": "Spearman's rho, absolute",
    "tau": "Kendall's tau-b",
}


def sanity(
    summary: pd.DataFrame,
    axis: Axes | None = None,
    *,
    measure: str = "spearman",
    highlight: Sequence[str] | None = None,
) -> Axes:
    """Draw the agreement of each ranking with itself by number of re-initialised layers.

    A curve that stays up belongs to a ranking that does not notice that what the model has learned is gone. Grey and
    dotted is a random order, drawn anew as well: what chance does. Dashed curves, with open markers, belong to rankings
    of the input level. Points right of the line are of a model that was trained on random labels.

    Args:
        summary: The long table of figures; rows of the slice "all" are drawn.
        axis: Where to draw; new axes when None.
        measure: "spearman", "spearman_absolute" or "tau".
        highlight: Names of the rankings that stand out; None: those that are registered with a style.

    Example:
        >>> import pandas as pd
        >>> row = dict(test="sanity", erase_level="", ranking="lrp", ranking_level="attention", slice="all", texts=9)
        >>> row |= dict(figure="spearman", value=0.4, low=0.3, high=0.5)
        >>> axis = sanity(pd.DataFrame([row | dict(other="1/head"), row | dict(other="2/bert.embeddings")]))
        >>> [label.get_text() for label in axis.get_xticklabels()]
        ['as trained', 'head', 'embeddings']
    """
    require_columns(summary, SUMMARY, figure="sanity")
    if measure not in MEASURES:
        raise InputError(f"Expected measure to be one of {', '.join(MEASURES)}; got {measure!r}.")
    table = all_texts_rows(summary, "sanity")
    table = table[table["figure"] == measure]
    keys, layers = keys_of(table), _layers(table)
    axis = axes(axis, COLUMN, max(2.9, 1.2 + 0.112 * len(keys)))
    drawn = [key for key in keys if np.isfinite(numbers(rows_of(table, key)["value"])).any()]
    looks, labels = looks_for(drawn, resolve_highlight(highlight, keys)), labels_for(keys)
    lost = [labels[key] for key in keys if key not in looks]
    dashed = "dashed: rankings of the input level" if any(key[0] == "input" for key in drawn) else ""
    told = joined(counted(numbers(table["texts"])), "shaded: intervals" if drawn else "", dashed, by="; ")
    missing = f"undefined: {', '.join(lost) if len(lost) < 4 else f'{len(lost)} rankings'}" if lost and drawn else ""
    TitleBlock(axis, "Layers drawn anew, from the top", told, missing)
    if not drawn:
        return draw_empty(axis, "No curve to draw: no ranking has\na defined correlation with itself.")
    ends = [_curve(axis, rows_of(table, key), layers, look, solid=key[0] != "input") for key, look in looks.items()]
    order = sorted(zip(ends, looks.items(), strict=True), key=lambda end: end[0])
    EndLabels(
        axis,
        [
            (end[0], labels[key], look.colour if look.highlighted else MUTED, look.highlighted)
            for end, (key, look) in order
        ],
    )
    _dress(axis, layers, min(numbers(table["low"]).min(initial=0.0, where=~np.isnan(numbers(table["low"]))), -0.1))
    name_axes(axis, "drawn anew, as far as this layer", f"{_NAMES[measure]} with itself")
    return axis


def sanity_figure(
    summary: pd.DataFrame,
    *,
    measure: str = "spearman",
    highlight: Sequence[str] | None = None,
    path: str | PathLike[str] | None = None,
) -> Figure:
    """The whole figure, as wide as its layers need.

    Example:
        >>> import pandas as pd
        >>> row = dict(test="sanity", erase_level="", ranking="lrp", ranking_level="attention", slice="all", texts=9)
        >>> row |= dict(figure="tau", value=0.4, low=0.3, high=0.5, other="1/head")
        >>> sanity_figure(pd.DataFrame([row]), measure="tau").axes[0].get_ylabel()
        "Kendall's tau-b with itself"
    """
    require_columns(summary, SUMMARY, figure="sanity")
    table = all_texts_rows(summary, "sanity")
    width = COLUMN if len(_layers(table)) < WIDE else PAGE
    figure = PaperFigure.of_width(width, max(2.9, 1.2 + 0.112 * len(keys_of(table))))
    sanity(summary, figure.add_subplot(), measure=measure, highlight=highlight)
    if path is not None:
        figure.savefig(path)
    return figure


def layer_names(layers: Sequence[str]) -> list[str]:
    """Shorten the names of layers while they stay distinct.

    Example:
        >>> layer_names(["classifier", "bert.encoder.layer.1", "bert.encoder.layer.0", "bert.embeddings"])
        ['classifier', 'layer.1', 'layer.0', 'embeddings']
        >>> layer_names(["model.decoder.layers.0", "model.encoder.layers.0"])
        ['decoder.layers.0', 'encoder.layers.0']
    """
    result = []
    for layer in layers:
        parts = layer.split(".")
        tails = [".".join(parts[start:]) for start in reversed(range(len(parts)))]
        unlike = (tail for tail in tails if sum(f".{item}".endswith(f".{tail}") for item in layers) == 1)
        result.append(shortened(next((tail for tail in unlike if not tail.replace(".", "").isdigit()), layer), 22))
    return result


def _layers(table: pd.DataFrame) -> list[str]:
    """The values of ``other``: depths and layers from the top, then models without a depth."""
    there = {str(item) for item in table["other"] if item}
    return sorted(there, key=lambda item: (item == RANDOM_LABELS, int(item.partition("/")[0]) if "/" in item else 0))


def _curve(axis: Axes, rows: pd.DataFrame, layers: list[str], look: LineStyle, *, solid: bool) -> tuple[float, float]:
    """Draw one curve and its band, and a point for models without a depth; return its end and mean height."""
    value, low, high = (_placed(rows, column, layers) for column in ("value", "low", "high"))
    steps = [index for index, layer in enumerate(layers) if layer != RANDOM_LABELS]
    over, shade = (5, 0.15) if look.highlighted else (3, 0.07)
    face = look.colour if solid else "white"
    marks: dict[str, Any] = {"marker": look.marker, "markersize": 3.2, "markerfacecolor": face, "markeredgewidth": 0.8}
    across = np.array([0, *(index + 1 for index in steps)])
    curve, under, above = (np.concatenate(([1.0], column[steps])) for column in (value, low, high))
    axis.fill_between(across, under, above, color=look.colour, alpha=shade, linewidth=0, zorder=over - 1)
    line: dict[str, Any] = {"color": look.colour, "linestyle": look.line, "linewidth": look.width, "zorder": over}
    axis.plot(across, curve, **line, **(marks if look.marker else {}), clip_on=False)
    apart = [index for index in range(len(layers)) if index not in steps]
    for position in apart:
        axis.plot([position + 1.5] * 2, [low[position], high[position]], color=look.colour, linewidth=0.8, zorder=over)
        point: dict[str, Any] = marks if look.marker else {"marker": ".", "markersize": 3.2}
        axis.plot([position + 1.5], [value[position]], color=look.colour, linestyle="", zorder=over, **point)
    known = value[np.isfinite(value)]
    return float(known[-1]), float(known.mean())


def _placed(rows: pd.DataFrame, column: str, layers: list[str]) -> Array:
    result = np.full(len(layers), np.nan)
    result[[layers.index(str(other)) for other in rows["other"]]] = numbers(rows[column])
    return result


def _dress(axis: Axes, layers: list[str], lowest: float) -> None:
    """Set the limits, the line of chance, and the names of the layers."""
    names = [visible(name) for name in layer_names([item.partition("/")[2] or item for item in layers])]
    positions = [index + (1.5 if layer == RANDOM_LABELS else 1.0) for index, layer in enumerate(layers)]
    every = -(-len(names) // TICKS)
    kept = [index for index in range(len(names)) if (len(names) - 1 - index) % every == 0]
    axis.set_xticks([0, *(positions[index] for index in kept)], [TRAINED, *(names[index] for index in kept)])
    axis.tick_params(axis="x", labelrotation=90, labelsize=SMALL)
    for label in axis.get_xticklabels():
        label.set_parse_math(False)
    if RANDOM_LABELS in layers and len(layers) > 1:
        axis.axvline(positions[-1] - 0.75, color=MUTED, linewidth=0.6, linestyle=(0, (2, 2)))
    axis.set_xlim(0, positions[-1] + (0.25 if RANDOM_LABELS in layers else 0.0))
    axis.set_ylim(max(lowest, -1.0), 1.0)
    axis.axhline(0, color=INK, linewidth=0.6, zorder=1)
    axis.grid(axis="y", color=RULE, linewidth=0.5)


PLOTS: dict[str, Callable[[Results], Figure]] = {
    "spearman": lambda results: sanity_figure(results.summary(), measure="spearman"),
    "absolute": lambda results: sanity_figure(results.summary(), measure="spearman_absolute"),
    "tau": lambda results: sanity_figure(results.summary(), measure="tau"),
}
