"""Labelled texts from any usual container, checked and encoded as a data set for Trainer."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import datasets
import torch
from torch import Tensor, nn

from attnfaith.data.containers import open_table
from attnfaith.data.source import check_columns
from attnfaith.errors import InputError
from attnfaith.text.encoder import TextEncoder
from attnfaith.training.objectives.objective import Objective, Setting
from attnfaith.validation import short_repr


def open_columns(data: Any, columns: Mapping[str, str | None]) -> dict[str, list[Any]]:
    """Read columns of any data that `attnfaith.data.source.open_data` takes.

    Args:
        data: the rows.
        columns: names of columns by the argument that gives them; None for a column that is not read.

    Example:
        >>> open_columns([{"text": "good"}, {"text": "bad"}], {"text_column": "text"})
        {'text_column': ['good', 'bad']}
    """
    named = {argument: name for argument, name in columns.items() if name is not None}
    if isinstance(data, datasets.IterableDataset | Iterator):
        data = list(data)  # read once: a stream may be slow, or empty the second time
    table, _ = open_table(data, list(dict.fromkeys(named.values())))
    if table.empty:
        return {argument: [] for argument in named}
    check_columns(table.columns, {argument: [name] for argument, name in named.items()})
    return {argument: [value for _, value in table.values(name)] for argument, name in named.items()}


def label_tensor(labels: list[Any], kind: str, num_labels: int) -> Tensor:
    """Labels in the dtype that the loss needs: whole numbers for classes, else floats.

    Args:
        labels: one for each row: a class, a list of one 0 or 1 for each label ("multilabel"), or a number.
        kind: the model's decision: "multiclass", "sigmoid", "multilabel" or "regression".
        num_labels: how many logits the model has.

    Example:
        >>> label_tensor([2, 0], "multiclass", 3)
        tensor([2, 0])
    """
    classes = 2 if kind == "sigmoid" else num_labels
    expected = {
        "multilabel": f"a list of {num_labels} zeros and ones",
        "regression": "a number" if num_labels == 1 else f"a list of {num_labels} numbers",
    }.get(kind, f"a whole number from 0 to {classes - 1}, since the model has {classes} classes")
    for row, label in enumerate(labels):
        if not _fits(label, kind, num_labels, classes):
            raise InputError(
                f"the label of row {row} (counted from 0) is {short_repr(label)}; expected {expected}.",
                code="unknown-label",
            )
    is_class = kind in ("multiclass", "sigmoid")
    return torch.tensor(
        [int(label) if is_class else label for label in labels], dtype=None if is_class else torch.float32
    )


def _fits(label: Any, kind: str, num_labels: int, classes: int) -> bool:
    if kind in ("multiclass", "sigmoid"):
        return isinstance(label, Integral) and 0 <= int(label) < classes
    if kind == "regression" and num_labels == 1:
        return _finite(label)
    if not hasattr(label, "__len__") or isinstance(label, str) or len(label) != num_labels:
        return False
    return all(_finite(entry) and (kind == "regression" or entry in (0, 1)) for entry in label)


def _finite(number: Any) -> bool:
    return isinstance(number, Real) and abs(float(number)) < float("inf")


class TrainingRows:
    """Encoded texts with their labels: a data set for Trainer, which also collates its batches.

    Args:
        texts: encodes and collates for the model.
        data: the rows.
        columns: the names of the columns "text", "second_text" (None for single texts) and "label".
        kind: the model's decision.
        num_labels: how many logits the model has.
        data_name: the name of the data in messages: "train" or "validation".
        objectives: their columns are read, and their marks are in `marks`, by the number of the objective.
    """

    def __init__(
        self,
        texts: TextEncoder,
        data: Any,
        columns: dict[str, Any],
        *,
        kind: str,
        num_labels: int,
        data_name: str,
        objectives: Sequence[Objective] = (),
    ) -> None:
        marked = {f"column of {objective.name}": objective.column for objective in objectives}
        try:
            cells = open_columns(data, {f"{name}_column": column for name, column in columns.items()} | marked)
            entries = cells["text_column"]
            if not entries:
                raise InputError("there are no rows; expected at least one.", code="no-texts")
            if "second_text_column" in cells:
                entries = list(zip(entries, cells["second_text_column"], strict=True))
            self.labels = label_tensor(cells["label_column"], kind, num_labels)
            self.encoded = texts.encode(entries)
            self.marks: dict[int, list[list[bool]]] = {}
            for index, objective in enumerate(objectives):
                column = cells.get(f"column of {objective.name}")
                marks = objective.marks(self.encoded, column, training=data_name == "train")
                if marks is not None:
                    self.marks[index] = marks
        except InputError as error:
            raise InputError(f"In {data_name}: {error.message}", code=error.code) from error

    def __len__(self) -> int:
        return len(self.encoded)

    def setting(self, model: nn.Module, texts: TextEncoder, seed: int) -> Setting:
        """What objectives are told of a training on these rows."""
        example = next((encoded for encoded in self.encoded if 3 <= len(encoded.ids) <= 64), None)
        return Setting(model, texts, seed, None if example is None else texts.collate([example]))

    def __getitem__(self, index: int) -> dict[str, Any]:
        encoded = self.encoded[index]  # "input_ids" tells Trainer's sampler the length
        marks = {number: texts[index] for number, texts in self.marks.items()}
        return {
            "input_ids": encoded.ids, "encoded": encoded, "labels": self.labels[index], "row": index, "marks": marks,
        }  # fmt: skip

    @property
    def fingerprint(self) -> str:
        """A hash of the tokens and labels in their order, and of what objectives mark."""
        digest = hashlib.sha256()
        for encoded, label in zip(self.encoded, self.labels.tolist(), strict=True):
            digest.update(repr((encoded.ids, label)).encode())
        if self.marks:
            digest.update(repr(self.marks).encode())
        return digest.hexdigest()
