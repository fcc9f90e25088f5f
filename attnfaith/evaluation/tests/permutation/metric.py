"""Metric module of the permutation test, for outputs computed elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch

from attnfaith.evaluation.tests.permutation.summary import distances
from attnfaith.evaluation.tests.permutation.test import Permutation
from attnfaith.functional.decision import Decision, total_variation
from attnfaith.metrics.estimates import TextQuantities
from attnfaith.metrics.inputs import Array, Input, check_probabilities, check_same
from attnfaith.metrics.module import Metric


class PermutationDistance(Metric):
    """The change of the output when the attention weights are shuffled among the items.

    All outputs are probabilities of the classes.

    Args:
        predictions: for each text, its outputs with the weights shuffled, one list for each of the shuffles (100 in the
            paper).
        references: the output of the text as it is.

    Returns:
        A flat dict.

        - texts: how many.
        - undefined: those without a shuffle, or with an output that is NaN.
        - never_changes: the share of texts whose decision no shuffle changes.
        - median_tvd: the median over texts of each text's median total variation distance.
        - max_tvd: the median over texts of the largest distance that any shuffle made.
        - median_tvd_mean: the mean over texts of each text's median distance.
        - flips: the mean over texts of the share of shuffles that change the decision.
        - per_text: if asked for, the lists ``median_tvd``, ``max_tvd`` and ``flips``.

    Example:
        >>> shuffled, as_it_is = [[[0.7, 0.3], [0.9, 0.1], [0.4, 0.6]]], [[0.9, 0.1]]
        >>> found = PermutationDistance().compute(predictions=shuffled, references=as_it_is)
        >>> round(found["median_tvd"], 4), found["max_tvd"], found["never_changes"], round(found["flips"], 4)
        (0.2, 0.5, 0.0, 0.3333)
    """

    inputs: ClassVar[dict[str, Input]] = {"predictions": Input(2, single=True), "references": Input(1)}
    paper: ClassVar[str] = Permutation.citation

    def check(self, text: dict[str, Array], where: str, options: Mapping[str, Any]) -> None:
        """The outputs must have the same classes; a text may have none."""
        given = {name: values for name, values in text.items() if values.size}
        check_same({name: values.shape[-1] for name, values in given.items()}, "classes", where)
        for name, values in {**given, "references": text["references"]}.items():
            check_probabilities(values, f"{name} of {where}")

    def measure(self, columns: dict[str, list[Array]], options: Mapping[str, Any]) -> TextQuantities:
        """Compute the values that the class documents."""
        pairs = zip(columns["predictions"], columns["references"], strict=True)
        middle, largest, flips = np.array([_shuffled(after, before) for after, before in pairs]).reshape(-1, 3).T
        each = {"median_tvd": middle, "max_tvd": largest, "flips": flips}
        never = np.where(np.isnan(flips), np.nan, flips == 0)
        return TextQuantities(np.isnan(middle), distances({**each, "never_changes": never}), each=each)


def _shuffled(after: Array, before: Array) -> tuple[float, float, float]:
    """The median and largest distance of outputs ``[K, C]`` from the original, and the share that flip the decision."""
    if not after.size or np.isnan(after).any() or np.isnan(before).any():
        return (np.nan,) * 3
    outputs, output = torch.from_numpy(after), torch.from_numpy(before)
    moved, flips = total_variation(output, outputs).numpy(), Decision().flips(output, outputs)
    return float(np.median(moved)), float(moved.max()), float(flips.double().mean())
