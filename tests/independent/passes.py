"""Full forward passes of one text, with every attention computed by a function of ours.

Two mechanisms, neither of which is the library's. A family that asks Transformers' attention interface gets an
attention function written out here. Every other family is loaded with its "eager" attention, and the name ``softmax``
in ``torch``, ``torch.nn.functional`` and ``torch.Tensor`` is replaced while the model runs. In both cases each
attention hands over its scores and gets weights back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import eager_mask

NAME = "independent-tests"
FORBIDDEN = -5000.0
"""Scores below this are masks (-10000 or the smallest number of the dtype), not scores."""


class Attentions:
    """Computes the weights of every attention of one forward pass.

    Args:
        tokens: how many tokens the text has.
        hidden: tokens that no query may attend, in any attention.
        edit: called with the weights ``[H, Q, N]`` of the final attention; returns those to use.
        final: the number of the final attention; None where no attention is edited.
    """

    def __init__(
        self,
        tokens: int,
        hidden: frozenset[int] = frozenset(),
        edit: Callable[[Tensor], Tensor] | None = None,
        final: int | None = None,
    ) -> None:
        self.tokens, self.hidden, self.edit, self.final = tokens, sorted(hidden), edit, final
        self.count = 0
        self.by_token = True
        self.blind: set[int] = set()

    def weights(self, scores: Tensor) -> Tensor:
        """Scores ``[..., Q, N]`` to weights; a row that has nothing left to attend gets zeros and is remembered."""
        number, self.count = self.count, self.count + 1
        self.by_token &= scores.shape[-1] in (self.tokens, self.tokens + 1)  # one more is an attention sink
        dtype = scores.dtype
        scores = scores.double() if dtype == torch.float64 else scores.float()
        if self.hidden:
            scores = scores.clone()
            scores[..., self.hidden] = -torch.inf
            scores = scores.masked_fill(scores < FORBIDDEN, -torch.inf)
            empty = (scores == -torch.inf).all(-1)
            self.blind |= set(empty.flatten(0, -2).any(0).nonzero().flatten().tolist())
            scores = scores.masked_fill(empty.unsqueeze(-1), 0)
        result = torch.softmax(scores, dim=-1)
        if self.hidden:
            result = result.masked_fill(empty.unsqueeze(-1), 0)
        if number == self.final and self.edit is not None:
            result = self.edit(result.flatten(0, -3)).view_as(result)
        return result


@contextmanager
def softmax_replaced(attentions: Attentions) -> Iterator[None]:
    """Replace ``softmax`` by name. Attentions have three dimensions or more; a router's choice of experts has two."""
    originals = [(owner, owner.softmax) for owner in (torch, F, torch.Tensor)]
    inside = False

    def replacement(original: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def softmax(scores: Tensor, *args: Any, **kwargs: Any) -> Tensor:
            nonlocal inside
            if inside or scores.dim() < 3:
                return original(scores, *args, **kwargs)
            inside = True
            try:
                return attentions.weights(scores)
            finally:
                inside = False

        return softmax

    try:
        for index, original in originals:
            index.softmax = replacement(original)
        yield
    finally:
        for index, original in originals:
            index.softmax = original


@contextmanager
def interface_answered(model: nn.Module, attentions: Attentions) -> Iterator[None]:
    """Register an attention function and its mask function, and let every part of the model ask for them."""

    def attention(
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None,
        scaling: float | None = None,
        softcap: float | None = None,
        position_bias: Tensor | None = None,
        **kwargs: Any,
    ) -> tuple[Tensor, None]:
        group = query.shape[1] // key.shape[1]
        keys, values = key.repeat_interleave(group, dim=1), value.repeat_interleave(group, dim=1)
        scores = query @ keys.transpose(-1, -2) * (query.shape[-1] ** -0.5 if scaling is None else scaling)
        if softcap is not None:
            scores = torch.tanh(scores / softcap) * softcap
        for bias in (position_bias, attention_mask):
            if bias is not None:
                scores = scores + bias[..., : keys.shape[-2]]
        sinks = getattr(module, "sinks", None)
        if sinks is not None:
            scores = torch.cat((scores, sinks.to(scores).view(1, -1, 1, 1).expand(*scores.shape[:3], 1)), dim=-1)
        weights = attentions.weights(scores)[..., : keys.shape[-2]]
        return (weights.to(values) @ values).transpose(1, 2).contiguous(), None

    configs = {id(module.config): module.config for module in model.modules() if hasattr(module, "config")}
    implementations = {key: config._attn_implementation for key, config in configs.items()}
    AttentionInterface._global_mapping[NAME] = attention
    AttentionMaskInterface._global_mapping[NAME] = eager_mask
    try:
        for config in configs.values():
            config._attn_implementation_internal = NAME
        yield
    finally:
        for key, config in configs.items():
            config._attn_implementation_internal = implementations[key]
        del AttentionInterface._global_mapping[NAME]
        del AttentionMaskInterface._global_mapping[NAME]


def run(model: nn.Module, inputs: Mapping[str, Tensor], attentions: Attentions, mechanism: str) -> Tensor:
    """The logits ``[C]`` of one text."""
    replaced = interface_answered(model, attentions) if mechanism == "interface" else softmax_replaced(attentions)
    with replaced:
        logits: Tensor = model(**inputs).logits
    return logits[0]


def mechanism_of(model: nn.Module, inputs: Mapping[str, Tensor]) -> str:
    """The attention interface where the model asks it for all its attentions and they give the model's own logits."""
    by_name, by_interface = Attentions(inputs["input_ids"].shape[1]), Attentions(inputs["input_ids"].shape[1])
    with torch.no_grad():
        expected = run(model, inputs, by_name, "softmax")
        try:
            other = run(model, inputs, by_interface, "interface")
        except (RuntimeError, TypeError, ValueError, KeyError, AttributeError):
            return "softmax"
    same = by_name.count == by_interface.count and float((expected - other).abs().max()) <= 1e-6 * float(
        expected.abs().max()
    )
    return "interface" if same else "softmax"
