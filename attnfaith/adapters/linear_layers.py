"""Linear layers of a copied model run by oneDNN, where that is known to be faster and changes nothing but rounding.

On a processor PyTorch multiplies float32 matrices with MKL. oneDNN comes with PyTorch too. Two processors of AMD were
measured: oneDNN is a twentieth faster on one and more than twice as fast on the other. What attnfaith does is mostly
such products, so it asks for oneDNN. The owner's model is left as it is.
`torch.backends.mkldnn.enabled = False` turns it off.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

LEAST_WEIGHTS = 2**14
"""Layers of fewer weights stay as they are."""
LEAST_PRODUCTS = 2**21
"""With fewer multiplications, what a call of oneDNN costs besides is more than it saves."""
# The operation that compiled models use. It is not public, so it may be missing in another version of PyTorch.
_MKLDNN: Any = torch.backends.mkldnn  # as PyTorch calls oneDNN
_ONEDNN: Any = getattr(torch.ops.mkldnn, "_linear_pointwise", None) if _MKLDNN.is_available() else None
_IS_X86 = platform.machine().lower() in ("x86_64", "amd64")


def speed_up(module: nn.Module) -> None:
    """Let a linear layer of a copied model run by oneDNN; other modules stay as they are."""
    forward = _FORWARDS.get(type(module))
    if _ONEDNN is None or not _IS_X86 or forward is None or "forward" in vars(module):
        return
    weight: Any = module.weight
    if type(weight) is nn.Parameter and weight.dtype is torch.float32 and weight.numel() >= LEAST_WEIGHTS:
        vars(module)["forward"] = partial(forward, module)


def _linear_forward(module: nn.Linear, input: Tensor) -> Tensor:
    """The forward function of `nn.Linear`; its argument has the name that it has in torch."""
    return linear(input, module.weight, module.bias)


def _conv1d_forward(module: Conv1D, x: Tensor) -> Tensor:
    """That of the linear layer of GPT-2, whose weights are ``[in, out]``."""
    return linear(x, module.weight.t(), module.bias)


_FORWARDS: dict[type[nn.Module], Callable[..., Tensor]] = {nn.Linear: _linear_forward, Conv1D: _conv1d_forward}


def linear(inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """``inputs @ weight.T + bias`` by oneDNN where it serves, else by torch; differentiable in the inputs."""
    if not _serves(inputs, weight, bias):
        return F.linear(inputs, weight, bias)
    if torch.is_grad_enabled() and inputs.requires_grad:
        result: Tensor = _Linear.apply(inputs, weight, bias)
        return result
    return _product(inputs, weight, bias)


def _serves(inputs: Tensor, weight: Tensor, bias: Tensor | None) -> bool:
    """Whether oneDNN gives what torch gives here, and faster."""
    return (
        type(inputs) is Tensor
        and inputs.dtype is weight.dtype is torch.float32
        and inputs.device.type == weight.device.type == "cpu"
        and inputs.numel() * weight.shape[0] >= LEAST_PRODUCTS
        and not (weight.requires_grad or (bias is not None and bias.requires_grad))
        and _MKLDNN.enabled
        and not torch.is_autocast_enabled("cpu")
    )


def _product(inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    result: Tensor = _ONEDNN(inputs.contiguous(), weight, bias, "none", [], "")
    return result


class _Linear(torch.autograd.Function):
    """The product with its derivative in the inputs: a product again, so it can be differentiated any number of times.

    Example:
        >>> inputs = torch.ones(2, 3, requires_grad=True)
        >>> _Linear.apply(inputs, torch.ones(4, 3), None).sum().backward()
        >>> inputs.grad
        tensor([[4., 4., 4.],
                [4., 4., 4.]])
    """

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(weight)
        return _product(inputs, weight, bias)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (weight,) = ctx.saved_tensors
        return linear(gradient, weight.t(), None), None, None
