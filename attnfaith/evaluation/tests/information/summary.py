"""Estimates and sentences of the information test: does more attention mean more information?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from attnfaith.estimates.lookup import SummaryLookup, SummaryValue, unit_at
from attnfaith.estimates.pivot import Array, numbers
from attnfaith.estimates.summary_table import EstimateTable, IntervalOptions, TextSlice, build_summary
from attnfaith.functional.information import ALIKE, corrected_p_values, recentre, weighted_kendall

LEVEL = "attention"  # whose weights and vectors they are
ALL = "all"
_NAME = "information"
_PARTS = "information is measured over all texts at once; for a part of them, evaluate that part"
_ONE = "one rank only: there is nothing to compare"
_EQUAL = "the mean attention of all ranks is alike"
_FLAT = "all ranks say the same"
_CHANCE = "no rank says more than chance, so their order is chance, too"


def summarise(
    information: pd.DataFrame,
    texts: pd.DataFrame,
    *,
    weights: str = "product",
    n_resamples: int = 9999,
    confidence_level: float = 0.95,
    seed: int = 0,
    by: str | None = None,
) -> pd.DataFrame:
    """Summarise the information test for each group: ``ranking`` is "all" heads together, or the number of a head.

    Information is in nats. Where vectors were clustered several times, information is the mean over the clusterings.

    - ``weighted_kendall``: of mean attention and ``mi`` by rank, from -1 to 1. The interval is over texts: from
      random halves of them, whose spread is that of a figure of all. ``weighted_kendall_corrected``: the same of
      ``mi_corrected``. ``weighted_kendall_seeds``: the mean of the taus of the single k-means seeds; its ends are the
      smallest and the largest of them
    - ``informative``: how many ranks say more than chance; ``ranks``: of how many; ``ranks_by_length`` and
      ``ranks_by_weight``: what these two rules allow
    - ``samples``: the texts behind every rank; ``left_out``: the others; ``clusters``: of vectors; ``outputs``: how
      many there are to tell apart; ``output_entropy``: what there is to know of them

    For each rank, in ``other`` ("0" is attended most): ``mi``, as measured; ``null``, what is measured by chance (its
    ends are those of the permutations); ``mi_corrected``, their difference; ``mi_miller_madow``; ``p``, of more than
    chance, corrected for the number of ranks; ``mean_weight``; ``singletons``, clusters of one vector.

    Args:
        information: one row for each group, rank and k-means seed.
        texts: one row for each text.
        weights: how pairs of ranks count in Kendall's tau.
        n_resamples: not used: the draws are made with the table.
        confidence_level: of the intervals.
        seed: not used, either.
        by: "class", "length", "confidence" or "correct": parts of the texts have no figures of their own, and say why.

    Example:
        >>> rows = {
        ...     "group": "all",
        ...     "rank": [0, 1],
        ...     "mean_weight": [0.8, 0.2],
        ...     "mi": [0.5, 0.1],
        ...     "corrected": [0.4, 0.0],
        ... }
        >>> rows |= {"kmeans_seed": 0, "miller_madow": 0.1, "samples": 2, "ranks_by_length": 2, "ranks_by_weight": 2}
        >>> rows |= {"clusters": 2, "singletons": 0, "outputs": 2, "output_entropy": 0.6, "note": ""}
        >>> table = pd.DataFrame(rows).assign(null=[[0.1, 0.1]] * 2, halves=[[0.5, 0.6], [0.1, 0.2]])
        >>> found = summarise(table, pd.DataFrame({"text_id": [0, 1], "aside": None})).set_index("figure")
        >>> float(found.value["weighted_kendall"])
        1.0
    """
    intervals = IntervalOptions(n_resamples, confidence_level, seed)

    def lots_of(part: TextSlice) -> Iterator[EstimateTable]:
        rows = EstimateTable(_NAME, part=part.label)
        groups = list(dict.fromkeys(information["group"]))
        for group in groups:
            key = (LEVEL, str(group))
            if part.label != "all":
                rows.add("weighted_kendall", np.nan, texts=0, key=key, note=_PARTS)
                continue
            _Group(information[information["group"] == group], weights, intervals).add_to(rows, key, len(part.text_ids))
        if not groups:
            rows.add("weighted_kendall", np.nan, texts=0, key=(LEVEL, ALL), note="no text has an item to look at")
        yield rows

    return build_summary(_NAME, texts, by, lots_of)


class _Group:
    """The table of one group by k-means seed and rank."""

    def __init__(self, table: pd.DataFrame, weights: str, intervals: IntervalOptions) -> None:
        self.form, self.resamples = weights, intervals.resamples(0)
        self.table = table.sort_values(["kmeans_seed", "rank"])
        self.ranks = int(self.table["rank"].max()) + 1
        self.known = bool(self.table["mi"].notna().all())
        self.note = str(self.table["note"].iloc[0] or "")
        self.samples = int(self.table["samples"].iloc[0])
        self.weights = self._by_seed("mean_weight")[0]

    def _by_seed(self, name: str) -> Array:
        """A column as a matrix ``[seeds, k]``."""
        return numbers(self.table[name]).reshape(-1, self.ranks)

    def _draws(self, name: str) -> Array:
        """A column of lists as an array ``[P, seeds, k]``."""
        lists = np.array([np.asarray(item, dtype=np.float64) for item in self.table[name]])
        return lists.T.reshape(lists.shape[1], -1, self.ranks)

    def add_to(self, rows: EstimateTable, key: tuple[str, str], texts: int) -> None:
        """Add all estimates of the group; NaN with the reason if undefined."""
        about: dict[str, Any] = {"texts": self.samples, "key": key}
        if self.known:
            self._add_kendall(rows, about)
        else:
            for figure in ("weighted_kendall", "weighted_kendall_corrected", "informative"):
                rows.add(figure, np.nan, note=self.note, **about)
        rows.add("samples", self.samples, **about)
        missing = f"fewer than {self.ranks} items, or not among the texts that were drawn"
        rows.add("left_out", texts - self.samples, note=missing if texts > self.samples else "", texts=texts, key=key)
        names = ("ranks_by_length", "ranks_by_weight", *(("clusters",) if self.known else ()))
        rows.add("ranks", self.ranks, **about)
        for name in names:
            rows.add(name, float(self.table[name].iloc[0]), note=self.note if name == "clusters" else "", **about)
        for name in ("outputs", "output_entropy"):
            if not np.isnan(estimates := float(self._by_seed(name).mean())):
                rows.add(name, estimates, **about)
        self._add_ranks(rows, about)

    def _add_kendall(self, rows: EstimateTable, about: Mapping[str, Any]) -> None:
        informative = int((self._p() <= 1 - self.resamples.confidence + 1e-9).sum())
        for figure, column in (("weighted_kendall", "mi"), ("weighted_kendall_corrected", "corrected")):
            by_rank = self._by_seed(column).mean(0)
            tau = self._tau(by_rank)
            drawn = np.array([self._tau(half) for half in recentre(self._draws("halves").mean(1), by_rank)])
            ends = [float(end) for end in self.resamples.interval(drawn)]
            note = "" if informative else _CHANCE
            if np.isnan(tau):
                ends, note = [np.nan, np.nan], self._undefined()
            rows.add(figure, tau, *ends, note=note, **about)
        self._add_seeds(rows, about)
        rows.add("informative", informative, **about)

    def _add_seeds(self, rows: EstimateTable, about: Mapping[str, Any]) -> None:
        """Add tau for single clusterings, and its spread over their seeds."""
        taus = np.array([self._tau(line) for line in self._by_seed("mi")])
        known = taus[~np.isnan(taus)]
        if len(taus) > 1 and len(known):
            note = f"from the smallest to the largest of {len(taus)} k-means seeds"
            missing = len(taus) - len(known)
            note += f"; undefined at {missing} of {len(taus)}" if missing else ""
            spread = (float(known.mean()), float(known.min()), float(known.max()))
            rows.add("weighted_kendall_seeds", *spread, note=note, **about)

    def _add_ranks(self, rows: EstimateTable, about: Mapping[str, Any]) -> None:
        estimates = self._estimates() if self.known else {}
        for rank in range(self.ranks):
            rows.add("mean_weight", self.weights[rank], other=str(rank), **about)
            for name, (value, low, high) in estimates.items():
                rows.add(name, value[rank], low[rank], high[rank], other=str(rank), **about)

    def _estimates(self) -> dict[str, tuple[Array, Array, Array]]:
        """The estimates of all ranks, ``[k]``, with the ends of their intervals."""
        blank = np.full(self.ranks, np.nan)
        means = {name: self._by_seed(name).mean(0) for name in ("mi", "corrected", "miller_madow", "singletons")}
        null, halves = self._draws("null").mean(1), self._draws("halves").mean(1)
        result = {"null": (null.mean(0), *self.resamples.interval(null))}
        for figure, name in (("mi", "mi"), ("mi_corrected", "corrected")):
            result[figure] = (means[name], *self.resamples.interval(recentre(halves, means[name])))
        for figure, values in (("mi_miller_madow", means["miller_madow"]), ("singletons", means["singletons"])):
            result[figure] = (values, blank, blank)
        return result | {"p": (self._p(), blank, blank)}

    def _p(self) -> Array:
        return corrected_p_values(self._by_seed("mi").mean(0), self._draws("null").mean(1))

    def _tau(self, by_rank: Array) -> float:
        return weighted_kendall(self.weights, by_rank, self.form)

    def _undefined(self) -> str:
        """The reason why tau is undefined."""
        if self.ranks < 2:
            return _ONE
        return _EQUAL if np.ptp(self.weights) <= ALIKE * self.weights.max() else _FLAT


def sentences(figures: SummaryLookup, facts: Mapping[str, Any]) -> Iterator[str]:
    """The sentences for the verdict."""
    key, unit = (LEVEL, ALL), unit_at(facts["unit"], LEVEL)
    samples, ranks, informative = (figures.get("", name, key) for name in ("samples", "ranks", "informative"))
    if not samples.known:
        return
    if not informative.known:
        if figures.get("", "outputs", key).value == 1:
            yield f"How much the attended {unit} say about the output was not measured: the output never changes."
        else:
            yield f"How much the attended {unit} say about the output was not measured: {informative.note}."
        return
    if not informative.value:
        yield f"At no rank of attention do the {unit} say more about the output than chance."
        return
    known = figures.get("", "output_entropy", key).value
    first, last = (figures.get("", "mi_corrected", key, (str(rank),)) for rank in (0, int(ranks.value) - 1))
    yield (
        f"The most attended of the {unit} say {_nats(first)} about the output, of {known:.2f} nats that there are to "
        "say (corrected for chance)."
    )
    if ranks.value > 1:
        yield f"At rank {ranks.value:.0f}, the last that was measured, they say {_nats(last)}."
    tau, raw = (figures.get("", name, key) for name in ("weighted_kendall_corrected", "weighted_kendall"))
    plain = (
        f"{_shown(tau)}" if not raw.known or raw.value == tau.value else f"{_shown(tau)}, uncorrected {raw.value:.2f}"
    )
    if tau.known and tau.low > 0:
        yield f"More attention goes with more information: weighted Kendall's tau over the ranks is {plain}."
    elif tau.known and tau.high < 0:
        yield f"More attention goes with less information: weighted Kendall's tau over the ranks is {plain}."
    elif tau.known:
        yield (
            "More attention goes neither with clearly more nor with clearly less information: weighted Kendall's tau "
            f"over the ranks is {plain}."
        )
    elif ranks.value > 1:
        yield "Whether more attention goes with more information is undefined: all ranks are equal in one of the two."


def bracketed(value: float, low: float, high: float, unit: str = "") -> str:
    """Format an estimate with its interval.

    Example:
        >>> bracketed(0.123, -0.001, 0.5), bracketed(0.123, -0.001, 0.5, " nats")
        ('0.12 [0.00, 0.50]', '0.12 nats [0.00, 0.50]')
    """
    shown, *ends = (f"{round(number, 2) + 0.0:.2f}" for number in (value, low, high))  # never -0.00
    return f"{shown}{unit} [{', '.join(ends)}]"


def _shown(figure: SummaryValue) -> str:
    return bracketed(figure.value, figure.low, figure.high)


def _nats(figure: SummaryValue) -> str:
    return bracketed(figure.value, figure.low, figure.high, " nats")
