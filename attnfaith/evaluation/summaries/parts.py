"""The way every summary is made: part by part of the texts, each with its counts and its resamples."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from attnfaith.errors import InputError
from attnfaith.evaluation.summaries.rows import Rows, joined
from attnfaith.evaluation.summaries.slices import Part, parts_of
from attnfaith.functional.statistics import Resamples, wilson

MOST_RESAMPLES = 1_000_000
"""Every figure keeps a number for each resample."""
TOO_SHORT = "fewer than two items to erase"


@dataclass(frozen=True)
class Intervals:
    """How sure figures are to be: the arguments of every summary."""

    n_resamples: int = 9999
    confidence_level: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        check(self.n_resamples, self.confidence_level)

    def resamples(self, size: int) -> Resamples:
        """Of so many texts."""
        return Resamples(size, resamples=self.n_resamples, confidence=self.confidence_level, seed=self.seed)


def summary_of(
    test: str, texts: pd.DataFrame, by: str | None, lots_of: Callable[[Part], Iterable[Rows]]
) -> pd.DataFrame:
    """The summary of a test: the counts of each part of the texts, and the rows that are made of it.

    Args:
        test: its name.
        texts: one row for each text.
        by: see `parts_of`.
        lots_of: from a part to rows.
    """
    lots = []
    for part in parts_of(texts, by):
        lots.append(_counts(test, texts, part).frame())
        lots += [rows.frame() for rows in lots_of(part)]
    return joined(lots)


def begun(
    test: str, part: Part, text_ids: NDArray[np.int64], level: str = "", note: str = TOO_SHORT
) -> tuple[Rows, NDArray[np.intp]]:
    """Rows about a part, which begin with ``too_short``: how many of its texts a table says nothing of.

    Args:
        test: its name.
        part: of the texts.
        text_ids: those that the table speaks of, ascending.
        level: at which was erased, where there are several.
        note: why the others are not there.

    Returns:
        The rows, and the places of the part's texts among ``text_ids``.
    """
    places, rows = part.of(text_ids), Rows(test, level, part.label)
    rows.add("too_short", len(part.text_ids) - len(places), texts=len(part.text_ids), note=note)
    return rows, places


def check(n_resamples: int, confidence_level: float) -> None:
    """Refuse settings that no interval can be made with."""
    if not 1 <= n_resamples <= MOST_RESAMPLES:
        raise InputError(f"Expected n_resamples to be from 1 to {MOST_RESAMPLES:,}, got {n_resamples:,}.")
    if not 0 < confidence_level < 1:
        raise InputError(f"Expected confidence_level to be between 0 and 1, such as 0.95; got {confidence_level}.")


def _counts(test: str, texts: pd.DataFrame, part: Part) -> Rows:
    """How many texts there are, how many were set aside, a row for each reason, and how often the model is right."""
    rows = Rows(test, part=part.label)
    total = len(texts) if part.label == "all" else len(part.text_ids)
    rows.add("texts", total, texts=total)
    if part.label == "all":
        reasons = texts["aside"].dropna().value_counts()
        for reason, number in sorted(reasons.items()):
            rows.add("set_aside", number, texts=total, note=str(reason))
        if reasons.empty:
            rows.add("set_aside", 0, texts=total)
    _accuracy(rows, texts[texts["text_id"].isin(part.text_ids)])
    return rows


def _accuracy(rows: Rows, texts: pd.DataFrame) -> None:
    """The share of the labelled texts on which the model is right, and that of the most frequent label."""
    if not {"correct", "gold"} <= set(texts.columns):
        return
    labelled = texts[texts["correct"].notna() & texts["gold"].notna()]
    if not len(labelled):
        return
    accuracy = wilson([labelled["correct"].astype(bool).sum()], [len(labelled)])
    rows.add_each("accuracy", accuracy, [("", "")])
    labels = labelled["gold"].map(lambda gold: tuple(sorted(gold)) if np.ndim(gold) else gold)
    rows.add("majority_label", labels.value_counts(normalize=True).iloc[0], texts=len(labelled))
