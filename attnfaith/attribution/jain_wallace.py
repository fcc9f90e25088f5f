"""What Jain & Wallace hold attention against: the gradient with the attention held constant, and leave-one-out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from attnfaith.adapters.attention_watch import SOFTMAX
from attnfaith.adapters.torch_mode import FunctionInterceptor
from attnfaith.attribution.embedding_gradients import token_vectors, vector_gradient
from attnfaith.attribution.method import Request, Scores, method
from attnfaith.attribution.occlusion import deletion_scores
from attnfaith.errors import UnsupportedModelError

_PAPER = "Jain & Wallace 2019"


class DetachedAttention(FunctionInterceptor):
    """While entered, no gradient goes through attention weights: what a softmax returns is a constant.

    Attributes:
        seen: whether there was one.
    """

    seen = False

    def handle(self, func: Any, name: str, args: Any, kwargs: dict[str, Any]) -> Any:
        """Cut the graph at a softmax; a fused attention's is cut before it, at the query and the key."""
        if name == "scaled_dot_product_attention":
            self.seen = True
            named = {key: value.detach() if key in ("query", "key") else value for key, value in kwargs.items()}
            return func(*(arg.detach() for arg in args[:2]), *args[2:], **named)
        output = func(*args, **kwargs)
        if name not in SOFTMAX:
            return output
        self.seen = True
        return output.detach()


@method(
    "input",
    "gradient_attention_fixed",
    display_name="gradient (attention held constant)",
    short_name="detached gradient",
    passes=1,
    backward=True,
    reference=_PAPER,
    signed=False,
    on_request=True,
)
def gradient_attention_fixed(request: Request) -> Scores:
    """The size of each token's vector times its gradient, all attention weights held constant; they sum to 1."""
    held = DetachedAttention()
    vectors = token_vectors(request)
    gradient = vector_gradient(replace(request, rules=lambda: held, given=request.capture), vectors.unsqueeze(1))[:, 0]
    if not held.seen:
        raise UnsupportedModelError(
            "The attention of this model is made without a softmax, so it is not known what to hold constant. Use "
            "'gradient_x_input', which goes through the attention too."
        )
    sizes = (gradient * vectors).sum(-1).double().abs() * request.tokens
    return request.scores(sizes / sizes.sum(-1, keepdim=True).clamp_min(1e-300), request.tokens)


@method(
    "input",
    "leave_one_out",
    display_name="leave-one-out",
    passes=1,
    passes_per="item",
    reference=_PAPER,
    signed=False,
    on_request=True,
)
def leave_one_out(request: Request) -> Scores:
    """The total variation distance of the output when a token is left out of the ids, and the rest moves up.

    Special tokens cannot be left out, as for `omission`; their score is undefined.
    """
    whole, shorter = request.shortened
    return deletion_scores(request, request.decision.distance(whole.unsqueeze(1).expand_as(shorter), shorter).double())
