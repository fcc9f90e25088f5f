"""How far apart two outputs are."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def jensen_shannon(left: Tensor, right: Tensor) -> Tensor:
    """Jensen-Shannon divergence in nats, ``[..., C]`` twice to ``[...]``; from 0 to ln 2.

    Example:
        >>> jensen_shannon(torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0]))
        tensor(0.6931)
    """
    middle = (left + right) / 2
    one, other = (torch.xlogy(part, torch.where(middle == 0, 1.0, part / middle)) for part in (left, right))
    return ((one + other).sum(-1) / 2).clamp(0, math.log(2))


def total_variation(left: Tensor, right: Tensor) -> Tensor:
    """Half the sum of absolute differences, ``[..., C]`` twice to ``[...]``; from 0 to 1.

    Example:
        >>> total_variation(torch.tensor([0.75, 0.25]), torch.tensor([0.5, 0.5]))
        tensor(0.2500)
    """
    return (left - right).abs().sum(-1) / 2
