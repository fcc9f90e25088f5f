"""Labelled texts in any usual container, checked, as what a Trainer trains on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor

from attnfaith.errors import InputError
from attnfaith.text.encoder import TextEncoder
from attnfaith.validation import did_you_mean


def column(data: Any, name: str, what: str) -> list[Any]:
    """One column of a list of dicts, a DataFrame or a ``datasets.Dataset``.

    Args:
        data: the rows.
        name: the column.
        what: how the data are called in messages ("train").

    Example:
        >>> column([{"text": "good"}, {"text": "bad"}], "text", "train")
        ['good', 'bad']
    """
    known = getattr(data, "column_names", None)  # a Dataset
    if known is None and hasattr(data, "columns"):
        known = list(data.columns)  # a DataFrame
    if known is not None:
        if name not in known:
            raise InputError(_no_column(name, what.capitalize(), list(known)))
        return list(data[name])
    for place, row in enumerate(data):
        if not isinstance(row, Mapping):
            raise InputError(f"Row {place} of {what} is of type {type(row).__name__}; expected a dict.")
        if name not in row:
            raise InputError(_no_column(name, f"Row {place} of {what}", list(row)))
    return [row[name] for row in data]


def _readable(data: Any, what: str) -> Any:
    """The data, read into a list if they can only be gone through (a generator, a streaming data set)."""
    if isinstance(data, str | bytes | Mapping) or not isinstance(data, Iterable):
        raise InputError(
            f"Expected {what} to be a list of dicts, a DataFrame or a datasets.Dataset; got {type(data).__name__}."
        )
    tabular = hasattr(data, "__len__") and (hasattr(data, "columns") or hasattr(data, "column_names"))
    return data if tabular else list(data)


def _no_column(name: str, where: str, known: list[Any]) -> str:
    return (
        f"{where} has no column {name!r}.{did_you_mean(name, known)} There is {', '.join(map(repr, known)) or 'none'}."
    )


def label_tensor(labels: list[Any], kind: str, num_labels: int, what: str) -> Tensor:
    """Labels as the loss wants them: whole numbers for classes, else floats.

    Args:
        labels: one for each row: a class, a list of one 0 or 1 for each label ("multilabel"), or a number.
        kind: the model's decision: "multiclass", "sigmoid", "multilabel" or "regression".
        num_labels: how many logits the model has.
        what: how the data are called in messages.

    Example:
        >>> label_tensor([2, 0], "multiclass", 3, "train")
        tensor([2, 0])
    """
    classes = 2 if kind == "sigmoid" else num_labels
    expected = {
        "multilabel": f"a list of {num_labels} zeros and ones",
        "regression": "a number" if num_labels == 1 else f"a list of {num_labels} numbers",
    }.get(kind, f"a whole number from 0 to {classes - 1}, since the model has {classes} classes")
    for place, label in enumerate(labels):
        if not _fits(label, kind, num_labels, classes):
            raise InputError(f"The label of row {place} of {what} is {label!r}; expected {expected}.")
    whole = kind in ("multiclass", "sigmoid")
    return torch.tensor([int(label) if whole else label for label in labels], dtype=None if whole else torch.float32)


def _fits(label: Any, kind: str, num_labels: int, classes: int) -> bool:
    if kind in ("multiclass", "sigmoid"):
        return isinstance(label, Integral) and 0 <= int(label) < classes
    if kind == "regression" and num_labels == 1:
        return _finite(label)
    if not hasattr(label, "__len__") or isinstance(label, str) or len(label) != num_labels:
        return False
    return all(_finite(one) and (kind == "regression" or one in (0, 1)) for one in label)


def _finite(number: Any) -> bool:
    return isinstance(number, Real) and abs(float(number)) < float("inf")


class TrainingRows:
    """Encoded texts with their labels: a data set for Trainer, and what puts batches together.

    Args:
        texts: encodes and collates for the model.
        data: the rows.
        columns: the names of the columns "text", "second_text" (None for single texts) and "label".
        kind: the model's decision.
        num_labels: how many logits the model has.
        what: how the data are called in messages.
    """

    def __init__(
        self, texts: TextEncoder, data: Any, columns: dict[str, Any], *, kind: str, num_labels: int, what: str
    ) -> None:
        data = _readable(data, what)
        entries = column(data, columns["text"], what)
        if not entries:
            raise InputError(f"There are no rows in {what}; expected at least one.")
        if columns["second_text"] is not None:
            entries = list(zip(entries, column(data, columns["second_text"], what), strict=True))
        self.labels = label_tensor(column(data, columns["label"], what), kind, num_labels, what)
        try:
            self.encoded = texts.encode(entries)
        except InputError as error:
            raise InputError(f"In {what}: {error}") from error

    def __len__(self) -> int:
        return len(self.encoded)

    def __getitem__(self, place: int) -> dict[str, Any]:
        encoded = self.encoded[place]  # "input_ids" tells Trainer's sampler the length
        return {"input_ids": encoded.ids, "encoded": encoded, "labels": self.labels[place]}
