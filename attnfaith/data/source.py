"""The texts of an evaluation: rows, from whatever they are kept in, in shards."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import datasets
import pandas as pd

from attnfaith.data.cell_values import is_number, missing, scores_of, text_of
from attnfaith.data.containers import Block, Column, DatasetTable, Frame, Records, Stream, Table
from attnfaith.data.files import open_path
from attnfaith.data.labels import Label, LabelReader, ModelLabels
from attnfaith.errors import InputError
from attnfaith.text.annotations import Rationale, RationaleReader
from attnfaith.validation import short_repr

__all__ = ["DataSource", "ModelLabels", "Row", "open_data"]

# Where nobody says which split is meant: those for evaluating, in the order in which `evaluate` prefers them.
_DATASETS = (datasets.Dataset, datasets.IterableDataset)
_SPLITS = ("test", "testing", "eval", "evaluation", "validation", "val", "valid", "dev")

STREAMED = 1000
"""Rows of a stream that are looked at before a run, to see in what form rationales are."""


@dataclass(frozen=True, slots=True)
class Row:
    """One text of the data.

    Attributes:
        number: its place in the data, from 0.
        text: None when it is missing, or when the other text of a pair is.
        pair: the second text of a pair.
        label: a class number, a number (regression), the labels that are on (multilabel), or None.
        scores: what the data say of each item, by column; empty where they say nothing, NaN where a score is missing.
        rationale: what people marked in it; None where nothing is said of that.
    """

    number: int
    text: str | None
    pair: str | None = None
    label: Label = None
    scores: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    rationale: Rationale | None = None


class DataSource:
    """Rows in shards; made by `open_data`.

    Attributes:
        rows: how many there are; None for a stream.
        notes: what a reader of the results should know about how the data were read.
    """

    def __init__(
        self,
        table: Table,
        texts: Sequence[Column],
        label: Column = None,
        labels: LabelReader | None = None,
        scores: Sequence[str] = (),
        marks: RationaleReader | None = None,
    ) -> None:
        self._table, self._texts, self._label, self._labels, self._scores = table, texts, label, labels, scores
        self._marks = marks
        marked = [] if marks is None else [marks.column]
        self._wanted = [*texts, *([] if labels is None else [label]), *scores, *marked]
        self.rows = table.rows
        self.notes: tuple[str, ...] = ()

    @property
    def labelled(self) -> bool:
        """Whether rows have labels."""
        return self._labels is not None

    def shards(self, size: int, *, index: int = 0, of: int = 1) -> Iterator[tuple[int, list[Row]]]:
        """Consecutive shards of ``size`` rows with their numbers: those of process ``index`` out of ``of``.

        Example:
            >>> source = open_data([{"text": word} for word in "abcde"], label_column=None)
            >>> for number, rows in source.shards(2, index=0, of=2):
            ...     print(number, [row.text for row in rows])
            0 ['a', 'b']
            2 ['e']
        """
        if size < 1 or not 0 <= index < of:
            raise InputError(f"Expected a size of at least 1 and 0 <= index < of; got {size}, {index}, {of}.")
        for number, block in self._table.blocks(size, self._wanted, index, of):
            yield number, self._rows(number * size, block)

    def _rows(self, start: int, block: Block) -> list[Row]:
        rows = []
        for number, values in enumerate(zip(*(block[column] for column in self._wanted), strict=True), start):
            given = dict(zip(self._wanted, values, strict=True))
            texts = [text_of(given[column], number, column) for column in self._texts]
            text, pair = (None, None) if None in texts else (texts[0], texts[1] if len(texts) > 1 else None)
            label = None if self._labels is None else self._labels(given[self._label], number)
            scores = {column: scores_of(given[column], number, column) for column in self._scores}
            marks = None if self._marks is None else self._marks(given[self._marks.column], number)
            rows.append(Row(number, text, pair, label, scores, marks))
        return rows

    def check(self) -> None:
        """Refuse what cannot be used before any work is done: of a stream, in its first row only."""
        if isinstance(self._table, Stream):
            for _, block in self._table.blocks(1, self._wanted):
                self._rows(0, block)
                return
        for column in self._texts:
            if not self._table.is_text(column):
                for number, value in self._table.values(column):
                    text_of(value, number, column)
            self._check_some_text(column)
        for column in self._scores:
            for number, value in self._table.values(column):
                scores_of(value, number, column)
        if self._labels is not None:
            labels = [self._labels(value, number) is None for number, value in self._table.values(self._label)]
            if any(labels):
                self.notes += (f"{sum(labels)} of {len(labels)} texts have no label.",)

    def _check_some_text(self, column: Column) -> None:
        """A column of nothing, or (where types are not known) of numbers only, is not the one that was meant."""
        first = None
        for number, value in self._table.values(column):
            if missing(value):
                continue
            first = (number, value) if first is None else first
            if not self._table.untyped or not is_number(value):
                return
        if first is None:
            raise InputError(f"The column {column!r} holds no text: every row of it is empty.")
        raise InputError(
            f"The column {column!r} holds numbers only, from row {first[0]} (counted from 0) on: {first[1]!r}. "
            "Expected texts; input_column= names their column."
        )


def open_data(
    data: Any,
    *,
    input_column: str = "text",
    second_input_column: str | None = None,
    label_column: str | None = "label",
    label_mapping: Mapping[Any, Any] | None = None,
    subset: str | None = None,
    split: str | None = None,
    score_columns: Sequence[str] = (),
    rationale_column: str | None = None,
    labels: ModelLabels | None = None,
) -> DataSource:
    """Open data for an evaluation; what cannot be used is refused here.

    Args:
        data: a `datasets` data set (also several by split, or a stream), a list of dicts, a DataFrame, the path of a
            csv, tsv, JSON lines or parquet file (or several, a pattern, or a saved data set), or a name on the hub.
        input_column: of the texts.
        second_input_column: of the second texts of pairs.
        label_column: of the labels. The default may be absent; None is for data without labels.
        label_mapping: a class's name in the model -> its label in the data; or the other way round, see `LabelReader`.
        subset: of a data set on the hub, or in a folder, that has several.
        split: of data that have several, also a part of one: "test[:100]".
        score_columns: columns with one score for each item, to be judged as rankings.
        rationale_column: of what people marked: see `attnfaith.text.annotations`.
        labels: what the model can answer; None when labels are not wanted.

    Example:
        >>> source = open_data(
        ...     [{"text": "Fine.", "label": "good"}, {"text": "Dull.", "label": "bad"}],
        ...     labels=ModelLabels("multiclass", ("bad", "good"), 2),
        ... )
        >>> [row.label for _, rows in source.shards(10) for row in rows], source.rows
        ([1, 0], 2)
    """
    score_columns = (score_columns,) if isinstance(score_columns, str) else tuple(score_columns)
    texts = [input_column] if second_input_column is None else [input_column, second_input_column]
    marked = [] if rationale_column is None else [rationale_column]
    wanted = [*texts, *([] if label_column is None else [label_column]), *score_columns, *marked]
    table, notes = _table(data, subset, split, list(dict.fromkeys(wanted)))
    if table.empty:
        raise InputError("The data set is empty: it has no rows.")
    _check_columns(
        table.columns,
        {
            "input_column": [input_column],
            "second_input_column": texts[1:],
            "score_columns": score_columns,
            "rationale_column": marked,
        },
    )
    converter = None
    if labels is not None and label_column is not None:
        if label_column == "label" and label_column not in table.columns:
            notes += ("The data have no column 'label', so nothing is said of right and wrong.",)
        else:
            _check_columns(table.columns, {"label_column": [label_column]})
            converter = LabelReader(labels, label_mapping, table.class_names(label_column))
            notes += converter.notes
    marks = None if rationale_column is None else RationaleReader(rationale_column, _first(table, rationale_column))
    source = DataSource(table, texts, label_column, converter, score_columns, marks)
    source.check()
    source.notes = (*notes, *source.notes)
    return source


def _table(data: Any, subset: str | None, split: str | None, wanted: Sequence[str]) -> tuple[Table, tuple[str, ...]]:
    columns, cells = None, "values"
    if isinstance(data, str | os.PathLike) or (isinstance(data, list | tuple) and data and all(map(_is_path, data))):
        opened = open_path(data, subset=subset, wanted=wanted)
        data, columns, cells = opened.data, opened.columns, opened.cells
    elif subset is not None:
        raise InputError(f"subset={subset!r} is for data sets that are loaded by name; these data are open already.")
    notes: tuple[str, ...] = ()
    if isinstance(data, _DATASETS) and split is not None:
        data = {str(data.split or "train"): data}
    if isinstance(data, dict) and data and all(isinstance(part, _DATASETS) for part in data.values()):
        data, notes = _chosen(data, split)
    elif split is not None:
        raise InputError(f"split={split!r} is for data with splits; these are of type {type(data).__name__}.")
    if isinstance(data, datasets.Dataset):
        return DatasetTable(data, columns, cells), notes
    if isinstance(data, datasets.IterableDataset):
        return Stream(data), notes
    if isinstance(data, pd.DataFrame):
        return Frame(data), notes
    if isinstance(data, list | tuple):
        return Records(data), notes
    hint = " Make one with datasets.Dataset.from_dict." if isinstance(data, Mapping) else ""
    raise InputError(
        "Expected data to be a datasets.Dataset (or DatasetDict, or IterableDataset), a list of dicts, a DataFrame, a "
        f"path, or the name of a data set; got {type(data).__name__}.{hint}"
    )


def _first(table: Table, column: Column) -> Iterator[tuple[int, Any]]:
    """The cells of a column with their row numbers; of a stream, some of the first."""
    return islice(table.values(column), STREAMED if isinstance(table, Stream) else None)


def _is_path(value: Any) -> bool:
    return isinstance(value, str | os.PathLike)


def _chosen(splits: Mapping[str, Any], split: str | None) -> tuple[Any, tuple[str, ...]]:
    """One data set out of several splits, or a part of one; and a note where nobody said which."""
    names = ", ".join(map(repr, splits))
    if split is None:
        if len(splits) == 1:
            return next(iter(splits.values())), ()
        for name in _SPLITS:
            if name in splits:
                return splits[name], (f"The split {name!r} was taken, out of {names}; split= chooses another.",)
        raise InputError(f"The data have the splits {names}. Choose with split=.")
    if split in splits:
        return splits[split], ()
    if not all(isinstance(part, datasets.Dataset) for part in splits.values()):
        raise InputError(f"There is no split {split!r}; there are {names}. Of a stream, a split is taken as a whole.")
    try:
        parts = datasets.ReadInstruction.from_spec(split).to_absolute({name: len(splits[name]) for name in splits})
    except (ValueError, AssertionError, TypeError) as error:
        raise InputError(
            f"There is no split {split!r}; there are {names}. Parts are written as in '{next(iter(splits))}[:100]'."
        ) from error
    return datasets.concatenate_datasets(
        [splits[part.splitname].select(range(part.from_, part.to)) for part in parts]
    ), ()


def _check_columns(columns: Sequence[Column], asked: Mapping[str, Sequence[str]]) -> None:
    """Refuse a column that is not there, or that is there twice."""
    for argument, names in asked.items():
        for name in names:
            if list(columns).count(name) == 1:
                continue
            if name in columns:
                raise InputError(f"The data have several columns {name!r} ({argument}). Rename all but one.")
            known = [str(column) for column in columns]
            folded = {column.strip().casefold(): column for column in reversed(known)}
            near = difflib.get_close_matches(str(name)[:100].casefold(), folded, n=3)
            hint = f" Did you mean {' or '.join(repr(folded[one]) for one in near)}?" if near else ""
            if len(known) == 1 and any(sign in known[0] for sign in ";\t|"):
                hint = " Is the separator another one? Read the file with pandas, and give the DataFrame."
            shown = ", ".join(repr(column if len(column) <= 40 else column[:37] + "...") for column in known[:50])
            raise InputError(
                f"The data have no column {short_repr(name)} ({argument}).{hint} Columns: {shown or 'none'}."
            )
