"""Read and check the inputs of a module: a number, a list of numbers, or nested lists for each text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from datasets import Sequence as ListOf  # `List` since datasets 4
from datasets import Value
from numpy.typing import NDArray
from torch import Tensor

from attnfaith.errors import InputError
from attnfaith.validation import short_repr

Array = NDArray[np.float64]
FORMS = ("a number", "a list of numbers", "a list of lists of numbers")
WHOLE = ("a whole number", "a list of whole numbers", "a list of lists of whole numbers")


@dataclass(frozen=True)
class Input:
    """One input of a module.

    Attributes:
        depth: how deeply the lists of one text are nested: 0 for a number, 1 for a list, 2 for a list of lists of equal
            length.
        whole: whether the numbers are whole.
        single: whether one list is accepted for a list of one list.
    """

    depth: int
    whole: bool = False
    single: bool = False

    @property
    def feature(self) -> Any:
        """The feature type of ``datasets``."""
        feature: Any = Value("int64" if self.whole else "float64")
        for _ in range(self.depth):
            feature = ListOf(feature)
        return feature

    def read(self, value: Any, where: str) -> Array:
        """Convert the numbers of one text to an array with ``depth`` dimensions; None becomes NaN.

        Args:
            value: a list, tuple, array or tensor.
            where: what it is, for messages.

        Example:
            >>> Input(1).read([1, None], "scores of text 0")
            array([ 1., nan])
        """
        try:
            array = _array(value)
        except (TypeError, ValueError):
            raise InputError(f"{self._expected(where)} {short_repr(value)}.") from None
        if self.single and array.ndim == self.depth - 1:
            array = array[None]
        if array.ndim != self.depth and array.size == 0:
            array = array.reshape((0,) * self.depth)
        if array.ndim != self.depth:
            raise InputError(f"{self._expected(where)} an array of shape {array.shape}.")
        if self.whole and not (np.isnan(array) | (array == np.round(array))).all():
            raise InputError(f"{self._expected(where)} {short_repr(value)}.")
        return array

    def stored(self, array: Array) -> Any:
        """Convert an array to the lists that ``datasets`` stores, with None for a missing whole number."""
        return _whole(array.tolist()) if self.whole else array.tolist()

    def _expected(self, where: str) -> str:
        return f"Expected {where} to be {(WHOLE if self.whole else FORMS)[self.depth]}, got"


def columns_of(values: Mapping[str, Any], inputs: Mapping[str, Input], start: int = 0) -> dict[str, list[Array]]:
    """Convert every input of a batch to arrays, one for each text.

    Args:
        values: by name, a list, array or tensor with one entry for each text.
        inputs: what is expected.
        start: the number of the first text.
    """
    arrays = {}
    for name, declared in inputs.items():
        column = values.get(name)
        if column is None:
            raise InputError(f"The input {name!r} is missing. Expected: {', '.join(inputs)}.")
        if isinstance(column, str) or not hasattr(column, "__len__") or getattr(column, "ndim", 1) == 0:
            raise InputError(f"Expected {name} to have an entry for each text, got {short_repr(column)}.")
        column = _array(column) if isinstance(column, Tensor) else column
        arrays[name] = [declared.read(value, f"{name} of text {start + index}") for index, value in enumerate(column)]
    counts = {name: len(column) for name, column in arrays.items()}
    if len(set(counts.values())) > 1:
        listing = ", ".join(f"{count} of {name}" for name, count in counts.items())
        raise InputError(f"Expected an entry for each text in every input, got {listing}.")
    return arrays


def padded(rows: Sequence[Array], fill: float = 0.0) -> tuple[Tensor, Tensor]:
    """Pad texts of several lengths to one tensor ``[B, N, ...]``, with a mask ``[B, N]``.

    Example:
        >>> values, mask = padded([np.array([0.5, 0.25]), np.array([1.0])])
        >>> values, mask.tolist()
        (tensor([[0.5000, 0.2500],
                [1.0000, 0.0000]], dtype=torch.float64), [[True, True], [True, False]])
    """
    lengths = torch.tensor([len(row) for row in rows])
    width = int(lengths.max()) if len(rows) else 0
    inner = next((row.shape[1:] for row in rows if len(row)), rows[0].shape[1:] if rows else ())
    values = np.full((len(rows), width, *inner), fill)
    for index, row in enumerate(rows):
        values[index, : len(row)] = row
    return torch.from_numpy(values), torch.arange(width) < lengths.unsqueeze(1)


def _array(value: Any) -> Array:
    """Convert numbers to float64; strings are refused."""
    if isinstance(value, Tensor):
        return value.detach().cpu().double().numpy()
    if isinstance(value, list | tuple) and any(isinstance(item, Tensor) for item in value):
        value = [_array(item) for item in value]
    array = np.asarray(value)
    if array.dtype.kind == "O" and not any(isinstance(item, str) for item in array.ravel()):
        array = array.astype(np.float64)
    if array.dtype.kind not in "biuf":
        raise ValueError(array.dtype)
    return array.astype(np.float64)


def _whole(value: Any) -> Any:
    """Convert lists of floats to lists of whole numbers, with None for NaN."""
    if isinstance(value, list):
        return [_whole(item) for item in value]
    return None if np.isnan(value) else int(value)


ROUNDING = 0.01  # a softmax in half precision may sum to 1 with an error of this size


def check_probabilities(values: Array, where: str) -> None:
    """Refuse values that are not probabilities of two or more classes ``[..., C]``; NaN stands for unknown ones."""
    if values.shape[-1] < 2:
        raise InputError(
            f"Expected {where} to have a probability of each of two or more classes, got {values.shape[-1]}. For "
            "one sigmoid output p, give [1 - p, p]."
        )
    check_distribution(values, where)


def check_distribution(values: Array, where: str) -> None:
    """Refuse numbers ``[..., N]`` that are negative or do not add up to 1; NaN stands for unknown ones."""
    total = values.sum(-1)
    if (values < 0).any() or (np.abs(total - 1) > ROUNDING).any():
        worst = total.ravel()[np.nan_to_num(np.abs(total - 1)).argmax()]
        problem = "negative numbers" if (values < 0).any() else f"a sum of {worst:.6g}"
        raise InputError(f"Expected {where} to be at least 0 and to add up to 1, got {problem}. Logits need a softmax.")


def check_same(sizes: dict[str, int], noun: str, where: str) -> None:
    """Refuse inputs of one text that differ in size."""
    if len(set(sizes.values())) > 1:
        listing = ", ".join(f"{size} in {name}" for name, size in sizes.items())
        raise InputError(f"Expected the same number of {noun} in every input of {where}, got {listing}.")
