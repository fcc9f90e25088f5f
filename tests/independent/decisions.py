"""Decisions, orders and the walk down an order, in plain Python on plain numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Logits = Sequence[float]


@dataclass(frozen=True)
class Rule:
    """How logits decide: "multiclass", "sigmoid", "multilabel" or "regression" (a change beyond the tolerance)."""

    kind: str = "multiclass"
    tolerance: float = 0.0

    def decided(self, logits: Logits) -> Any:
        """The class, the set of labels, or the value."""
        if self.kind == "multiclass":
            best = 0
            for index, value in enumerate(logits):
                if value > logits[best]:
                    best = index
            return best
        if self.kind == "sigmoid":
            return 1 if logits[0] > 0 else 0
        if self.kind == "multilabel":
            return [position for position, value in enumerate(logits) if value > 0]
        return logits[0]

    def flips(self, before: Logits, after: Logits) -> bool:
        """Whether the decision is another one."""
        if self.kind == "regression":
            return abs(after[0] - before[0]) > self.tolerance
        return self.decided(before) != self.decided(after)

    def explained(self, logits: Logits) -> int:
        """The class or label whose number is explained."""
        if self.kind == "sigmoid":
            return 1 if logits[0] > 0 else 0
        best = 0
        for index, value in enumerate(logits):
            if value > logits[best]:
                best = index
        return best

    def directions(self, logits: Logits, *, signed: bool) -> list[int]:
        """In which directions an order is tried: signed scores speak for the explained number being high."""
        if not signed or self.kind in ("multiclass", "sigmoid"):
            return [1]
        if self.kind == "regression":
            return [1, -1]
        return [1 if logits[self.explained(logits)] > 0 else -1]


def erased(weights: Sequence[float], kept: frozenset[int]) -> list[float]:
    """``w * keep * sum(w) / sum(w * keep)``; zeros where nothing is left."""
    mass = math.fsum(weights)
    left = math.fsum(weight for index, weight in enumerate(weights) if index in kept)
    if left == 0:
        return [0.0] * len(weights)
    return [weight * mass / left if index in kept else 0.0 for index, weight in enumerate(weights)]


def ordered(scores: Sequence[float], items: Sequence[int], sign: int = 1) -> list[int]:
    """Items by descending score, ties by position."""
    return sorted(items, key=lambda item: (-sign * scores[item], item))


@dataclass(frozen=True)
class Walked:
    """The first flip of an order: how many were removed, and the logits then; None where it never flips."""

    order: list[int]
    removed: int | None = None
    logits: Logits | None = None


def walk(
    rule: Rule, before: Logits, order: Sequence[int], last: int, logits_of: Callable[[frozenset[int], bool], Logits]
) -> Walked:
    """Remove one item after the other, and look after each.

    Args:
        rule: how logits decide.
        before: the logits of the whole text.
        order: the items that may go.
        last: the last step.
        logits_of: from the removed items, and whether that is all of them, to logits.
    """
    for step in range(1, last + 1):
        after = logits_of(frozenset(order[:step]), step == len(order))
        if rule.flips(before, after):
            return Walked(list(order), step, after)
    return Walked(list(order))


def row_of(rule: Rule, before: Logits, walks: Sequence[Walked], weights: Sequence[float]) -> dict[str, Any]:
    """The row of the table: of several directions the one that flips first."""
    best = min(walks, key=lambda walked: math.inf if walked.removed is None else walked.removed)
    result = {"items": len(best.order), "prediction": rule.decided(before), "censored": best.removed is None}
    if best.removed is None or best.logits is None:
        return result | {"removed": None, "fraction": math.nan, "mass": math.nan, "new_label": None}
    return result | {
        "removed": best.removed,
        "fraction": best.removed / len(best.order),
        "mass": math.fsum(weights[item] for item in best.order[: best.removed]),
        "new_label": rule.decided(best.logits),
    }


def same(got: Any, expected: Any, tolerance: float) -> bool:
    """Integers, labels and truth values exactly, floats within a tolerance, NaN and None as nothing."""
    nothing = [value is None or (isinstance(value, float) and math.isnan(value)) for value in (got, expected)]
    if any(nothing):
        return all(nothing)
    if isinstance(expected, float):
        return math.isclose(float(got), expected, rel_tol=tolerance, abs_tol=tolerance)
    if isinstance(expected, list):
        return [int(value) for value in got] == expected
    return bool(got == expected)
