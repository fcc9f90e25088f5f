"""Compare two runs: every estimate of both, their difference, and its interval."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from attnfaith.errors import InputError
from attnfaith.estimates.differences import OTHER_SEARCH, rows_of, with_values
from attnfaith.estimates.pivot import Key
from attnfaith.estimates.quantities import (
    Number,
    Quantities,
    Quantity,
    ResampledValue,
    SharedMeans,
    quantities_only,
)
from attnfaith.estimates.summary_table import check, quantities_of_texts
from attnfaith.evaluation.tests.base import Test, tests
from attnfaith.functional.statistics import Resamples
from attnfaith.parameter_names import parameter

_Name = tuple[str, Key]  # (figure, (ranking_level, ranking))

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
_ACCURACY = "The model is right on {a} of the texts in {first} and {b} in {second}: {difference}."


def compare(
    a_tables: Mapping[str, pd.DataFrame],
    b_tables: Mapping[str, pd.DataFrame],
    *,
    paired: bool,
    a_tests: Sequence[Test] | None = None,
    b_tests: Sequence[Test] | None = None,
    same_search: bool = True,
    n_resamples: int = 9999,
    confidence_level: float = 0.95,
    seed: int = 0,
) -> pd.DataFrame:
    """The estimates of two runs and their differences, b - a.

    Columns: ``test`` ("texts", or the name of a test), ``erase_level``, ``ranking``, ``ranking_level``, ``figure``
    (as in the summaries; of the texts ``accuracy``, ``confidence`` and ``special_weight``), ``a``, ``b``,
    ``difference``, the ends ``low`` and ``high`` of its interval (percentiles of bootstrap resamples), ``texts_a`` and
    ``texts_b`` behind them, and a ``note``. Paired, the runs are read on the texts that both have, which are resampled
    together; else each has its own texts and draws. A figure of one run only has no difference.

    Args:
        a_tables: the first run's tables by name: "texts", and those of the tests that were run.
        b_tables: the second run's.
        paired: whether a ``text_id`` is the same text in both.
        a_tests: the tests of the first run with their options; by default those of the tables, with default options.
        b_tests: those of the second run.
        same_search: whether both runs looked for the smallest flipping sets in the same way; if not, what is relative
            to them has no difference.
        n_resamples: how often the texts are resampled.
        confidence_level: of the intervals.
        seed: of the draws.

    Example:
        >>> texts = pd.DataFrame({"text_id": range(4), "aside": None})
        >>> runs = [{"texts": texts.assign(correct=right)} for right in ([1, 1, 0, 0], [1, 1, 1, 0])]
        >>> compare(*runs, paired=True)[["figure", "a", "b", "difference", "texts_a"]].values.tolist()
        [['accuracy', 0.5, 0.75, 0.25, 4]]
    """
    check(n_resamples, confidence_level)
    first, second = _levels(a_tables, a_tests), _levels(b_tables, b_tests)
    settings: dict[str, Any] = {"resamples": n_resamples, "confidence": confidence_level}
    rows: list[dict[str, object]] = []
    for name in sorted({*first, *second}, key=lambda index: (index[0] != "texts", index)):
        left, right = (result.get(name, _NOTHING) for result in (first, second))
        if paired and name in first and name in second:
            both = np.intersect1d(left.text_ids, right.text_ids)
            if not len(both):
                raise InputError(
                    "The runs have no text in common, so they cannot be compared text by text. Compare them as two "
                    f"samples with {parameter('paired', False)}."
                )
            sample = Resamples(len(both), **settings, seed=seed)
            a, b = _columns(
                [level.quantities_for(np.searchsorted(level.text_ids, both)) for level in (left, right)], sample
            )
        else:
            a, b = (
                _columns(
                    [level.quantities_for(np.arange(len(level.text_ids)))],
                    Resamples(len(level.text_ids), **settings, seed=(seed, number)),
                )[0]
                for number, level in ((1, left), (2, right))
            )
        rows += _rows(name, a, b, Resamples(0, **settings), same_search=same_search)
    return pd.DataFrame(rows, columns=list(COLUMNS))


def sentences(comparison: pd.DataFrame, names: tuple[str, str] = ("A", "B")) -> tuple[str, ...]:
    """The main differences in sentences: of the model, of attention, and of the other rankings.

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
    for row in rows_of(comparison, "texts", "accuracy"):
        yield with_values(_ACCURACY, row, names)
    for name in dict.fromkeys(comparison["test"]):
        if name in tests:
            yield from tests[name].sentences_on_two_runs(comparison[comparison["test"] == name], names)
    alone = comparison["note"].isin((FIRST_ONLY, SECOND_ONLY)).sum()
    if alone:
        yield f"{alone} estimates exist in one run only and are not compared."
    yield (
        f"Differences are {names[1]} minus {names[0]}, in percentage points; their intervals are not corrected for the "
        "number of comparisons."
    )


class _Column(NamedTuple):
    """An estimate of one run, its resampled values, and its quantity."""

    drawn: ResampledValue
    quantity: Quantity


_NOTHING = Quantities(np.empty(0, dtype=np.int64), lambda indices: ())


def _levels(tables: Mapping[str, pd.DataFrame], ran: Sequence[Test] | None) -> dict[tuple[str, str], Quantities]:
    """The quantities of a run by test and level."""
    result = {("texts", ""): quantities_of_texts(tables["texts"])}
    for test in [tests[name]() for name in tables if name in tests] if ran is None else ran:
        result |= {(test.name, item.level): item for item in test.quantities(tables.__getitem__)}
    return result


def _columns(runs: Sequence[Sequence[Quantity | Number]], sample: Resamples) -> list[dict[_Name, _Column]]:
    """Every estimate of runs on the same texts, with shared resamples."""
    quantities = [[item.compared_only() for item in quantities_only(parts)] for parts in runs]
    means = SharedMeans(sample, (array for run in quantities for item in run for array in item.averaged_when_resampled))
    result: list[dict[_Name, _Column]] = []
    for run in quantities:
        named: dict[_Name, _Column] = {}
        for entry in run:
            value, draws = entry.resampled(means)
            for name, *drawn in zip(entry.names(), value.tolist(), draws.T, entry.texts.tolist(), strict=True):
                named[name] = _Column(ResampledValue(*drawn), entry)
        result.append(named)
    return result


def _rows(
    index: tuple[str, str],
    first: Mapping[_Name, _Column],
    second: Mapping[_Name, _Column],
    sample: Resamples,
    *,
    same_search: bool,
) -> Iterator[dict[str, object]]:
    missing = ResampledValue(math.nan, np.full(sample.resamples, math.nan), 0)
    for name in dict.fromkeys([*first, *second]):
        figure, key = name
        quantity = (first.get(name) or second[name]).quantity
        if (quantity.bound_of, key) in first and (quantity.bound_of, key) in second:
            continue  # both runs have what this is a bound of
        a, b = (run[name].drawn if name in run else missing for run in (first, second))
        note = SECOND_ONLY if name not in first else FIRST_ONLY if name not in second else ""
        if not note and (math.isinf(a.value) or math.isinf(b.value)):
            note = NOT_REACHED
        if not note and quantity.by_search and not same_search:
            note = OTHER_SEARCH
        with np.errstate(invalid="ignore"):
            draws = np.where(np.isfinite(a.draws) & np.isfinite(b.draws), b.draws - a.draws, math.nan)
            difference = b.value - a.value if not note else math.nan
        low, high = sample.interval(draws[:, None])
        certain = not note and min(a.texts, b.texts) > 1 and not (np.isinf(a.draws) | np.isinf(b.draws)).any()
        yield {
            "test": index[0],
            "erase_level": index[1],
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
