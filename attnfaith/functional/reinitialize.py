"""Weights drawn anew, as large as they were: what a model has learned is gone, its scale is not."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from attnfaith.errors import InputError

WAYS = ("permuted", "normal")
"""The tensor's own values in another order; or a normal distribution with its mean and standard deviation."""


def reinitialize(values: Tensor, generator: torch.Generator, how: str = "permuted") -> Tensor:
    """A tensor of the same shape, precision and device, with nothing of the old one but the scale of its values.

    A tensor of one value, and one whose values are all equal, stay what they are.

    Args:
        values: any shape, floating point.
        generator: on the CPU, whatever the device of ``values``: the draw is the same everywhere.
        how: one of `WAYS`.

    Example:
        >>> reinitialize(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.Generator().manual_seed(1))
        tensor([[2., 4.],
                [3., 1.]])
    """
    if how not in WAYS:
        raise InputError(f"Expected how to be one of {', '.join(map(repr, WAYS))}; got {how!r}.")
    if not values.is_floating_point():
        raise InputError(f"Expected weights that are floating-point numbers, got {values.dtype}.")
    flat = values.detach().reshape(-1)
    if how == "permuted":
        return flat[torch.randperm(len(flat), generator=generator).to(flat.device)].reshape(values.shape)
    if not len(flat):
        return values.detach().clone()
    wide = flat.to("cpu", torch.float64)
    drawn = torch.randn(len(flat), generator=generator, dtype=torch.float64) * wide.std(correction=0) + wide.mean()
    return drawn.to(flat).reshape(values.shape)


def evenly_spaced(count: int, chosen: int | None = None) -> list[int]:
    """Some of the numbers from 1 to ``count``, evenly spaced, both ends among them; of one, the last; None for all.

    Example:
        >>> evenly_spaced(14, 4), evenly_spaced(14, 1), evenly_spaced(3, 8)
        ([1, 5, 10, 14], [14], [1, 2, 3])
    """
    if chosen is None or chosen >= count:
        return list(range(1, count + 1))
    if chosen == 1:
        return [count]
    return sorted({int(place) for place in np.linspace(1, count, chosen).round()})
