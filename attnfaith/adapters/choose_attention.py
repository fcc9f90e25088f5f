"""Choosing the attention to cut at, and the fastest tail that is proved equal to a full forward pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from attnfaith.adapters.attention_watch import AttentionCall
from attnfaith.adapters.call_path import CallPath, find_call_paths
from attnfaith.adapters.choose_tail import choose_tail
from attnfaith.adapters.forward_pass import check_finite, logits_of, mix_logits, read_rows
from attnfaith.adapters.self_check import SelfCheck, first_unpadded, one_line
from attnfaith.adapters.tail import FULL_FORWARD
from attnfaith.adapters.traced import TracedAdapter
from attnfaith.errors import InputError, UnsupportedModelError


def traced_adapter(
    model: nn.Module, inputs: dict[str, Any], *, layer: int | None, heads: Sequence[int] | None, check: bool
) -> tuple[TracedAdapter, SelfCheck | None, str]:
    """Find the attention of a borrowed model, and the fastest tail that passes the self-check."""
    single = first_unpadded(inputs)
    survey = _surveyed(model, single)
    chosen = _choose(survey, layer)
    trail = survey.trails[chosen]
    if heads is not None:
        heads = _check_heads(heads, trail.shape[1])
    slow = TracedAdapter(model, trail, heads=heads, path=FULL_FORWARD, at_block=False)
    if not check:
        return slow, None, "not looked at"
    decided = None
    if layer is None:  # the logits read it directly, so the gradients of the survey tell its rows
        gradients = torch.autograd.grad(mix_logits(survey.logits), [survey.leaves[chosen]])
        decided = read_rows(gradients, survey.products[chosen], 1, trail.name)[0]
    return choose_tail(slow, single, 1, decided)


@dataclass(frozen=True)
class _Survey:
    """The attentions of one forward pass, and what each of them feeds.

    Every attention's result is made a leaf, so gradients tell what is read directly: by the logits, or by the operands
    of a later attention, through residual streams but not through other attentions.
    """

    trails: list[CallPath]
    logits: Tensor
    leaves: list[Tensor]
    products: list[AttentionCall]


def _surveyed(model: nn.Module, single: dict[str, Any]) -> _Survey:
    """Watch one forward pass: for softmaxes first, and where there are none, for any distribution."""
    length = single["input_ids"].shape[1]
    for any_distribution in (False, True):
        leaves: list[Tensor] = []
        products: list[AttentionCall] = []

        def on_product(
            product: AttentionCall, leaves: list[Tensor] = leaves, products: list[AttentionCall] = products
        ) -> Tensor:
            products.append(product)
            leaves.append(product.output.detach().requires_grad_())
            return leaves[-1].clone()

        try:
            trails, output = find_call_paths(
                model, lambda: model(**single), length, on_product, any_distribution=any_distribution
            )
        except Exception as error:
            raise UnsupportedModelError(
                f"The model's own forward pass failed on one text of {length} tokens ({one_line(error)}). If it needs "
                "other inputs than these, pass example= with a batch that it can run."
            ) from error
        if trails:
            break
    else:
        raise UnsupportedModelError(
            "No attention was seen in the model's forward pass: neither scaled_dot_product_attention nor a softmax (or "
            "other distribution) that values are multiplied with. For a model with another kind of attention, write an "
            "adapter (register_adapter)."
        )
    logits = logits_of(output)
    check_finite("logits", logits)
    return _Survey(trails, logits, leaves, products)


def _choose(survey: _Survey, layer: int | None) -> int:
    trails = survey.trails
    listing = "; ".join(f"{index}: {trail.name}" for index, trail in enumerate(trails))
    if layer is not None:
        if not -len(trails) <= layer < len(trails):
            raise InputError(f"layer={layer} is out of range: there are {len(trails)} attentions ({listing}).")
        return layer % len(trails)
    read = [index for index, yes in enumerate(_reads(mix_logits(survey.logits), survey.leaves)) if yes]
    if not read:
        raise UnsupportedModelError(
            f"No logit depends on any attention of this model ({listing}), as far as gradients tell. If its layers are "
            "quantised to integers they have no gradient: load it without quantisation."
        )
    final = read[-1]
    product = survey.products[final]
    operands = [product.operand, product.given, product.query, product.key]
    asked = torch.stack([part.double().sum() for part in operands if part is not None]).sum()
    through = _reads(asked, survey.leaves)
    rivals = [index for index in read[:-1] if not through[index]]
    if rivals:
        raise UnsupportedModelError(
            f"Several attentions could be the final one: besides {final} ({trails[final].name}) the logits read "
            f"{', '.join(map(str, rivals))}, which {final} does not read. Choose one with layer= ({listing})."
        )
    return final


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
