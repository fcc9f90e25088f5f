"""Choosing the attention to cut at: the last one that the logits read directly."""

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
    """Cut a model at its final attention: choose the attention, and the fastest tail that passes the self-check.

    Args:
        model: the copy, inside `inference_state`.
        inputs: example inputs.
        layer: the attention to cut at, by its number in the forward pass; None for the final one.
        heads: the heads to cut; None for all.
        check: whether to prove the cut; without, the slowest tail is taken.

    Returns:
        The adapter, the results of the self-check (None without), and the deciding rows in words.
    """
    single = first_unpadded(inputs)
    record = record_attentions(model, single)
    chosen = choose_attention(record, layer)
    call_path = record.call_paths[chosen]
    if heads is not None:
        heads = _check_heads(heads, call_path.shape[1])
    slow = TracedAdapter(model, call_path, heads=heads, tail=FULL_FORWARD, at_block=False)
    if not check:
        return slow, None, "not looked at"
    decided = None
    if layer is None:  # the logits read it directly, so the recorded gradients show which rows decide
        gradients = torch.autograd.grad(mix_logits(record.logits), [record.leaves[chosen]])
        decided = read_rows(gradients, record.attentions[chosen], 1, call_path.name)[0]
    return choose_tail(slow, single, 1, decided)


@dataclass(frozen=True)
class AttentionRecord:
    """The attentions of one forward pass, and the graph of what reads them.

    The result of every attention is replaced by a leaf of the graph. A gradient with respect to a leaf is therefore
    non-zero only where the attention is read directly: through residual streams, but not through a later attention.
    Without the leaves every attention of every layer would look as if the logits read it.
    """

    call_paths: list[CallPath]
    logits: Tensor
    leaves: list[Tensor]
    attentions: list[AttentionCall]


def record_attentions(model: nn.Module, single: dict[str, Any]) -> AttentionRecord:
    """Watch one forward pass: for softmaxes first, and if there are none, for any distribution.

    A distribution that no softmax made is recognised by its numbers alone, which is slower, and may find tensors that
    happen to sum to 1; so it is the second choice.
    """
    length = single["input_ids"].shape[1]
    for any_distribution in (False, True):
        leaves: list[Tensor] = []
        attentions: list[AttentionCall] = []

        def on_attention(
            attention: AttentionCall, leaves: list[Tensor] = leaves, attentions: list[AttentionCall] = attentions
        ) -> Tensor:
            attentions.append(attention)
            leaves.append(attention.output.detach().requires_grad_())
            return leaves[-1].clone()

        try:
            call_paths, output = find_call_paths(
                model, lambda: model(**single), length, on_attention, any_distribution=any_distribution
            )
        except Exception as error:
            raise UnsupportedModelError(
                f"The model's own forward pass failed on one text of {length} tokens ({one_line(error)}). If it needs "
                "other inputs than these, pass example= with a batch that it can run.",
                code="failed-forward-pass",
            ) from error
        if call_paths:
            break
    else:
        raise UnsupportedModelError(
            "No attention was seen in the model's forward pass: neither scaled_dot_product_attention nor a softmax (or "
            "other distribution) that values are multiplied with. For a model with another kind of attention, write an "
            "adapter (register_adapter).",
            code="no-attention",
        )
    logits = logits_of(output)
    check_finite("logits", logits)
    return AttentionRecord(call_paths, logits, leaves, attentions)


def choose_attention(record: AttentionRecord, layer: int | None) -> int:
    """The index of the attention to cut at; refuses a model in which several attentions could be the final one."""
    call_paths = record.call_paths
    listing = "; ".join(f"{index}: {call_path.name}" for index, call_path in enumerate(call_paths))
    if layer is not None:
        if not -len(call_paths) <= layer < len(call_paths):
            raise InputError(f"layer={layer} is out of range: there are {len(call_paths)} attentions ({listing}).")
        return layer % len(call_paths)
    influential = [
        index for index, depends in enumerate(_depends_on(mix_logits(record.logits), record.leaves)) if depends
    ]
    if not influential:
        raise UnsupportedModelError(
            f"No logit depends on any attention of this model ({listing}), as far as gradients tell. If its layers are "
            "quantised to integers they have no gradient: load it without quantisation.",
            code="no-attention",
        )
    final = influential[-1]
    # Other attentions that the logits read (through the residual stream) are fine if the final one reads them too: it
    # is then downstream of them. One that it does not read stands beside it, and either could be meant.
    attention = record.attentions[final]
    operands = [attention.raw_values, attention.weights, attention.query, attention.key]
    total = torch.stack([operand.double().sum() for operand in operands if operand is not None]).sum()
    upstream = _depends_on(total, record.leaves)
    rivals = [index for index in influential[:-1] if not upstream[index]]
    if rivals:
        raise UnsupportedModelError(
            f"Several attentions could be the final one: besides {final} ({call_paths[final].name}) the logits read "
            f"{', '.join(map(str, rivals))}, which {final} does not read. Choose one with layer= ({listing}).",
            code="several-attentions",
        )
    return final


def _depends_on(quantity: Tensor, leaves: list[Tensor]) -> list[bool]:
    """For each leaf, whether a quantity depends on it: whether its gradient with respect to the leaf is not zero."""
    if not quantity.requires_grad:
        return [False] * len(leaves)
    gradients: tuple[Tensor | None, ...] = torch.autograd.grad(quantity, leaves, allow_unused=True, retain_graph=True)
    return [gradient is not None and bool((gradient != 0).any()) for gradient in gradients]


def _check_heads(heads: Sequence[int], count: int) -> list[int]:
    chosen = [int(head) for head in heads]
    wrong = [head for head in chosen if not -count <= head < count]
    if wrong or not chosen or len({head % count for head in chosen}) != len(chosen):
        raise InputError(f"heads={list(heads)}: expected different heads out of 0..{count - 1}.")
    return [head % count for head in chosen]
