"""One interface to the containers of data: lists, DataFrames, `datasets` and streams, read in blocks of rows."""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import count, islice
from typing import Any

import datasets
import pandas as pd

from attnfaith.data.files import is_file_name, open_path
from attnfaith.data.splits import EVALUATION, choose_split
from attnfaith.errors import InputError
from attnfaith.parameter_names import parameter

Column = Hashable
Block = dict[Column, list[Any]]
_BLOCK = 1000
_DATASETS = (datasets.Dataset, datasets.IterableDataset)


class Table(ABC):
    """Data that can be read in blocks: a list of values for each column.

    Attributes:
        columns: the names of all columns.
        rows: the number of rows; None for a stream.
        untyped: True if numbers and texts look alike, as in a csv.
        splits: the names of the splits that the data have; none where there is one.
    """

    columns: Sequence[Column]
    rows: int | None
    untyped = False
    splits: tuple[str, ...] = ()

    @abstractmethod
    def blocks(self, size: int, columns: Sequence[Column], index: int = 0, of: int = 1) -> Iterator[tuple[int, Block]]:
        """Consecutive blocks of ``size`` rows with their numbers: those with ``number % of == index``."""

    @property
    def empty(self) -> bool:
        """True if there are no rows."""
        return self.rows == 0

    def values(self, column: Column) -> Iterator[tuple[int, Any]]:
        """The values of one column with their row numbers."""
        for number, block in self.blocks(_BLOCK, [column]):
            yield from enumerate(block[column], number * _BLOCK)

    def is_text(self, column: Column) -> bool:
        """True if the type of the column says that every value is a text or missing."""
        return False

    def class_names(self, column: Column) -> Sequence[str] | None:
        """The names of the class numbers in a column; None if the data have no names."""
        return None


class Indexed(Table):
    """Data with random access to rows."""

    rows: int

    @abstractmethod
    def read(self, start: int, stop: int, columns: Sequence[Column]) -> Block:
        """The rows from ``start`` to before ``stop``."""

    @abstractmethod
    def take(self, numbers: Sequence[int], columns: Sequence[Column]) -> Block:
        """Some of the rows by their numbers."""

    def blocks(self, size: int, columns: Sequence[Column], index: int = 0, of: int = 1) -> Iterator[tuple[int, Block]]:
        """The blocks of one process; the rows of other processes are not read."""
        for number in range(index, -(-self.rows // size), of):
            start = number * size
            yield number, self.read(start, min(start + size, self.rows), columns)


class Records(Indexed):
    """A list of dicts; a key that a dict lacks is a missing value."""

    def __init__(self, records: Sequence[Mapping[Any, Any]]) -> None:
        for number, record in enumerate(records):
            if not isinstance(record, Mapping):
                raise InputError(
                    f"Entry {number} of the list is of type {type(record).__name__}; expected a dict such as "
                    "{'text': ..., 'label': ...}.",
                    code="unreadable-data",
                )
        self._records, self.rows = records, len(records)
        self.columns = list(dict.fromkeys(column for record in records for column in record))

    def read(self, start: int, stop: int, columns: Sequence[Column]) -> Block:
        """The rows from ``start`` to before ``stop``."""
        return {column: [record.get(column) for record in self._records[start:stop]] for column in columns}

    def take(self, numbers: Sequence[int], columns: Sequence[Column]) -> Block:
        """Some of the rows by their numbers."""
        return {column: [self._records[number].get(column) for number in numbers] for column in columns}


class Frame(Indexed):
    """A pandas DataFrame, read by position; its index is ignored."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame, self.rows = frame, len(frame)
        self.columns = list(frame.columns)

    def read(self, start: int, stop: int, columns: Sequence[Column]) -> Block:
        """The rows from ``start`` to before ``stop``."""
        return {column: self._frame[column].iloc[start:stop].tolist() for column in columns}

    def take(self, numbers: Sequence[int], columns: Sequence[Column]) -> Block:
        """Some of the rows by their numbers."""
        return {column: self._frame[column].iloc[list(numbers)].tolist() for column in columns}


class DatasetTable(Indexed):
    """A `datasets.Dataset`.

    Args:
        data: the data set; its format is ignored.
        columns: the names of all columns, if the data set holds only some of them.
        cells: the content of cells: "values", "text", or "json".
    """

    def __init__(self, data: datasets.Dataset, columns: Sequence[str] | None = None, cells: str = "values") -> None:
        if data.format["type"] == "custom":
            raise InputError(
                "The data set computes its rows by a transform (set_transform). Use map() instead, and give its "
                "result.",
                code="unreadable-data",
            )
        self._data, self.rows = data.with_format(None), len(data)
        self._views: dict[tuple[Column, ...], datasets.Dataset] = {}
        self.columns = list(data.column_names if columns is None else columns)
        self._json, self.untyped = cells == "json", cells == "text"

    def read(self, start: int, stop: int, columns: Sequence[Column]) -> Block:
        """The rows from ``start`` to before ``stop``."""
        return self._cells(slice(start, stop), columns)

    def take(self, numbers: Sequence[int], columns: Sequence[Column]) -> Block:
        """Some of the rows by their numbers."""
        return self._cells(list(numbers), columns)

    def _cells(self, rows: slice | list[int], columns: Sequence[Column]) -> Block:
        names = tuple(dict.fromkeys(columns))
        if names not in self._views:
            self._views[names] = self._data.select_columns(list(names))
        block: Block = self._views[names][rows]
        if self._json:
            block = {name: [cell if cell is None else json.loads(cell) for cell in block[name]] for name in names}
        return block

    def is_text(self, column: Column) -> bool:
        """The data set has types for its columns."""
        feature = self._data.features[column]
        return not self._json and getattr(feature, "dtype", None) in ("string", "large_string")

    def class_names(self, column: Column) -> Sequence[str] | None:
        """The names of a `datasets.ClassLabel`, or of a list of them."""
        return _class_names(self._data.features[column])


class Stream(Table):
    """A `datasets.IterableDataset`: read from the start each time, and never held in memory."""

    rows = None

    def __init__(self, data: datasets.IterableDataset) -> None:
        self._data = data.with_format(None)
        self._features: dict[str, Any] = dict(data.features or {})
        first = next(iter(self._data), None)
        self._empty = first is None
        self.columns = list(data.column_names or first or ())

    @property
    def empty(self) -> bool:
        """True if there are no rows."""
        return self._empty

    def blocks(self, size: int, columns: Sequence[Column], index: int = 0, of: int = 1) -> Iterator[tuple[int, Block]]:
        """The rows of other processes are skipped."""
        rows = iter(self._data)
        for number in count():
            assigned = number % of == index
            block = [dict(row) if assigned else {} for row in islice(rows, size)]
            if not block:
                return
            if assigned:
                yield number, {column: [row.get(column) for row in block] for column in columns}

    def class_names(self, column: Column) -> Sequence[str] | None:
        """The names of a `datasets.ClassLabel`, or of a list of them."""
        return _class_names(self._features.get(str(column)))


def _class_names(feature: Any) -> Sequence[str] | None:
    feature = getattr(feature, "feature", feature)  # the element type of a list
    return feature.names if isinstance(feature, datasets.ClassLabel) else None


def open_table(
    data: Any,
    needed: Sequence[str],
    *,
    input_column: str = "text",
    subset: str | None = None,
    split: str | None = None,
    preferred: Sequence[str] = EVALUATION,
) -> tuple[Table, tuple[str, ...]]:
    """Open any container as a `Table`, and notes on the split that was chosen.

    Args:
        data: see `attnfaith.data.source.open_data`.
        needed: the columns that will be read.
        input_column: the name of the column that a list of texts becomes.
        subset: of data that have several.
        split: of data that have several, or a part of one.
        preferred: the splits to choose from where none is named, the best first.

    Example:
        >>> table, _ = open_table(["good", "bad"], ["text"])
        >>> list(table.values("text"))
        [(0, 'good'), (1, 'bad')]
    """
    columns, cells = None, "values"
    if _is_texts(data):
        data = [{input_column: text} for text in data]
    if isinstance(data, str | os.PathLike) or (isinstance(data, list | tuple) and data and all(map(_is_path, data))):
        opened = open_path(data, subset=subset, needed=needed)
        data, columns, cells = opened.data, opened.columns, opened.cells
    elif subset is not None:
        raise InputError(
            f"{parameter('subset', subset)} is for data sets that are loaded by name; these data are loaded "
            f"already. Leave {parameter('subset')} out."
        )
    notes: tuple[str, ...] = ()
    splits: tuple[str, ...] = ()
    if isinstance(data, _DATASETS) and split is not None:
        data = {str(data.split or "train"): data}
    if isinstance(data, dict) and data and all(isinstance(part, _DATASETS) for part in data.values()):
        splits = tuple(data) if len(data) > 1 else ()
        data, notes = choose_split(data, split, preferred)
    elif split is not None:
        raise InputError(
            f"{parameter('split', split)} is for data with splits; these are of type {type(data).__name__}, which has "
            f"none. Leave {parameter('split')} out.",
            code="data-not-found",
        )
    if isinstance(data, datasets.Dataset):
        table: Table = DatasetTable(data, columns, cells)
        table.splits = splits
        return table, notes
    if isinstance(data, datasets.IterableDataset):
        table = Stream(data)
        table.splits = splits
        return table, notes
    if isinstance(data, pd.DataFrame):
        return Frame(data), notes
    if isinstance(data, list | tuple):
        return Records(data), notes
    hint = " Make one with datasets.Dataset.from_dict." if isinstance(data, Mapping) else ""
    raise InputError(
        "Expected data to be a datasets.Dataset (or DatasetDict, or IterableDataset), a list of dicts or of texts, a "
        f"DataFrame, a path, or the name of a data set; got {type(data).__name__}.{hint}"
    )


def _is_texts(data: Any) -> bool:
    """True for a list of texts, and False for a list of file names."""
    strings = isinstance(data, list | tuple) and bool(data) and all(isinstance(entry, str) for entry in data)
    return strings and not any(map(is_file_name, data))


def _is_path(value: Any) -> bool:
    return isinstance(value, str | os.PathLike)
