"""Colours, lines, font sizes, and axes that use them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import TypeAlias

from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

from attnfaith.attribution.display_names import role_of, style_of
from attnfaith.attribution.method import PlotStyle
from attnfaith.escaping import visible
from attnfaith.paper_figure import PaperFigure
from attnfaith.plots.labels import Key

Dashes: TypeAlias = str | tuple[int, tuple[float, ...]]

COLUMN, PAGE = 3.5, 7.1  # inches: one column of a two-column paper, and both
TITLE, TEXT, SMALL = 8.0, 7.0, 6.0  # points
INK, MUTED, FAINT, RULE = "#1a1a1a", "#5f5f5f", "#a6a6a6", "#e3e3e3"
PLAIN, ALERT = "#0072B2", "#D55E00"  # the default colour, and one for what a reader should notice

# Colours of Okabe and Ito, which colour-blind readers can distinguish; in grey, marker and line do so. Their other
# colours are in the styles of registered methods.
_SPARE = (("#009E73", "D"), ("#CC79A7", "v"), ("#56B4E9", "P"), ("#B8860B", "*"), ("#4B0082", "p"))
_DOTTED: Dashes = (0, (1.2, 1.4))
_LINES: dict[str, Dashes] = {"attention": "-", "input": (0, (4.0, 1.6))}
_YOURS: Dashes = (0, (6.0, 1.5, 1.2, 1.5))


@dataclass(frozen=True)
class LineStyle:
    """How one ranking is drawn."""

    colour: str
    marker: str
    line: Dashes
    highlighted: bool

    @property
    def width(self) -> float:
        """The width of its line, in points."""
        return 1.5 if self.highlighted else 0.7


def looks_for(keys: Iterable[Key], highlight: Sequence[str] | None = None) -> dict[Key, LineStyle]:
    """Colour, marker and line of each ranking: highlighted ones in colour, others thin and grey.

    Args:
        keys: the rankings.
        highlight: the names of the rankings to highlight; None for those that are registered with a style.

    Example:
        >>> looks_for([("attention", "attention"), ("attention", "lrp")])["attention", "lrp"].colour
        '#a6a6a6'
    """
    keys = list(keys)
    styles = {key: style for key in keys if (style := style_of(key))}
    if highlight is not None:
        spare = cycle(_SPARE)
        registered = {name: style for (_, name), style in styles.items()}
        chosen = {name: registered.get(name) or PlotStyle(*next(spare)) for name in dict.fromkeys(highlight)}
        styles = {key: chosen[key[1]] for key in keys if key[1] in chosen}
    looks = {}
    for key in keys:
        colour, marker = styles.get(key, (FAINT, ""))
        line = _DOTTED if role_of(key) == "control" else _LINES.get(key[0], _YOURS)
        looks[key] = LineStyle(colour, marker, line, key in styles)
    return looks


def axes(axis: Axes | None, width: float, height: float) -> Axes:
    """The caller's axes, or new ones in a figure of a given size in inches."""
    axis = PaperFigure.of_width(width, height).add_subplot() if axis is None else axis
    axis.tick_params(labelsize=TEXT, color=MUTED, labelcolor=INK, length=2.5, width=0.6, pad=2)
    for side, spine in axis.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(MUTED)
        spine.set_linewidth(0.6)
    axis.set_axisbelow(True)
    return axis


def name_axes(axis: Axes, x: str = "", y: str = "") -> None:
    """Label the two axes, with units."""
    axis.set_xlabel(x, fontsize=TEXT, color=INK, labelpad=2)
    axis.set_ylabel(y, fontsize=TEXT, color=INK, labelpad=2)


def name_rows(axis: Axes, positions: Sequence[float], keys: Sequence[Key], labels: Sequence[str]) -> None:
    """Label the rows with rankings, the highlighted ones in their colours."""
    axis.set_yticks(positions, [visible(label, "\n") for label in labels])
    axis.tick_params(axis="y", length=0, labelsize=SMALL, pad=3)
    looks = looks_for(keys)
    for label, key in zip(axis.get_yticklabels(), keys, strict=True):
        label.set_parse_math(False)  # a dollar sign in a user's name must not begin a formula
        if looks[key].highlighted:
            label.set(color=looks[key].colour, fontweight="bold")


def hide_frame(axis: Axes, *sides: str) -> None:
    """Hide the frame at some sides; at all four if none is named."""
    for spine in (axis.spines[side] for side in sides or ("left", "right", "top", "bottom")):
        spine.set_visible(False)


def percent() -> PercentFormatter:
    """Format the ticks of a share in per cent."""
    return PercentFormatter(1.0, decimals=0, symbol=" %")
