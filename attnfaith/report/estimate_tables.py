"""Tables of estimates: of one test, and of slices of the texts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from attnfaith.attribution.method import ATTENTION
from attnfaith.errors import InputError
from attnfaith.estimates.lookup import SummaryLookup, SummaryValue, decimals, percent, unit_at
from attnfaith.estimates.summary_table import BY
from attnfaith.evaluation.results import Results
from attnfaith.evaluation.tests.base import Test
from attnfaith.evaluation.verdict_rule import FEW
from attnfaith.plots.panels import place_of


@dataclass(frozen=True)
class EstimateGrid:
    """A table of estimates as text.

    Attributes:
        caption: what it shows.
        columns: the heads.
        rows: a cell for each column; the first names the row.
        notes: of its estimates, each once.
    """

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


def test_tables(test: Test, results: Results) -> list[EstimateGrid]:
    """The estimates of a test that a report shows: a table for each level, with a row for each ranking.

    Args:
        test: one of the tests of the run.
        results: of the run.
    """
    shown = test.reported or test.headline
    table = results.summary()
    table = table[(table["test"] == test.name) & (table["slice"] == "all")]
    tables = []
    for level, at_level in table.groupby("erase_level", sort=False):
        columns = {words: _estimates(at_level, name) for name, words in shown.items()}
        columns = {words: found for words, found in columns.items() if any(item.known for item in found.values())}
        keys = list(dict.fromkeys(key for found in columns.values() for key in found))
        if not keys:
            continue
        shares = {words for name, words in shown.items() if name in test.percentages}
        rows = tuple(
            (
                test.row_name(key, keys) if any(key) else "all\N{NO-BREAK SPACE}texts",
                *(_cell(found.get(key, SummaryValue()), share=words in shares) for words, found in columns.items()),
                f"{max(found[key].texts for found in columns.values() if key in found):,}",
            )
            for key in keys
        )
        notes = dict.fromkeys(
            f"Note on {words}: {item.note}" for words, found in columns.items() for item in found.values() if item.note
        )
        caption = f"Estimates at {place_of(str(level))}" if level else "Estimates"
        head = test.rows_are if any(map(any, keys)) else "over"
        tables.append(EstimateGrid(caption, (head, *columns, "texts"), rows, tuple(notes)))
    return tables


def slice_tables(results: Results) -> Iterator[EstimateGrid]:
    """The erasure test on slices of the texts: what attention and a random order remove, and the skill of attention.

    The figures are at the level of the verdict. A way of slicing that the data do not allow is left out.
    """
    level, test = results.verdict.level, next((item for item in results.ran if item.name == "erasure"), None)
    if test is None or level is None:
        return
    statistics = {**results.manifest["statistics"], "seed": results.manifest["run"]["seed"]}
    unit = unit_at(results.manifest["facts"]["unit"], level)
    columns = ("texts", f"{unit} removed by attention", f"{unit} removed by a random order", "skill of attention")
    for by in BY:
        try:
            table = test.summarise(results.table, by=by, **statistics)
        except InputError:  # no labels, or no classes, to slice by
            continue
        rows = [
            (_slice_name(str(label), results.manifest["facts"]["labels"]), *_of_slice(part, level))
            for label, part in table.groupby("slice", sort=False)
        ]
        if rows:
            yield EstimateGrid(f"By {_BY[by]}", (_BY[by], *columns), tuple(rows))


_BY = {
    "class": "predicted class",
    "length": "length of the text",
    "confidence": "confidence of the model",
    "correct": "whether the model is right",
}


def _estimates(table: pd.DataFrame, name: str) -> dict[tuple[str, str], SummaryValue]:
    """The estimates of a figure by ranking; "figure:other" is that of attention and another ranking, or of a rank."""
    figure, _, other = name.partition(":")
    rows = table[(table["figure"] == figure) & (table["other"] == other)]
    if other and ATTENTION in set(rows["ranking"]):
        rows = rows[rows["ranking"] == ATTENTION]
    return {
        (row.ranking_level, row.ranking): SummaryValue(row.value, row.low, row.high, row.texts, row.note)
        for row in rows.itertuples(index=False)
    }


def _of_slice(table: pd.DataFrame, level: str) -> Sequence[str]:
    figures = SummaryLookup(table.assign(slice="all"))
    key, control = figures.key_of(level, ATTENTION), figures.control(level)
    cells = [
        SummaryValue() if item is None else figures.get(level, figure, item)
        for figure, item in (("mean_fraction", key), ("mean_fraction", control), ("skill", key))
    ]
    removed, control_removed, skill = cells
    placed = skill if removed.texts >= FEW else SummaryValue()
    return [f"{removed.texts:,}", *(_cell(cell, share=True) for cell in (removed, control_removed, placed))]


def _slice_name(label: str, labels: Sequence[str]) -> str:
    by, _, name = label.partition("=")
    if by == "class" and name.isdigit() and int(name) < len(labels):
        return labels[int(name)]
    if by == "correct":
        return {"True": "right", "False": "wrong"}[name]
    return name.replace("-", "–")


def _cell(estimate: SummaryValue, *, share: bool) -> str:
    """An estimate as text; without its interval where there are too few texts for one."""
    if not estimate.known:
        return "–"
    if estimate.texts < FEW:
        estimate = replace(estimate, low=math.nan, high=math.nan)
    return percent(estimate.value, estimate.low, estimate.high) if share else decimals(estimate)
