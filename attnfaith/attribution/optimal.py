"""The exact smallest flipping set first, where the tail is affine."""

from __future__ import annotations

from attnfaith.attribution.methods import method
from attnfaith.attribution.request import Request, Scores
from attnfaith.errors import UnsupportedModelError
from attnfaith.functional.optimal import optimum_for
from attnfaith.functional.ranking import ranks_of


@method(
    "attention",
    "optimal",
    cost="O(C N log N), no tail",
    needs="an affine tail with one distribution (HAN, FLAN)",
    reference="exact optimum of the erasure protocol",
    signed=False,
)
def optimal_at_attention(request: Request) -> Scores:
    """An order of removal that flips the decision as early as any can; a score of N is the first to go."""
    capture = request.capture
    affine = request.cut.adapter.affine(capture)
    if affine is None or capture.shape[1] != 1:
        raise UnsupportedModelError(
            "The exact optimum needs a tail that is affine in one attended vector, as HAN and FLAN models have. For "
            f"this model ({request.cut.adapter.path}) use 'greedy', or 'gradient_x_attention', which is cheaper."
        )
    best = optimum_for(
        request.decision, capture.weights[:, 0], affine.contributions, affine.bias, capture.mask, capture.logits
    )
    return request.scores((capture.lengths.unsqueeze(-1) - ranks_of(best.order)).double())
