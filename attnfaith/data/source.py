"""Open the texts of an evaluation or training: any usual container, read as rows in shards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, islice
from typing import Any

from attnfaith.data.cell_values import is_number, missing, scores_of, text_of
from attnfaith.data.containers import Block, Column, Indexed, Stream, Table, open_table
from attnfaith.data.label_discovery import discover_labels
from attnfaith.data.labels import Label, LabelReader, ModelLabels
from attnfaith.data.splits import EVALUATION
from attnfaith.errors import InputError
from attnfaith.functional.decision import Kind
from attnfaith.functional.keyed_order import rows_at
from attnfaith.parameter_names import parameter
from attnfaith.text.annotations import Rationale, RationaleReader
from attnfaith.validation import did_you_mean, short_repr

__all__ = ["DataOptions", "DataSource", "ModelLabels", "Row", "check_columns", "open_data"]

STREAMED = 1000
"""Rows of a stream that are read before a run to find out the form of its rationales."""
_BLOCK = 1000  # rows that are checked at a time


@dataclass(frozen=True, slots=True)
class Row:
    """One text of the data.

    Attributes:
        number: the row number, from 0.
        text: None if it is missing, or if the other text of a pair is.
        pair: the second text of a pair.
        label: a class number, a number (regression), the labels that are on (multilabel), or None.
        scores: the user's scores of each item, by column; empty if the cell is, NaN where a score is missing.
        rationale: what people marked in the text; None if the cell is empty.
    """

    number: int
    text: str | None
    pair: str | None = None
    label: Label = None
    scores: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    rationale: Rationale | None = None


@dataclass(frozen=True, kw_only=True)
class DataOptions:
    """Which columns and rows of the data are read.

    Attributes:
        input_column: the column of texts.
        second_input_column: the column of second texts, for pairs.
        label_column: the column of labels. The default may be absent; None is for data without labels.
        label_mapping: ``{class in the model: label in the data}``, see `LabelReader`.
        subset: the subset of a data set on the hub, or in a folder, that has several.
        split: the split of data that have several, or a part of one: "test[:100]".
        preferred_splits: those to choose from where none is named.
        score_columns: columns with one score for each item, judged as rankings.
        rationale_column: the column of what people marked, see `attnfaith.text.annotations`.
        rationale_form: the form of that column, if the user names it.
        other_columns: columns whose cells are kept as they are, see `DataSource.cells`.
    """

    input_column: str = "text"
    second_input_column: str | None = None
    label_column: str | None = "label"
    label_mapping: Mapping[Any, Any] | None = None
    subset: str | None = None
    split: str | None = None
    preferred_splits: tuple[str, ...] = EVALUATION
    score_columns: tuple[str, ...] = ()
    rationale_column: str | None = None
    rationale_form: str | None = None
    other_columns: tuple[str, ...] = ()

    @property
    def text_columns(self) -> list[str]:
        """The columns of texts, one or two."""
        return [self.input_column, *([] if self.second_input_column is None else [self.second_input_column])]

    @property
    def columns(self) -> list[str]:
        """All columns that are read, each once."""
        optional = (self.label_column, *self.score_columns, self.rationale_column, *self.other_columns)
        return list(dict.fromkeys([*self.text_columns, *(name for name in optional if name is not None)]))


class DataSource:
    """Rows in shards. Data that cannot be used are refused when the source is made.

    Args:
        data: see `open_data`.
        options: which columns and rows are read.

    Attributes:
        rows: the number of rows; None for a stream.
        notes: notes for the reader of the results on how the data were read.
    """

    def __init__(self, data: Any, options: DataOptions) -> None:
        self._options, self._texts = options, options.text_columns
        self._table, self.notes = open_table(
            data,
            options.columns,
            input_column=options.input_column,
            subset=options.subset,
            split=options.split,
            preferred=options.preferred_splits,
        )
        if self._table.empty:
            raise InputError("The data set is empty: it has no rows.", code="no-texts")
        rationale = [] if options.rationale_column is None else [options.rationale_column]
        check_columns(
            self._table.columns,
            {
                "input_column": self._texts[:1],
                "second_input_column": self._texts[1:],
                "explanations": options.score_columns,
                "rationale_column": rationale,
            },
        )
        self._labels: LabelReader | None = None
        self._rationales: RationaleReader | None = None
        if options.rationale_column is not None:
            cells = _first(self._table, options.rationale_column)
            self._rationales = RationaleReader(options.rationale_column, cells, options.rationale_form)
        self.rows = self._table.rows
        self._check()

    def read_labels(self, labels: ModelLabels, *, required: bool = False) -> None:
        """Read the label column too, as classes of the model, and check it; nothing happens for data without labels.

        Args:
            labels: what the model can predict.
            required: whether data without the column are refused, whatever its name.
        """
        column = self._options.label_column
        if column is None:
            return
        if column == "label" and column not in self._table.columns and not required:
            another = f"{parameter('label_column')} names another one"
            self.notes += (f"The data have no column 'label', so nothing is said of right and wrong; {another}.",)
            return
        check_columns(self._table.columns, {"label_column": [column]})
        self._labels = LabelReader(
            labels, self._options.label_mapping, self._table.class_names(column), required=required
        )
        self.notes += self._labels.notes
        if isinstance(self._table, Stream):
            self._check()
            return
        unlabelled = [self._labels(value, number) is None for number, value in self._table.values(column)]
        if any(unlabelled):
            self.notes += (f"{sum(unlabelled)} of {len(unlabelled)} texts have no label.",)

    @property
    def splits(self) -> tuple[str, ...]:
        """The names of the splits, if the data have several."""
        return self._table.splits

    def discover_labels(self, kind: Kind | None = None) -> ModelLabels:
        """The classes that the label column has, see `attnfaith.data.label_discovery`."""
        column = self._options.label_column
        check_columns(self._table.columns, {"label_column": [column]})
        return discover_labels(self._table.values(column), self._table.class_names(column), kind)

    def cells(self, column: str) -> dict[int, Any]:
        """The cells of one of ``other_columns``, by row number."""
        check_columns(self._table.columns, {"column": [column]})
        return dict(self._table.values(column))

    @property
    def labelled(self) -> bool:
        """True if rows have labels."""
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
        for number, block in self._table.blocks(size, self._columns, index, of):
            yield number, self._read(count(number * size), block)

    def sampled_shards(
        self, size: int, *, seed: int, start: int, stop: int, index: int = 0, of: int = 1
    ) -> Iterator[tuple[int, list[Row]]]:
        """Shards of the rows in a random order: shard k has the rows at the positions from ``k * size`` on, ascending.

        Args:
            size: the size of a shard; the last one has fewer rows where ``stop`` or the data end.
            seed: the seed of the order, see `attnfaith.functional.keyed_order`.
            start: the first position, that of the start of a shard.
            stop: the position after the last.
            index: the number of this process.
            of: the number of processes.

        Example:
            >>> source = open_data([{"text": word} for word in "abcde"], label_column=None)
            >>> for number, rows in source.sampled_shards(2, seed=0, start=0, stop=3):
            ...     print(number, [row.text for row in rows])
            0 ['b', 'c']
            1 ['a']
        """
        assert isinstance(self._table, Indexed), "the evaluator refuses streams"
        for number in range(start // size, -(-stop // size)):
            if number % of == index:
                positions = range(number * size, min((number + 1) * size, stop))
                numbers = sorted(rows_at(positions, self._table.rows, seed).tolist())
                yield number, self._read(numbers, self._table.take(numbers, self._columns))

    def shard(self, number: int, size: int) -> list[Row]:
        """The rows of one shard, which must exist; a stream is read up to it."""
        _, block = next(self._table.blocks(size, self._columns, number, self.rows or number + 1))
        return self._read(count(number * size), block)

    @property
    def _columns(self) -> list[Column]:
        """The columns that are read; the label column only after `read_labels`."""
        labels = [] if self._labels is None else [self._options.label_column]
        rationales = [] if self._rationales is None else [self._rationales.column]
        return list(dict.fromkeys([*self._texts, *labels, *self._options.score_columns, *rationales]))

    def _read(self, numbers: Iterable[int], block: Block) -> list[Row]:
        columns = self._columns
        rows = []
        for number, values in zip(numbers, zip(*(block[column] for column in columns), strict=True), strict=False):
            cells = dict(zip(columns, values, strict=True))
            text, pair = self._read_texts(number, cells)
            label = None if self._labels is None else self._labels(cells[self._options.label_column], number)
            scores = {column: scores_of(cells[column], number, column) for column in self._options.score_columns}
            rationale = None
            if self._rationales is not None:
                rationale = self._rationales(cells[self._rationales.column], number, text, pair)
            rows.append(Row(number, text, pair, label, scores, rationale))
        return rows

    def _read_texts(self, number: int, cells: Mapping[Column, Any]) -> tuple[str | None, str | None]:
        texts = [text_of(cells[column], number, column) for column in self._texts]
        if None in texts:
            return None, None
        return texts[0], texts[1] if len(texts) > 1 else None

    def _check(self) -> None:
        """Refuse data that cannot be used before any work is done. Only the first row of a stream can be checked."""
        if isinstance(self._table, Stream):
            for _, block in self._table.blocks(1, self._columns):
                self._read([0], block)
                return
        for column in self._texts:
            if not self._table.is_text(column):
                for number, value in self._table.values(column):
                    text_of(value, number, column)
            self._check_some_text(column)
        for column in self._options.score_columns:
            for number, value in self._table.values(column):
                scores_of(value, number, column)
        if self._rationales is not None:
            self._check_rationales(self._rationales)

    def _check_rationales(self, rationales: RationaleReader) -> None:
        columns = list(dict.fromkeys([*self._texts, rationales.column]))
        for number, block in self._table.blocks(_BLOCK, columns):
            for row, values in enumerate(zip(*(block[column] for column in columns), strict=True), number * _BLOCK):
                cells = dict(zip(columns, values, strict=True))
                rationales(cells[rationales.column], row, *self._read_texts(row, cells))

    def _check_some_text(self, column: Column) -> None:
        """Refuse a column that is empty, or (where types are not known) holds numbers only: another one was meant."""
        first = None
        for number, value in self._table.values(column):
            if missing(value):
                continue
            first = (number, value) if first is None else first
            if not self._table.untyped or not is_number(value):
                return
        if first is None:
            raise InputError(f"The column {column!r} holds no text: every row of it is empty.", code="no-texts")
        raise InputError(
            f"The column {column!r} holds numbers only, from row {first[0]} (counted from 0) on: {first[1]!r}. "
            f"Expected texts. Name their column with {parameter('input_column')}.",
            code="not-a-text",
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
    score_columns: str | Sequence[str] = (),
    rationale_column: str | None = None,
    labels: ModelLabels | None = None,
) -> DataSource:
    """Open data as a `DataSource`, with labels if it is known what the model can predict.

    Args:
        data: a `datasets` data set (also several by split, or a stream), a list of dicts or of texts, a DataFrame, the
            path or address (``s3://...``) of a csv, tsv, JSON lines or parquet file (or several, a pattern, or a saved
            data set), or a name on the hub.
        input_column: see `DataOptions`, also for the other columns.
        second_input_column: the column of second texts, for pairs.
        label_column: the column of labels.
        label_mapping: ``{class in the model: label in the data}``.
        subset: the subset of data that have several.
        split: the split of data that have several, or a part of one.
        score_columns: columns of scores.
        rationale_column: the column of rationales.
        labels: what the model can predict; None if labels are not read.

    Example:
        >>> source = open_data(
        ...     [{"text": "Fine.", "label": "good"}, {"text": "Dull.", "label": "bad"}],
        ...     labels=ModelLabels("multiclass", ("bad", "good"), 2),
        ... )
        >>> [row.label for _, rows in source.shards(10) for row in rows], source.rows
        ([1, 0], 2)
    """
    options = DataOptions(
        input_column=input_column,
        second_input_column=second_input_column,
        label_column=label_column,
        label_mapping=label_mapping,
        subset=subset,
        split=split,
        score_columns=(score_columns,) if isinstance(score_columns, str) else tuple(score_columns),
        rationale_column=rationale_column,
    )
    source = DataSource(data, options)
    if labels is not None:
        source.read_labels(labels)
    return source


def _first(table: Table, column: Column) -> Iterator[tuple[int, Any]]:
    """The cells of a column with their row numbers; of a stream, only the first rows."""
    return islice(table.values(column), STREAMED if isinstance(table, Stream) else None)


def check_columns(columns: Sequence[Column], requested: Mapping[str, Sequence[Column]]) -> None:
    """Refuse a column that does not exist, or exists twice.

    Args:
        columns: the columns of the data.
        requested: the names of columns by the argument that gives them.
    """
    for argument, names in requested.items():
        for name in names:
            if list(columns).count(name) == 1:
                continue
            if name in columns:
                raise InputError(
                    f"The data have several columns {name!r} ({parameter(argument)}). Rename all but one.",
                    code="unknown-column",
                )
            available = [str(column) for column in columns]
            hint = did_you_mean(name, available)
            if len(available) == 1 and any(sign in available[0] for sign in ";\t|"):
                hint = (
                    " Is the separator another one? Save the file with commas (or, in Python, read it with pandas and "
                    "give the DataFrame)."
                )
            listing = ", ".join(repr(column if len(column) <= 40 else column[:37] + "...") for column in available[:50])
            raise InputError(
                f"The data have no column {short_repr(name)} ({parameter(argument)}).{hint} Columns: "
                f"{listing or 'none'}.",
                code="unknown-column",
            )
