"""The schedule of steps at which the decision is evaluated while the items of a long text are removed."""

from __future__ import annotations

import torch
from torch import Tensor

LONG = 64
"""In texts with more items than this, not every step is evaluated."""
FIRST = 4
"""Of a long text, the first so many steps are evaluated,"""
LATER = 20
"""and so many of the others."""
POWER = 1.5
"""The distances between these grow with the step: the k-th lies at the share ``(k / LATER) ** POWER`` of the rest."""


def schedule_of(last: Tensor, long: Tensor) -> Tensor:
    """The steps to evaluate, for each text in ascending order; 0 after the end.

    A long text has at most `FIRST` + `LATER` steps, whatever its length. A good ranking flips the decision early, where
    one item more or less is a large part of what is removed; so the steps lie close at first.

    Args:
        last: ``[B]``, the last step of each text.
        long: ``[B]`` bool, the texts of which not every step is evaluated.

    Returns:
        ``[B, S]``.

    Example:
        >>> short, long = schedule_of(torch.tensor([3, 300]), torch.tensor([False, True])).tolist()
        >>> short[:5], long[:10], long[-1]
        ([1, 2, 3, 0, 0], [1, 2, 3, 4, 7, 13, 21, 30, 41, 53], 300)
    """
    texts = []
    for end, is_long in zip(last.tolist(), long.tolist(), strict=True):
        steps = set(range(1, end + 1))
        if is_long:
            remaining = end - FIRST
            later = (FIRST + max(1, round(remaining * (k / LATER) ** POWER)) for k in range(1, LATER + 1))
            steps = {*range(1, FIRST + 1), *later}
        texts.append(torch.tensor(sorted(steps), dtype=torch.long))
    if not texts:
        return last.new_zeros(0, 1)
    return torch.nn.utils.rnn.pad_sequence(texts, batch_first=True).to(last.device)
