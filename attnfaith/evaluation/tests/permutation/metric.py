"""Other attention, the same output? From attention and outputs that were computed elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch

from attnfaith.evaluation.tests.adversarial.summary import NEAR, divergences, unsatisfied
from attnfaith.evaluation.tests.adversarial.test import MORE, TWO
from attnfaith.evaluation.tests.permutation.summary import distances
from attnfaith.functional.decision import Decision, jensen_shannon, total_variation
from attnfaith.metrics.citations import JAIN_WALLACE
from attnfaith.metrics.estimates import TextQuantities
from attnfaith.metrics.inputs import Array, Input, check_distribution, check_probabilities, check_same, check_share
from attnfaith.metrics.module import Metric

_ROUNDING = 1e-9  # from 0.51 to 0.5 is 0.01, though in floating point it is a little more


class PermutationDistance(Metric):
    """How far does the output move when the same attention weights go to other items?

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
    paper: ClassVar[str] = JAIN_WALLACE

    def check(self, text: dict[str, Array], where: str, options: Mapping[str, Any]) -> None:
        """Outputs over the same classes; there may be none."""
        given = {name: values for name, values in text.items() if values.size}
        check_same({name: values.shape[-1] for name, values in given.items()}, "classes", where)
        for name, values in {**given, "references": text["references"]}.items():
            check_probabilities(values, f"{name} of {where}")

    def measure(self, columns: dict[str, list[Array]], options: Mapping[str, Any]) -> TextQuantities:
        """See the class."""
        pairs = zip(columns["predictions"], columns["references"], strict=True)
        middle, largest, flips = np.array([_shuffled(after, before) for after, before in pairs]).reshape(-1, 3).T
        each = {"median_tvd": middle, "max_tvd": largest, "flips": flips}
        never = np.where(np.isnan(flips), np.nan, flips == 0)
        return TextQuantities(np.isnan(middle), distances({**each, "never_changes": never}), each=each)


class AdversarialDivergence(Metric):
    """How different can attention be while the output stays as it is?

    The attention as it is always counts as well, so no divergence is below 0. Of several heads, give their
    distributions side by side, divided by their number: then divergences are means over heads.

    Args:
        predictions: for each text, other attention over its items: one distribution for each candidate.
        references: the attention as it is.
        outputs: the probabilities of the classes with each candidate.
        original_output: those with the attention as it is.
        epsilon: a candidate counts when its output is within this total variation distance of the original; by default
            0.01 with two classes, 0.05 with more.
        near: from which share of ln 2 on a divergence is near it; by default 0.9.

    Returns:
        A flat dict.

        - texts: how many.
        - too_short: those with fewer than two items, which are set aside.
        - undefined: those with a number that is NaN.
        - near_ln2: the share of texts where the largest divergence is near ln 2.
        - unsatisfied: the share of texts with no candidate that counts.
        - js_median, js_mean: the median and mean over texts of the largest Jensen-Shannon divergence of a candidate
          that counts, in nats.
        - per_text: if asked for, the lists ``js`` and ``satisfied``: how many candidates count.

    Example:
        >>> found = AdversarialDivergence().compute(
        ...     predictions=[[[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]],
        ...     references=[[1.0, 0.0, 0.0]],
        ...     outputs=[[[0.9, 0.1], [0.2, 0.8]]],
        ...     original_output=[[0.905, 0.095]],
        ... )
        >>> round(found["js_mean"], 4), found["near_ln2"], found["unsatisfied"]
        (0.2158, 0.0, 0.0)
    """

    inputs: ClassVar[dict[str, Input]] = {
        "predictions": Input(2, single=True),
        "references": Input(1),
        "outputs": Input(2, single=True),
        "original_output": Input(1),
    }
    options: ClassVar[dict[str, Any]] = {"epsilon": None, "near": NEAR}
    paper: ClassVar[str] = JAIN_WALLACE

    def check_options(self, options: Mapping[str, Any]) -> None:
        """A distance, and a share."""
        if options["epsilon"] is not None:
            check_share(options["epsilon"], "epsilon")
        if options["near"] != 1:
            check_share(options["near"], "near")

    def check(self, text: dict[str, Array], where: str, options: Mapping[str, Any]) -> None:
        """Distributions over the same items, and an output for each."""
        check_same({name: len(text[name]) for name in ("predictions", "outputs")}, "candidates", where)
        for many, one, what, refuse in (
            ("predictions", "references", "items", check_distribution),
            ("outputs", "original_output", "classes", check_probabilities),
        ):
            given = [name for name in (many, one) if name != many or text[many].size]
            check_same({name: text[name].shape[-1] for name in given}, what, where)
            for name in given:
                if text[name].size or what == "classes":
                    refuse(text[name], f"{name} of {where}")

    def measure(self, columns: dict[str, list[Array]], options: Mapping[str, Any]) -> TextQuantities:
        """See the class."""
        lots = zip(*(columns[name] for name in self.inputs), strict=True)
        js, satisfied = np.array([_reached(*lot, epsilon=options["epsilon"]) for lot in lots]).reshape(-1, 2).T
        short = np.array([len(weights) < 2 for weights in columns["references"]], dtype=bool)
        js, satisfied = (np.where(short, np.nan, values) for values in (js, satisfied))
        return TextQuantities(
            np.isnan(js),
            [*divergences(js, options["near"]), unsatisfied(satisfied)],
            aside={"too_short": short},
            each={"js": js, "satisfied": satisfied},
        )


def _shuffled(after: Array, before: Array) -> tuple[float, float, float]:
    """The median and the largest distance of outputs ``[K, C]`` from one, and the share that decide otherwise."""
    if not after.size or np.isnan(after).any() or np.isnan(before).any():
        return (np.nan,) * 3
    outputs, output = torch.from_numpy(after), torch.from_numpy(before)
    moved, flips = total_variation(output, outputs).numpy(), Decision().flips(output, outputs)
    return float(np.median(moved)), float(moved.max()), float(flips.double().mean())


def _reached(
    others: Array, weights: Array, after: Array, before: Array, *, epsilon: float | None
) -> tuple[float, float]:
    """The largest divergence of candidates ``[K, N]`` that count, and how many do."""
    if any(np.isnan(values).any() for values in (others, weights, after, before)):
        return (np.nan,) * 2
    if not others.size:
        return 0.0, 0.0
    limit = (TWO if len(before) == 2 else MORE) if epsilon is None else epsilon
    inside = total_variation(*map(torch.from_numpy, (before, after))) <= limit + _ROUNDING
    js = jensen_shannon(*map(torch.from_numpy, (weights, others)))
    return float(torch.where(inside, js, 0.0).max()), float(inside.sum())
