"""Re-initialising weights at the scale they had: a model forgets what it learned, its activations keep their size."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from attnfaith.errors import InputError

WAYS = ("permuted", "normal")
"""How: the tensor's values in another order, or draws from a normal distribution of the same mean and deviation."""


def reinitialize(values: Tensor, generator: torch.Generator, how: str = "permuted") -> Tensor:
    """Return random values of the same shape, precision, device and scale as a tensor.

    A tensor of a single value, or of equal values, stays as it is.

    Args:
        values: floating-point numbers of any shape.
        generator: on the CPU, whatever the device of ``values``, so that draws do not depend on the device.
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
    """``chosen`` evenly spaced numbers from 1 to ``count``, both included; a single one is the last; None means all.

    Example:
        >>> evenly_spaced(14, 4), evenly_spaced(14, 1), evenly_spaced(3, 8)
        ([1, 5, 10, 14], [14], [1, 2, 3])
    """
    if chosen is None or chosen >= count:
        return list(range(1, count + 1))
    if chosen == 1:
        return [count]
    return sorted({int(number) for number in np.linspace(1, count, chosen).round()})
