"""Which sequences share a pass through the whole model."""

from __future__ import annotations

from torch import Tensor, nn

from attnfaith.adapters.dummy_inputs import hidden_width
from attnfaith.functional.padding import pass_sizes

BUDGET = 2048  # positions in one pass, so that activations stay in the processor's cache
OVERHEAD, MEASURED_WIDTH = 32, 384
"""What a pass costs on a CPU besides its positions: as much as 32 positions, where hidden states are 384 wide."""


def groups_by_length(
    lengths: Tensor, model: nn.Module, *, budget: int = BUDGET, mixed: bool = True, most: int | None = None
) -> list[Tensor]:
    """The indices of the sequences of each pass; the longest come first.

    Args:
        lengths: ``[M]``, of the sequences.
        model: runs them.
        budget: positions in one pass; a longer sequence has a pass to itself.
        mixed: whether sequences of different lengths may share a pass, which pads the shorter ones.
        most: sequences in one pass; None for as many as the budget allows.

    Example:
        >>> import torch
        >>> groups_by_length(torch.tensor([2, 9, 2, 9]), nn.Identity(), budget=18, mixed=False)
        [tensor([1, 3]), tensor([0, 2])]
    """
    order = lengths.argsort(descending=True, stable=True)
    overhead = _overhead(model, lengths.device.type, budget) if mixed else 0
    groups = order.split(pass_sizes(lengths[order].tolist(), budget=budget, overhead=overhead))
    return [part for group in groups for part in (group.split(most) if most else (group,))]


def _overhead(model: nn.Module, device: str, budget: int) -> int:
    """What a pass costs besides its positions, in positions: much in a narrow model, where a position costs little."""
    width = hidden_width(model)
    if device != "cpu" or width is None:
        return budget  # on an accelerator, or where the width is unknown: fill passes as far as the budget allows
    return min(budget, round(OVERHEAD * (MEASURED_WIDTH / width) ** 2))
