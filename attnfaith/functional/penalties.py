"""Terms that training objectives add to a loss: impermissible attention, conicity, tying of hidden states to words."""

from __future__ import annotations

import torch
from torch import Tensor


def impermissible_mass(weights: Tensor, marked: Tensor) -> Tensor:
    """The share of attention on marked items, ``[..., N]`` twice to ``[...]``; NaN where nothing is attended.

    Example:
        >>> impermissible_mass(torch.tensor([0.5, 0.25, 0.25]), torch.tensor([True, False, True]))
        tensor(0.7500)
    """
    return (weights * marked).sum(-1) / weights.sum(-1)


def deception_penalty(
    weights: Tensor, marked: Tensor, items: Tensor, groups: Tensor, *, over_heads: str = "mean"
) -> Tensor:
    """``-log(1 - m)`` with m the mass on marked items, over the heads of each text (Pruthi et al. 2020, section 3).

    ``1 - m`` is the sum of the weights that are left, so it is exact also where m is 1 but for a rounding error.

    Args:
        weights: ``[B, G, N]``, each distribution sums to 1.
        marked: ``[B, N]`` bool.
        items: ``[B, N]`` bool, what can be attended.
        groups: ``[B, G]`` bool, the distributions that exist.
        over_heads: "mean" of the penalties of the distributions, or "max", the penalty of the worst of them.

    Returns:
        ``[B]``, in nats; NaN for a text all of whose items are marked.

    Example:
        >>> weights = torch.tensor([[[0.5, 0.5], [1.0, 0.0]]])
        >>> everything = torch.tensor([[True, True]])
        >>> deception_penalty(weights, torch.tensor([[False, True]]), everything, everything)
        tensor([0.3466])
    """
    left = (weights * ~marked.unsqueeze(1)).sum(-1)
    penalties = -left.clamp_min(torch.finfo(left.dtype).tiny).log()
    if over_heads == "max":
        value = penalties.masked_fill(~groups, -torch.inf).amax(1)
    else:
        value = torch.where(groups, penalties, 0).sum(1) / groups.sum(1)
    return value.masked_fill(~(items & ~marked).any(1), torch.nan)


def conicity(vectors: Tensor, mask: Tensor) -> Tensor:
    """The mean cosine of vectors with their mean (Mohankumar et al. 2020, eq. 1 and 2): 1 if all point the same way.

    Args:
        vectors: ``[..., N, D]``.
        mask: ``[..., N]`` bool, the vectors that count.

    Returns:
        ``[...]``; NaN without vectors. A vector of zero length, or a mean of zero, has a cosine of 0.

    Example:
        >>> conicity(torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([True, True]))
        tensor(0.7071)
    """
    counted = mask.unsqueeze(-1)
    vectors = torch.where(counted, vectors, 0)
    count = mask.sum(-1)
    mean = vectors.sum(-2) / count.clamp_min(1).unsqueeze(-1)
    cosines = torch.nn.functional.cosine_similarity(vectors, mean.unsqueeze(-2).expand_as(vectors), dim=-1)
    return _mean(cosines, mask)


def squared_distance(vectors: Tensor, words: Tensor, mask: Tensor) -> Tensor:
    """The mean squared distance of hidden states from the vectors of their words (Tutek & Snajder 2020, "tying").

    Args:
        vectors: ``[B, N, D]``.
        words: ``[B, N, D]``.
        mask: ``[B, N]`` bool, the items that count.

    Returns:
        ``[B]``: the squared Euclidean distance, averaged over the items; NaN without items.

    Example:
        >>> squared_distance(torch.ones(1, 2, 2), torch.zeros(1, 2, 2), torch.tensor([[True, False]]))
        tensor([2.])
    """
    distances = (vectors - words).square().sum(-1)
    return _mean(distances, mask)


def _mean(values: Tensor, mask: Tensor) -> Tensor:
    """The mean over the last dimension; NaN, with a gradient of zero, where nothing counts (0 / 0 has none)."""
    count = mask.sum(-1)
    return (torch.where(mask, values, 0).sum(-1) / count.clamp_min(1)).masked_fill(count == 0, torch.nan)
