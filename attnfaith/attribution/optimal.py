"""The ranking `optimal`: the exact smallest flipping set first, for models with an affine tail."""

from __future__ import annotations

from torch import Tensor

from attnfaith.adapters.cut import Cut
from attnfaith.attribution.method import PlotStyle, method
from attnfaith.attribution.request import Request
from attnfaith.attribution.scores import Scores
from attnfaith.errors import UnsupportedModelError
from attnfaith.functional.decision import Decision
from attnfaith.functional.optimum import Optimum, optimum_for
from attnfaith.functional.ranking import ranks_of
from attnfaith.types import Capture

OPTIMAL = ("attention", "optimal")
"""The level and name of this ranking."""


@method(
    *OPTIMAL,
    display_name="optimal order",
    passes=0,
    needs="one attention distribution, and an affine part after it (HAN, FLAN)",
    needs_affine_tail=True,
    reference="exact optimum of the erasure protocol",
    role="search",
    signed=False,
    style=PlotStyle("#000000", "s"),
)
def optimal_at_attention(request: Request) -> Scores:
    """An order of removal that flips the decision as early as possible; the first item has the score N."""
    best = optimum_of(request.cut, request.capture, request.decision)
    if best is None:
        raise UnsupportedModelError(
            "The exact optimum needs a tail that is affine in one attended vector, as HAN and FLAN models have. For "
            f"this model ({request.cut.adapter.tail}) use 'greedy', or 'gradient_x_attention', which is cheaper.",
            code="unsupported-ranking",
        )
    return request.scores((request.capture.lengths.unsqueeze(-1) - ranks_of(best.order)).double())


def optimum_of(cut: Cut, capture: Capture, decision: Decision, *, fixed: Tensor | None = None) -> Optimum | None:
    """The smallest flipping sets of a batch; None if the tail is not affine in one attended vector.

    Args:
        cut: the model, cut.
        capture: the batch.
        decision: how the model decides.
        fixed: ``[B, N]``, items that are never erased.
    """
    affine = cut.adapter.affine(capture)
    if affine is None or capture.shape[1] != 1:
        return None
    weights = capture.weights[:, 0].double()
    if capture.log_weights is not None:  # weights that underflowed matter once all larger ones are removed
        shares = capture.log_weights[:, 0].softmax(-1).nan_to_num(0.0)
        weights = shares * weights.sum(-1, keepdim=True)
    return optimum_for(decision, weights, affine.contributions, affine.bias, capture.mask, capture.logits, fixed=fixed)
