"""Outputs of a model and their gradients at given attention weights, which are independent variables."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from attnfaith.adapters.adapter import Affine
from attnfaith.adapters.pass_groups import BUDGET

if TYPE_CHECKING:  # a request keeps what these functions compute
    from attnfaith.attribution.request import Request

TAILS = 4  # a tail is taken to cost 1 / TAILS of a pass; where it is a whole pass, it needs more memory than planned
NUMBERS = 2**22  # attention weights at once where the tail is a product of matrices


def weight_gradient(request: Request, weights: Tensor) -> Tensor:
    """The gradient of the explained number at attention weights ``[B, K, G, N]``, in the same shape.

    The weights are independent variables after the softmax; the encoder is fixed.
    """
    return weight_derivatives(request, weights)[1]


def weight_derivatives(request: Request, weights: Tensor) -> tuple[Tensor, Tensor]:
    """The explained number ``[B, K]`` at attention weights ``[B, K, G, N]``, and its gradient in the same shape."""
    affine = _plain_affine(request)
    if affine is not None:
        logits = weights[:, :, 0] @ affine.contributions + affine.bias.unsqueeze(1)
        return request.quantity(logits), _through(affine, _logit_gradient(request, logits))
    with torch.enable_grad():
        leaf = weights.detach().requires_grad_()
        with request.rules():
            logits = request.cut.rerun(request.capture, weights=leaf)
        numbers = request.quantity(logits)
        (gradient,) = torch.autograd.grad(numbers.sum(), leaf)  # the sum too needs a graph, under the caller's no_grad
    return numbers.detach(), gradient


def mean_gradient(request: Request, points: Tensor, parts: Tensor, size: int) -> Tensor:
    """The mean of `weight_gradient` over the path from no attention to the model's, ``[B, G, N]``.

    Args:
        request: the request to the method.
        points: ``[K]``, from 0, no attention, to 1, the model's attention.
        parts: ``[K]``, the weight of each point in the mean.
        size: the number of points that are run together.
    """
    weights, affine = request.capture.weights, _plain_affine(request)
    if affine is not None:  # the logits are linear in the point: average their gradients, then go to items once
        path_logits = (weights @ affine.contributions) * points[:, None] + affine.bias.unsqueeze(1)
        mean = (parts[:, None] * _logit_gradient(request, path_logits)).sum(1, keepdim=True)
        return _through(affine, mean).squeeze(2)
    total = torch.zeros_like(weights)
    for start in range(0, len(points), size):
        piece = slice(start, start + size)
        path = points[piece, None, None] * weights.unsqueeze(1)
        total += (parts[piece, None, None] * weight_gradient(request, path)).sum(1)
    return total


def tails_together(request: Request) -> int:
    """How many candidates of each text the tail takes at once."""
    texts, items = request.capture.mask.shape
    chunk = request.settings.chunk
    if chunk is None and _plain_affine(request) is not None:
        return max(1, NUMBERS // request.capture.weights.numel())
    return max(1, TAILS * (chunk or BUDGET // items) // texts)


def _plain_affine(request: Request) -> Affine | None:
    """The affine tail, if there is one and gradients follow no special rules."""
    return request.cut.adapter.affine(request.capture) if request.rules is nullcontext else None


def _logit_gradient(request: Request, logits: Tensor) -> Tensor:
    """The gradient of the explained number at logits ``[B, K, C]``, in the same shape."""
    with torch.enable_grad():
        leaf = logits.detach().requires_grad_()
        total = request.quantity(leaf).sum()
    return torch.autograd.grad(total, leaf)[0]


def _through(affine: Affine, gradient: Tensor) -> Tensor:
    """Convert a gradient at logits ``[B, K, C]`` to one at items ``[B, K, 1, N]``, by their contributions."""
    return (gradient @ affine.contributions.transpose(1, 2)).unsqueeze(2)
