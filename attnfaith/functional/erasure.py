"""Erasing items from attention distributions (Serrano & Smith 2019, section 2.1)."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

from attnfaith.functional.ranking import ranks_of


def log_weights_of(weights: Tensor) -> Tensor:
    """The logarithm of weights in float64, -inf where a weight is zero or negative."""
    return weights.double().clamp_min(0).log()


def erase(weights: Tensor, keep: Tensor, log_weights: Tensor | None = None) -> Tensor:
    """Zero the removed items of every distribution and rescale each to the mass it had.

    Erasing nothing returns the weights bit for bit. A distribution that keeps no item (or none that the model lets it
    attend) becomes the zero vector. Pass ``log_weights`` where weights may have underflowed: if all kept weights were
    rounded to zero, there is nothing to rescale, but the softmax of their log-weights still gives the right result.

    Args:
        weights: ``[..., G, N]``, not negative.
        keep: ``[..., N]`` bool, broadcast against ``weights`` without its G.
        log_weights: ``[..., G, N]``, -inf for items that cannot be attended; the logarithm of ``weights`` by default.

    Returns:
        The rescaled weights, in the dtype of ``weights`` and the broadcast shape.

    Example:
        >>> erase(torch.tensor([[0.5, 0.25, 0.25]]), torch.tensor([False, True, True]))
        tensor([[0.0000, 0.5000, 0.5000]])
    """
    logs = log_weights_of(weights) if log_weights is None else log_weights.double()
    kept_logs = logs.masked_fill(~keep.unsqueeze(-2), -torch.inf)
    mass = weights.double().sum(-1, keepdim=True)
    share = torch.softmax(kept_logs, dim=-1).nan_to_num(0.0)  # all -inf gives NaN: no item is left, the zero vector
    # nothing erased: exp(log(w)) differs from w in the last bit, so the original is returned
    unedited = (keep.unsqueeze(-2) | (logs == -torch.inf)).all(-1, keepdim=True)
    return torch.where(unedited, weights.double(), share * mass).to(weights.dtype)


def prefix_keeps(order: Tensor, mask: Tensor, start: int, stop: int) -> Tensor:
    """The items kept after removing the first ``start``, ..., ``stop - 1`` of an order, ``[..., stop - start, N]``.

    The order is ``[..., B, N]``, the mask ``[B, N]``.

    Example:
        >>> prefix_keeps(torch.tensor([[1, 0]]), torch.tensor([[True, True]]), 0, 3).int()
        tensor([[[1, 1],
                 [1, 0],
                 [0, 0]]], dtype=torch.int32)
    """
    removed = torch.arange(start, stop, device=order.device)
    return (ranks_of(order).unsqueeze(-2) >= removed[:, None]) & mask.unsqueeze(1)


def prefix_sums(log_weights: Tensor, mass: Tensor, values: Tensor, order: Tensor) -> Tensor:
    """The weighted mean of the values after removing 0, 1, ..., N items: all prefixes in one pass over the items.

    The sums run over the kept items, from the end of the order, in float64. "The total minus what was removed" would
    cancel: once little is kept, every digit is lost. One shift (the largest log-weight) serves all prefixes of a text;
    where log-weights spread so far that weights would underflow even in float64, each prefix is shifted by itself.

    Args:
        log_weights: ``[B, N]`` float64, -inf for items that cannot be attended (padding included).
        mass: ``[B]``, the sum of each distribution.
        values: ``[B, N, D]``, the vectors that are averaged.
        order: ``[..., B, N]``, items in the order of removal, padding last.

    Returns:
        ``[..., B, N + 1, D]`` float64; the last row, and every row without items, is zero.

    Example:
        >>> logs = torch.tensor([[0.5, 0.5]]).log()
        >>> prefix_sums(logs, torch.ones(1), torch.tensor([[[2.0], [4.0]]]), torch.tensor([[1, 0]])).flatten()
        tensor([3., 2., 0.], dtype=torch.float64)
    """
    means = sums_from_the_end(log_weights, mass, values, order.flip(-1))
    return torch.nn.functional.pad(means, (1, 0)).flip(-1).movedim(0, -1)


def sums_from_the_end(log_weights: Tensor, mass: Tensor, values: Tensor, kept_order: Tensor) -> Tensor:
    """The weighted mean of the values with the first 1, 2, ..., N items of an order kept.

    Along the last dimension, with D first, everything is several times as fast as with D numbers at a time.

    Args:
        log_weights: as for `prefix_sums`.
        mass: as for `prefix_sums`.
        values: as for `prefix_sums`.
        kept_order: ``[..., B, N]``, orders of removal from their ends: padding first, then the items that stay longest.

    Returns:
        ``[D, ..., B, N]`` float64; zero as long as no item is kept.
    """
    logs, values = log_weights.double(), values.double()
    texts, items, width = values.shape
    finite = logs.isfinite()
    top = logs.masked_fill(~finite, -torch.inf).amax(-1, keepdim=True).nan_to_num(neginf=0.0)
    spread = top.squeeze(-1) - logs.masked_fill(~finite, torch.inf).amin(-1).nan_to_num(posinf=0.0)
    shares = (logs - top).exp().unsqueeze(-1)
    joined = torch.cat((shares, shares * values), dim=-1).flatten(0, 1)
    index = (kept_order + items * torch.arange(texts, device=logs.device).unsqueeze(-1)).flatten()
    ordered = joined.index_select(0, index).view(-1, items, width + 1).permute(2, 0, 1)
    sums = ordered.contiguous().cumsum(-1)
    means = (sums[1:] / sums[:1]).unflatten(1, kept_order.shape[:-1])
    for text in (finite.any(-1) & (spread > 600)).nonzero().flatten().tolist():  # exp(-745) is 0 in float64
        first = torch.ones(items, items, dtype=torch.bool, device=logs.device).tril()
        for place in itertools.product(*(range(size) for size in kept_order.shape[:-2])):
            chosen = kept_order[*place, text]
            kept_logs = logs[text, chosen].masked_fill(~first, -torch.inf)
            means[:, *place, text] = (torch.softmax(kept_logs, dim=-1) @ values[text, chosen]).T
    return means.nan_to_num(0.0) * mass.double().unsqueeze(-1)


def sums_without_each(log_weights: Tensor, mass: Tensor, values: Tensor) -> Tensor:
    """The weighted mean of the values after removing each item by itself: all items in one pass.

    The sum without an item is the sum of the items before it plus that of the items after it, in float64; subtracting
    the item from the total would cancel where it has nearly all weight. Where the other items still underflow beside
    it, they are summed with their own shift.

    Args:
        log_weights: ``[B, N]`` float64, -inf for items that cannot be attended (padding included).
        mass: ``[B]``, the sum of each distribution.
        values: ``[B, N, D]``, the vectors that are averaged.

    Returns:
        ``[B, N, D]`` float64; zero where no other item is left.

    Example:
        >>> logs = torch.tensor([[0.5, 0.5]]).log()
        >>> sums_without_each(logs, torch.ones(1), torch.tensor([[[2.0], [4.0]]])).flatten()
        tensor([4., 2.], dtype=torch.float64)
    """
    logs, values = log_weights.double(), values.double()
    top = logs.amax(-1, keepdim=True).nan_to_num(neginf=0.0)
    shares = (logs - top).exp()
    joined = torch.cat((shares.unsqueeze(0), shares * values.movedim(-1, 0)))  # D first, as in `sums_from_the_end`
    before = torch.nn.functional.pad(joined.cumsum(-1), (1, 0))[..., :-1]
    after = torch.nn.functional.pad(joined.flip(-1).cumsum(-1).flip(-1), (0, 1))[..., 1:]
    sums = before + after
    means = (sums[1:] / sums[:1]).nan_to_num(0.0, 0.0, 0.0)
    underflown = sums[0] < 1e-250
    if bool(underflown.any()):
        other_items = (logs > -torch.inf).sum(1, keepdim=True) - (logs > -torch.inf).long()
        for text, item in (underflown & (other_items > 0)).nonzero().tolist():
            kept_logs = logs[text].clone()
            kept_logs[item] = -torch.inf
            means[:, text, item] = torch.softmax(kept_logs, dim=-1) @ values[text]
    return (means * mass.double().unsqueeze(-1)).movedim(0, -1)
