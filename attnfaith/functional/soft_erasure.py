"""Soft sufficiency and comprehensiveness (Zhao & Aletras 2023): every embedding loses a share of its elements.

Instead of removing the top tokens, each element of each embedding is kept at random: with the importance of the token
as its probability for sufficiency, with one minus it for comprehensiveness. So every score counts, not only the order.
"""

from __future__ import annotations

import torch
from torch import Tensor


def importance(scores: Tensor, mask: Tensor) -> Tensor:
    """Scores scaled to 0..1 within each text, ``[B, N]``: 0 for the lowest, 1 for the highest.

    A score that is NaN counts as the lowest, and equal scores are 0.5. Outside of the mask the result is 0.

    Example:
        >>> importance(torch.tensor([[3.0, 1.0, 2.0, 9.0]]), torch.tensor([[True, True, True, False]]))
        tensor([[1.0000, 0.0000, 0.5000, 0.0000]], dtype=torch.float64)
    """
    values = scores.double()
    known = mask & ~values.isnan()
    low = values.masked_fill(~known, torch.inf).amin(-1, keepdim=True)
    high = values.masked_fill(~known, -torch.inf).amax(-1, keepdim=True)
    scaled = torch.where(high > low, (values - low) / (high - low), 0.5)
    lowest = torch.where(high > low, 0.0, 0.5)
    return torch.where(known, scaled, lowest).masked_fill(~mask, 0.0)


def kept_elements(probability: Tensor, draws: Tensor) -> Tensor:
    """Which elements of each embedding are kept, ``[..., N, E]`` bool.

    Args:
        probability: ``[..., N]``, of keeping an element of a token.
        draws: ``[..., N, E]``, uniform in [0, 1).

    Example:
        >>> kept_elements(torch.tensor([1.0, 0.0]), torch.tensor([[0.0, 0.99], [0.0, 0.99]]))
        tensor([[ True,  True],
                [False, False]])
    """
    return draws < probability.unsqueeze(-1)


def soft_sufficiency(before: Tensor, kept: Tensor, empty: Tensor) -> Tensor:
    """Normalised soft sufficiency, in [0, 1], higher is better; NaN where an empty text lowers nothing.

    ``(S - S0) / (1 - S0)`` with ``S = 1 - max(0, before - kept)``, and ``S0`` the same of the empty text; below 0 it
    is 0.

    Args:
        before: the probability of the explained class for the text itself.
        kept: for the text of which elements are kept as important as they are.
        empty: for the text with all embeddings zero.

    Example:
        >>> half = torch.tensor(0.5)
        >>> float(soft_sufficiency(torch.tensor(1.0), torch.tensor(0.75), half))
        0.5
    """
    lost, all_lost = (before - kept).clamp_min(0), (before - empty).clamp_min(0)
    return _over((all_lost - lost).clamp_min(0), all_lost)


def soft_comprehensiveness(before: Tensor, without: Tensor, empty: Tensor) -> Tensor:
    """Normalised soft comprehensiveness, in [0, 1], higher is better; NaN where an empty text lowers nothing.

    ``max(0, before - without) / (1 - S0)``, at most 1; see `soft_sufficiency`.

    Args:
        before: the probability of the explained class for the text itself.
        without: for the text of which elements are removed as important as they are.
        empty: for the text with all embeddings zero.

    Example:
        >>> half = torch.tensor(0.5)
        >>> float(soft_comprehensiveness(torch.tensor(1.0), torch.tensor(0.75), half))
        0.5
    """
    return _over((before - without).clamp_min(0), (before - empty).clamp_min(0))


def _over(part: Tensor, whole: Tensor) -> Tensor:
    return torch.where(whole > 0, (part / whole).clamp_max(1.0), torch.nan)
