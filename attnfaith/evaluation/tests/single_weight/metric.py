"""Metric module of the single-weight test, for outputs computed elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch

from attnfaith.evaluation.tests.single_weight import test
from attnfaith.evaluation.tests.single_weight.summary import differences
from attnfaith.functional.decision import Decision, jensen_shannon
from attnfaith.metrics.estimates import TextQuantities
from attnfaith.metrics.inputs import Array, Input, check_probabilities, check_same
from attnfaith.metrics.module import Metric


class SingleWeight(Metric):
    """Whether the output changes more without the most important item than without another item.

    All outputs are probabilities of the classes.

    Args:
        predictions: for each text, the output without its most important item.
        references: the output of the text as it is.
        others: the output without another item; or several such outputs, each without one other item, over which the
            mean is taken: of all other items they give the expectation over all draws.

    Returns:
        A flat dict.

        - texts: how many.
        - undefined: those with an output that is NaN.
        - delta_js_negative: the share of texts where the other item changes the output more.
        - both, only_top, only_drawn, neither: the shares of texts whose decision flips without the one, the other,
          either, or neither; with several others, means.
        - delta_js: the mean difference of the two changes: Jensen-Shannon divergence, nats.
        - per_text: if asked for, the lists ``delta_js``, ``top_flips`` and ``drawn_flips``.

    Example:
        >>> without_top, as_it_is, without_another = [[0.3, 0.7], [0.6, 0.4]], [[0.9, 0.1]] * 2, [[0.9, 0.1]] * 2
        >>> found = SingleWeight().compute(predictions=without_top, references=as_it_is, others=without_another)
        >>> round(found["delta_js"], 4), found["only_top"], found["neither"]
        (0.1342, 0.5, 0.5)
    """

    inputs: ClassVar[dict[str, Input]] = {
        "predictions": Input(1),
        "references": Input(1),
        "others": Input(2, single=True),
    }
    paper: ClassVar[str] = test.SingleWeight.citation

    def check(self, text: dict[str, Array], where: str, options: Mapping[str, Any]) -> None:
        """The three outputs must have the same classes."""
        check_same({name: values.shape[-1] for name, values in text.items()}, "classes", where)
        for name, values in text.items():
            check_probabilities(values, f"{name} of {where}")

    def measure(self, columns: dict[str, list[Array]], options: Mapping[str, Any]) -> TextQuantities:
        """Compute the values that the class documents."""
        result = [
            _text(*map(torch.from_numpy, text)) for text in zip(*(columns[name] for name in self.inputs), strict=True)
        ]
        delta, top, drawn = np.array(result).reshape(-1, 3).T
        single = all(len(others) == 1 for others in columns["others"])
        shares, means = differences(delta, top, drawn, expected=not single)
        return TextQuantities(
            np.isnan(delta), [*shares, *means], each={"delta_js": delta, "top_flips": top, "drawn_flips": drawn}
        )


def _text(top: torch.Tensor, whole: torch.Tensor, others: torch.Tensor) -> tuple[float, float, float]:
    """The difference of the two changes, and whether each removal flips the decision."""
    if bool(torch.cat((top, whole, others.flatten())).isnan().any()):
        return (np.nan,) * 3
    decision = Decision()
    delta = jensen_shannon(whole, top) - jensen_shannon(whole, others).mean()
    return float(delta), float(decision.flips(whole, top)), float(decision.flips(whole, others).double().mean())
