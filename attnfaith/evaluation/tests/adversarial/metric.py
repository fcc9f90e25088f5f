"""Metric modules of the adversarial test, for attention and outputs computed elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch

from attnfaith.evaluation.tests.adversarial.summary import NEAR, divergences, unsatisfied
from attnfaith.evaluation.tests.adversarial.test import MORE, TWO, Adversarial
from attnfaith.functional.decision import jensen_shannon, total_variation
from attnfaith.metrics.estimates import TextQuantities
from attnfaith.metrics.inputs import Array, Input, check_distribution, check_probabilities, check_same
from attnfaith.metrics.module import Metric
from attnfaith.validation import share

_ROUNDING = 1e-9  # from 0.51 to 0.5 is 0.01, though in floating point it is a little more


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
    paper: ClassVar[str] = Adversarial.citation

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Check ``epsilon`` and ``near``."""
        if options["epsilon"] is not None:
            share(options["epsilon"], "epsilon")
        share(options["near"], "near", one=True)

    def check(self, text: dict[str, Array], where: str, options: Mapping[str, Any]) -> None:
        """Distributions over the same items, and an output for each."""
        check_same({name: len(text[name]) for name in ("predictions", "outputs")}, "candidates", where)
        for many, item, what, refuse in (
            ("predictions", "references", "items", check_distribution),
            ("outputs", "original_output", "classes", check_probabilities),
        ):
            given = [name for name in (many, item) if name != many or text[many].size]
            check_same({name: text[name].shape[-1] for name in given}, what, where)
            for name in given:
                if text[name].size or what == "classes":
                    refuse(text[name], f"{name} of {where}")

    def measure(self, columns: dict[str, list[Array]], options: Mapping[str, Any]) -> TextQuantities:
        """Compute the values that the class documents."""
        parts = zip(*(columns[name] for name in self.inputs), strict=True)
        js, satisfied = np.array([_reached(*part, epsilon=options["epsilon"]) for part in parts]).reshape(-1, 2).T
        short = np.array([len(weights) < 2 for weights in columns["references"]], dtype=bool)
        js, satisfied = (np.where(short, np.nan, values) for values in (js, satisfied))
        return TextQuantities(
            np.isnan(js),
            [*divergences(js, options["near"]), unsatisfied(satisfied)],
            aside={"too_short": short},
            each={"js": js, "satisfied": satisfied},
        )


def _reached(
    others: Array, weights: Array, after: Array, before: Array, *, epsilon: float | None
) -> tuple[float, float]:
    """The largest divergence of the candidates ``[K, N]`` within epsilon, and their number."""
    if any(np.isnan(values).any() for values in (others, weights, after, before)):
        return (np.nan,) * 2
    if not others.size:
        return 0.0, 0.0
    limit = (TWO if len(before) == 2 else MORE) if epsilon is None else epsilon
    inside = total_variation(*map(torch.from_numpy, (before, after))) <= limit + _ROUNDING
    js = jensen_shannon(*map(torch.from_numpy, (weights, others)))
    return float(torch.where(inside, js, 0.0).max()), float(inside.sum())
