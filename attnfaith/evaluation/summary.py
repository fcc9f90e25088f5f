"""Tables of a run, summed up: every figure with its interval, and the number of texts behind it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from attnfaith.errors import InputError
from attnfaith.evaluation.summaries import erasure as erasing
from attnfaith.evaluation.summaries import single_weight as single
from attnfaith.evaluation.summaries.grid import Pivot, grids
from attnfaith.evaluation.summaries.parts import Intervals, begun, check, summary_of
from attnfaith.evaluation.summaries.rows import COLUMNS, Rows
from attnfaith.evaluation.summaries.slices import BY, Part
from attnfaith.functional.statistics import survival, wilson

__all__ = ["BY", "COLUMNS", "curves", "summarise_erasure", "summarise_single_weight"]

REFERENCES = (None, "paper")
POINTS = 101


def summarise_erasure(
    erasure: pd.DataFrame,
    texts: pd.DataFrame,
    *,
    n_resamples: int = 9999,
    confidence_level: float = 0.95,
    seed: int = 0,
    reference: str | None = None,
    by: str | None = None,
) -> pd.DataFrame:
    """The figures of the erasure test.

    Shares and fractions are between 0 and 1. Shares have Wilson's intervals, medians those of order statistics, all
    else percentile intervals from one set of bootstrap resamples of the texts. For each level and ranking:

    - ``never_flipped``: the share of texts whose decision never flips; ``flipped_at_all``: only with everything removed
    - ``median_fraction``: of the items removed at the flip; inf, "not reached", where fewer than half of the texts flip
    - ``mean_fraction``: the same as a mean; a text that never flips counts as 1
    - ``mean_mass``: of the original weight removed, over the texts that flip
    - ``efficiency``: mean over texts of the size of the smallest flipping set / the number removed; 0 for a text that
      some set flips and this ranking never does. ``efficiency_of_means``: mean size / mean number (then all items are
      counted for such a text). Where sizes are known by bounds only, both are NaN, and two figures each, ending in
      ``_low`` and ``_high``, take their place
    - ``skill``: (efficiency - random's) / (1 - random's): 0 for a random order, 1 for the smallest sets themselves.
      It is taken from ``efficiency_high`` where there are bounds only, and is then an upper estimate
    - ``marginal``, ``tied_scores``, ``undefined_scores``: shares of texts with a decision within the tolerance of a
      tie, with items of equal score, with items without one

    For each level (no ranking): ``too_short`` (texts with fewer than two items); ``flippable`` and ``unflippable`` (the
    share of texts that some set is known to flip, and that no set flips); ``certified`` (the share of which the size
    of the smallest flipping set is known, or that there is none); ``minimum_fraction_median`` and
    ``minimum_fraction_mean`` (its share of the items; inf and 1 where there is none; with ``_low`` and ``_high`` where
    there are bounds only). For the run: ``texts`` and ``set_aside``, a row for each reason.

    For each two rankings of a level, both ways round, with the second, as "level/name", in ``other``: ``wins``,
    ``losses`` and ``ties`` (shares of texts flipped with fewer, more, as many removals), ``p`` (sign test), ``p_holm``
    (adjusted for the number of pairs of the level) and ``mean_difference`` (of the fraction removed, paired).

    Args:
        erasure: one row for each text, ranking and level.
        texts: one row for each text.
        n_resamples: how often the texts are drawn anew.
        confidence_level: of the intervals.
        seed: of the draws.
        reference: "paper" leaves out, ranking by ranking, the texts that it never flips.
        by: "class", "length", "confidence" or "correct", for the same figures, without pairs, of parts of the texts.

    Example:
        >>> same = {
        ...     "erase_level": "attention",
        ...     "ranking_level": "attention",
        ...     "items": 4,
        ...     "mass": 0.5,
        ...     "censored": False,
        ... }
        >>> same |= {"flippable": True, "minimum_low": 1, "minimum_high": 1, "marginal": 0, "ties": 0, "undefined": 0}
        >>> rows = {"ranking": ["attention", "random"] * 3, "removed": [2, 4] * 3, "text_id": [0, 0, 1, 1, 2, 2]}
        >>> texts = pd.DataFrame({"text_id": [0, 1, 2], "aside": None})
        >>> table = summarise_erasure(pd.DataFrame(rows).assign(**same), texts, n_resamples=99)
        >>> table[table.figure == "efficiency"][["ranking", "value", "low", "high", "texts"]].values.tolist()
        [['attention', 0.5, 0.5, 0.5, 3], ['random', 0.25, 0.25, 0.25, 3]]
    """
    intervals, found = Intervals(n_resamples, confidence_level, seed), grids(erasure)
    if reference not in REFERENCES:
        raise InputError(f"Expected reference to be 'paper' or None, got {reference!r}.")

    def lots_of(part: Part) -> Iterator[Rows]:
        for grid in found:
            rows, places = begun("erasure", part, grid.text_ids, grid.level)
            if len(places):
                resamples, pairs = intervals.resamples(len(places)), part.label == "all"
                erasing.add_figures(rows, grid.take(places), resamples, paper=reference == "paper", pairs=pairs)
            yield rows

    return summary_of("erasure", texts, by, lots_of)


def summarise_single_weight(
    single_weight: pd.DataFrame,
    texts: pd.DataFrame,
    *,
    n_resamples: int = 9999,
    confidence_level: float = 0.95,
    seed: int = 0,
    by: str | None = None,
) -> pd.DataFrame:
    """The figures of the single-weight test, for each ranking.

    - ``delta_js``: the mean of JS without the top item - JS without the drawn one, in nats; ``delta_js_negative``: the
      share of texts where it is below 0; ``delta_attention``: the mean difference of their weights
    - ``both``, ``only_top``, ``only_drawn``, ``neither``: the shares of texts whose decision flips without the one, the
      other, either, or neither; they add up to 1
    - ``expected_delta_js``, ``expected_both`` ...: the same in expectation over all items that could have been drawn
    - ``marginal``: the share of texts with a decision within the tolerance of a tie

    Args:
        single_weight: one row for each text and ranking.
        texts: one row for each text.
        n_resamples: how often the texts are drawn anew.
        confidence_level: of the intervals.
        seed: of the draws.
        by: "class", "length", "confidence" or "correct", for the figures of parts of the texts.

    Example:
        >>> same = {"ranking": "attention", "delta_js": 0.1, "delta_attention": 0.3, "marginal": False}
        >>> same |= {"top_flips": True, "drawn_flips": 0, "expected_delta_js": 0.1, "expected_drawn_flips": 0.25}
        >>> texts = pd.DataFrame({"text_id": [0, 1, 2, 3], "aside": None})
        >>> table = summarise_single_weight(texts.assign(**same), texts)
        >>> float(table.set_index("figure").value["expected_only_top"])
        0.75
    """
    intervals, pivot = Intervals(n_resamples, confidence_level, seed), Pivot(single_weight, ("ranking",))

    def lots_of(part: Part) -> Iterator[Rows]:
        rows, places = begun("single_weight", part, pivot.text_ids, single.LEVEL)
        if len(places):
            single.add_figures(rows, pivot, places, intervals.resamples(len(places)))
        yield rows

    return summary_of("single_weight", texts, by, lots_of)


def curves(erasure: pd.DataFrame, *, confidence_level: float = 0.95, points: int = POINTS) -> pd.DataFrame:
    """How many decisions are still kept when a fraction of the items is removed: one row per ranking and fraction.

    Columns ``erase_level``, ``ranking_level``, ``ranking``, ``fraction`` (removed, from 0 to 1), ``kept`` (the share of
    texts), and the ends ``low`` and ``high`` of its interval (Wilson's, for each fraction by itself).

    Example:
        >>> same = {"erase_level": "attention", "ranking_level": "attention", "ranking": "attention", "items": 4}
        >>> same |= {"flippable": True, "minimum_low": 1, "minimum_high": 1, "marginal": 0, "ties": 0, "undefined": 0}
        >>> rows = pd.DataFrame({"text_id": [0, 1], "removed": [1, 2], "mass": 0.5, "censored": False})
        >>> curves(rows.assign(**same), points=5)[["fraction", "kept"]].values.tolist()
        [[0.0, 1.0], [0.25, 0.5], [0.5, 0.0], [0.75, 0.0], [1.0, 0.0]]
    """
    check(1, confidence_level)
    at, lots = np.arange(points) / (points - 1), []
    for grid in grids(erasure):
        kept = survival(grid.fraction, at)
        texts = grid.present.sum(0)
        band = wilson(np.round(kept * texts), np.broadcast_to(texts, kept.shape), confidence_level)
        for place, (ranking_level, ranking) in enumerate(grid.keys):
            about = {"erase_level": grid.level, "ranking_level": ranking_level, "ranking": ranking, "fraction": at}
            ends = {"kept": kept[:, place], "low": band.low[:, place], "high": band.high[:, place]}
            lots.append(pd.DataFrame(about | ends))
    columns = ["erase_level", "ranking_level", "ranking", "fraction", "kept", "low", "high"]
    return pd.concat(lots, ignore_index=True) if lots else pd.DataFrame(columns=columns)
