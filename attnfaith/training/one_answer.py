"""Whether a trained model is better than always giving one answer."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from attnfaith.functional.statistics import binomial_excess

LEVEL = 0.05
"""A model counts as better if the p value is at most this."""


def compare_with_one_answer(
    kind: str, labels: Tensor, epochs: tuple[Mapping[str, float], ...], best: int, names: Mapping[Any, str]
) -> dict[str, Any]:
    """What always giving one answer reaches on the validation texts, and whether the best epoch is better.

    The answer is the most frequent one among them (for a regression, their mean). The p value is that of an exact
    one-sided binomial test, multiplied by the number of epochs from which the best one was chosen.

    Args:
        kind: the decision, as in `Decision`.
        labels: those of the validation texts.
        epochs: the record of each epoch.
        best: the number of the best epoch, from 1.
        names: the names of the classes.

    Returns:
        "answer", "accuracy" (or "loss"), "texts" (their number), "p_value" (NaN for a regression) and "better".
    """
    record = epochs[best - 1]
    if kind == "regression":
        loss = float((labels.double() - labels.double().mean(0)).square().mean())
        better = record["validation_loss"] < loss
        return {
            "answer": "the mean of the labels",
            "loss": loss,
            "texts": len(labels),
            "p_value": math.nan,
            "better": better,
        }
    answers = Counter(tuple(label) if isinstance(label, list) else label for label in labels.tolist())
    answer, frequency = min(answers.items(), key=lambda entry: (-entry[1], entry[0]))
    hits = round(record["validation_accuracy"] * len(labels))
    p_value = float(binomial_excess(hits, len(labels), frequency / len(labels))) * len(epochs)
    shown = str(list(map(int, answer))) if isinstance(answer, tuple) else _name(int(answer), names)
    better = p_value <= LEVEL
    return {
        "answer": shown,
        "accuracy": frequency / len(labels),
        "texts": len(labels),
        "p_value": min(1.0, p_value),
        "better": better,
    }


def _name(number: int, names: Mapping[Any, str]) -> str:
    name = names.get(number, str(number))
    return str(number) if name == f"LABEL_{number}" else str(name)
