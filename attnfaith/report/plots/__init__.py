"""Figures as functions: a table and axes in, the axes out; pyplot is not touched."""

from attnfaith.report.plots.adversarial import adversarial_figure, divergences
from attnfaith.report.plots.agreement import agreement_figure, agreements
from attnfaith.report.plots.agreement_by_text import agreement_distributions, taus
from attnfaith.report.plots.composed import efficiency_figure, erasure_figure, single_weight_figure, wins_figure
from attnfaith.report.plots.curves import survival
from attnfaith.report.plots.dots import efficiency
from attnfaith.report.plots.information import (
    attention_by_rank,
    information,
    information_figure,
    information_heads_figure,
)
from attnfaith.report.plots.names import words_for
from attnfaith.report.plots.pairs import wins
from attnfaith.report.plots.permutation import permutation_figure, shuffles
from attnfaith.report.plots.rationales import carried, plausibility_figure, rationales_figure
from attnfaith.report.plots.sanity import sanity, sanity_figure
from attnfaith.report.plots.weights import flips_table, single_weight

__all__ = [
    "adversarial_figure",
    "agreement_distributions",
    "agreement_figure",
    "agreements",
    "attention_by_rank",
    "carried",
    "divergences",
    "efficiency",
    "efficiency_figure",
    "erasure_figure",
    "flips_table",
    "information",
    "information_figure",
    "information_heads_figure",
    "permutation_figure",
    "plausibility_figure",
    "rationales_figure",
    "sanity",
    "sanity_figure",
    "shuffles",
    "single_weight",
    "single_weight_figure",
    "survival",
    "taus",
    "wins",
    "wins_figure",
    "words_for",
]
