"""How far apart two outputs are."""

from __future__ import annotations

import torch
from torch import Tensor


def jensen_shannon(left: Tensor, right: Tensor) -> Tensor:
    """Jensen-Shannon divergence in nats, ``[..., C]`` twice to ``[...]``; from 0 to ln 2.

    Example:
        >>> jensen_shannon(torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0]))
        tensor(0.6931)
    """
    middle = (left + right) / 2
    return (
        (torch.xlogy(left, left / middle) + torch.xlogy(right, right / middle)).nan_to_num(0.0).sum(-1) / 2
    ).clamp_min(0)


def total_variation(left: Tensor, right: Tensor) -> Tensor:
    """Half the sum of absolute differences, ``[..., C]`` twice to ``[...]``; from 0 to 1.

    Example:
        >>> total_variation(torch.tensor([0.75, 0.25]), torch.tensor([0.5, 0.5]))
        tensor(0.2500)
    """
    return (left - right).abs().sum(-1) / 2
