"""Perturb token ids by other ids, for captum's metrics, which would add noise to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from attnfaith import validation
from attnfaith.errors import InputError


def perturb_tokens(
    replacement: int | Tensor, *, share: float = 0.15, special_ids: Any = (), seed: int | None = None
) -> Any:
    """A perturbation function for `captum.metrics` that replaces some tokens by other tokens.

    captum's own functions add noise to their inputs, which turns ids into numbers that are no ids. Give the result to
    ``sensitivity_max(perturb_func=...)``, and with ``infidelity``'s convention (it asks for the change as well) use
    ``.with_change``.

    Args:
        replacement: the id that takes the place of a token (the mask or unknown token, say), or ids to draw from,
            each as often as the others; a token is never replaced by itself.
        share: how many of the tokens are replaced, on average; at least one is in each text, where one can be.
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
    share = validation.share(share, "share", one=True)
    largest = 2**63 - 1
    generator = (
        None if seed is None else torch.Generator().manual_seed(validation.whole_number(seed, "seed", most=largest))
    )
    choices = _ids(replacement, "replacement").unique()
    if not len(choices):
        raise InputError("replacement is empty; expected an id, or several to draw from.")
    stays = _ids(special_ids, "special_ids")

    def change(ids: Any) -> tuple[Tensor, Tensor]:
        single = ids[0] if isinstance(ids, tuple) else ids
        if not isinstance(single, Tensor) or single.dtype not in (torch.int64, torch.int32):
            raise InputError(f"Expected token ids, got {getattr(single, 'dtype', type(single).__name__)}.")
        candidates = choices.to(single)
        free = ~torch.isin(single, stays.to(single.device))
        if len(choices) == 1:
            free &= single != candidates  # it would be replaced by itself
        draws = torch.rand(single.shape, generator=generator).to(single.device).masked_fill(~free, 2.0)
        first = draws == draws.amin(-1, keepdim=True)
        chosen = free & ((draws < share) | first)
        drawn = torch.randint(len(choices), single.shape, generator=generator)
        offsets = torch.randint(1, max(len(choices), 2), single.shape, generator=generator)
        unchanged = candidates[drawn] == single  # a token must not be replaced by itself: draw another one
        drawn = torch.where(unchanged.cpu(), (drawn + offsets) % len(choices), drawn)
        return chosen, torch.where(chosen, candidates[drawn], single)

    def perturb(ids: Any, *_: Any) -> Any:
        perturbed = change(ids)[1]
        return (perturbed,) if isinstance(ids, tuple) else perturbed

    def with_change(ids: Any, *_: Any) -> tuple[Any, Any]:
        chosen, perturbed = change(ids)
        changed = chosen.to(torch.get_default_dtype())
        return ((changed,), (perturbed,)) if isinstance(ids, tuple) else (changed, perturbed)

    perturb.with_change = with_change  # type: ignore[attr-defined]
    return perturb


def _ids(value: Any, name: str) -> Tensor:
    """Ids as a tensor ``[N]``, from a number, a tensor, or several numbers."""
    if isinstance(value, Tensor) and not value.is_floating_point() and not value.is_complex():
        return value.reshape(-1).long().cpu()
    if isinstance(value, Mapping | str | bytes | Tensor):
        raise InputError(f"Expected {name} to be ids, got {validation.short_repr(value)}.")
    numbers = value if isinstance(value, Iterable) else [value]
    return torch.tensor([validation.whole_number(number, name, least=0) for number in numbers], dtype=torch.long)
