"""Labelled texts in any usual container, validated, as a data set for Transformers' Trainer."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor

from attnfaith.errors import InputError
from attnfaith.text.encoder import TextEncoder


def column(data: Any, name: str, what: str) -> list[Any]:
    """One column of a list of dicts, a DataFrame or a ``datasets.Dataset``.

    Args:
        data: the rows.
        name: the column.
        what: the name of the data in messages ("train").

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
    for index, row in enumerate(data):
        if not isinstance(row, Mapping):
            raise InputError(f"Row {index} of {what} is of type {type(row).__name__}; expected a dict.")
        if name not in row:
            raise InputError(_no_column(name, f"Row {index} of {what}", list(row)))
    return [row[name] for row in data]


def _as_rows(data: Any, what: str) -> Any:
    """The data, read into a list if they can only be iterated over (a generator, a streaming data set)."""
    if isinstance(data, str | bytes | Mapping) or not isinstance(data, Iterable):
        raise InputError(
            f"Expected {what} to be a list of dicts, a DataFrame or a datasets.Dataset; got {type(data).__name__}."
        )
    tabular = hasattr(data, "__len__") and (hasattr(data, "columns") or hasattr(data, "column_names"))
    return data if tabular else list(data)


def _no_column(name: str, where: str, known: list[Any]) -> str:
    near = difflib.get_close_matches(name, map(str, known), n=3)
    hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
    return f"{where} has no column {name!r}.{hint} Known columns: {', '.join(map(repr, known)) or 'none'}."


def label_tensor(labels: list[Any], kind: str, num_labels: int, what: str) -> Tensor:
    """Labels as a tensor for the loss: whole numbers for classes, floats otherwise.

    Args:
        labels: one for each row: a class, a list with 0 or 1 for each label ("multilabel"), or a number.
        kind: the model's decision: "multiclass", "sigmoid", "multilabel" or "regression".
        num_labels: the number of the model's logits.
        what: the name of the data in messages.

    Example:
        >>> label_tensor([2, 0], "multiclass", 3, "train")
        tensor([2, 0])
    """
    classes = 2 if kind == "sigmoid" else num_labels
    expected = {
        "multilabel": f"a list of {num_labels} zeros and ones",
        "regression": "a number" if num_labels == 1 else f"a list of {num_labels} numbers",
    }.get(kind, f"a whole number from 0 to {classes - 1}, since the model has {classes} classes")
    for index, label in enumerate(labels):
        if not _is_valid_label(label, kind, num_labels, classes):
            raise InputError(f"The label of row {index} of {what} is {label!r}; expected {expected}.")
    whole = kind in ("multiclass", "sigmoid")
    return torch.tensor([int(label) if whole else label for label in labels], dtype=None if whole else torch.float32)


def _is_valid_label(label: Any, kind: str, num_labels: int, classes: int) -> bool:
    if kind in ("multiclass", "sigmoid"):
        return isinstance(label, Integral) and 0 <= int(label) < classes
    if kind == "regression" and num_labels == 1:
        return _is_finite(label)
    if not hasattr(label, "__len__") or isinstance(label, str) or len(label) != num_labels:
        return False
    return all(_is_finite(value) and (kind == "regression" or value in (0, 1)) for value in label)


def _is_finite(number: Any) -> bool:
    return isinstance(number, Real) and abs(float(number)) < float("inf")


class TrainingRows:
    """Encoded texts with their labels: a map-style data set for Trainer.

    Args:
        texts: the encoder of the model's texts.
        data: the rows.
        columns: the names of the columns "text", "second_text" (None for single texts) and "label".
        kind: the model's decision, as for `label_tensor`.
        num_labels: the number of the model's logits.
        what: the name of the data in messages.
    """

    def __init__(
        self, texts: TextEncoder, data: Any, columns: dict[str, Any], *, kind: str, num_labels: int, what: str
    ) -> None:
        data = _as_rows(data, what)
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

    def __getitem__(self, index: int) -> dict[str, Any]:
        encoded = self.encoded[index]  # Trainer's sampler reads the length off "input_ids"
        return {"input_ids": encoded.ids, "encoded": encoded, "labels": self.labels[index]}
