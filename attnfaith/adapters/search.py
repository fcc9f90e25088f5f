"""Choosing the attention to cut at, and the fastest tail that is proved equal to a full forward pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from attnfaith.adapters.follow import Trail, find_trails
from attnfaith.adapters.observe import logits_of, mixed
from attnfaith.adapters.prove import prove_traced
from attnfaith.adapters.replay import FULL_FORWARD
from attnfaith.adapters.selfcheck import SelfCheck, alone, brief
from attnfaith.adapters.traced import TracedAdapter
from attnfaith.adapters.watch import Product, Watch
from attnfaith.errors import InputError, UnsupportedModelError


def traced_adapter(
    model: nn.Module, inputs: dict[str, Any], *, layer: int | None, heads: Sequence[int] | None, check: bool
) -> tuple[TracedAdapter, SelfCheck | None, str]:
    """Find the attention of a borrowed model, and the fastest tail that passes the self-check."""
    single = alone(inputs)
    length = single["input_ids"].shape[1]
    trails = _trails(model, single, length)
    trail = _choose(model, trails, single, layer)
    if heads is not None:
        heads = _check_heads(heads, trail.shape[1])
    slow = TracedAdapter(model, trail, heads=heads, path=FULL_FORWARD, at_block=False)
    if not check:
        return slow, None, "not looked at"
    return prove_traced(slow, single, texts=1 + (layer is None))


def _trails(model: nn.Module, single: dict[str, Any], length: int) -> list[Trail]:
    """The attentions of a forward pass: softmaxes first, and where there are none, any distribution."""
    for any_distribution in (False, True):
        try:
            trails = find_trails(model, lambda: model(**single), length, any_distribution=any_distribution)
        except Exception as error:
            raise UnsupportedModelError(
                f"The model's own forward pass failed on one text of {length} tokens ({brief(error)}). If it needs "
                "other inputs than these, pass example= with a batch that it can run."
            ) from error
        if trails:
            break
    return trails


def _choose(model: nn.Module, trails: list[Trail], single: dict[str, Any], layer: int | None) -> Trail:
    listing = "; ".join(f"{index}: {trail.name}" for index, trail in enumerate(trails))
    if not trails:
        raise UnsupportedModelError(
            "No attention was seen in the model's forward pass: neither scaled_dot_product_attention nor a softmax (or "
            "other distribution) that values are multiplied with. For a model with another kind of attention, write an "
            "adapter (register_adapter)."
        )
    if layer is not None:
        if not -len(trails) <= layer < len(trails):
            raise InputError(
                f"layer={layer} is out of range: the forward pass has {len(trails)} attentions ({listing})."
            )
        return trails[layer]
    final, rivals = _final(model, single, trails[0].any_distribution)
    if final is None:
        raise UnsupportedModelError(f"No logit depends on any attention of this model ({listing}).")
    if rivals:
        raise UnsupportedModelError(
            f"Several attentions could be the final one: besides {final} ({trails[final].name}) the logits read "
            f"{', '.join(map(str, rivals))}, which {final} does not read. Choose one with layer= ({listing})."
        )
    return trails[final]


def _final(model: nn.Module, single: dict[str, Any], any_distribution: bool) -> tuple[int | None, list[int]]:
    """The last attention that the logits read, and others that they read past it.

    Every attention's result is made a leaf, so gradients tell what is read directly: by the logits or by a later
    attention's operands, through residual streams but not through other attentions.
    """
    leaves: list[Tensor] = []
    operands: list[Tensor] = []

    def on_product(product: Product) -> Tensor:
        operand = (product.operand, product.given, product.query, product.key)
        operands.append(torch.stack([part.double().sum() for part in operand if part is not None]).sum())
        leaves.append(product.output.detach().requires_grad_())
        return leaves[-1].clone()

    with Watch(1, on_product, any_distribution=any_distribution):
        logits = logits_of(model(**single))
    read = [index for index, yes in enumerate(_reads(mixed(logits), leaves)) if yes]
    if not read:
        return None, []
    final = read[-1]
    through = _reads(operands[final], leaves)
    return final, [index for index in read[:-1] if not through[index]]


def _reads(quantity: Tensor, leaves: list[Tensor]) -> list[bool]:
    if not quantity.requires_grad:
        return [False] * len(leaves)
    gradients = torch.autograd.grad(quantity, leaves, allow_unused=True, retain_graph=True)
    found: list[Tensor | None] = list(gradients)
    return [gradient is not None and bool((gradient != 0).any()) for gradient in found]


def _check_heads(heads: Sequence[int], count: int) -> list[int]:
    chosen = [int(head) for head in heads]
    wrong = [head for head in chosen if not -count <= head < count]
    if wrong or not chosen or len({head % count for head in chosen}) != len(chosen):
        raise InputError(f"heads={list(heads)}: expected different heads out of 0..{count - 1}.")
    return [head % count for head in chosen]
