"""The self-check of a cut: its results, tolerances and measures, and the texts it is tried on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attnfaith.adapters.adapter import Adapter
from attnfaith.errors import AttnFaithError, UnsupportedModelError, message_of
from attnfaith.types import Capture

TOLERANCES = {torch.float64: 2e-6, torch.float32: 2e-4, torch.bfloat16: 0.1, torch.float16: 0.05}
"""How far two computations of the same logits may differ, relative to the effect of the edit.

In float64 most families agree to 1e-14; families that always compute their softmax in float32 set the limit.
"""


@dataclass(frozen=True)
class SelfCheck:
    """What was measured when a model was cut; differences are relative to the scale of the logits or to the effect.

    Attributes:
        identity: the tail on the original weights against the model's own logits, relative to the scale of the logits.
        effect: how far a real edit moved the logits, relative to their scale.
        edit: the tail on edited weights against a full forward pass with the edit, relative to the effect; for a
            registered adapter, its fast path against its own tail.
        padding: the text alone against the text padded, relative to the scale; NaN where the model cannot be padded.
        texts: the number of short texts that went through the whole model for it.
    """

    identity: float
    effect: float
    edit: float
    padding: float
    texts: int

    def __str__(self) -> str:
        """One line."""
        parts = [f"identity {self.identity:.0e}", f"effect {self.effect:.0e}", f"edit {self.edit:.0e}"]
        parts.append("padding not tried" if self.padding != self.padding else f"padding {self.padding:.0e}")
        return f"{', '.join(parts)} ({self.texts} short passes)"


def relative_difference(left: Tensor, right: Tensor, scale: float) -> float:
    """The largest difference relative to a scale; infinite where either is not finite."""
    difference = (left.detach().double() - right.detach().double()).abs().max().item()
    return difference / scale if difference == difference and scale > 0 else float("inf")


def scale_of(logits: Tensor) -> float:
    """The scale of logits: half of their range over classes, for the text where it is largest.

    The size of the logits is no measure: an offset shared by all classes changes no decision, and would make
    differences look small. Near a tie, where rounding is large relative to the range, the scale is a hundredth of the
    size of the logits; with a single class it is their size.
    """
    values = logits.detach().double()
    size = values.abs().max().item()
    if values.shape[-1] > 1:
        half_range = (values.amax(-1) - values.amin(-1)).max().item() / 2
        size = max(half_range, size / 100)
    return max(size, 1e-12)


def tolerance_of(logits: Tensor) -> float:
    """The tolerance for the dtype of these logits, see `TOLERANCES`."""
    return TOLERANCES.get(logits.dtype, 2e-4)


def trial_weights(capture: Capture, adapter: Adapter) -> tuple[Tensor, float]:
    """The original weights and an edit that visibly changes the logits, ``[B, 2, G, N]``, and the effect of the edit.

    At the usual initialisation an ordinary edit moves a Transformer's logits by 5e-5 of their scale, and a comparison
    relative to the logits would pass with the edit ignored. Attention is linear in its weights, and the weights need
    not be a distribution, so the edit is amplified until it moves the logits by a tenth of their scale.
    """
    original = capture.weights
    generator = torch.Generator().manual_seed(0)
    noise = torch.rand(original.shape, generator=generator, dtype=torch.float64).to(original.device, original.dtype)
    noise = noise * capture.mask.unsqueeze(1)
    if capture.groups is not None:
        noise = noise * capture.groups.unsqueeze(-1)
    scale = scale_of(capture.logits)
    for gain in (1.0, 8.0, 64.0, 512.0):
        weights = torch.stack((original, original + gain * noise), dim=1)
        logits = adapter.rerun(capture, weights)
        effect = relative_difference(logits[:, 1], logits[:, 0], scale)
        if 0.1 <= effect < float("inf"):
            break
    return weights, effect


def refuse_unless(holds: bool, reason: str) -> None:
    """Refuse the model, with a reason, unless a property holds."""
    if not holds:
        raise UnsupportedModelError(f"This model cannot be cut faithfully: {reason}")


def first_unpadded(inputs: Mapping[str, Any], *, padding: bool = False) -> dict[str, Any]:
    """The first text of a batch as a batch of one, without its padding (or with it)."""
    ids = inputs["input_ids"]
    batch, length = ids.shape[:2]
    mask = inputs.get("attention_mask")
    real = torch.ones_like(ids[0]).bool() if mask is None or padding else mask[0].bool()
    for_tail: dict[str, Any] = {}
    for name, value in inputs.items():
        if isinstance(value, Tensor) and value.dim() > 0 and value.shape[0] == batch:
            value = value[:1]
            if value.dim() > 1 and value.shape[1] == length:
                value = value[:, real]
        for_tail[name] = value
    return for_tail


def with_longer_text(inputs: Mapping[str, Any], pad_id: int, *, left: bool = False) -> dict[str, Any]:
    """Batch a text with a longer one, so that the text is padded on one side.

    The longer text is the text twice, with one start and one end token, which any model accepts.
    """
    ids = inputs["input_ids"]
    length = ids.shape[1]
    inputs = {"attention_mask": torch.ones_like(ids), **inputs}
    together: dict[str, Any] = {}
    for name, value in inputs.items():
        if isinstance(value, Tensor) and value.dim() > 1 and value.shape[:2] == (1, length):
            longer = torch.cat((value[:, :-1], value[:, 1:]), dim=1)
            filler = value.new_full((1, length - 2, *value.shape[2:]), pad_id if name == "input_ids" else 0)
            short = torch.cat((filler, value) if left else (value, filler), dim=1)
            value = torch.cat((short, longer))
        elif isinstance(value, Tensor) and value.dim() and value.shape[0] == 1:
            value = torch.cat((value, value))
        together[name] = value
    return together


def one_line(error: BaseException) -> str:
    """An exception as one line of text."""
    text = message_of(error).strip().splitlines()
    if isinstance(error, AttnFaithError) and text:
        return text[0]
    return f"{type(error).__name__}: {text[0][:160]}" if text else type(error).__name__
