"""Read the label column of the data as the model's class numbers."""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attnfaith.data.cell_values import missing, plain
from attnfaith.errors import InputError
from attnfaith.functional.decision import Kind
from attnfaith.parameter_names import parameter
from attnfaith.validation import short_repr

_WHOLE = re.compile(r"-?[0-9]{1,15}(\.0*)?")
Label = int | float | tuple[int, ...] | None


@dataclass(frozen=True)
class ModelLabels:
    """The classes or labels that a model can predict.

    Attributes:
        kind: how it decides, as in `attnfaith.functional.decision.Decision`.
        names: the names of its classes, in their order; may be empty.
        count: the number of classes or labels; ignored for "sigmoid", where one logit decides between two classes.
        numbers_are_names: whether a number in the data is the name of a class and not its number, as with the stars 1
            to 5 of a model that `attnfaith.training.train` made.
    """

    kind: Kind
    names: tuple[str, ...] = ()
    count: int = 0
    numbers_are_names: bool = False

    @classmethod
    def of_config(cls, config: Any, kind: Kind, count: int) -> ModelLabels:
        """Those of a model, from its configuration; ``count`` is the number of its logits.

        Example:
            >>> from transformers import BertConfig
            >>> ModelLabels.of_config(BertConfig(id2label={0: "bad", 1: "good"}), "multiclass", 2).names
            ('bad', 'good')
        """
        by_number = getattr(config, "id2label", None) or {}
        names = tuple(str(name) for _, name in sorted(by_number.items()))
        numbers_are_names = bool(getattr(config, "numbers_are_names", False))
        return cls(kind, names[: cls(kind, count=count).classes], count, numbers_are_names)

    @property
    def classes(self) -> int:
        """The number of classes."""
        return 2 if self.kind == "sigmoid" else self.count

    @property
    def usable_names(self) -> tuple[str, ...]:
        """The names, if there is one for each class; else none."""
        return self.names if len(self.names) == self.classes else ()


class LabelReader:
    """Converts labels of the data to class numbers (to numbers for a regression); refuses unknown labels.

    Args:
        labels: what the model can predict.
        mapping: ``{class in the model: label in the data}``, as in the library ``evaluate``. A class is given by its
            name, or by its number if the model has no names.
        names: the names of the data's class numbers, where the data have them (a ``datasets.ClassLabel``).
        required: whether the data cannot be used without labels, for messages.

    Example:
        >>> labels = LabelReader(ModelLabels("multiclass", ("bad", "good"), 2))
        >>> labels("Good", row=0), labels(1, row=1), labels("0", row=2), labels(None, row=3)
        (1, 1, 0, None)
        >>> LabelReader(ModelLabels("multiclass", ("bad", "good"), 2), {"good": 5, "bad": 1})(5, row=0)
        1
    """

    def __init__(
        self,
        labels: ModelLabels,
        mapping: Mapping[Any, Any] | None = None,
        names: Sequence[str] | None = None,
        *,
        required: bool = False,
    ) -> None:
        self.labels = labels
        self._or_without = "" if required else f", or leave labels out with {parameter('label_column', None)}"
        class_names = labels.usable_names
        self._by_name = {name: number for number, name in enumerate(class_names)}
        folded = [name.strip().casefold() for name in class_names]
        self._by_folded_name = {name: number for number, name in enumerate(folded) if folded.count(name) == 1}
        # If the names are themselves numbers ("1" to "5"), a number in the data can be a class number or a name.
        self._names_are_numbers = any(
            isinstance(_normalized(name), int) and _normalized(name) != number
            for number, name in enumerate(class_names)
        )
        self._mapping = self._read_mapping(mapping)
        self._mapped = mapping is not None
        self._data_names = tuple(names) if names is not None else ()
        classes = [self._class_by_name(name) for name in self._data_names]
        self._trust_names = bool(classes) and None not in classes
        self._multi_hot_row: int | None = None  # the first row that read as 0 or 1 for each label
        self._listed_row: int | None = None  # the first row that read as a list of label numbers
        self._cache: dict[tuple[type, Any], int | None] = {}

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the reader of the results on how labels were read."""
        if self._data_names and not self._trust_names and not self._mapped and not self._has_default_names():
            return (
                f"Labels are compared by number: the data call the classes {_listed(self._data_names)}, the model "
                f"{_listed(self.labels.names)}. {parameter('label_mapping')} can change this.",
            )
        return ()

    def __call__(self, value: Any, row: int) -> Label:
        """Convert one label; None, NaN and an empty cell are no label. ``row`` is the row number for errors."""
        value = plain(value)
        if missing(value) or value == "":
            return None
        if self.labels.kind == "regression":
            return self._regression_value(value, row)
        if self.labels.kind == "multilabel":
            return self._label_set(value, row)
        if isinstance(value, list | tuple | dict):
            raise self._refused(value, row, "one label for each text is expected, not several")
        try:
            key = (type(value), value)
            if key not in self._cache:
                self._cache[key] = self._class_number(value, row)
            return self._cache[key]
        except TypeError:  # not hashable
            raise self._refused(value, row, f"it is of type {type(value).__name__}") from None

    def _class_number(self, value: Any, row: int) -> int | None:
        if self._data_names and value == -1:  # `datasets` writes -1 where a label is withheld
            return None
        is_index = isinstance(value, int) and 0 <= value < len(self._data_names)
        name = self._data_names[value] if is_index else str(value) if isinstance(value, bool | str) else None
        number = _normalized_truth(value)
        keys = (number, _normalized(value), _normalized(name))
        mapped = {self._mapping[key] for key in keys if key in self._mapping}
        if len(mapped) > 1:
            raise self._refused(
                value, row, f"{parameter('label_mapping')} maps both {value!r} and {name!r}, to different classes"
            )
        if mapped:
            return mapped.pop()
        if name is not None and (self._trust_names or not is_index):
            by_name = self._class_by_name(name)
            if by_name is not None:
                return by_name
        if self._mapped:
            raise self._refused(value, row, f"{parameter('label_mapping')} does not mention it")
        if self.labels.numbers_are_names and not is_index and (known := self._class_by_name(str(number))) is not None:
            return known
        if self._names_are_numbers and not is_index:
            reason = "it could be a class number or a class name, because the model's class names are numbers"
            raise self._refused(value, row, reason)
        if not isinstance(number, int) or not 0 <= number < self.labels.classes:
            raise self._refused(value, row)
        return number

    def _label_set(self, value: Any, row: int) -> tuple[int, ...]:
        """The label numbers that are on, for a multi-label model."""
        if isinstance(value, str):  # a cell of a csv
            with contextlib.suppress(ValueError):
                value = json.loads(value)
        if not isinstance(value, list | tuple):
            raise self._refused(value, row, "a list is expected: of the labels that are on, or of 0 and 1 for each")
        values = [plain(entry) for entry in value]
        if len(values) == self.labels.count and all(isinstance(v, bool | int | float) and v in (0, 1) for v in values):
            self._multi_hot_row = row if self._multi_hot_row is None else self._multi_hot_row
            numbers = [number for number, entry in enumerate(values) if entry]
        else:
            if any(missing(entry) for entry in values):
                raise self._refused(value, row, "one of its entries is missing")
            if any(not isinstance(entry, str) for entry in values):
                self._listed_row = row if self._listed_row is None else self._listed_row
            numbers = [number for entry in values if (number := self._class_number(entry, row)) is not None]
        # With two labels or fewer, [0, 1] can mean both labels or the second one only.
        if self.labels.count <= 2 and self._multi_hot_row is not None and self._listed_row is not None:
            raise InputError(
                f"Row {self._multi_hot_row} reads as 0 or 1 for each label, row {self._listed_row} as a list of label "
                "numbers. Use one of the two throughout, or names (rows are counted from 0).",
                code="unknown-label",
            )
        return tuple(sorted(set(numbers)))

    def _regression_value(self, value: Any, row: int) -> float | None:
        try:
            number = float(value)
        except (TypeError, ValueError):
            raise self._refused(value, row, "the model is a regression, so a number is expected") from None
        if math.isinf(number):
            raise self._refused(value, row, "a finite number is expected")
        return None if math.isnan(number) else number

    def _class_by_name(self, name: str) -> int | None:
        number = self._by_name.get(name)
        return self._by_folded_name.get(name.strip().casefold()) if number is None else number

    def _has_default_names(self) -> bool:
        return not self._by_name or all(name == f"LABEL_{number}" for number, name in enumerate(self.labels.names))

    def _read_mapping(self, mapping: Any) -> dict[Any, int]:
        """The mapping as ``{normalized label in the data: class number}``."""
        if mapping is None:
            return {}
        if not isinstance(mapping, Mapping) or not mapping:
            raise InputError(
                f"Expected {parameter('label_mapping')} to be a dict, got {short_repr(mapping)}.", code="unknown-label"
            )
        if self.labels.kind == "regression":
            raise InputError(
                f"{parameter('label_mapping')} is for classes, but the model is a regression. Leave it out.",
                code="unknown-label",
            )
        class_of: dict[Any, int] = {}
        for key, label in mapping.items():
            number = self._class_of_key(key)
            if number is None:
                raise self._not_a_class(key, mapping)
            if class_of.setdefault(_normalized(label), number) != number:
                raise InputError(
                    f"{parameter('label_mapping')} maps two classes, {class_of[_normalized(label)]} and {number}, to "
                    f"the label {short_repr(label)}.",
                    code="unknown-label",
                )
        return class_of

    def _class_of_key(self, key: Any) -> int | None:
        """The class that a key of the mapping names: by name, or by number if the model has no names."""
        if self._by_name:
            return self._class_by_name(key) if isinstance(key, str) else None
        number = _normalized(key)
        return number if isinstance(number, int) and 0 <= number < self.labels.classes else None

    def _not_a_class(self, key: Any, mapping: Mapping[Any, Any]) -> InputError:
        message = (
            f"{parameter('label_mapping={class: label}')} gives a class of the model the label that it has in the "
            f"data; {short_repr(key)} is no class of the model. {self._classes()}"
        )
        turned_round = {}
        for label, value in mapping.items():  # read it as {label in the data: class in the model}
            number = self._class_of_key(value)
            if number is None and _normalized(value) in range(self.labels.classes):
                number = _normalized(value)
            if number is None:
                return InputError(message, code="unknown-label")
            turned_round[self.labels.usable_names[number] if self._by_name else number] = label
        if len(turned_round) < len(mapping):  # several labels for one class
            return InputError(
                f"{message} Each class can have one label only: replace the others in the data.", code="unknown-label"
            )
        return InputError(
            f"{message} It fits with classes and labels exchanged: {short_repr(turned_round, 200)}.",
            code="unknown-label",
        )

    def _classes(self) -> str:
        last = self.labels.classes - 1
        named = f" and the names {_listed(self.labels.names)}" if self._by_name else ""
        return f"The model has the class numbers 0 to {last}{named}."

    def _refused(self, value: Any, row: int, reason: str = "the model does not have it") -> InputError:
        message = f"Row {row} (counted from 0) has the label {short_repr(value)}: {reason}."
        if self.labels.kind == "regression":
            return InputError(
                f"{message} Name another column with {parameter('label_column')}{self._or_without}.",
                code="unknown-label",
            )
        return InputError(
            f"{message} {self._classes()} Give the label that each class has in the data with "
            f"{parameter('label_mapping={class: label}')}{self._or_without}.",
            code="unknown-label",
        )


def _normalized(value: Any) -> Any:
    """One key for labels that mean the same: 1, 1.0, True, "1" and "1.0"."""
    value = plain(value)
    if isinstance(value, str):
        return int(float(value)) if _WHOLE.fullmatch(value.strip()) else value.strip()
    if isinstance(value, bool) or (isinstance(value, float) and value.is_integer()):
        return int(value)
    return value


def normalized_label(value: Any) -> Any:
    """One key for single labels that mean the same: 1, 1.0, True, "1", "1.0" and "true".

    Example:
        >>> [normalized_label(value) for value in ("1.0", True, "true", " good ")]
        [1, 1, 1, 'good']
    """
    return _normalized_truth(value)


def _normalized_truth(value: Any) -> Any:
    """The same key, with the words true and false as 1 and 0."""
    key = _normalized(value)
    return {"true": 1, "false": 0}.get(key.casefold(), key) if isinstance(key, str) else key


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
