"""Slow, literal twins: erasing in Python floats, and a full forward pass through Transformers' own attention interface.

Nothing here uses attnfaith's mechanism: the erasing is written from PROTOCOLS 1, and the forward pass answers the
attention interface (`AttentionInterface`), which attnfaith never touches.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import eager_mask

NAME = "attnfaith-tests-literal"


def erase_slow(weights: Sequence[float], keep: Sequence[bool]) -> list[float]:
    """``w * keep * sum(w) / sum(w * keep)`` for one distribution; all zero where nothing is left."""
    left = math.fsum(weight for weight, stays in zip(weights, keep, strict=True) if stays)
    if left == 0:
        return [0.0] * len(weights)
    mass = math.fsum(weights)
    return [weight * mass / left if stays else 0.0 for weight, stays in zip(weights, keep, strict=True)]


def softmax_slow(scores: Sequence[float], keep: Sequence[bool], mass: float = 1.0) -> list[float]:
    """The softmax of the kept scores, times the mass: what erasing means when the kept weights underflowed."""
    kept = [score for score, stays in zip(scores, keep, strict=True) if stays and score > -math.inf]
    if not kept:
        return [0.0] * len(scores)
    top = max(kept)
    total = math.fsum(math.exp(score - top) for score in kept)
    return [mass * math.exp(score - top) / total if stays else 0.0 for score, stays in zip(scores, keep, strict=True)]


def prefix_slow(
    weights: Sequence[float], values: Sequence[Sequence[float]], order: Sequence[int], items: int
) -> list[list[float]]:
    """The average of ``values`` after removing 0, 1, ..., N of ``order``; its first ``items`` are real."""
    results = []
    for count in range(len(order) + 1):
        keep = [index not in order[:count] and index in order[:items] for index in range(len(order))]
        erased = erase_slow(weights, keep)
        width = len(values[0])
        results.append([math.fsum(w * v[d] for w, v in zip(erased, values, strict=True)) for d in range(width)])
    return results


class OffInterfaceError(Exception):
    """The model never asked the attention interface."""


@dataclass(frozen=True)
class Edit:
    """Weights ``[B, G, N]`` for the query rows ``[B, R]`` of the last attention; ``G`` is head * R + row."""

    rows: Tensor
    weights: Tensor
    exists: Tensor | None = None


def interface_logits(model: nn.Module, inputs: Mapping[str, Any], edit: Edit | None = None) -> Tensor:
    """A full forward pass, every attention computed row by row, the last one with edited weights."""
    calls = 0

    def count(*args: Any, **kwargs: Any) -> tuple[Tensor, None]:
        nonlocal calls
        calls += 1
        return _literal_attention(None, *args, **kwargs)

    with torch.no_grad(), _answered(model, count):
        logits = model(**inputs).logits
    if calls == 0:
        raise OffInterfaceError(f"{type(model).__name__} does not ask the attention interface")
    if edit is None:
        return logits
    last, calls = calls, 0

    def edited(*args: Any, **kwargs: Any) -> tuple[Tensor, None]:
        nonlocal calls
        calls += 1
        return _literal_attention(edit if calls == last else None, *args, **kwargs)

    with torch.no_grad(), _answered(model, edited):
        return model(**inputs).logits


@contextmanager
def _answered(model: nn.Module, function: Callable[..., Any]) -> Iterator[None]:
    configs = {id(module.config): module.config for module in model.modules() if hasattr(module, "config")}
    implementations = {key: config._attn_implementation for key, config in configs.items()}
    AttentionInterface._global_mapping[NAME] = function
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


def _literal_attention(
    edit: Edit | None,
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
    """Scores, softmax, weights, context: one text, one head, one query row after the other."""
    batch, heads, length, width = query.shape
    group = heads // key.shape[1]
    scaling = width**-0.5 if scaling is None else scaling
    sinks = getattr(module, "sinks", None)
    context = query.new_zeros(batch, length, heads, value.shape[-1])
    for text in range(batch):
        for head in range(heads):
            keys, values = key[text, head // group], value[text, head // group]
            for row in range(length):
                scores = torch.stack([(query[text, head, row] * item).sum() for item in keys]) * scaling
                if softcap is not None:
                    scores = torch.tanh(scores / softcap) * softcap
                for bias in (position_bias, attention_mask):
                    if bias is not None:
                        scores = scores + bias.expand(batch, heads, length, -1)[text, head, row, : len(keys)]
                if sinks is not None:
                    scores = torch.cat((scores, sinks[head : head + 1].to(scores.dtype)))
                weights = torch.exp(scores - scores.max())
                weights = (weights / weights.sum())[: len(keys)]
                weights = _edited(edit, weights, text, head, row)
                context[text, row, head] = (weights.unsqueeze(-1) * values).sum(0)
    return context, None


def _edited(edit: Edit | None, weights: Tensor, text: int, head: int, row: int) -> Tensor:
    if edit is None:
        return weights
    count = edit.rows.shape[1]
    for index in range(count):
        if int(edit.rows[text, index]) == row and (edit.exists is None or bool(edit.exists[text, index])):
            instead = torch.zeros_like(weights)
            given = edit.weights[text, head * count + index]
            instead[: len(given)] = given.to(weights.dtype)
            return instead
    return weights
