"""Find out which classes a column of labels has, for a model that is still to be made."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Sequence
from typing import Any

from attnfaith.data.cell_values import missing, plain
from attnfaith.data.labels import ModelLabels, normalized_label
from attnfaith.errors import InputError
from attnfaith.functional.decision import Kind
from attnfaith.parameter_names import parameter
from attnfaith.validation import short_repr

_FEW = 20  # so many different labels are never too many


def discover_labels(
    cells: Iterable[tuple[int, Any]], names: Sequence[str] | None = None, kind: Kind | None = None
) -> ModelLabels:
    """The classes of a column, in an order that depends on the set of labels alone.

    The whole numbers from 0 on are classes without names. Other whole numbers are names of classes in ascending order,
    strings in alphabetical order. Lists are several labels for each text.

    Args:
        cells: row numbers and cells.
        names: the names of the class numbers, where the data have them.
        kind: how the model decides, if the user says so; else "multiclass", or "multilabel" where cells are lists.

    Example:
        >>> discover_labels(enumerate(["good", "bad", None, "good"])).names
        ('bad', 'good')
        >>> discover_labels(enumerate([0, 2, 1])).count, discover_labels(enumerate(["1", "5"])).names
        (3, ('1', '5'))
    """
    values = [(row, plain(value)) for row, value in cells]
    values = [(row, value) for row, value in values if not missing(value) and value != ""]
    if not values:
        raise InputError(
            f"The column of labels is empty. Name another with {parameter('label_column')}.", code="missing-labels"
        )
    if kind == "regression":
        return ModelLabels("regression", count=1)
    if kind == "multilabel" or (kind is None and isinstance(values[0][1], list | tuple)):
        several = _several(values, names)
        if names is None:
            _refuse_many(several.count, len(values))
        return several
    for row, value in values:
        if isinstance(value, list | tuple | dict):
            raise InputError(
                f"Row {row} (counted from 0) has the label {short_repr(value)}; expected one label for each text, or a "
                "list for each.",
                code="unknown-label",
            )
        if isinstance(value, float) and not value.is_integer():
            raise InputError(
                f"Row {row} (counted from 0) has the label {short_repr(value)}, which is no class. For a model that "
                f"predicts numbers give {parameter('decision', 'regression')}; or name another column with "
                f"{parameter('label_column')}.",
                code="unknown-label",
            )
    if names is None:
        found = _classes([value for _, value in values])
    else:
        found = ModelLabels("multiclass", tuple(names), len(names))
    if found.count < 2:
        raise InputError(
            f"All {len(values)} labels are {short_repr(values[0][1])}; a classifier needs at least two classes. Name "
            f"another column with {parameter('label_column')}.",
            code="unknown-label",
        )
    _refuse_many(found.count, len(values), f", or for numbers give {parameter('decision', 'regression')}")
    if kind == "sigmoid":
        if found.count != 2 or found.names:
            raise InputError(
                f"{parameter('decision', 'sigmoid')} is for labels 0 and 1; these are others. Leave it out: then each "
                "class has a logit.",
                code="unknown-label",
            )
        return ModelLabels("sigmoid", count=1)
    return found


def _refuse_many(count: int, rows: int, otherwise: str = "") -> None:
    """Refuse a column with so many different values that it is hardly one of labels."""
    if count > max(_FEW, rows / 2):
        raise InputError(
            f"The column of labels needs {count:,} classes for {rows:,} rows. Is it another one? Name it with "
            f"{parameter('label_column')}{otherwise}.",
            code="unknown-label",
        )


def _classes(values: Sequence[Any]) -> ModelLabels:
    """The classes of single labels."""
    keys = {normalized_label(value) for value in values}
    numbers = sorted(key for key in keys if isinstance(key, int))
    if len(numbers) < len(keys):
        texts = sorted({str(value).strip() for value in values})
        return ModelLabels("multiclass", tuple(texts), len(texts))
    if numbers == list(range(len(numbers))):
        return ModelLabels("multiclass", (), len(numbers))
    return ModelLabels("multiclass", tuple(map(str, numbers)), len(numbers), numbers_are_names=True)


def _several(values: Sequence[tuple[int, Any]], names: Sequence[str] | None) -> ModelLabels:
    """The labels of lists: of names, of numbers, or of 0 and 1 for each label."""
    lists = []
    for row, value in values:
        parsed = value
        if isinstance(value, str):  # a cell of a csv
            with contextlib.suppress(ValueError):
                parsed = json.loads(value)
        if not isinstance(parsed, list | tuple):
            raise InputError(
                f"Row {row} (counted from 0) has the label {short_repr(value)}; expected a list, as in the other rows.",
                code="unknown-label",
            )
        labels = [plain(entry) for entry in parsed]
        if not all(
            isinstance(label, str | int) or (isinstance(label, float) and label.is_integer()) for label in labels
        ):
            raise InputError(
                f"Row {row} (counted from 0) has the labels {short_repr(value)}; expected a list of names or whole "
                "numbers.",
                code="unknown-label",
            )
        lists.append(labels)
    entries = {normalized_label(label) for labels in lists for label in labels}
    if names is not None:
        return ModelLabels("multilabel", tuple(names), len(names))
    if not entries:
        raise InputError(
            f"Every list of labels is empty. Name another column with {parameter('label_column')}.",
            code="missing-labels",
        )
    if entries <= {0, 1} and len({len(one) for one in lists}) == 1 and len(lists[0]) > 1:
        return ModelLabels("multilabel", (), len(lists[0]))
    if all(isinstance(entry, int) and entry >= 0 for entry in entries):
        return ModelLabels("multilabel", (), max(entries) + 1)
    return ModelLabels("multilabel", tuple(sorted(map(str, entries))), len(entries))
