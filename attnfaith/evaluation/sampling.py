"""Which texts a run reads when it need not read all: a random order of the rows, and the rule by which it stops.

The rows are read in a keyed random order (`attnfaith.functional.keyed_order`), in shards of `SHARD`. With ``max_texts``
the run ends after so many. With a precision it ends once every estimate that the verdict prints of attention, and of
the rankings beside it, lies within the precision of both ends of its interval. This is looked at after certain numbers
of texts only. They follow from what was read before, so they are the same for any number of processes and however
often a run was interrupted; and what is read does not depend on what an earlier call on the same folder asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from attnfaith import validation
from attnfaith.attribution.display_names import role_of
from attnfaith.attribution.method import CONTROL, YOURS
from attnfaith.errors import InputError
from attnfaith.estimates.lookup import SummaryLookup, SummaryValue
from attnfaith.estimates.pivot import numbers
from attnfaith.evaluation.verdict_rule import judge, judged_level
from attnfaith.evaluation.verdict_text import printed_estimates
from attnfaith.parameter_names import parameter

KEYED = "keyed"
"""The entry "order" of a run that reads its rows in the keyed order; other runs have none."""
SHARD = 64
"""Rows of a shard in such a run: a run stops between shards."""
BATCH = 16
"""Texts of a batch in such a run, at most. In a small shard few texts are of similar length, so larger batches would be
mostly padding: for sentences of SST-2, half as much again as the texts."""
FIRST = 192
"""The number of texts after which the precision is looked at first. With fewer, a variance that happens to be small
would end a run too early too often."""
GROWTH = (1.1, 4.0)
"""From one look to the next, the number of texts grows at least and at most by these factors."""
_CAUTION = 0.8  # of the number of texts that the precision is expected to take: the expectation may be too high


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How many texts are read.

    Attributes:
        precision: how far from an estimate the ends of its interval may be at most; None for any.
        max_texts: how many texts are read at most; None for all.
    """

    precision: float | None = None
    max_texts: int | None = None

    def __post_init__(self) -> None:
        precision = self.precision
        if precision is not None:
            least, most = validation.PRECISIONS
            if not validation.is_number(precision) or not least <= precision < most:
                raise InputError(
                    f"Expected {parameter('precision')} to be a share from {least:g} to below {most:g} (0.05 for "
                    f"intervals of at most ± 5 points), got {validation.short_repr(precision)}."
                )
            object.__setattr__(self, "precision", float(precision))
        if self.max_texts is not None:
            most = validation.whole_number(self.max_texts, "max_texts", least=1)
            object.__setattr__(self, "max_texts", most)

    @property
    def wanted(self) -> bool:
        """Whether anything but all texts in their order was asked for."""
        return self.precision is not None or self.max_texts is not None

    def check(self, rows: int | None, tests: Collection[str], part: tuple[int, int] | None) -> None:
        """Refuse data without a length, and a precision without the test that the verdict is made of.

        Args:
            rows: of the data; None for a stream.
            tests: the names of those that are run.
            part: the part of the data that is run.
        """
        if not self.wanted:
            return
        given = parameter("precision" if self.precision is not None else "max_texts")
        if part is not None:
            raise InputError(
                f"{given} and {parameter('part')} cannot be used together: whether more texts are needed depends on "
                "those of all parts. Leave one of them out; several processes that torchrun starts can share a run "
                f"with {given}."
            )
        if rows is None:
            raise InputError(
                f"{given} reads texts in a random order, and these data are a stream, whose length is not known. Give "
                "data with a length (a file, a DataFrame, a datasets.Dataset), or take a sample of the stream "
                "yourself: stream.shuffle(buffer_size=10_000).take(1_000)."
            )
        if self.precision is not None and "erasure" not in tests:
            raise InputError(
                f"{given} is that of the verdict's estimates, which come from the erasure test. Add 'erasure' to "
                f"{parameter('tests')}, or give {parameter('max_texts')} instead."
            )

    def limit(self, rows: int) -> int:
        """The most texts that are read."""
        return rows if self.max_texts is None else min(self.max_texts, rows)

    def stops(self, rows: int, reach: Callable[[int], float]) -> tuple[int, bool]:
        """Where the run stops: how many texts are read, and whether the precision was reached.

        Args:
            rows: of the data.
            reach: reads the texts up to a number of them, and gives the largest distance from an estimate to an end of
                its interval; NaN where an interval is not known yet. It is called with growing numbers.

        Example:
            >>> Sampling(precision=0.05).stops(2000, lambda texts: 0.9 / texts**0.5)
            (384, True)
            >>> Sampling(precision=0.05, max_texts=300).stops(2000, lambda texts: 0.9 / texts**0.5)
            (300, False)
        """
        limit = self.limit(rows)
        read = limit if self.precision is None else min(FIRST, limit)
        while True:
            distance = reach(read)
            reached = self.precision is not None and distance <= self.precision
            if reached or read == limit:
                return read, reached
            read = min(limit, self._following(read, distance))

    def _following(self, read: int, distance: float) -> int:
        """The number of texts of the next look, a little before the precision is expected to be reached."""
        assert self.precision is not None
        low, high = (read * factor for factor in GROWTH)
        expected = 0.0 if math.isnan(distance) else _CAUTION * read * (distance / self.precision) ** 2
        return math.ceil(min(max(low, expected), high) / SHARD) * SHARD

    def record(self, texts: int, reached: bool) -> dict[str, Any]:
        """What the manifest says of it."""
        return {**asdict(self), "texts": texts, "reached": reached}


def widest(
    erasure: pd.DataFrame,
    summarise: Callable[[pd.DataFrame], pd.DataFrame],
    *,
    tail_is_affine: bool,
    confidence_level: float,
) -> float:
    """The largest distance from an estimate of the verdict to an end of its interval; NaN where one is not known.

    Args:
        erasure: the table of the texts that were read.
        summarise: from rows of that table to the summary of the erasure test.
        tail_is_affine: whether the model decides from its final attention alone.
        confidence_level: of the intervals.
    """
    levels = list(erasure["erase_level"].unique())
    if not levels:
        return math.nan
    level = judged_level(levels, tail_is_affine)
    summary = summarise(beside_attention(erasure[erasure["erase_level"] == level]))
    return widest_of(SummaryLookup(summary, confidence_level=confidence_level), level)


def widest_of(figures: SummaryLookup, level: str) -> float:
    """The same of a summary."""
    judgement = judge(figures, level, figures.key_of(level, "attention"))
    return max(map(_distance, printed_estimates(figures, level, judgement)), key=lambda each: (math.isnan(each), each))


def _distance(estimate: SummaryValue) -> float:
    ends = (estimate.value - estimate.low, estimate.high - estimate.value)
    return math.nan if any(map(math.isnan, ends)) else max(ends)


def beside_attention(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of attention, the random order, the user's rankings, and the best of the others: what is printed."""
    share = np.minimum(numbers(table["removed"]) / numbers(table["items"]), 1.0)
    share = np.where(table["censored"].to_numpy(dtype=bool), 1.0, share)
    names = [table["ranking_level"], table["ranking"]]
    means = pd.Series(share, index=table.index).groupby(names).mean()
    keep = [key for key in means.index if key[0] == YOURS or key[1] in ("attention", CONTROL)]
    others = [key for key in means.index if key not in keep and role_of(key) == "ordinary"]
    keep += sorted(others, key=lambda key: means[key])[:1]
    return table[pd.MultiIndex.from_arrays(names).isin(keep)]
