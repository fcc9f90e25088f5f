"""Perturbing ids by ids, for metrics that would add noise to them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from attnfaith.errors import InputError


def perturb_tokens(
    replacement: int | Tensor, *, share: float = 0.15, special_ids: Any = (), seed: int | None = None
) -> Any:
    """A perturbation function for `captum.metrics`: some tokens are replaced by another one.

    captum's own functions add noise to their inputs, which turns ids into numbers that are no ids. Give the result to
    ``sensitivity_max(perturb_func=...)``, and with ``infidelity``'s convention (it asks for the change as well) use
    ``.with_change``.

    Args:
        replacement: the id that takes the place of a token (the mask or unknown token, say), or ids to draw from.
        share: how many of the tokens are replaced, on average; at least one is in each text.
        special_ids: ids that stay (padding, start and end).
        seed: makes the draws repeatable; by default torch's own random state is used.

    Returns:
        A function from ids ``[B, L]`` to perturbed ids, with an attribute ``with_change`` that returns
        ``(change, perturbed)``, the change being 1 where a token was replaced.

    Example:
        >>> replace = perturb_tokens(3, share=0.5, special_ids=[0], seed=0)
        >>> replace(torch.tensor([[0, 7, 8, 9]])).shape
        torch.Size([1, 4])
    """
    if not 0 < share <= 1:
        raise InputError(f"Expected share above 0 and at most 1, got {share}.")
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    choices = torch.as_tensor(replacement).reshape(-1)
    stays = torch.tensor(sorted(special_ids), dtype=torch.long)

    def change(ids: Any) -> tuple[Tensor, Tensor]:
        single = ids[0] if isinstance(ids, tuple) else ids
        if single.is_floating_point():
            raise InputError(f"Expected token ids, got {single.dtype}.")
        free = ~torch.isin(single, stays.to(single.device))
        draws = torch.rand(single.shape, generator=generator).to(single.device).masked_fill(~free, 2.0)
        first = draws == draws.amin(-1, keepdim=True)
        chosen = free & ((draws < share) | first)
        drawn = choices[torch.randint(len(choices), single.shape, generator=generator)].to(single)
        return chosen, torch.where(chosen, drawn, single)

    def perturb(ids: Any, *_: Any) -> Any:
        perturbed = change(ids)[1]
        return (perturbed,) if isinstance(ids, tuple) else perturbed

    def with_change(ids: Any, *_: Any) -> tuple[Any, Any]:
        chosen, perturbed = change(ids)
        changed = chosen.to(torch.get_default_dtype())
        return ((changed,), (perturbed,)) if isinstance(ids, tuple) else (changed, perturbed)

    perturb.with_change = with_change  # type: ignore[attr-defined]
    return perturb
