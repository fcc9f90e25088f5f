"""Two runs side by side: every figure of both, their difference, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from attnfaith.attribution.display_names import display_name
from attnfaith.attribution.method import ATTENTION
from attnfaith.errors import InputError
from attnfaith.estimates.comparison_columns import (
    ComparisonColumns,
    Name,
    Place,
    ResampledValue,
    drawn_of,
    side_of_texts,
)
from attnfaith.estimates.lookup import listed, percent
from attnfaith.estimates.summary_table import check
from attnfaith.evaluation.tests.base import tests
from attnfaith.evaluation.verdict_text import PLACES
from attnfaith.functional.statistics import Resamples

COLUMNS = (
    "test",
    "erase_level",
    "ranking",
    "ranking_level",
    "figure",
    "a",
    "b",
    "difference",
    "low",
    "high",
    "texts_a",
    "texts_b",
    "note",
)
FIRST_ONLY, SECOND_ONLY = "only in the first run", "only in the second run"
NOT_REACHED = "not reached by half of the texts"
OTHER_SEARCH = "the runs looked for the smallest flipping sets in different ways"
RELATIVE_TO_SETS = ("efficiency", "skill", "flippable", "minimum_fraction")
_ACCURACY = "The model is right on {a} of the texts in {first} and {b} in {second}: {difference}."
_ATTENTION = {
    "mean_fraction": "At {place}, attention flips the decision after {a} of the items in {first} and {b} in {second}: "
    "{difference}.",
    "never_flipped": "At {place}, attention never flips the decision on {a} of the texts in {first} and {b} in "
    "{second}: {difference}.",
    "skill": "At {place}, the skill of attention is {a} in {first} and {b} in {second}: {difference}.",
}


def compare(
    a_tables: Mapping[str, pd.DataFrame],
    b_tables: Mapping[str, pd.DataFrame],
    *,
    paired: bool,
    same_search: bool = True,
    n_resamples: int = 9999,
    confidence_level: float = 0.95,
    seed: int = 0,
) -> pd.DataFrame:
    """The figures of two runs and their differences, b - a.

    Columns: ``test`` ("texts", or the name of a test), ``erase_level``, ``ranking``, ``ranking_level``, ``figure``
    (as in the summaries; of the texts ``accuracy``, ``confidence`` and ``special_weight``), ``a``, ``b``,
    ``difference``, the ends ``low`` and ``high`` of its interval (percentiles of bootstrap resamples), ``texts_a`` and
    ``texts_b`` behind them, and a ``note``. Paired, the runs are read on the texts that both have, which are drawn anew
    together; else each has its own texts and draws. A figure of one run only has no difference.

    Args:
        a_tables: the first run's tables by name: "texts", and those of the tests that were run.
        b_tables: the second run's.
        paired: whether a ``text_id`` is the same text in both.
        same_search: whether both runs looked for the smallest flipping sets in the same way; if not, what is relative
            to them has no difference.
        n_resamples: how often the texts are drawn anew.
        confidence_level: of the intervals.
        seed: of the draws.

    Example:
        >>> texts = pd.DataFrame({"text_id": range(4), "aside": None})
        >>> runs = [{"texts": texts.assign(correct=right)} for right in ([1, 1, 0, 0], [1, 1, 1, 0])]
        >>> compare(*runs, paired=True)[["figure", "a", "b", "difference", "texts_a"]].values.tolist()
        [['accuracy', 0.5, 0.75, 0.25, 4]]
    """
    check(n_resamples, confidence_level)
    first, second = _sides(a_tables), _sides(b_tables)
    settings: dict[str, Any] = {"resamples": n_resamples, "confidence": confidence_level}
    rows: list[dict[str, object]] = []
    for place in sorted({*first, *second}, key=lambda place: (place[0] != "texts", place)):
        one, two = (found.get(place, ComparisonColumns(np.empty(0, dtype=np.int64))) for found in (first, second))
        if paired and place in first and place in second:
            both = np.intersect1d(one.text_ids, two.text_ids)
            if not len(both):
                raise InputError(
                    "The runs have no text in common, so they cannot be compared text by text. Compare them as two "
                    "samples (paired=False)."
                )
            a, b = drawn_of([one.only(both), two.only(both)], Resamples(len(both), **settings, seed=seed))
        else:
            a, b = (
                drawn_of([side], Resamples(len(side.text_ids), **settings, seed=(seed, number)))[0]
                for number, side in ((1, one), (2, two))
            )
        rows += _rows(place, a, b, Resamples(0, **settings), same_search=same_search)
    return pd.DataFrame(rows, columns=list(COLUMNS))


def sentences(comparison: pd.DataFrame, names: tuple[str, str] = ("A", "B")) -> tuple[str, ...]:
    """What a comparison amounts to: of the model, of attention, and of the other rankings.

    Args:
        comparison: from `compare`.
        names: of the two runs.

    Example:
        >>> texts = pd.DataFrame({"text_id": range(40), "aside": None})
        >>> runs = [{"texts": texts.assign(correct=texts.text_id < right)} for right in (10, 30)]
        >>> sentences(compare(*runs, paired=True))[0]
        'The model is right on 25 % of the texts in A and 75 % in B: +50 points [+35, +65].'
    """
    return tuple(_sentences(comparison, names))


def _sentences(comparison: pd.DataFrame, names: tuple[str, str]) -> Iterator[str]:
    for row in _named(comparison, "texts", "accuracy"):
        yield _both(_ACCURACY, row, names)
    erasure = comparison[comparison["test"] == "erasure"]
    for level in dict.fromkeys(erasure["erase_level"]):
        here, place = erasure[erasure["erase_level"] == level], PLACES[level]
        rows = _named(here, "erasure", "mean_fraction")
        keys = [(row.ranking_level, row.ranking) for row in rows]
        own = next((key for key in keys if key[1] == ATTENTION), None)  # of the final attention, where it was run
        for figure, sentence in _ATTENTION.items():
            for row in _named(here, "erasure", figure):
                if (row.ranking_level, row.ranking) == own and (row.a, row.b) != (0, 0):
                    yield _both(sentence, row, names, place=place)
        others = [(key, row) for key, row in zip(keys, rows, strict=True) if key[1] != ATTENTION]
        apart = [f"{display_name(key, keys)} ({_points(row)})" for key, row in others if _clear(row)]
        if apart:
            yield f"At {place}, these other rankings remove clearly more or less: {listed(apart)}."
        elif others:
            yield f"At {place}, no other ranking removes clearly more or less."
    if (comparison["note"] == OTHER_SEARCH).any():
        yield f"Efficiency and skill are not compared: {OTHER_SEARCH}."
    alone = comparison["note"].isin((FIRST_ONLY, SECOND_ONLY)).sum()
    if alone:
        yield f"{alone} estimates exist in one run only and are not compared."
    if len(erasure):
        yield "Shares removed are means over texts, 100 % for a text that never flips."
    yield (
        f"Differences are {names[1]} minus {names[0]}, in percentage points; their intervals are not corrected for the "
        "number of comparisons."
    )


def _sides(tables: Mapping[str, pd.DataFrame]) -> dict[Place, ComparisonColumns]:
    """The columns of a run, by test and level."""
    found: dict[Place, ComparisonColumns] = {("texts", ""): side_of_texts(tables["texts"])}
    for name in tables:
        if name in tests:
            found |= {(name, level): side for level, side in tests[name].sides(tables.__getitem__).items()}
    return found


def _both(sentence: str, row: Any, names: tuple[str, str], **more: str) -> str:
    a, b, difference = percent(row.a), percent(row.b), _points(row)
    return sentence.format(a=a, b=b, first=names[0], second=names[1], difference=difference, **more)


def _named(table: pd.DataFrame, test: str, figure: str) -> list[Any]:
    """The rows of a figure that can be compared."""
    rows = table[(table["test"] == test) & (table["figure"] == figure) & table["difference"].notna()]
    return list(rows.itertuples(index=False))


def _clear(row: Any) -> bool:
    return bool(row.low > 0 or row.high < 0)


def _points(row: Any) -> str:
    """A difference in points of a hundred, and whether it is one."""
    digits = 0 if abs(row.difference) >= 0.0995 else 1
    value, low, high = (f"{100 * number:+.{digits}f}" for number in (row.difference, row.low, row.high))
    interval = "" if math.isnan(row.low) else f" [{low}, {high}]"
    return f"{value} points{interval}{'' if _clear(row) else ', no clear difference'}"


def _rows(
    place: Place,
    first: Mapping[Name, ResampledValue],
    second: Mapping[Name, ResampledValue],
    sample: Resamples,
    *,
    same_search: bool,
) -> Iterator[dict[str, object]]:
    missing = ResampledValue(math.nan, np.full(sample.resamples, math.nan), 0)
    both_exact = {key for figure, key in {*first} & {*second} if figure == "efficiency"}
    for name in dict.fromkeys([*first, *second]):
        figure, key = name
        if figure in ("efficiency_low", "efficiency_high") and key in both_exact:
            continue  # the same as efficiency
        a, b = first.get(name, missing), second.get(name, missing)
        note = SECOND_ONLY if name not in first else FIRST_ONLY if name not in second else ""
        if not note and (math.isinf(a.value) or math.isinf(b.value)):
            note = NOT_REACHED
        if not note and place[0] == "erasure" and figure.startswith(RELATIVE_TO_SETS) and not same_search:
            note = OTHER_SEARCH
        with np.errstate(invalid="ignore"):
            draws = np.where(np.isfinite(a.draws) & np.isfinite(b.draws), b.draws - a.draws, math.nan)
            difference = b.value - a.value if not note else math.nan
        low, high = sample.interval(draws[:, None])
        certain = not note and min(a.texts, b.texts) > 1 and not (np.isinf(a.draws) | np.isinf(b.draws)).any()
        yield {
            "test": place[0],
            "erase_level": place[1],
            "ranking": key[1],
            "ranking_level": key[0],
            "figure": figure,
            "a": a.value,
            "b": b.value,
            "difference": difference,
            "low": low[0] if certain else math.nan,
            "high": high[0] if certain else math.nan,
            "texts_a": a.texts,
            "texts_b": b.texts,
            "note": note,
        }
