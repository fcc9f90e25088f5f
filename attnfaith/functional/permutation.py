"""Shuffling attention: the same weights, given to other items (Jain & Wallace 2019)."""

from __future__ import annotations

import torch
from torch import Tensor


def random_permutations(movable: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Uniform random permutations of some of the positions; all others keep their place.

    Drawn in two calls on one generator they are the same as drawn in one.

    Args:
        movable: ``[N]`` bool, the positions that are shuffled among each other.
        count: how many permutations, K.
        generator: on the CPU.

    Returns:
        ``[K, N]``: the position whose weight each position gets.

    Example:
        >>> movable = torch.tensor([True, False, True, True])
        >>> random_permutations(movable, 2, torch.Generator().manual_seed(0)).sort(-1).values
        tensor([[0, 1, 2, 3],
                [0, 1, 2, 3]])
    """
    places = movable.cpu().nonzero().flatten()
    draws = torch.rand(count, len(places), generator=generator, dtype=torch.float64)
    found = torch.arange(len(movable)).repeat(count, 1)
    found[:, places] = places[draws.argsort(dim=-1, stable=True)]
    return found.to(movable.device)


def permute(weights: Tensor, permutations: Tensor) -> Tensor:
    """Distributions with their weights shuffled, all of a text's alike.

    Args:
        weights: ``[B, G, N]``.
        permutations: ``[B, K, N]``, the position whose weight each position gets.

    Returns:
        ``[B, K, G, N]``.

    Example:
        >>> permute(torch.tensor([[[0.5, 0.3, 0.2]]]), torch.tensor([[[2, 0, 1]]]))
        tensor([[[[0.2000, 0.5000, 0.3000]]]])
    """
    count, groups = permutations.shape[1], weights.shape[1]
    index = permutations.unsqueeze(2).expand(-1, -1, groups, -1)
    return weights.unsqueeze(1).expand(-1, count, -1, -1).gather(3, index)
