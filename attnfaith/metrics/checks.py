"""What is refused at the door: numbers that cannot be what they are said to be."""

from __future__ import annotations

from typing import Any

import numpy as np

from attnfaith.errors import InputError
from attnfaith.metrics.inputs import Array

ROUNDING = 0.01  # the sum of a softmax in half precision is as far from 1


def check_probabilities(values: Array, where: str) -> None:
    """Refuse what is not made of probabilities of two or more classes ``[..., C]``; NaN may stand for unknown ones."""
    if values.shape[-1] < 2:
        raise InputError(
            f"Expected {where} to have a probability of each of two or more classes, got {values.shape[-1]}. For "
            "one sigmoid output p, give [1 - p, p]."
        )
    check_distribution(values, where)


def check_distribution(values: Array, where: str) -> None:
    """Refuse numbers ``[..., N]`` that are negative, or do not add up to 1; NaN may stand for unknown ones."""
    total = values.sum(-1)
    if (values < 0).any() or (np.abs(total - 1) > ROUNDING).any():
        worst = total.ravel()[np.nan_to_num(np.abs(total - 1)).argmax()]
        said = "negative numbers" if (values < 0).any() else f"a sum of {worst:.6g}"
        raise InputError(f"Expected {where} to be at least 0 and to add up to 1, got {said}. Logits need a softmax.")


def check_same(found: dict[str, int], what: str, where: str) -> None:
    """Refuse inputs of one text that are not of one size."""
    if len(set(found.values())) > 1:
        said = ", ".join(f"{size} in {name}" for name, size in found.items())
        raise InputError(f"Expected as many {what} in every input of {where}, got {said}.")


def check_share(value: Any, name: str) -> None:
    """Refuse a share that is not between 0 and 1."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
        raise InputError(f"Expected {name} to be between 0 and 1, got {value!r}.")
