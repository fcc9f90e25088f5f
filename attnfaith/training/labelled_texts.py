"""Labelled texts for a training: read like the data of an evaluation, and split into training and validation."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from attnfaith.addresses import is_address
from attnfaith.data.cell_values import plain
from attnfaith.data.files import is_file_name
from attnfaith.data.source import DataOptions, DataSource, ModelLabels, Row
from attnfaith.data.splits import TRAINING, VALIDATION
from attnfaith.errors import InputError
from attnfaith.functional.decision import Kind
from attnfaith.functional.keyed_order import rows_at
from attnfaith.parameter_names import parameter
from attnfaith.storage.fingerprint import fingerprint_rows

_SHARE, _LEAST, _MOST = 10, 100, 5  # a tenth is held out; 100 texts if that is at most a fifth


@dataclass(frozen=True)
class LabelledTexts:
    """The texts of a training.

    Attributes:
        train: the rows to train on, as dicts of "text", "second_text", "label" (a class number, or as `fit` wants), and
            the other columns that were asked for.
        validation: the rows to choose the epoch by.
        labels: the classes.
        notes: how the data were read, in sentences.
        fingerprint: a hash of all rows.
    """

    train: list[dict[str, Any]]
    validation: list[dict[str, Any]]
    labels: ModelLabels
    notes: tuple[str, ...]
    fingerprint: str

    @property
    def texts(self) -> list[str]:
        """All texts to train on, second texts included."""
        return [row[name] for row in self.train for name in ("text", "second_text") if name in row]


def read_labelled_texts(
    data: Any,
    options: DataOptions,
    *,
    labels: ModelLabels | None,
    kind: Kind | None = None,
    validation: Any = None,
    seed: int = 0,
) -> LabelledTexts:
    """Read data and their labels; rows without a text or label are left out, and counted.

    Args:
        data: anything that `Evaluator.compute` reads.
        options: the columns, subset and split.
        labels: the classes of a model that exists; None to find them in the data.
        kind: how a new model decides, if the user says so.
        validation: a split of the data, or other data; by default the split that has a usual name for it, else a keyed
            share of the rows.
        seed: the seed of that share.
    """
    if options.label_column is None:
        raise InputError(
            f"A training needs labels. Name their column with {parameter('label_column')}.", code="missing-labels"
        )
    source = DataSource(data, replace(options, preferred_splits=TRAINING))
    found = labels is None
    if labels is None:
        labels = _new_labels(source, options, kind)
    train, notes = _read(source, labels, options, "to train on")
    if validation is None:
        trained_on = {part.partition("[")[0] for part in (options.split or "").split("+")}
        validation = next((name for name in VALIDATION if name in source.splits and name not in trained_on), None)
    held_out_source = source
    if validation is None:
        train, held_out = _hold_out(train, seed)
        notes += (f"{len(held_out):,} of {len(train) + len(held_out):,} texts were held out to choose the epoch by.",)
    else:
        other, validation_options = data, replace(options, split=validation)
        if validation not in source.splits and _is_other_data(validation):
            other, validation_options = validation, replace(options, split=None, preferred_splits=VALIDATION)
        held_out_source = _open_validation(other, validation_options, source.splits)
        try:
            held_out, more = _read(held_out_source, labels, options, "to choose the epoch by")
        except InputError as error:
            whose = " The classes of a new model are those of the texts to train on." if found else ""
            raise InputError(f"In the validation data: {error.message}{whose}", code=error.code) from error
        notes += (*more, f"{len(held_out):,} texts of {str(validation)!r} choose the epoch.")
    notes += _without_examples(train, held_out, labels)
    as_dicts = [
        _rows(rows, labels, {name: of.cells(name) for name in options.other_columns})
        for rows, of in ((train, source), (held_out, held_out_source))
    ]
    fingerprint = fingerprint_rows([*train, *held_out])
    if options.other_columns:
        others = [[row[name] for name in options.other_columns] for rows in as_dicts for row in rows]
        fingerprint = hashlib.sha256(repr((fingerprint, others)).encode()).hexdigest()
    return LabelledTexts(as_dicts[0], as_dicts[1], labels, notes, fingerprint)


def class_name(labels: ModelLabels, number: int) -> str:
    """The name of a class for readers."""
    names = labels.usable_names
    return names[number] if names else str(number)


def _new_labels(source: DataSource, options: DataOptions, kind: Kind | None) -> ModelLabels:
    if not options.label_mapping:
        return source.discover_labels(kind)
    names = tuple(map(str, options.label_mapping))
    kind = "multiclass" if kind is None else kind
    return ModelLabels(kind, names, 1 if kind == "sigmoid" else len(names))


def _is_other_data(validation: Any) -> bool:
    return not isinstance(validation, str) or is_file_name(validation) or is_address(validation) or "/" in validation


def _read(
    source: DataSource, labels: ModelLabels, options: DataOptions, purpose: str
) -> tuple[list[Row], tuple[str, ...]]:
    source.read_labels(labels, required=True)
    rows = [row for _, shard in source.shards(1000) for row in shard]
    empty = sum(row.text is None or not f"{row.text}{row.pair or ''}".strip() for row in rows)
    kept = [row for row in rows if row.text is not None and f"{row.text}{row.pair or ''}".strip()]
    unlabelled = sum(row.label is None for row in kept)
    kept = [row for row in kept if row.label is not None]
    if not kept:
        raise InputError(f"There is no text with a label {purpose}.", code="no-texts")
    notes = tuple(note for note in source.notes if "have no label" not in note)
    for count, what in ((empty, "no text"), (unlabelled, "no label")):
        if count:
            notes += (f"{count:,} of {len(rows):,} rows {'was' if count == 1 else 'were'} left out: {what}.",)
    return kept, notes


def _hold_out(rows: list[Row], seed: int) -> tuple[list[Row], list[Row]]:
    count = max(len(rows) // _SHARE, min(_LEAST, len(rows) // _MOST))
    if not count:
        raise InputError(
            f"{len(rows)} texts are too few to train on and to choose the epoch by. Give more, or other data as "
            f"{parameter('validation')}.",
            code="no-texts",
        )
    held_out = set(rows_at(range(count), len(rows), seed).tolist())
    return (
        [row for number, row in enumerate(rows) if number not in held_out],
        [row for number, row in enumerate(rows) if number in held_out],
    )


def _without_examples(train: Sequence[Row], held_out: Sequence[Row], labels: ModelLabels) -> tuple[str, ...]:
    if labels.kind == "regression":
        return ()
    notes: tuple[str, ...] = ()
    for rows, purpose, so in (
        (train, "train on", "the model will hardly ever predict"),
        (held_out, "choose the epoch by", "the validation accuracy does not speak of"),
    ):
        seen: Counter[Any] = Counter()
        for row in rows:
            seen.update(row.label if isinstance(row.label, tuple) else [row.label])
        lacking = [class_name(labels, number) for number in range(labels.classes) if not seen[number]]
        if lacking:
            listed = ", ".join(map(repr, lacking[:5])) + (f" and {len(lacking) - 5} more" if len(lacking) > 5 else "")
            notes += (f"No text to {purpose} has the label {listed}, which {so}.",)
        if labels.kind != "multilabel" and len(seen) < 2 and purpose == "train on":
            raise InputError(
                f"All texts to train on have the label {class_name(labels, next(iter(seen)))!r}. A classifier needs "
                "at least two classes.",
                code="unknown-label",
            )
    return notes


def _open_validation(data: Any, options: DataOptions, splits: Sequence[str]) -> DataSource:
    try:
        return DataSource(data, options)
    except InputError as error:
        if options.split is None or error.code != "data-not-found":
            raise
        names = f"The splits are {', '.join(map(repr, splits))}." if splits else "The data have a single split."
        raise InputError(
            f"{parameter('validation', options.split)} is no split of the data, and no file. {names} Leave it out to "
            "hold out some of the texts.",
            code=error.code,
        ) from error


def _rows(
    rows: Sequence[Row], labels: ModelLabels, other_cells: Mapping[str, Mapping[int, Any]]
) -> list[dict[str, Any]]:
    made = []
    for row in rows:
        label: Any = row.label
        if isinstance(label, tuple):
            label = [int(number in label) for number in range(labels.count)]
        second = {} if row.pair is None else {"second_text": row.pair}
        others = {name: plain(cells[row.number]) for name, cells in other_cells.items()}
        made.append({**others, "text": row.text, **second, "label": label})
    return made
