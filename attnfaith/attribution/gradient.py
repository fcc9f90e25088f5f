"""Gradient and gradient times input, at the attention and at the input."""

from __future__ import annotations

from attnfaith.attribution.method import PlotStyle, method
from attnfaith.attribution.request import Request
from attnfaith.attribution.scores import Scores

_PAPER = "Serrano & Smith 2019, section 5.2"


@method("attention", "gradient", passes=1, backward=True, erased_at_input=False, reference=_PAPER)
def gradient_at_attention(request: Request) -> Scores:
    """The gradient dd/dw_i, summed over distributions."""
    return request.scores(request.weight_gradients.sum(1))


@method(
    "attention",
    "gradient_x_attention",
    passes=1,
    backward=True,
    reference=_PAPER,
    multiplies_by_inputs=True,
    default_for="affine",
    style=PlotStyle("#0072B2", "^"),
)
def gradient_x_attention(request: Request) -> Scores:
    """The weight times its gradient, w_i dd/dw_i, summed over distributions."""
    return request.scores((request.capture.weights * request.weight_gradients).sum(1))


@method("input", "gradient", passes=1, backward=True, reference="Simonyan et al. 2014", signed=False)
def gradient_at_input(request: Request) -> Scores:
    """The Euclidean norm of the gradient at each token's vector: sensitivity."""
    return request.scores(request.token_gradients.norm(dim=-1), request.tokens)


@method(
    "input",
    "gradient_x_input",
    passes=1,
    backward=True,
    erased_at_input=False,
    reference="Denil et al. 2014",
    multiplies_by_inputs=True,
)
def gradient_x_input(request: Request) -> Scores:
    """The dot product of each token's vector with its gradient."""
    return request.scores((request.token_gradients * request.token_vectors).sum(-1), request.tokens)
