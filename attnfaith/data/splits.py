"""Choose a split of a data set, or a part of one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import datasets

from attnfaith.errors import InputError
from attnfaith.parameter_names import parameter

EVALUATION = ("test", "testing", "eval", "evaluation", "validation", "val", "valid", "dev")
"""The splits for evaluation, in the order in which `evaluate` prefers them; used if the user names no split."""
TRAINING, VALIDATION = ("train", "training"), ("validation", "val", "valid", "dev")
"""The same for training, and for choosing the epoch."""


def choose_split(
    splits: Mapping[str, Any], split: str | None, preferred: Sequence[str] = EVALUATION
) -> tuple[Any, tuple[str, ...]]:
    """Choose one split, or a part of one; with a note if the user named none and there are several."""
    names = ", ".join(map(repr, splits))
    if split is None:
        if len(splits) == 1:
            return next(iter(splits.values())), ()
        for name in preferred:
            if name in splits:
                return splits[name], (
                    f"The split {name!r} was taken, out of {names}; choose another with {parameter('split')}.",
                )
        raise InputError(
            f"The data have the splits {names}. Choose one with {parameter('split')}.", code="data-not-found"
        )
    if split in splits:
        return splits[split], ()
    if not all(isinstance(part, datasets.Dataset) for part in splits.values()):
        raise InputError(
            f"There is no split {split!r}; there are {names}. Of a stream, a split is taken as a whole.",
            code="data-not-found",
        )
    try:
        parts = datasets.ReadInstruction.from_spec(split).to_absolute({name: len(splits[name]) for name in splits})
    except (ValueError, AssertionError, TypeError) as error:
        raise InputError(_no_split(split, list(splits)), code="data-not-found") from error
    return datasets.concatenate_datasets(
        [splits[part.splitname].select(range(part.from_, part.to)) for part in parts]
    ), ()


def _no_split(split: str, names: Sequence[str]) -> str:
    part = re.search(r"\[.*\]", split)
    if len(names) == 1:
        suggestion = f"{names[0]}{part[0]}" if part else names[0]
        return (
            f"There is no split {split!r}: the data are a single split, which is called {names[0]!r} whatever the name "
            f"of the file. Use {parameter('split', suggestion)}."
        )
    listed = ", ".join(map(repr, names))
    return f"There is no split {split!r}; there are {listed}. Parts are written as in '{names[0]}[:100]'."
