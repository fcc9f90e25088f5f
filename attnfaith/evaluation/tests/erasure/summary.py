"""Quantities of the erasure test: for each ranking, each pair of rankings, and the smallest flipping sets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import Any, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from attnfaith.attribution.method import ATTENTION, CONTROL, YOURS
from attnfaith.estimates.pivot import Array, Key
from attnfaith.estimates.quantities import (
    NONE,
    FunctionOfMeans,
    Mean,
    Median,
    Number,
    Quantities,
    Quantity,
    Share,
    SharedMeans,
    bounded,
    ratio,
)
from attnfaith.estimates.summary_table import check, written
from attnfaith.evaluation.tests.erasure.matrix import ErasureMatrix, grids
from attnfaith.functional.statistics import Estimate, holm, sign_test, survival, wilson

NOT_REACHED = "not reached: fewer than half flip"
PAPER = "texts that never flip left out"
PLANNED = "a planned comparison: not corrected"
BY_BOUNDS = "not known exactly: see the figures ending in _low and _high"


def efficiencies(grid: ErasureMatrix) -> tuple[Array, Array]:
    """Lower and upper bounds of the efficiency of each ranking on each text, ``[n, F]``.

    The smallest flipping set's share of what the ranking removed: 0 where some set flips and the ranking never does, 1
    where the ranking removed no more than the smallest set known; NaN where neither the search nor the ranking flips
    the decision. The two are equal where the size of the smallest set is known.
    """
    flips = np.isfinite(grid.removed)
    counts = (np.isfinite(grid.known)[:, None] | flips) & grid.present
    with np.errstate(invalid="ignore"):
        low, high = (np.minimum(size[:, None], grid.removed) / grid.removed for size in (grid.fewest, grid.known))
    return tuple(np.where(counts, np.where(flips, share, 0.0), np.nan) for share in (low, high))  # type: ignore[return-value]


def removals(removed: Array, items: Array, *, keys: Sequence[Key] = (NONE,), note: str = "") -> dict[str, Quantity]:
    """The values that depend on the number of removals alone, by name.

    Args:
        removed: ``[n, F]``, at the first flip; inf where the decision never flips, NaN where that is not known.
        items: ``[n]``, how many could be erased.
        keys: the rankings.
        note: about all but ``never_flipped``.
    """
    run, fraction = ~np.isnan(removed), removed / items[:, None]
    result: tuple[Quantity, ...] = (
        Share("never_flipped", np.where(run, np.isinf(removed), np.nan), keys=keys),
        Share("flipped_only_at_end", np.where(run, removed == items[:, None], np.nan), keys=keys, note=note),
        Median("median_fraction", fraction, keys=keys, note=note, not_reached=NOT_REACHED),
        Mean("mean_fraction", np.minimum(fraction, 1.0), keys=keys, note=note),
    )
    return {quantity.name: quantity for quantity in result}


def quantities_at(grid: ErasureMatrix, *, paper: bool = False) -> list[Quantity]:
    """The quantities of one level.

    Args:
        grid: the level.
        paper: leave out, for each ranking, the texts that it never flips, as the paper's figures do.
    """
    note, keys = PAPER if paper else "", grid.keys
    never = removals(grid.removed, grid.items, keys=keys)["never_flipped"]
    grid = grid.without_never() if paper else grid
    by_name = removals(grid.removed, grid.items, keys=keys, note=note)
    better = np.where(grid.present, grid.removed < grid.known[:, None], np.nan)
    flags = (np.where(grid.present, values, np.nan) for values in grid.flags.values())
    result = [
        never,
        by_name["flipped_only_at_end"],
        Share("beats_reference", better, keys=keys, note=note, by_search=True),
        *(Share(name, values, keys=keys, note=note) for name, values in zip(grid.flags, flags, strict=True)),
        by_name["median_fraction"],
        by_name["mean_fraction"],
        Mean("mean_mass", grid.mass, keys=keys, note="over the texts that flip"),
        *_efficiency(grid, note),
    ]
    return [*result, *([] if paper else _skill(grid)), *_minimum(grid, paper=paper)]


def _efficiency(grid: ErasureMatrix, note: str) -> list[Quantity]:
    """Mean efficiencies and ratios of means; bounds where the smallest sets are not known exactly."""
    none = int(grid.unflippable.sum())
    unknown = int(np.isinf(grid.known).sum()) - none
    out = [f"{none} that no set flips"] * bool(none) + [f"{unknown} for which no set was found"] * bool(unknown)
    remark = "; ".join([note] * bool(note) + [f"texts left out: {', '.join(out)}"] * bool(out))
    size = np.where(np.isinf(grid.removed), grid.items[:, None], grid.removed)  # what never flips took everything
    least, most = efficiencies(grid)
    counted = np.where(np.isnan(most), np.nan, size)

    def mean(values: Array) -> Quantity:
        return Mean("efficiency", values, keys=grid.keys, note=remark, by_search=True)

    def of_means(smallest: Array) -> Quantity:
        return ratio(
            "efficiency_of_means",
            np.minimum(smallest[:, None], counted),
            counted,
            keys=grid.keys,
            note=remark,
            by_search=True,
        )

    ends = partial(bounded, exact=grid.exact, note=BY_BOUNDS)
    return [
        *ends(mean(least), mean(most)),
        *ends(of_means(grid.fewest), of_means(grid.known)),
    ]


def _skill(grid: ErasureMatrix) -> Iterator[Quantity]:
    """Skill: the share of the way from the efficiency of a random order to 1."""
    control = grid.index_of(CONTROL)
    if control is None:
        return
    others, (_, most) = [index for index in range(len(grid.keys)) if index != control], efficiencies(grid)

    def skill(efficiency: Array) -> Array:
        chance = efficiency[..., [control]]
        result = (efficiency[..., others] - chance) / (1 - chance)
        return np.where(np.isfinite(result), result, np.nan)

    yield FunctionOfMeans(
        "skill",
        most[:, others],
        columns=(most,),
        function=skill,
        keys=[grid.keys[index] for index in others],
        note="" if grid.exact else "an upper bound, since the smallest sets are those that a search found",
        by_search=True,
    )


def _minimum(grid: ErasureMatrix, *, paper: bool) -> Iterator[Quantity]:
    """The sizes of the smallest flipping sets, as bounds, and how many are known."""
    flips = np.isfinite(grid.known)
    for name, flags in {"flippable": flips, "unflippable": grid.unflippable, "certified": grid.settled}.items():
        yield Share(name, flags, by_search=True)
    low, high = (
        np.where(flips, size, np.nan) if paper else size
        for size in (np.where(grid.unflippable, np.inf, grid.fewest) / grid.items, grid.known / grid.items)
    )
    about: dict[str, Any] = {"note": PAPER if paper else "", "not_reached": NOT_REACHED, "by_search": True}
    ends = partial(bounded, exact=grid.exact, note=BY_BOUNDS)
    median, mean = "minimum_fraction_median", "minimum_fraction_mean"
    yield from ends(Median(median, low, **about), Median(median, high, **about))
    for quantity in ends(*(Mean(mean, np.minimum(end, 1.0), **about) for end in (low, high))):
        yield replace(quantity, bound_of="")  # both ends are compared, also where they are one value


def _pairs(
    grid: ErasureMatrix,
    indices: NDArray[np.intp],
    quantities: Sequence[Quantity | Number],
    means: SharedMeans,
    *,
    paper: bool,
) -> Iterator[dict[str, Any]]:
    """Every ordered pair of rankings.

    The comparisons of attention, and of the rankings of a user, with the random order are planned: they stand by
    themselves. Holm's correction is for all other pairs of the level, so that it does not reach the planned ones.
    """
    note = PAPER if paper else ""
    grid = grid.take(indices)
    grid = grid.without_never() if paper else grid
    pairs = list(combinations(range(len(grid.keys)), 2))
    if not pairs:
        return
    left, right = np.array(pairs).T
    fewer, more, both = np.zeros((3, len(pairs)), dtype=np.int64)
    for index, (first, second) in enumerate(pairs):
        fewer[index] = (grid.removed[:, first] < grid.removed[:, second]).sum()  # False where either was not run
        more[index] = (grid.removed[:, first] > grid.removed[:, second]).sum()
        both[index] = (grid.present[:, first] & grid.present[:, second]).sum()
    p, nothing = sign_test(fewer, more), np.full(len(pairs), np.nan)
    planned = np.array([_is_planned(grid, *pair) for pair in pairs])
    adjusted = holm(np.where(planned, np.nan, p))
    confidence = means.resamples.confidence
    wins, losses, ties = (wilson(hits, both, confidence) for hits in (fewer, more, both - fewer - more))
    fraction = next(item for item in quantities if item.name == "mean_fraction")
    gap = _gaps(grid, cast("Quantity", fraction), means, left, right)
    back = Estimate(-gap.value, -gap.high, -gap.low, gap.texts)
    holm_notes = [PLANNED if item else note for item in planned]
    for mine, other, won, lost, mean in ((left, right, wins, losses, gap), (right, left, losses, wins, back)):
        estimates = {"wins": won, "losses": lost, "ties": ties, "mean_difference": mean}
        estimates |= {"p": Estimate(p, nothing, nothing, both), "p_holm": Estimate(adjusted, nothing, nothing, both)}
        keys, others = [grid.keys[item] for item in mine], [written(grid.keys[item]) for item in other]
        for name, result in estimates.items():
            notes = holm_notes if name == "p_holm" else note
            yield {"figure": name, "found": result, "keys": keys, "others": others, "notes": notes}


def _is_planned(grid: ErasureMatrix, first: int, second: int) -> bool:
    """Whether a pair is the planned comparison with the random control."""
    control, attention = grid.index_of(CONTROL, grid.level), grid.index_of(ATTENTION, "attention")
    others = {first, second} - {control}
    return len(others) == 1 and all(index == attention or grid.keys[index][0] == YOURS for index in others)


def _gaps(grid: ErasureMatrix, fraction: Quantity, means: SharedMeans, left: Array, right: Array) -> Estimate:
    """Paired mean differences of the fraction removed; resampled means are reused if the texts are the same."""
    if grid.present.all():
        value, draws = fraction.resampled(means)
        gaps = value[left] - value[right], draws[:, left] - draws[:, right]
        return means.resamples.estimate(*gaps, fraction.texts[left])
    return means.resamples.mean(fraction.values[:, left] - fraction.values[:, right])


REFERENCES = (None, "paper")
POINTS = 101


def quantities(erasure: pd.DataFrame, reference: str | None = None) -> Iterator[Quantities]:
    """The quantities of the erasure test, level by level.

    Shares and fractions are between 0 and 1. Shares have Wilson's intervals, medians those of order statistics, all
    else percentile intervals from one set of bootstrap resamples of the texts. For each level and ranking:

    - ``never_flipped``: the share of texts whose decision never flips; ``flipped_only_at_end``: of those whose decision
      flips only with everything removed
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
        reference: "paper" leaves out, ranking by ranking, the texts that it never flips.

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
        >>> (level,) = quantities(pd.DataFrame(rows).assign(**same))
        >>> next(one for one in level.quantities_for(np.arange(3)) if one.name == "efficiency").values.tolist()
        [[0.5, 0.25], [0.5, 0.25], [0.5, 0.25]]
    """
    for grid in grids(erasure):
        yield quantities_of(grid, paper=reference == "paper")


def quantities_of(grid: ErasureMatrix, *, paper: bool = False) -> Quantities:
    """The quantities of one level, see `quantities`."""
    return Quantities(
        grid.text_ids,
        lambda indices: quantities_at(grid.take(indices), paper=paper),
        grid.level,
        pairs=partial(_pairs, grid, paper=paper),
    )


def curves(erasure: pd.DataFrame, *, confidence_level: float = 0.95, points: int = POINTS) -> pd.DataFrame:
    """The share of decisions kept by fraction of items removed: one row per ranking and fraction.

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
    at, tables = np.arange(points) / (points - 1), []
    for grid in grids(erasure):
        kept = survival(grid.fraction, at)
        texts = grid.present.sum(0)
        band = wilson(np.round(kept * texts), np.broadcast_to(texts, kept.shape), confidence_level)
        for index, (ranking_level, ranking) in enumerate(grid.keys):
            about = {"erase_level": grid.level, "ranking_level": ranking_level, "ranking": ranking, "fraction": at}
            ends = {"kept": kept[:, index], "low": band.low[:, index], "high": band.high[:, index]}
            tables.append(pd.DataFrame(about | ends))
    columns = ["erase_level", "ranking_level", "ranking", "fraction", "kept", "low", "high"]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=columns)
