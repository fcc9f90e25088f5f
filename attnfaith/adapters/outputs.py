"""Reading what a classifier returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from attnfaith.errors import NumericalError, UnsupportedModelError


def logits_of(output: Any) -> Tensor:
    """The logits in what a classifier returns: ``.logits``, the first of a tuple, or the tensor itself."""
    if isinstance(output, Tensor):
        return output
    logits = getattr(output, "logits", None)
    if logits is None and isinstance(output, Mapping):
        logits = output.get("logits")
    if logits is None and isinstance(output, Sequence):
        logits = next((value for value in output if isinstance(value, Tensor)), None)
    if not isinstance(logits, Tensor) or logits.dim() != 2:
        raise UnsupportedModelError(
            f"Expected a classifier that returns logits [batch, classes]; {type(output).__name__} has none. "
            "For another output, write an adapter (register_adapter)."
        )
    return logits


def check_finite(name: str, values: Tensor) -> None:
    """Refuse a batch with NaN or infinity in it, naming the texts."""
    finite = values.isfinite().flatten(1).all(1)
    if not bool(finite.all()):
        bad = (~finite).nonzero().flatten().tolist()
        raise NumericalError(
            f"The model's {name} are NaN or infinite for texts {bad} of this batch. Look for NaN in its weights, or "
            "for overflow in half precision."
        )


def mixed(logits: Tensor) -> Tensor:
    """One number that depends on every logit: coefficients without a pattern that the logits could cancel."""
    coefficients = torch.cos(1 + torch.arange(logits.shape[-1], device=logits.device, dtype=torch.float64))
    return (logits.double() * coefficients).sum()
