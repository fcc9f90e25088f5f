"""The backward passes of LRP-lite: what relevance does at a linear layer, an activation, and a normaliser."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def damping(output: Tensor, epsilon: float, features: int) -> Tensor | None:
    """``z / (z + epsilon s sign z)`` for a result ``z``; ``s`` is the mean size of ``z`` at each position."""
    if not epsilon:
        return None
    size = output.abs()
    floor = size.mean(features, keepdim=True).mul_(epsilon)
    return size.div_(size + floor).nan_to_num_(1.0)


class Linear(torch.autograd.Function):
    """``F.linear`` under the epsilon rule; counts what the bias takes."""

    @staticmethod
    def forward(
        ctx: Any, given: Tensor, weight: Tensor, bias: Tensor | None, epsilon: float, note: Callable[[Tensor], None]
    ) -> Tensor:
        """The layer's own result."""
        output = F.linear(given, weight, bias)
        if output._is_view():  # torch refuses to change a view in place that was made in here, and some models do
            output = output.clone()
        ctx.save_for_backward(weight, bias, damping(output, epsilon, -1))
        ctx.note = note
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Damp where the result is small, and go back through the weights."""
        weight, bias, ratio = ctx.saved_tensors
        gradient = gradients[0] if ratio is None else ratio.mul_(gradients[0])
        if bias is not None:
            ctx.note(gradient @ bias)
        return gradient @ weight, None, None, None, None


class Damped(torch.autograd.Function):
    """The epsilon rule after any other linear operation; counts what its bias takes."""

    @staticmethod
    def forward(
        ctx: Any, output: Tensor, bias: Tensor | None, epsilon: float, features: int, note: Callable[[Tensor], None]
    ) -> Tensor:
        """Pass the result on; as a copy, since some models go on to change it in place."""
        ctx.save_for_backward(bias, damping(output, epsilon, features))
        ctx.note, ctx.features = note, features
        return output.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Damp where the result is small."""
        bias, ratio = ctx.saved_tensors
        gradient = gradients[0] if ratio is None else gradients[0] * ratio
        if bias is not None:
            ctx.note((gradient * bias).sum(ctx.features))
        return gradient, None, None, None, None


class Pointwise(torch.autograd.Function):
    """f(x), whose relevance goes on in proportion f(x)/x; at 0 its limit, for a kink the mean of both sides."""

    @staticmethod
    def forward(ctx: Any, given: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
        """The activation's own result."""
        output = function(given)
        near = torch.tensor([1e-4, -1e-4], dtype=given.dtype, device=given.device)
        limit = float((function(near) / near).mean())
        ctx.save_for_backward((output / given).nan_to_num_(limit, limit, limit))
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Times f(x)/x."""
        (slope,) = ctx.saved_tensors
        return slope.mul_(gradients[0]), None


class LayerNorm(torch.autograd.Function):
    """``F.layer_norm`` whose normaliser is a constant; counts what the bias takes."""

    @staticmethod
    def forward(
        ctx: Any,
        given: Tensor,
        shape: list[int],
        weight: Tensor | None,
        bias: Tensor | None,
        floor: float,
        epsilon: float,
        note: Callable[[Tensor], None],
    ) -> Tensor:
        """The layer's own result."""
        output, _, scale = torch.native_layer_norm(given, shape, weight, bias, floor)
        ratio = None if bias is None else damping(output, epsilon, -1)
        ctx.save_for_backward(weight, bias, scale, ratio)
        ctx.note, ctx.dims = note, tuple(range(-len(shape), 0))
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Centring is linear, and dividing by a constant too."""
        weight, bias, scale, ratio = ctx.saved_tensors
        gradient = gradients[0] if ratio is None else ratio.mul_(gradients[0])
        if bias is not None:
            ctx.note((gradient * bias).sum(ctx.dims))
        gradient = gradient * scale if weight is None else (gradient * weight).mul_(scale)
        return gradient - gradient.mean(ctx.dims, keepdim=True), None, None, None, None, None, None
