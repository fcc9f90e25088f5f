"""Plots of the sanity test: the agreement of each ranking with itself while layers are re-initialised."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike

import numpy as np
import pandas as pd  # type: ignore[import-untyped, unused-ignore]
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attnfaith.errors import InputError
from attnfaith.escaping import visible
from attnfaith.estimates.pivot import Array, numbers
from attnfaith.evaluation.tests.sanity.summary import MEASURES, RANDOM_LABELS
from attnfaith.plots.labels import Key, shortened
from attnfaith.plots.line_charts import Chart, Line, draw_together, resolve_highlight
from attnfaith.plots.matrix import shown
from attnfaith.plots.multiples import charts_figure
from attnfaith.plots.panels import SUMMARY, all_texts_rows, counted, joined, keys_of, require_columns, rows_of
from attnfaith.plots.style import INK, MUTED, RULE, SMALL

TRAINED = "as trained"
TICKS, SMALL_TICKS = 30, 6  # layers named on an axis, and on that of a small panel; of more, some are
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
    dotted is a random order, drawn again at each depth: the baseline. Dashed curves, with open markers, belong to
    rankings of the input level. Points right of the line are of a model that was trained on random labels.

    Args:
        summary: The long table of figures; rows of the slice "all" are drawn.
        axis: Where to draw; new axes when None.
        measure: "spearman", "spearman_absolute" or "tau".
        highlight: The names of the rankings to highlight; by default all if they are six or fewer, else those that are
            registered with a style.

    Example:
        >>> import pandas as pd
        >>> row = dict(test="sanity", erase_level="", ranking="lrp", ranking_level="attention", slice="all", texts=9)
        >>> row |= dict(figure="spearman", value=0.4, low=0.3, high=0.5)
        >>> axis = sanity(pd.DataFrame([row | dict(other="1/head"), row | dict(other="2/bert.embeddings")]))
        >>> [label.get_text() for label in axis.get_xticklabels()]
        ['as trained', 'head', 'embeddings']
    """
    chart = _chart(summary, measure)
    return draw_together(chart, axis, highlight=highlight)


def sanity_figure(
    summary: pd.DataFrame,
    *,
    measure: str = "spearman",
    highlight: Sequence[str] | None = None,
    path: str | PathLike[str] | None = None,
    axis: Axes | None = None,
) -> Figure:
    """The whole figure: up to six rankings in one axes, as wide as the layers need; more have a small panel each.

    Example:
        >>> import pandas as pd
        >>> row = dict(test="sanity", erase_level="", ranking="lrp", ranking_level="attention", slice="all", texts=9)
        >>> row |= dict(figure="tau", value=0.4, low=0.3, high=0.5, other="1/head")
        >>> sanity_figure(pd.DataFrame([row]), measure="tau").axes[0].get_ylabel()
        "Kendall's tau-b with itself"
    """
    chart = _chart(summary, measure)
    chosen = resolve_highlight(highlight, [line.key for line in chart.lines])
    return charts_figure([[chart]], empty=chart.why, highlight=chosen, path=path, axis=axis, alone="sanity")


def _chart(summary: pd.DataFrame, measure: str) -> Chart:
    require_columns(summary, SUMMARY, figure="sanity")
    if measure not in MEASURES:
        raise InputError(f"Expected measure to be one of {', '.join(MEASURES)}; got {measure!r}.")
    table = all_texts_rows(summary, "sanity")
    table = table[table["figure"] == measure]
    layers = _layers(table)
    lines = tuple(_line(rows_of(table, key), key, layers) for key in keys_of(table))
    drawn = any(line.known for line in lines)
    lowest = numbers(table["low"])
    bottom = max(min(lowest.min(initial=0.0, where=~np.isnan(lowest)), -0.1), -1.0)
    return Chart(
        title="Layers re-initialised, from the top",
        about=(joined(counted(numbers(table["texts"])), "shaded: intervals" if drawn else "", by="; "),),
        names=("re-initialised down to this layer", f"{_NAMES[measure]} with itself"),
        lines=lines,
        limits=(bottom, 1.0),
        dress=lambda axis, small: _dress(axis, layers, bottom, small=small),
        why="No curve to draw: no ranking has\na defined correlation with itself.",
        number="agreement with all layers re-initialised",
        height=2.9,
        wide=len(layers) >= WIDE,
        ticks=0.5,
    )


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


def _line(rows: pd.DataFrame, key: Key, layers: list[str]) -> Line:
    """From the model as trained, where a ranking agrees with itself, down to the last layer; then what is no layer."""
    value, low, high = (np.concatenate(([1.0], _placed(rows, name, layers))) for name in ("value", "low", "high"))
    loose = int(RANDOM_LABELS in layers)
    x = np.arange(len(value), dtype=np.float64)
    x[len(x) - loose :] += 0.5
    if not np.isfinite(value[1:]).any():
        value[0] = np.nan
    steps = value[1 : len(value) - loose]
    known = steps[np.isfinite(steps)]
    number = shown(float(known[-1])) if len(known) else ""
    return Line(key, x, value, low, high, -float(known.mean()) if len(known) else np.nan, number, loose)


def _placed(rows: pd.DataFrame, column: str, layers: list[str]) -> Array:
    result = np.full(len(layers), np.nan)
    result[[layers.index(str(other)) for other in rows["other"]]] = numbers(rows[column])
    return result


def _dress(axis: Axes, layers: list[str], bottom: float, *, small: bool = False) -> None:
    """Set the limits, the line of chance, and the names of the layers."""
    names = [visible(name) for name in layer_names([item.partition("/")[2] or item for item in layers])]
    positions = [index + (1.5 if layer == RANDOM_LABELS else 1.0) for index, layer in enumerate(layers)]
    every = -(-len(names) // (SMALL_TICKS if small else TICKS))
    kept = [index for index in range(len(names)) if (len(names) - 1 - index) % every == 0 and index >= every // 2]
    axis.set_xticks([0, *(positions[index] for index in kept)], [TRAINED, *(names[index] for index in kept)])
    axis.tick_params(axis="x", labelrotation=90, labelsize=SMALL)
    for label in axis.get_xticklabels():
        label.set_parse_math(False)
    if RANDOM_LABELS in layers and len(layers) > 1:
        axis.axvline(positions[-1] - 0.75, color=MUTED, linewidth=0.6, linestyle=(0, (2, 2)))
    axis.set_xlim(0, positions[-1] + (0.25 if RANDOM_LABELS in layers else 0.0))
    axis.set_ylim(bottom, 1.0)
    axis.axhline(0, color=INK, linewidth=0.6, zorder=1)
    axis.grid(axis="y", color=RULE, linewidth=0.5)
    if small:
        axis.set_yticks([0, 0.5, 1], ["0", "0.5", "1"])


PLOTS: dict[str, Callable[..., Figure]] = {
    "spearman": lambda results, axis=None: sanity_figure(results.summary(), measure="spearman", axis=axis),
    "absolute": lambda results, axis=None: sanity_figure(results.summary(), measure="spearman_absolute", axis=axis),
    "tau": lambda results, axis=None: sanity_figure(results.summary(), measure="tau", axis=axis),
}
