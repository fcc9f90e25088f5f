"""Shuffling attention: the same weights, given to other items (Jain & Wallace 2019)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from attnfaith.errors import UnsupportedModelError
from attnfaith.functional.attention_limits import divergence_of_corner
from attnfaith.functional.decision import jensen_shannon
from attnfaith.functional.erasure import log_weights_of


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


MARGIN = 1e-3
"""The search stays within epsilon less this share of it: the same weights in another batch are still within epsilon."""
_NOWHERE = -1e4  # the log-weight of what cannot be attended: its exponential is 0, and 0 times it is not NaN
_TINY = 1e-30
_DECAY = (0.9, 0.999)


@dataclass(frozen=True)
class EditableAttention:
    """What an adversary may change: the shares of the free items in the weight that they have together.

    Attributes:
        logs: ``[B, G, N]``, the logarithms of the free items' shares; very low for all others.
        scale: ``[B, G]``, the weight that the free items of a distribution have together.
        fixed: ``[B, G, N]``, the weights of the other items.
        part: ``[B, G]``, the share of ``scale`` in all weight of the distribution, over the number of distributions
            (those that do not exist have none): what the divergence of the free shares counts for in that of the text.
    """

    logs: Tensor
    scale: Tensor
    fixed: Tensor
    part: Tensor

    @property
    def attended(self) -> Tensor:
        """``[B, G, N]``, the free items that a distribution can attend."""
        return self.logs > _NOWHERE


def editable_attention(
    weights: Tensor, free: Tensor, *, log_weights: Tensor | None = None, groups: Tensor | None = None
) -> EditableAttention:
    """What may be changed in attention ``[B, G, N]``, where each distribution keeps its mass.

    Args:
        weights: the original.
        free: ``[B, N]``, items whose weight may change.
        log_weights: ``[B, G, N]``, -inf where the model forbids an item, which then stays at 0; the logarithm of
            ``weights`` by default (so that what is 0 stays 0).
        groups: ``[B, G]``, the distributions that exist; all by default.

    Example:
        >>> found = editable_attention(torch.tensor([[[0.5, 0.25, 0.25]]]), torch.tensor([[True, True, False]]))
        >>> found.logs.exp(), found.scale, found.part
        (tensor([[[0.6667, 0.3333, 0.0000]]]), tensor([[0.7500]]), tensor([[0.7500]]))
    """
    logs = log_weights_of(weights) if log_weights is None else log_weights.double()
    chosen = free.unsqueeze(1) & (logs > -torch.inf)
    shares = logs.masked_fill(~chosen, -torch.inf).log_softmax(-1).nan_to_num(_NOWHERE, neginf=_NOWHERE)
    scale = torch.where(chosen, weights, 0).double().sum(-1)
    mass = weights.double().sum(-1)
    exists = torch.ones_like(mass, dtype=torch.bool) if groups is None else groups
    part = torch.where(exists & (mass > 0), scale / mass, 0.0) / exists.sum(-1, keepdim=True).clamp_min(1)
    fixed = torch.where(chosen, 0, weights)
    return EditableAttention(shares.to(weights.dtype), scale.to(weights.dtype), fixed, part.to(weights.dtype))


def edited_attention(freedom: EditableAttention, shares: Tensor) -> Tensor:
    """The attention in which the free items have other shares, ``[B, K, G, N]`` to the same shape."""
    return torch.addcmul(freedom.fixed.unsqueeze(1), freedom.scale[:, None, :, None], shares)


def divergence_from_original(freedom: EditableAttention, shares: Tensor) -> Tensor:
    """The mean over distributions of JS(original, other) in nats, ``[B, K, G, N]`` to ``[B, K]`` float64.

    Example:
        >>> freedom = editable_attention(torch.tensor([[[1.0, 0.0]]]), torch.tensor([[True, True]]))
        >>> divergence_from_original(freedom, torch.tensor([[[[1.0, 0.0]], [[0.0, 1.0]]]]))
        tensor([[0.0000, 0.6931]], dtype=torch.float64)
    """
    original = freedom.logs.double().exp().unsqueeze(1)
    return (freedom.part.double().unsqueeze(1) * jensen_shannon(original, shares.double())).sum(-1)


def max_divergence(freedom: EditableAttention) -> Tensor:
    """The largest divergence of a text that any weights have, whatever the output, ``[B]`` float64 in nats.

    Example:
        >>> max_divergence(editable_attention(torch.tensor([[[0.75, 0.25]]]), torch.tensor([[True, True]])))
        tensor([0.3804], dtype=torch.float64)
    """
    least = freedom.logs.double().masked_fill(~freedom.attended, 0.0).amin(-1).exp()
    return (freedom.part.double() * divergence_of_corner(least)).sum(-1)


@dataclass(frozen=True)
class AdversaryResult:
    """The best that an adversary found for each text.

    Attributes:
        weights: ``[B, G, N]``; the original where nothing else stays within epsilon.
        js: ``[B]``, its divergence from the original, in nats.
        distance: ``[B]``, how far it moves the output.
        satisfied: ``[B]``, how many of the candidates were within epsilon at some step.
    """

    weights: Tensor
    js: Tensor
    distance: Tensor
    satisfied: Tensor


def search_adversary(
    freedom: EditableAttention,
    distance: Callable[[Tensor], Tensor],
    start: Tensor,
    *,
    epsilon: float,
    steps: int = 500,
    rate: float = 0.01,
    penalty: float = 10.0,
    diversity: float = 1.0,
) -> AdversaryResult:
    """Look for the attention farthest from the original that moves the output by at most epsilon.

    Args:
        freedom: what may be changed.
        distance: from weights ``[B, K, G, N]`` to how far each moves the output, ``[B, K]``; differentiable.
        start: ``[B, K, G, N]``, added to the original log-weights to begin with.
        epsilon: how far the output may move.
        steps: of Adam.
        rate: of Adam.
        penalty: what a step over epsilon costs.
        diversity: what the divergence between candidates counts for.

    Example:
        >>> freedom = editable_attention(torch.tensor([[[0.7, 0.2, 0.1]]]), torch.ones(1, 3, dtype=torch.bool))
        >>> start = torch.randn(1, 5, 1, 3, generator=torch.Generator().manual_seed(0))
        >>> found = search_adversary(freedom, lambda weights: weights[..., 0, 0] * 0, start, epsilon=0.01)
        >>> round(float(found.js), 2), round(float(found.weights[0, 0, 2]), 2), int(found.satisfied)
        (0.51, 0.99, 5)
    """
    logs, part = freedom.logs.unsqueeze(1), freedom.part[:, None, :, None]
    original, scale = logs.exp(), freedom.scale[:, None, :, None]
    known = (original * logs).sum(-1)
    lowest = logs.amax(-1, keepdim=True) - 2 * rate * steps  # from below it no item could catch up with the first
    moved = torch.where(freedom.attended.unsqueeze(1), logs.maximum(lowest) + start, logs)
    first, second = torch.zeros_like(moved), torch.zeros_like(moved)
    best = freedom.logs.exp()
    reached = moved.new_zeros(len(moved))
    satisfied = torch.zeros(moved.shape[:2], dtype=torch.bool, device=moved.device)
    for step in range(1, steps + 1):
        lines = moved.log_softmax(-1)
        shares = lines.exp()
        over, slope = _overstep(distance, edited_attention(freedom, shares), epsilon * (1 - MARGIN), penalty)
        middle = _log_mean(shares, original)
        js = ((shares * (lines - middle)).sum(-1) + known - (original * middle).sum(-1)).mul_(part.squeeze(-1) / 2)
        inside = ~over
        satisfied |= inside
        gained, winner = torch.where(inside, js.sum(-1), 0.0).max(1)
        better = gained > reached
        if bool(better.any()):
            reached = torch.where(better, gained, reached)
            best[better] = shares[better, winner[better]]
        uphill = (lines - middle).add_(_apart(lines, shares), alpha=diversity * 2).mul_(part / 2)
        if slope is not None:
            uphill.addcmul_(slope, scale, value=-1)
        uphill -= (shares * uphill).sum(-1, keepdim=True)
        _climb(moved, uphill.mul_(shares), first, second, step, rate)
    found = edited_attention(freedom, best.unsqueeze(1))
    js = divergence_from_original(freedom, best.unsqueeze(1))[:, 0]
    with torch.no_grad():
        final = distance(found)[:, 0]
    stays = (reached > 0) & (final <= epsilon)
    original = edited_attention(freedom, freedom.logs.exp().unsqueeze(1))
    weights = torch.where(stays[:, None, None], found[:, 0], original[:, 0])
    return AdversaryResult(weights, torch.where(stays, js, 0.0), torch.where(stays, final, 0.0), satisfied.sum(1))


def _overstep(
    distance: Callable[[Tensor], Tensor], weights: Tensor, limit: float, penalty: float
) -> tuple[Tensor, Tensor | None]:
    """Which candidates move the output too far, and how steeply that is fined; None where none does."""
    with torch.enable_grad():
        leaf = weights.detach().requires_grad_()
        excess = distance(leaf) - limit
    over = ~(excess.detach() <= 0)  # an output that is not a number is not within anything
    if not bool(over.any()):
        return over, None
    if not excess.requires_grad:
        raise UnsupportedModelError(
            "The adversary follows the gradient of the output in the weights, and what follows this model's attention "
            "has none. An adapter of your own must not detach weights, nor turn gradients off, in rerun."
        )
    (slope,) = torch.autograd.grad(torch.where(over, excess, 0).sum() * penalty, leaf)
    return over, slope.nan_to_num(0.0, 0.0, 0.0)  # one candidate that breaks the output must not stop the others


def _log_mean(one: Tensor, other: Tensor) -> Tensor:
    return torch.add(one, other).mul_(0.5).clamp_min_(_TINY).log_()


def _apart(lines: Tensor, shares: Tensor) -> Tensor:
    """Twice the gradient of each candidate's mean divergence from the others, ``[B, K, G, N]``."""
    count = shares.shape[1]
    if count == 1:
        return torch.zeros_like(lines)
    total = (count - 1) * lines
    for turn in range(1, count // 2 + 1):  # pairs a turn apart: two for each candidate, one where the turn is half
        middle = _log_mean(shares, shares.roll(turn, 1))
        total -= middle
        if 2 * turn != count:
            total -= middle.roll(-turn, 1)
    return total.div_(count - 1)


def _climb(place: Tensor, uphill: Tensor, first: Tensor, second: Tensor, step: int, rate: float) -> None:
    """One step of Adam, upwards."""
    slow, fast = _DECAY
    first.lerp_(uphill, 1 - slow)
    second.mul_(fast).addcmul_(uphill, uphill, value=1 - fast)
    spread = second.sqrt().div_((1 - fast**step) ** 0.5).add_(1e-8)
    place.addcdiv_(first, spread, value=rate / (1 - slow**step))
