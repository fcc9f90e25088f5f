"""Figures as functions: a table and axes in, the axes out; pyplot is not touched."""

from attnfaith.report.plots.composed import efficiency_figure, erasure_figure, single_weight_figure, wins_figure
from attnfaith.report.plots.curves import survival
from attnfaith.report.plots.dots import efficiency
from attnfaith.report.plots.names import words_for
from attnfaith.report.plots.pairs import wins
from attnfaith.report.plots.weights import flips_table, single_weight

__all__ = [
    "efficiency",
    "efficiency_figure",
    "erasure_figure",
    "flips_table",
    "single_weight",
    "single_weight_figure",
    "survival",
    "wins",
    "wins_figure",
    "words_for",
]
