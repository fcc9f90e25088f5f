"""Accuracy and F1 of models that were trained several times, and the differences of two of them, paired by text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from attnfaith.estimates.pivot import numbers
from attnfaith.estimates.quantities import FunctionOfMeans, Mean, Quantity

Array = NDArray[np.float64]


def accuracy(gold: ArrayLike, predictions: Mapping[str, ArrayLike]) -> Mean:
    """The accuracy of each kind of model: the share of texts that are right, averaged over its trainings.

    Args:
        gold: ``[n]``, the class of each text.
        predictions: by the name of a kind, ``[n, S]``, the classes that S models of this kind predict.
    """
    return Mean("accuracy", _right(gold, predictions), **_labels(predictions))


def accuracy_difference(gold: ArrayLike, predictions: Mapping[str, ArrayLike], other: str) -> Mean:
    """The accuracy of every kind minus that of one of them, paired by text."""
    names = [name for name in predictions if name != other]
    right = _right(gold, predictions)
    index = list(predictions).index(other)
    columns = [list(predictions).index(name) for name in names]
    return Mean("accuracy_difference", right[:, columns] - right[:, [index]], **_labels(names))


def macro_f1(gold: ArrayLike, predictions: Mapping[str, ArrayLike], classes: int) -> FunctionOfMeans:
    """The macro-averaged F1 of each kind of model, averaged over its trainings.

    F1 of a class is twice its hits, divided by the texts that have the class and those that are given it; 0 where a
    class is in neither.

    Args:
        gold: ``[n]``.
        predictions: by the name of a kind, ``[n, S]``.
        classes: the number of classes.

    Example:
        >>> import numpy as np
        >>> from attnfaith.estimates.quantities import estimate_of, shared_means
        >>> from attnfaith.functional.statistics import Resamples
        >>> quantity = macro_f1([0, 1, 1], {"model": [[0], [1], [0]]}, 2)
        >>> estimate_of(quantity, shared_means([quantity], Resamples(3, resamples=9))).value.round(3)
        array([0.667])
    """
    columns, shape = _counts(gold, predictions, classes)

    def f1(hits: Array, sizes: Array) -> Array:
        return _averaged(hits, sizes, shape)

    return FunctionOfMeans(
        "f1", np.ones((len(columns[0]), len(shape))), columns=columns, function=f1, **_labels(predictions)
    )


def f1_difference(gold: ArrayLike, predictions: Mapping[str, ArrayLike], classes: int, other: str) -> FunctionOfMeans:
    """The macro-averaged F1 of every kind minus that of one of them, paired by text."""
    names = [name for name in predictions if name != other]
    columns, shape = _counts(gold, predictions, classes)
    index, chosen = list(predictions).index(other), [list(predictions).index(name) for name in names]

    def difference(hits: Array, sizes: Array) -> Array:
        values = _averaged(hits, sizes, shape)
        return values[..., chosen] - values[..., [index]]

    values = np.ones((len(columns[0]), len(names)))
    return FunctionOfMeans("f1_difference", values, columns=columns, function=difference, **_labels(names))


def quantities(gold: ArrayLike, predictions: Mapping[str, ArrayLike], classes: int, other: str) -> list[Quantity]:
    """Accuracy and F1 of every kind of model, and their differences from one kind."""
    return [
        accuracy(gold, predictions),
        accuracy_difference(gold, predictions, other),
        macro_f1(gold, predictions, classes),
        f1_difference(gold, predictions, classes, other),
    ]


def by_kind(table: pd.DataFrame) -> tuple[Array, dict[str, Array]]:
    """The gold classes ``[n]``, and for each kind of model the predictions ``[n, S]`` of its trainings."""
    predictions = {}
    for kind in dict.fromkeys(table["kind"]):
        rows = table[table["kind"] == kind]
        parts = [rows[rows["seed"] == seed] for seed in dict.fromkeys(rows["seed"])]
        predictions[str(kind)] = np.stack([numbers(part["prediction"]) for part in parts], axis=1)
        gold = numbers(parts[0]["gold"])
    return gold, predictions


def _labels(names: Mapping[str, ArrayLike] | Sequence[str]) -> dict[str, Any]:
    return {"keys": [("", "")] * len(names), "others": list(names)}


def _right(gold: ArrayLike, predictions: Mapping[str, ArrayLike]) -> Array:
    """Whether each kind is right, averaged over its trainings, ``[n, kinds]``."""
    truth = np.asarray(gold)[:, None]
    return np.stack([(np.asarray(chosen) == truth).mean(1) for chosen in predictions.values()], axis=1)


def _counts(
    gold: ArrayLike, predictions: Mapping[str, ArrayLike], classes: int
) -> tuple[tuple[Array, Array], list[int]]:
    """Hits, and half the texts that have or are given a class, ``[n, models * classes]``; the models of each kind."""
    truth = np.asarray(gold)[:, None] == np.arange(classes)
    hits, sizes, counts = [], [], []
    for chosen in predictions.values():
        columns = np.asarray(chosen)
        counts.append(columns.shape[1])
        for column in columns.T:
            given = column[:, None] == np.arange(classes)
            hits.append(truth & given)
            sizes.append((truth.astype(float) + given) / 2)
    return (np.hstack(hits).astype(float), np.hstack(sizes)), [count * classes for count in counts]


def _averaged(hits: Array, sizes: Array, shape: Sequence[int]) -> Array:
    """F1 from means of hits and sizes ``[..., models * classes]``, averaged over the columns of each kind."""
    values = hits / np.where(sizes == 0, 1, sizes)
    ends = np.cumsum(shape)[:-1]
    return np.stack([part.mean(-1) for part in np.split(values, ends, axis=-1)], axis=-1)
