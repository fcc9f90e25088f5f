"""Choosing the attention to cut at, and the fastest tail that is proved equal to a full forward pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from attnfaith.adapters import selfcheck
from attnfaith.adapters.borrow import patch_forward
from attnfaith.adapters.follow import Trail, find_trails
from attnfaith.adapters.selfcheck import SelfCheck, require
from attnfaith.adapters.traced import PATHS, TracedAdapter, accepts, logits_of, mixed
from attnfaith.adapters.watch import Product, Watch
from attnfaith.errors import AttnFaithError, InputError, UnsupportedModelError
from attnfaith.types import Capture


def traced_adapter(
    model: nn.Module, inputs: dict[str, Any], *, layer: int | None, heads: Sequence[int] | None, check: bool
) -> tuple[TracedAdapter, SelfCheck | None, str]:
    """Find the attention of a borrowed model, and the fastest tail that passes the self-check."""
    single = selfcheck.alone(inputs)
    length = single["input_ids"].shape[1]
    trails = _trails(model, single, length)
    trail = _choose(model, trails, single, layer)
    if heads is not None:
        heads = _check_heads(heads, trail.shape[1])
    slow = TracedAdapter(model, trail, heads=heads, path="full forward", block_leaf=False)
    if not check:
        return slow, None, "not looked at"
    return _prove(slow, single, texts=1 + (layer is None))


def _trails(model: nn.Module, single: dict[str, Any], length: int) -> list[Trail]:
    """The attentions of a forward pass: softmaxes first, and where there are none, any distribution."""
    for any_distribution in (False, True):
        try:
            trails = find_trails(model, lambda: model(**single), length, any_distribution=any_distribution)
        except Exception as error:
            raise UnsupportedModelError(
                f"The model's own forward pass failed on one text of {length} tokens ({_line(error)}). If it needs other "
                "inputs than these, pass example= with a batch that it can run."
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
            raise InputError(f"layer={layer} is out of range: the forward pass has {len(trails)} attentions ({listing}).")
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
        parts = [part for part in (product.operand, product.given, product.query, product.key) if part is not None]
        operands.append(torch.stack([part.double().sum() for part in parts]).sum())
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
    return [gradient is not None and bool((gradient != 0).any()) for gradient in gradients]


def _check_heads(heads: Sequence[int], count: int) -> list[int]:
    chosen = [int(head) for head in heads]
    wrong = [head for head in chosen if not -count <= head < count]
    if wrong or not chosen or len({head % count for head in chosen}) != len(chosen):
        raise InputError(f"heads={list(heads)}: expected different heads out of 0..{count - 1}.")
    return [head % count for head in chosen]


def _prove(slow: TracedAdapter, single: dict[str, Any], texts: int) -> tuple[TracedAdapter, SelfCheck, str]:
    """Contract 1 of a cut, and the choice of the tail."""
    reasons: dict[str, str] = {}
    for path in PATHS:
        texts += 1
        try:
            fast, capture = _prepared(slow, single, path)
        except (AttnFaithError, RuntimeError, ValueError, IndexError, TypeError, KeyError, AttributeError) as error:
            if path == "full forward":
                raise UnsupportedModelError(f"This model cannot be cut faithfully: {_line(error)}") from error
            reasons[path] = _line(error)
            continue
        tolerance, scale = selfcheck.tolerance_of(capture.logits), selfcheck.scale_of(capture.logits)
        with torch.no_grad():
            try:
                weights, effect = selfcheck.trial_weights(capture, fast)
                logits = fast.rerun(capture, weights)
            except (RuntimeError, ValueError, IndexError, TypeError, KeyError, AttributeError) as error:
                if path == "full forward":
                    raise UnsupportedModelError(f"This model cannot be cut faithfully: {_line(error)}") from error
                reasons[path] = _line(error)
                continue
            identity = selfcheck.gap(logits[:, 0], capture.logits, scale)
            twin = slow.rerun(capture, weights) if path != "full forward" else logits
            own = selfcheck.gap(twin[:, 0], capture.logits, scale)
            effect = selfcheck.gap(twin[:, 1], twin[:, 0], scale)
        require(own <= tolerance, f"its final attention, put back unchanged, changes its logits (by {own:.1e}).")
        require(effect > 1e-6, "its logits do not depend on the final attention.")
        edit = selfcheck.gap(logits[:, 1], twin[:, 1], scale * effect)
        if identity <= tolerance and edit <= tolerance:
            break
        reasons[path] = f"identity {identity:.0e}, edit {edit:.0e}"
    padding, more = _padding(fast, single, capture, tolerance, scale)
    fast.reasons = reasons
    texts += weights.shape[1] + more
    report = SelfCheck(identity, effect, edit, padding, texts)
    return fast, report, _words(capture, fast)


def _prepared(slow: TracedAdapter, single: dict[str, Any], path: str) -> tuple[TracedAdapter, Capture]:
    """An adapter that keeps only the memories its tail reads, and a capture of the text."""
    fast = slow.with_path(path, block_leaf=True)
    try:
        capture = fast.capture(**single)
    except UnsupportedModelError:
        fast = fast.with_path(path, block_leaf=False)
        capture = fast.capture(**single)
    if path == "full forward":
        return fast, capture
    leaves: dict[tuple[int, int], Tensor] = {}
    memories: dict[int, list[Tensor | None]] = {}
    kept: dict[int, set[int]] = {}
    for index, tensors in capture.state.memories.items():
        memories[index] = list(tensors)
        for place, tensor in enumerate(tensors):
            if tensor is None:
                continue
            if tensor.is_floating_point():
                leaves[index, place] = memories[index][place] = tensor.detach().requires_grad_()
            else:
                kept.setdefault(index, set()).add(place)
    logits = fast.rerun(replace(capture, state=replace(capture.state, memories=memories)), capture.weights.unsqueeze(1))
    if logits.requires_grad:
        gradients = torch.autograd.grad(logits.sum(), list(leaves.values()), allow_unused=True)
        for (index, place), gradient in zip(leaves, gradients, strict=True):
            if gradient is not None:
                kept.setdefault(index, set()).add(place)
    live = {index: frozenset(places) for index, places in kept.items()}
    fast = fast.with_path(path, live=live)
    memories = {
        index: [tensor if place in live[index] else None for place, tensor in enumerate(tensors)]
        for index, tensors in capture.state.memories.items()
        if index in live
    }
    return fast, replace(capture, state=replace(capture.state, memories=memories))


def _padding(
    fast: TracedAdapter, single: dict[str, Any], capture: Capture, tolerance: float, scale: float
) -> tuple[float, int]:
    """Whether the model honours its mask: the text alone against the same text padded."""
    config = getattr(fast.model, "config", None)
    pad_id = getattr(config, "pad_token_id", None) if config is not None else 0
    if pad_id is None or not (accepts(fast.model, "attention_mask") or config is not None):
        return float("nan"), 0
    texts, gaps = 0, []
    for left in (False, True):
        texts += 1
        longer = fast.capture(**selfcheck.padded(single, pad_id, left=left))
        padding = selfcheck.gap(longer.logits, capture.logits, scale)
        if padding <= tolerance and longer.shape[1] == capture.shape[1]:
            require(
                bool(longer.lengths.equal(capture.lengths)),
                f"padding changes how many items its attention has ({int(capture.lengths)}, then {int(longer.lengths)}).",
            )
            require(
                longer.shape[2] > capture.shape[2],
                f"its attention in {fast.trail.name} has {capture.shape[2]} items whatever the text: they are not its tokens.",
            )
            if tolerance > 1e-2:
                texts += 1
                _check_blind(fast, longer, scale)
            return padding, texts
        gaps.append(padding)
    raise UnsupportedModelError(
        f"This model cannot be cut faithfully: padding a text changes its logits (by {gaps[0]:.1e} on the right, "
        f"{gaps[1]:.1e} on the left): the mask is not honoured."
    )


def _check_blind(fast: TracedAdapter, longer: Capture, scale: float) -> None:
    """In half precision rounding hides a leaking mask, so change what stands at the padding: nothing may move at all."""
    embed = getattr(fast.model, "get_input_embeddings", lambda: None)()
    if embed is None:
        return
    inputs = longer.state.inputs
    hidden = inputs["attention_mask"] == 0

    def noisy(original: Callable[..., Any]) -> Callable[..., Any]:
        def forward(*args: Any, **kwargs: Any) -> Any:
            vectors = original(*args, **kwargs)
            if not isinstance(vectors, Tensor) or vectors.shape[:2] != hidden.shape:
                return vectors
            ramp = torch.linspace(-1, 1, vectors.shape[-1], device=vectors.device).to(vectors.dtype)
            return torch.where(hidden.unsqueeze(-1), vectors + ramp, vectors)

        return forward

    with torch.no_grad(), ExitStack() as undo:
        patch_forward(undo, embed, noisy)
        leak = selfcheck.gap(fast.forward(inputs), longer.logits, scale)
    require(leak <= 1e-6, f"what stands at the padding changes its logits (by {leak:.1e}): the mask is not honoured.")


def _words(capture: Capture, adapter: TracedAdapter) -> str:
    rows, length = capture.state.rows[0].tolist(), capture.shape[2]
    heads = capture.shape[1] // len(rows)
    if rows == [0]:
        where = "the first position"
    elif rows == [length - 1]:
        where = "the last token"
    elif rows == list(range(length)):
        where = "every token"
    else:
        where = f"positions {', '.join(map(str, rows))} of {length}"
    of = f"{heads} of {adapter.trail.shape[1]} heads" if adapter.heads is not None else f"{heads} head(s)"
    return f"{of} x {len(rows)} row(s): {where}"


def _line(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:160]}" if text else type(error).__name__
