"""Metric module of the erasure test, for decisions computed elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from attnfaith.errors import InputError
from attnfaith.evaluation.tests.erasure.summary import removals
from attnfaith.evaluation.tests.erasure.test import Erasure
from attnfaith.metrics.estimates import TextQuantities
from attnfaith.metrics.inputs import Array, Input
from attnfaith.metrics.module import Metric


class DecisionFlip(Metric):
    """The number of items to remove from the top of a ranking until the decision flips.

    A decision is the number of a class; of several labels, give each set of them a number. The curve is not monotone:
    the first flip counts, whatever comes after.

    Args:
        predictions: for each text, the decisions without the first 1, 2, ... N items of a ranking of its N items. None
            where none was made: at the end, it says that the last items cannot be removed; before the first flip, that
            the text is undefined.
        references: the decision about each text as it is.

    Returns:
        A flat dict.

        - texts: how many.
        - too_short: those with fewer than two items, which are set aside.
        - undefined: those of which the first flip is not known.
        - never_flipped: the share of texts whose decision never flips.
        - flipped_only_at_end: the share of those that flip with everything removed, and not before.
        - median_fraction: of the items, removed at the flip; inf, "not reached", where fewer than half of the texts
          flip.
        - mean_fraction: the same as a mean; a text that never flips counts as 1.
        - per_text: if asked for, the lists ``removed`` and ``fraction``; inf where the decision never flips.

    Example:
        >>> decisions = [[0, 1, 1, 0], [1, 1], [0, 1, 1, 1]]
        >>> found = DecisionFlip().compute(predictions=decisions, references=[0, 1, 0])
        >>> found["never_flipped"], found["median_fraction"], found["mean_fraction"]
        (0.3333333333333333, 0.5, 0.6666666666666666)
    """

    inputs: ClassVar[dict[str, Input]] = {"predictions": Input(1, whole=True), "references": Input(0, whole=True)}
    paper: ClassVar[str] = Erasure.citation

    def check(self, text: dict[str, Array], where: str, options: Mapping[str, Any]) -> None:
        """The decision on the whole text must be given."""
        if np.isnan(text["references"]):
            raise InputError(f"Expected references to be decisions, got None for {where}.")

    def measure(self, columns: dict[str, list[Array]], options: Mapping[str, Any]) -> TextQuantities:
        """Compute the values that the class documents."""
        pairs = list(zip(columns["predictions"], columns["references"], strict=True))
        items = np.array([len(after) for after, _ in pairs], dtype=np.float64)
        removed = np.array([first_flip(after, before) for after, before in pairs])
        short = items < 2
        removed[short] = np.nan
        by_name = removals(removed[:, None], np.where(short, np.nan, items))
        return TextQuantities(
            np.isnan(removed),
            list(by_name.values()),
            aside={"too_short": short},
            each={"removed": removed, "fraction": by_name["median_fraction"].values[:, 0]},
        )


def first_flip(after: Array, before: Array) -> float:
    """The number of removals until the decision differs: inf for never, NaN if unknown.

    Example:
        >>> first_flip(np.array([0.0, 0.0, 2.0, 0.0]), np.array(0.0))
        3.0
    """
    made = ~np.isnan(after)
    (others,) = np.nonzero(made & (after != before))
    flips = len(others) > 0
    end = others[0] if flips else made.sum()  # without a gap, all that were made come before all that were not
    if not made.any() or not made[:end].all():
        return np.nan
    return float(others[0] + 1) if flips else np.inf
