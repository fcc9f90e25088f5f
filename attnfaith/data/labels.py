"""What stands in a column of labels, as the model's class numbers."""

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
from attnfaith.validation import short_repr

_WHOLE = re.compile(r"-?[0-9]{1,15}(\.0*)?")
Label = int | float | tuple[int, ...] | None


@dataclass(frozen=True)
class ModelLabels:
    """What a model can answer.

    Attributes:
        kind: how it decides, as in `attnfaith.functional.decision.Decision`.
        names: of its classes, in their order; may be empty.
        count: of its classes or labels; 2 for "sigmoid" whatever is given, since one logit decides between two.
    """

    kind: Kind
    names: tuple[str, ...] = ()
    count: int = 0

    @property
    def classes(self) -> int:
        """How many class numbers there are."""
        return 2 if self.kind == "sigmoid" else self.count


class LabelReader:
    """Turns labels of the data into class numbers (or numbers, for a regression); refuses what the model does not have.

    Args:
        space: what the model can answer.
        mapping: a class's name in the model -> what stands for it in the data, as in ``evaluate``; or a label of the
            data -> a class's number or name in the model. The second is meant when not every key is one of the
            model's names.
        names: of the data's own class numbers, where it has them (a ``datasets.ClassLabel``).

    Example:
        >>> labels = LabelReader(ModelLabels("multiclass", ("bad", "good"), 2))
        >>> labels("Good", row=0), labels(1, row=1), labels("0", row=2), labels(None, row=3)
        (1, 1, 0, None)
        >>> LabelReader(ModelLabels("multiclass", ("bad", "good"), 2), {"good": 5, "bad": 1})(5, row=0)
        1
    """

    def __init__(
        self, space: ModelLabels, mapping: Mapping[Any, Any] | None = None, names: Sequence[str] | None = None
    ) -> None:
        self.space = space
        own = space.names if len(space.names) == space.classes else ()
        self._by_name = {name: number for number, name in enumerate(own)}
        folded = [name.strip().casefold() for name in own]
        self._by_folded = {name: number for number, name in enumerate(folded) if folded.count(name) == 1}
        # Names such as "1" to "5": a number in the data may then be a class's number or its name.
        self._names_are_numbers = any(isinstance(_key(name), int) and _key(name) != n for n, name in enumerate(own))
        self._mapping = self._read_mapping(mapping)
        self._mapped = mapping is not None
        self._data_names = tuple(names) if names is not None else ()
        known = [self._named(name) for name in self._data_names]
        self._trust_names = bool(known) and None not in known
        self._hot: int | None = None  # the first row that looked like a multi-hot list, and like a list of numbers
        self._listed: int | None = None
        self._seen: dict[tuple[type, Any], int | None] = {}

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the results should know about how labels were read."""
        if self._data_names and not self._trust_names and not self._mapped and not self._generic():
            return (
                f"Labels are compared by number: the data call the classes {_listed(self._data_names)}, the model "
                f"{_listed(self.space.names)}. label_mapping= can say otherwise.",
            )
        return ()

    def __call__(self, value: Any, row: int) -> Label:
        """One label; ``row`` is its place in the data, for messages. None, NaN and an empty cell are no label."""
        value = plain(value)
        if missing(value) or value == "":
            return None
        if self.space.kind == "regression":
            return self._number(value, row)
        if self.space.kind == "multilabel":
            return self._many(value, row)
        if isinstance(value, list | tuple | dict):
            raise self._refused(value, row, "one label for each text is expected, not several")
        try:
            key = (type(value), value)
            if key not in self._seen:
                self._seen[key] = self._one(value, row)
            return self._seen[key]
        except TypeError:  # not hashable
            raise self._refused(value, row, f"it is of type {type(value).__name__}") from None

    def _one(self, value: Any, row: int) -> int | None:
        if self._data_names and value == -1:  # what datasets writes where a label is withheld
            return None
        counted = isinstance(value, int) and 0 <= value < len(self._data_names)
        name = self._data_names[value] if counted else str(value) if isinstance(value, bool | str) else None
        number = _truth(value)
        mapped = {self._mapping[key] for key in (number, _key(value), _key(name)) if key in self._mapping}
        if len(mapped) > 1:
            raise self._refused(value, row, f"label_mapping speaks of it both as {value!r} and as {name!r}")
        if mapped:
            return mapped.pop()
        if name is not None and (self._trust_names or not counted) and (found := self._named(name)) is not None:
            return found
        if self._mapped:
            raise self._refused(value, row, "label_mapping does not speak of it")
        if self._names_are_numbers and not counted:
            raise self._refused(value, row, "it may be a class's number or its name, for the model's names are numbers")
        if not isinstance(number, int) or not 0 <= number < self.space.classes:
            raise self._refused(value, row)
        return number

    def _many(self, value: Any, row: int) -> tuple[int, ...]:
        if isinstance(value, str):  # a cell of a csv
            with contextlib.suppress(ValueError):
                value = json.loads(value)
        if not isinstance(value, list | tuple):
            raise self._refused(value, row, "a list is expected: of the labels that are on, or of 0 and 1 for each")
        values = [plain(entry) for entry in value]
        if len(values) == self.space.count and all(isinstance(v, bool | int | float) and v in (0, 1) for v in values):
            self._hot = row if self._hot is None else self._hot
            found = [number for number, entry in enumerate(values) if entry]
        else:
            if any(missing(entry) for entry in values):
                raise self._refused(value, row, "one of its entries is missing")
            if any(not isinstance(entry, str) for entry in values):
                self._listed = row if self._listed is None else self._listed
            found = [number for entry in values if (number := self._one(entry, row)) is not None]
        # With two labels or fewer, [0, 1] may be both labels or the second one only.
        if self.space.count <= 2 and self._hot is not None and self._listed is not None:
            raise InputError(
                f"Row {self._hot} reads as 0 or 1 for each label, row {self._listed} as a list of label numbers. "
                "Use one of the two throughout, or names (rows are counted from 0)."
            )
        return tuple(sorted(set(found)))

    def _number(self, value: Any, row: int) -> float | None:
        try:
            number = float(value)
        except (TypeError, ValueError):
            raise self._refused(value, row, "the model is a regression, so a number is expected") from None
        if math.isinf(number):
            raise self._refused(value, row, "a finite number is expected")
        return None if math.isnan(number) else number

    def _named(self, name: str) -> int | None:
        found = self._by_name.get(name)
        return self._by_folded.get(name.strip().casefold()) if found is None else found

    def _generic(self) -> bool:
        return not self._by_name or all(name == f"LABEL_{number}" for number, name in enumerate(self.space.names))

    def _read_mapping(self, mapping: Any) -> dict[Any, int]:
        """From labels of the data to classes, whichever way round the mapping was given."""
        if mapping is None:
            return {}
        if not isinstance(mapping, Mapping) or not mapping:
            raise InputError(f"Expected label_mapping to be a dict, got {short_repr(mapping)}.")
        if self.space.kind == "regression":
            raise InputError("label_mapping is for classes; the model is a regression. Leave it out.")
        known = [self._named(name) if isinstance(name, str) else None for name in mapping]
        if None in known:
            known = [self._class_of(label, given) for label, given in mapping.items()]
            pairs = zip(mapping.keys(), known, strict=True)
        else:
            pairs = zip(mapping.values(), known, strict=True)
        found: dict[Any, int] = {}
        for label, number in pairs:
            if number is not None and found.setdefault(_key(label), number) != number:
                raise InputError(
                    f"label_mapping maps the label {short_repr(label)} to two classes, "
                    f"{found[_key(label)]} and {number}."
                )
        return found

    def _class_of(self, label: Any, given: Any) -> int:
        named = self._named(given) if isinstance(given, str) else None
        number = _key(given) if named is None else named
        if not isinstance(number, int) or not 0 <= number < self.space.classes:
            raise InputError(
                f"label_mapping gives {short_repr(label)} to the class {short_repr(given)}. {self._classes()}"
            )
        return number

    def _classes(self) -> str:
        last = self.space.classes - 1
        named = f" and the names {_listed(self.space.names)}" if self._by_name else ""
        return f"The model has the class numbers 0 to {last}{named}."

    def _refused(self, value: Any, row: int, reason: str = "the model does not have it") -> InputError:
        message = f"Row {row} (counted from 0) has the label {short_repr(value)}: {reason}."
        if self.space.kind == "regression":
            return InputError(f"{message} label_column= chooses another column, label_column=None goes without labels.")
        return InputError(
            f"{message} {self._classes()} Say what stands for what with label_mapping={{a class's name: its label in "
            "the data}, or go without labels by label_column=None."
        )


def _key(value: Any) -> Any:
    """Labels that mean the same are one key: 1, 1.0, True, "1" and "1.0"."""
    value = plain(value)
    if isinstance(value, str):
        return int(float(value)) if _WHOLE.fullmatch(value.strip()) else value.strip()
    if isinstance(value, bool) or (isinstance(value, float) and value.is_integer()):
        return int(value)
    return value


def _truth(value: Any) -> Any:
    """The same, with true and false written out as 1 and 0."""
    key = _key(value)
    return {"true": 1, "false": 0}.get(key.casefold(), key) if isinstance(key, str) else key


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
