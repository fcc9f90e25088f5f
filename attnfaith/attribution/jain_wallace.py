"""The rankings that Jain & Wallace compare attention with: gradients with attention held constant, leave-one-out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from attnfaith.adapters.attention_watch import SOFTMAX
from attnfaith.adapters.torch_mode import FunctionInterceptor
from attnfaith.attribution.embedding_gradients import vector_gradient
from attnfaith.attribution.method import method
from attnfaith.attribution.occlusion import deletion_scores
from attnfaith.attribution.request import Request
from attnfaith.attribution.scores import Scores
from attnfaith.errors import UnsupportedModelError

_PAPER = "Jain & Wallace 2019"


class DetachedAttention(FunctionInterceptor):
    """While entered, attention weights are constants for gradients: the result of every softmax is detached.

    Attributes:
        attention_found: whether there was a softmax or a fused attention.
    """

    attention_found = False

    def handle(self, func: Any, name: str, args: Any, kwargs: dict[str, Any]) -> Any:
        """Detach the result of a softmax; for a fused attention its query and key."""
        if name == "scaled_dot_product_attention":
            self.attention_found = True
            named = {key: value.detach() if key in ("query", "key") else value for key, value in kwargs.items()}
            return func(*(arg.detach() for arg in args[:2]), *args[2:], **named)
        output = func(*args, **kwargs)
        if name not in SOFTMAX:
            return output
        self.attention_found = True
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
    """The absolute gradient x input with all attention weights held constant, normalised to sum to 1."""
    detached = DetachedAttention()
    vectors = request.token_vectors
    gradient = vector_gradient(replace(request, rules=lambda: detached, known_capture=request.capture), vectors)
    if not detached.attention_found:
        raise UnsupportedModelError(
            "This method holds the attention weights constant and finds them by their softmax; the attention of this "
            "model has none. Use 'gradient_x_input', which also differentiates through the attention.",
            code="unsupported-ranking",
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
    """The total variation distance between the outputs with and without a token; the tokens after it move up.

    Special tokens cannot be left out, as for `omission`; their score is undefined.
    """
    full, shorter = request.shortened
    return deletion_scores(request, request.decision.distance(full.unsqueeze(1).expand_as(shorter), shorter).double())
