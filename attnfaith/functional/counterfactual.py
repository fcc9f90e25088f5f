"""Counterfactual attention (Jain & Wallace 2019): shuffled weights, and adversarial weights with the same output.

`random_permutations` and `permute` shuffle the weights of a text. `search_adversary` looks for the attention farthest
from the original that keeps the output within epsilon; what it may change is an `EditableAttention`.
"""

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
    """Draw uniform random permutations of some positions; all others stay where they are.

    Two calls on one generator draw the same permutations as one call with the sum of their counts.

    Args:
        movable: ``[N]`` bool, the positions that are shuffled among each other.
        count: the number of permutations, K.
        generator: on the CPU.

    Returns:
        ``[K, N]``: the position whose weight each position gets.

    Example:
        >>> movable = torch.tensor([True, False, True, True])
        >>> random_permutations(movable, 2, torch.Generator().manual_seed(0)).sort(-1).values
        tensor([[0, 1, 2, 3],
                [0, 1, 2, 3]])
    """
    positions = movable.cpu().nonzero().flatten()
    draws = torch.rand(count, len(positions), generator=generator, dtype=torch.float64)
    permutations = torch.arange(len(movable)).repeat(count, 1)
    permutations[:, positions] = positions[draws.argsort(dim=-1, stable=True)]
    return permutations.to(movable.device)


def permute(weights: Tensor, permutations: Tensor) -> Tensor:
    """Shuffle the weights of attention distributions; all distributions of a text in the same way.

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
"""The search stays below epsilon by this share of it, so that rounding in another batch does not exceed epsilon."""
_NOWHERE = -1e4  # the log-weight of an item that cannot be attended: -inf would give NaN where it is multiplied by 0
_TINY = 1e-30
_DECAY = (0.9, 0.999)  # of Adam's two moments


@dataclass(frozen=True)
class EditableAttention:
    """Attention as an adversary may change it: the total weight of the free items is fixed, their shares of it are not.

    Attributes:
        logs: ``[B, G, N]``, the logarithms of the free items' shares; very low for all others.
        scale: ``[B, G]``, the total weight of the free items of each distribution.
        fixed: ``[B, G, N]``, the weights of the other items.
        part: ``[B, G]``, the factor with which the divergence of the free shares counts in the divergence of the text:
            ``scale`` relative to all weight of the distribution, divided by the number of distributions; 0 for
            distributions that do not exist.
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
    """Split attention ``[B, G, N]`` into weights that may change and weights that stay.

    Args:
        weights: the original attention.
        free: ``[B, N]``, items whose weight may change.
        log_weights: ``[B, G, N]``, -inf where the model forbids an item, which then stays at 0; the logarithm of
            ``weights`` by default (so that a weight of 0 stays 0).
        groups: ``[B, G]``, the distributions that exist; all by default.

    Example:
        >>> editable = editable_attention(torch.tensor([[[0.5, 0.25, 0.25]]]), torch.tensor([[True, True, False]]))
        >>> editable.logs.exp(), editable.scale, editable.part
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


def edited_attention(editable: EditableAttention, shares: Tensor) -> Tensor:
    """Attention weights from new shares of the free items, ``[B, K, G, N]`` to the same shape."""
    return torch.addcmul(editable.fixed.unsqueeze(1), editable.scale[:, None, :, None], shares)


def divergence_from_original(editable: EditableAttention, shares: Tensor) -> Tensor:
    """Divergence from the original in nats, averaged over distributions: shares ``[B, K, G, N]`` to ``[B, K]`` float64.

    Example:
        >>> editable = editable_attention(torch.tensor([[[1.0, 0.0]]]), torch.tensor([[True, True]]))
        >>> divergence_from_original(editable, torch.tensor([[[[1.0, 0.0]], [[0.0, 1.0]]]]))
        tensor([[0.0000, 0.6931]], dtype=torch.float64)
    """
    original = editable.logs.double().exp().unsqueeze(1)
    return (editable.part.double().unsqueeze(1) * jensen_shannon(original, shares.double())).sum(-1)


def max_divergence(editable: EditableAttention) -> Tensor:
    """The largest divergence that any weights of a text can have, whatever the output, ``[B]`` float64 in nats.

    Example:
        >>> max_divergence(editable_attention(torch.tensor([[[0.75, 0.25]]]), torch.tensor([[True, True]])))
        tensor([0.3804], dtype=torch.float64)
    """
    smallest = editable.logs.double().masked_fill(~editable.attended, 0.0).amin(-1).exp()
    return (editable.part.double() * divergence_of_corner(smallest)).sum(-1)


@dataclass(frozen=True)
class AdversaryResult:
    """The best that an adversary found for each text.

    Attributes:
        weights: ``[B, G, N]``; the original where no other weights were within epsilon.
        js: ``[B]``, the divergence from the original, in nats.
        distance: ``[B]``, how far the weights move the output.
        satisfied: ``[B]``, how many of the candidates were within epsilon at some step.
    """

    weights: Tensor
    js: Tensor
    distance: Tensor
    satisfied: Tensor


def search_adversary(
    editable: EditableAttention,
    distance: Callable[[Tensor], Tensor],
    start: Tensor,
    *,
    epsilon: float,
    steps: int = 500,
    rate: float = 0.01,
    penalty: float = 10.0,
    diversity: float = 1.0,
) -> AdversaryResult:
    """Search by gradient ascent for the attention farthest from the original that moves the output by at most epsilon.

    K candidates for each text are moved at once by Adam on their log-weights. The objective is the divergence from the
    original, plus the divergence of the candidates from each other, minus a penalty where the output has moved too far.
    Gradients of the divergences are written out, so that autograd only has to run through the model, and only while
    some candidate is over the limit.

    Args:
        editable: the attention, and what of it may be changed.
        distance: from weights ``[B, K, G, N]`` to how far each moves the output, ``[B, K]``; differentiable.
        start: ``[B, K, G, N]``, added to the original log-weights at the start.
        epsilon: how far the output may move.
        steps: the number of steps of Adam.
        rate: the learning rate of Adam.
        penalty: the factor of the penalty for an output beyond epsilon.
        diversity: the factor of the divergence between candidates.

    Example:
        >>> editable = editable_attention(torch.tensor([[[0.7, 0.2, 0.1]]]), torch.ones(1, 3, dtype=torch.bool))
        >>> start = torch.randn(1, 5, 1, 3, generator=torch.Generator().manual_seed(0))
        >>> result = search_adversary(editable, lambda weights: weights[..., 0, 0] * 0, start, epsilon=0.01)
        >>> round(float(result.js), 2), round(float(result.weights[0, 0, 2]), 2), int(result.satisfied)
        (0.51, 0.99, 5)
    """
    logs, part = editable.logs.unsqueeze(1), editable.part[:, None, :, None]
    original, scale = logs.exp(), editable.scale[:, None, :, None]
    negative_entropy = (original * logs).sum(-1)
    # Adam moves a log-weight by about `rate` each step: an item that starts lower could never reach the first one
    lowest = logs.amax(-1, keepdim=True) - 2 * rate * steps
    moved = torch.where(editable.attended.unsqueeze(1), logs.maximum(lowest) + start, logs)
    first, second = torch.zeros_like(moved), torch.zeros_like(moved)
    best = editable.logs.exp()
    reached = moved.new_zeros(len(moved))
    satisfied = torch.zeros(moved.shape[:2], dtype=torch.bool, device=moved.device)
    for step in range(1, steps + 1):
        log_shares = moved.log_softmax(-1)
        shares = log_shares.exp()
        exceeds, slope = _penalty_gradient(
            distance, edited_attention(editable, shares), epsilon * (1 - MARGIN), penalty
        )
        middle = _log_mean(shares, original)
        js = (shares * (log_shares - middle)).sum(-1) + negative_entropy - (original * middle).sum(-1)
        js.mul_(part.squeeze(-1) / 2)
        inside = ~exceeds
        satisfied |= inside
        gained, winner = torch.where(inside, js.sum(-1), 0.0).max(1)
        better = gained > reached
        if bool(better.any()):
            reached = torch.where(better, gained, reached)
            best[better] = shares[better, winner[better]]
        # the derivative of the divergence in a share is (log share - log middle) / 2
        uphill = (log_shares - middle).add_(_diversity_gradient(log_shares, shares), alpha=diversity * 2).mul_(part / 2)
        if slope is not None:
            uphill.addcmul_(slope, scale, value=-1)
        uphill -= (shares * uphill).sum(-1, keepdim=True)  # through the softmax, to the gradient in the log-weights
        _adam_step(moved, uphill.mul_(shares), first, second, step, rate)
    edited = edited_attention(editable, best.unsqueeze(1))
    js = divergence_from_original(editable, best.unsqueeze(1))[:, 0]
    with torch.no_grad():
        final = distance(edited)[:, 0]
    stays = (reached > 0) & (final <= epsilon)
    unchanged = edited_attention(editable, editable.logs.exp().unsqueeze(1))
    weights = torch.where(stays[:, None, None], edited[:, 0], unchanged[:, 0])
    return AdversaryResult(weights, torch.where(stays, js, 0.0), torch.where(stays, final, 0.0), satisfied.sum(1))


def _penalty_gradient(
    distance: Callable[[Tensor], Tensor], weights: Tensor, limit: float, penalty: float
) -> tuple[Tensor, Tensor | None]:
    """Which candidates move the output beyond the limit, and the gradient of the penalty; None where none does."""
    with torch.enable_grad():
        leaf = weights.detach().requires_grad_()
        excess = distance(leaf) - limit
    exceeds = ~(excess.detach() <= 0)  # not "excess > 0": NaN must count as beyond the limit
    if not bool(exceeds.any()):
        return exceeds, None
    if not excess.requires_grad:
        raise UnsupportedModelError(
            "The adversarial search needs the gradient of the output with respect to the attention weights, and this "
            "model's tail has none. In an adapter of your own, rerun must not detach weights or turn gradients off.",
            code="unsupported-ranking",
        )
    (slope,) = torch.autograd.grad(torch.where(exceeds, excess, 0).sum() * penalty, leaf)
    return exceeds, slope.nan_to_num(0.0, 0.0, 0.0)  # one candidate that breaks the output must not stop the others


def _log_mean(left: Tensor, right: Tensor) -> Tensor:
    """The logarithm of the mean of two distributions."""
    return torch.add(left, right).mul_(0.5).clamp_min_(_TINY).log_()


def _diversity_gradient(log_shares: Tensor, shares: Tensor) -> Tensor:
    """Twice the gradient of each candidate's mean divergence from the other candidates, ``[B, K, G, N]``."""
    count = shares.shape[1]
    if count == 1:
        return torch.zeros_like(log_shares)
    total = (count - 1) * log_shares
    # each pair is computed once: candidate k meets k - shift, and by rolling back k + shift; at half of an even count
    # both are the same pair
    for shift in range(1, count // 2 + 1):
        middle = _log_mean(shares, shares.roll(shift, 1))
        total -= middle
        if 2 * shift != count:
            total -= middle.roll(-shift, 1)
    return total.div_(count - 1)


def _adam_step(values: Tensor, uphill: Tensor, first: Tensor, second: Tensor, step: int, rate: float) -> None:
    """One step of Adam upwards, in place."""
    momentum, decay = _DECAY
    first.lerp_(uphill, 1 - momentum)
    second.mul_(decay).addcmul_(uphill, uphill, value=1 - decay)
    spread = second.sqrt().div_((1 - decay**step) ** 0.5).add_(1e-8)
    values.addcdiv_(first, spread, value=rate / (1 - momentum**step))
