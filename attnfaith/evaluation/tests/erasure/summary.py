"""Figures of the erasure test: for each ranking, for each pair of rankings, and for the smallest flipping sets."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np
import pandas as pd

from attnfaith.attribution.method import ATTENTION, CONTROL, YOURS
from attnfaith.errors import InputError
from attnfaith.estimates.pivot import Array, ErasureMatrix, grids
from attnfaith.estimates.summary_table import (
    EstimateTable,
    IntervalOptions,
    TextSlice,
    build_summary,
    check,
    start_slice,
    written,
)
from attnfaith.functional.statistics import Estimate, Resamples, holm, means_of, sign_test, survival, wilson

NOT_REACHED = "not reached: fewer than half flip"
PAPER = "texts that never flip left out"
PLANNED = "a planned comparison: not corrected"
BY_BOUNDS = "not known exactly: see the figures ending in _low and _high"


def efficiencies(grid: ErasureMatrix) -> tuple[Array, Array]:
    """The least and the most that a ranking's efficiency on a text can be, ``[n, F]`` each.

    The smallest flipping set's share of what the ranking removed: 0 where some set flips and the ranking never does, 1
    where the ranking removed no more than the smallest set known; NaN where neither the search nor the ranking flips
    the decision. The two are equal where the size of the smallest set is known.
    """
    flips = np.isfinite(grid.removed)
    counts = (np.isfinite(grid.known)[:, None] | flips) & grid.present
    with np.errstate(invalid="ignore"):
        low, high = (np.minimum(size[:, None], grid.removed) / grid.removed for size in (grid.fewest, grid.known))
    return tuple(np.where(counts, np.where(flips, share, 0.0), np.nan) for share in (low, high))  # type: ignore[return-value]


def restricted(grid: ErasureMatrix) -> Array:
    """The fraction removed, 1 where the decision never flips."""
    return np.minimum(grid.fraction, 1.0)


def add_figures(rows: EstimateTable, grid: ErasureMatrix, resamples: Resamples, *, paper: bool, pairs: bool) -> None:
    """All figures of one level.

    Args:
        rows: to add to.
        grid: the level.
        resamples: of the grid's texts.
        paper: leave out, for each ranking, the texts that it never flips, as the paper's figures do.
        pairs: also compare rankings with each other.
    """
    never = resamples.share(np.where(grid.present, np.isinf(grid.removed), np.nan))
    rows.add_each("never_flipped", never, grid.keys)
    whole = grid
    grid = grid.without_never() if paper else grid
    note = PAPER if paper else ""
    flags = {
        "flipped_at_all": grid.removed == grid.items[:, None],
        "beats_reference": grid.removed < grid.known[:, None],
    } | grid.flags
    for figure, found in flags.items():
        rows.add_each(figure, resamples.share(np.where(grid.present, found, np.nan)), grid.keys, notes=note)
    least, most = efficiencies(grid)
    size = np.where(np.isinf(grid.removed), grid.items[:, None], grid.removed)  # what never flips took everything
    counts, smallest = ~np.isnan(most), _smallest(grid, paper=paper)
    means = {
        "mean_fraction": restricted(grid),
        "mean_mass": grid.mass,
        "most": most,
        "size": np.where(counts, size, np.nan),
        "known": np.where(counts, np.minimum(grid.known[:, None], size), np.nan),
        "smallest": np.minimum(smallest, 1.0),
    }
    if not grid.exact:
        means |= {"least": least, "fewest": np.where(counts, np.minimum(grid.fewest[:, None], size), np.nan)}
    taken = _Means(resamples, means)
    medians = resamples.median(np.hstack([grid.fraction, smallest]))
    own = medians.take(slice(len(grid.keys)))
    notes = [NOT_REACHED if np.isinf(value) else note for value in own.value]
    rows.add_each("median_fraction", own, grid.keys, notes=notes)
    rows.add_each("mean_fraction", taken.estimate("mean_fraction"), grid.keys, notes=note)
    rows.add_each("mean_mass", taken.estimate("mean_mass"), grid.keys, notes="over the texts that flip")
    _efficiency(rows, grid, taken, note)
    if not paper:
        _skill(rows, grid, taken)
    _minimum(rows, whole, resamples, medians.take([-2, -1]), taken.estimate("smallest"), paper=paper)
    if pairs:
        _pairs(rows, grid, resamples, taken, note)


def _smallest(grid: ErasureMatrix, *, paper: bool) -> Array:
    """The least and the most share of the items in the smallest flipping set, ``[n, 2]``; inf where there is none."""
    low = np.where(grid.unflippable, np.inf, grid.fewest) / grid.items
    both = np.column_stack([low, grid.known / grid.items])
    return np.where(np.isfinite(grid.known)[:, None], both, np.nan) if paper else both


class _Means:
    """Means of several quantities per ranking, from one pass over the resamples."""

    def __init__(self, resamples: Resamples, columns: dict[str, Array]) -> None:
        self.resamples, self.columns = resamples, columns
        stacked = np.hstack(list(columns.values()))
        ends = np.cumsum([values.shape[1] for values in columns.values()])[:-1]
        self.draws = dict(zip(columns, np.split(resamples.draws(stacked), ends, axis=1), strict=True))
        self.texts = {name: (~np.isnan(values)).sum(0) for name, values in columns.items()}
        self.value = {name: means_of(values) for name, values in columns.items()}

    def estimate(self, name: str) -> Estimate:
        return self.resamples.estimate(self.value[name], self.draws[name], self.texts[name])

    def ratio(self, above: str, under: str) -> Estimate:
        with np.errstate(invalid="ignore"):
            value, draws = self.value[above] / self.value[under], self.draws[above] / self.draws[under]
        return self.resamples.estimate(value, draws, self.texts[under])


def _efficiency(rows: EstimateTable, grid: ErasureMatrix, taken: _Means, note: str) -> None:
    """Means of ratios and ratios of means: one number where the smallest sets are known, else two ends."""
    none = int(grid.unflippable.sum())
    unknown = int(np.isinf(grid.known).sum()) - none
    out = [f"{none} that no set flips"] * bool(none) + [f"{unknown} for which no set was found"] * bool(unknown)
    said = "; ".join([note] * bool(note) + [f"without the texts: {', '.join(out)}"] * bool(out))
    high = taken.estimate("most"), taken.ratio("known", "size")
    for place, figure in enumerate(("efficiency", "efficiency_of_means")):
        if grid.exact:
            rows.add_each(figure, high[place], grid.keys, notes=said)
            continue
        nothing = np.full(len(grid.keys), np.nan)
        rows.add_each(
            figure, high[place]._replace(value=nothing, low=nothing, high=nothing), grid.keys, notes=BY_BOUNDS
        )
        low = taken.estimate("least") if figure == "efficiency" else taken.ratio("fewest", "size")
        rows.add_each(f"{figure}_low", low, grid.keys, notes=said)
        rows.add_each(f"{figure}_high", high[place], grid.keys, notes=said)


def _skill(rows: EstimateTable, grid: ErasureMatrix, taken: _Means) -> None:
    """The share of the way from a random order's efficiency to 1, at most."""
    control = grid.place(CONTROL)
    if control is None:
        return
    value, draws = taken.value["most"], taken.draws["most"]
    with np.errstate(invalid="ignore", divide="ignore"):
        found = (value - value[control]) / (1 - value[control])
        drawn = (draws - draws[:, [control]]) / (1 - draws[:, [control]])
    found, drawn = (np.where(np.isfinite(values), values, np.nan) for values in (found, drawn))
    estimate = taken.resamples.estimate(found, drawn, taken.texts["most"])
    others = [place for place in range(len(grid.keys)) if place != control]
    note = "" if grid.exact else "at most: against the smallest sets found"
    rows.add_each("skill", estimate.take(others), [grid.keys[place] for place in others], notes=note)


def _minimum(
    rows: EstimateTable, grid: ErasureMatrix, resamples: Resamples, medians: Estimate, means: Estimate, *, paper: bool
) -> None:
    """How small the smallest flipping sets are (each figure from the least and the most), and how many are known."""
    flips, level = np.isfinite(grid.known), [("", "")]
    for figure, values in {"flippable": flips, "unflippable": grid.unflippable, "certified": grid.settled}.items():
        rows.add_each(figure, resamples.share(values), level)
    note = PAPER if paper else ""
    for figure, found in (("minimum_fraction_median", medians), ("minimum_fraction_mean", means)):
        notes = [NOT_REACHED if np.isinf(value) else note for value in found.value]
        if grid.exact:
            rows.add_each(figure, found.take([1]), level, notes=notes[1])
            continue
        rows.add_each(figure, _unknown(found.take([1])), level, notes=BY_BOUNDS)
        rows.add_each(f"{figure}_low", found.take([0]), level, notes=notes[0])
        rows.add_each(f"{figure}_high", found.take([1]), level, notes=notes[1])


def _unknown(found: Estimate) -> Estimate:
    nothing = np.full(len(found.texts), np.nan)
    return Estimate(nothing, nothing, nothing, found.texts)


def _pairs(rows: EstimateTable, grid: ErasureMatrix, resamples: Resamples, taken: _Means, note: str) -> None:
    """Every pair of rankings, both ways round.

    The comparisons of attention, and of rankings that a user brought, with the random order are planned: they stand by
    themselves. Holm's correction is for all other pairs of the level, so that it does not reach the planned ones.
    """
    pairs = list(combinations(range(len(grid.keys)), 2))
    if not pairs:
        return
    left, right = np.array(pairs).T
    fewer, more, both = np.zeros((3, len(pairs)), dtype=np.int64)
    for place, (one, two) in enumerate(pairs):
        fewer[place] = (grid.removed[:, one] < grid.removed[:, two]).sum()  # False where either was not run
        more[place] = (grid.removed[:, one] > grid.removed[:, two]).sum()
        both[place] = (grid.present[:, one] & grid.present[:, two]).sum()
    p, nothing = sign_test(fewer, more), np.full(len(pairs), np.nan)
    planned = np.array([_is_planned(grid, *pair) for pair in pairs])
    adjusted = holm(np.where(planned, np.nan, p))
    wins, losses, ties = (wilson(hits, both, resamples.confidence) for hits in (fewer, more, both - fewer - more))
    gap = _gaps(grid, resamples, taken, left, right)
    back = Estimate(-gap.value, -gap.high, -gap.low, gap.texts)
    holm_notes = [PLANNED if one else note for one in planned]
    for mine, other, won, lost, mean in ((left, right, wins, losses, gap), (right, left, losses, wins, back)):
        figures = {"wins": won, "losses": lost, "ties": ties, "mean_difference": mean}
        figures |= {"p": Estimate(p, nothing, nothing, both), "p_holm": Estimate(adjusted, nothing, nothing, both)}
        keys, others = [grid.keys[one] for one in mine], [written(grid.keys[one]) for one in other]
        for figure, found in figures.items():
            rows.add_each(figure, found, keys, others=others, notes=holm_notes if figure == "p_holm" else note)


def _is_planned(grid: ErasureMatrix, one: int, two: int) -> bool:
    """Whether two rankings are a random order and what is judged against it."""
    control, attention = grid.place(CONTROL, grid.level), grid.place(ATTENTION, "attention")
    others = {one, two} - {control}
    return len(others) == 1 and all(place == attention or grid.keys[place][0] == YOURS for place in others)


def _gaps(grid: ErasureMatrix, resamples: Resamples, taken: _Means, left: Array, right: Array) -> Estimate:
    """Mean differences in the fraction removed, paired; from the means already drawn where the texts are the same."""
    if grid.present.all():
        value, drawn, texts = (part["mean_fraction"] for part in (taken.value, taken.draws, taken.texts))
        return resamples.estimate(value[left] - value[right], drawn[:, left] - drawn[:, right], texts[left])
    fraction = taken.columns["mean_fraction"]
    return resamples.mean(fraction[:, left] - fraction[:, right])


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
    intervals, found = IntervalOptions(n_resamples, confidence_level, seed), grids(erasure)
    if reference not in REFERENCES:
        raise InputError(f"Expected reference to be 'paper' or None, got {reference!r}.")

    def lots_of(part: TextSlice) -> Iterator[EstimateTable]:
        for grid in found:
            rows, places = start_slice("erasure", part, grid.text_ids, grid.level)
            if len(places):
                resamples, pairs = intervals.resamples(len(places)), part.label == "all"
                add_figures(rows, grid.take(places), resamples, paper=reference == "paper", pairs=pairs)
            yield rows

    return build_summary("erasure", texts, by, lots_of)


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
