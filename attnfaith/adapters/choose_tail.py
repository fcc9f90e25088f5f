"""Proving that a cut is faithful, and choosing the fastest tail that is."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from attnfaith.adapters.adapter import Adapter
from attnfaith.adapters.inference_state import patch_forward
from attnfaith.adapters.original_model import padding_id
from attnfaith.adapters.self_check import (
    SelfCheck,
    first_unpadded,
    one_line,
    refuse_unless,
    relative_difference,
    scale_of,
    tolerance_of,
    trial_weights,
    with_longer_text,
)
from attnfaith.adapters.tail import FULL_FORWARD, LAST_BLOCK, PATHS
from attnfaith.adapters.traced import TracedAdapter
from attnfaith.errors import AttnFaithError, InputError, UnsupportedModelError
from attnfaith.functional.erasure import erase, prefix_keeps
from attnfaith.types import Capture

# what a model's code may raise when it is run in a way that its authors did not think of
FAILURES = (AttnFaithError, RuntimeError, ValueError, LookupError, TypeError, AttributeError, AssertionError)


def choose_tail(
    slow: TracedAdapter, single: dict[str, Any], texts: int, decided: Tensor | None
) -> tuple[TracedAdapter, SelfCheck, str]:
    """Try the tails from the fastest to the full forward pass, and take the first that equals the full forward pass.

    Args:
        slow: the cut on the full forward pass, the twin of the others.
        single: one text.
        texts: how many short texts have gone through the model for this cut so far.
        decided: ``[Q]``, the query rows that decide this text, where that is known.

    Returns:
        The cut on its fastest tail, the figures, and the deciding rows in words.
    """
    try:
        slow = slow.with_tail(FULL_FORWARD, every_row=_moves(slow, single, decided))
        whole, capture = _captured(slow, single)
    except FAILURES as error:
        raise refusal(error) from error
    tries = 1 + (not whole.rows_second) + 2 * (slow.trail.block is not None and not whole.at_block)
    texts += 2 + (decided is None) + tries
    scale, tolerance = scale_of(capture.logits), tolerance_of(capture.logits)
    weights = twin = None
    reasons: dict[str, str] = {}
    for path in PATHS:
        try:
            fast, short = _prepared(whole, capture, path)
            with torch.no_grad():
                weights = trial_weights(short, fast)[0] if weights is None else weights
                logits = fast.rerun(short, weights)
                if twin is None:
                    twin = slow.rerun(capture, weights)
                    texts += weights.shape[1]
        except FAILURES as error:
            if path == FULL_FORWARD:
                raise refusal(error) from error
            reasons[path] = one_line(error)
            continue
        own, effect = (
            relative_difference(twin[:, 0], capture.logits, scale),
            relative_difference(twin[:, 1], twin[:, 0], scale),
        )
        refuse_unless(own <= tolerance, f"its final attention, put back unchanged, changes its logits (by {own:.1e}).")
        refuse_unless(effect > 1e-6, "its logits do not depend on the final attention.")
        identity, edit = (
            relative_difference(logits[:, 0], capture.logits, scale),
            relative_difference(logits[:, 1], twin[:, 1], scale * effect),
        )
        if max(identity, edit) > tolerance:
            reasons[path] = f"identity {identity:.0e}, edit {edit:.0e}"
            continue
        try:
            padding, batched, more = _batched(fast, single, short, weights, twin, scale * effect)
        except FAILURES as error:
            if path == FULL_FORWARD or isinstance(error, AttnFaithError):
                raise refusal(error) from error
            reasons[path] = f"in a padded batch, {one_line(error)}"
            texts += 2
            continue
        texts += more
        if not batched > tolerance:  # NaN: it cannot be padded
            break
        reasons[path] = f"in a padded batch, edit {batched:.0e}"
    else:
        raise UnsupportedModelError(
            f"This model cannot be cut faithfully: its tail changes with what else is in the batch ({reasons[path]})."
        )
    fast.reasons = reasons
    return fast, SelfCheck(identity, effect, edit, padding, texts), _words(short, fast)


def _moves(slow: TracedAdapter, single: dict[str, Any], decided: Tensor | None) -> bool:
    """Whether every token is to be taken for deciding.

    So it is where every token does, and where other rows decide once the attention is edited: under a maximum over
    positions, or behind gates that open and shut.
    """
    rows = slow.rows_read_under_noise(single, original=decided is None)
    before = rows[0] if decided is None else decided
    read = rows.any(0) | before
    tokens = single["attention_mask"][0].bool()
    if read.equal(before) and not (read.shape == tokens.shape and bool(read[tokens].all())):
        return False
    if read.shape != tokens.shape:
        raise UnsupportedModelError(
            f"Which rows of the attention in {slow.trail.name} decide changes with what they read, and they are not "
            "the tokens, so they cannot all be edited. Write an adapter (register_adapter)."
        )
    return True


def _captured(slow: TracedAdapter, single: dict[str, Any]) -> tuple[TracedAdapter, Capture]:
    """A capture that every path can be prepared from."""
    ways = [{"at_block": True}, {"at_block": True, "rows_second": False}, {"at_block": False}]
    for way in ways if slow.trail.block is not None else ways[-1:]:
        whole = slow.with_tail(LAST_BLOCK, **way)
        try:
            return whole, whole.capture(**single)
        except UnsupportedModelError as error:
            refused = error
    raise refused


def refusal(error: BaseException) -> UnsupportedModelError:
    """The error that refuses a model because of another one."""
    if isinstance(error, UnsupportedModelError):
        return error
    return UnsupportedModelError(f"This model cannot be cut faithfully: {one_line(error)}")


def _prepared(whole: TracedAdapter, capture: Capture, path: str) -> tuple[TracedAdapter, Capture]:
    """An adapter that keeps only the memories its tail reads, and the capture as it would have made it."""
    fast = whole.with_tail(path)
    short = replace(capture, state=fast.for_tail(capture.state))
    if path == FULL_FORWARD:
        return fast, short
    leaves: dict[tuple[int, int], Tensor] = {}
    memories: dict[int, list[Tensor | None]] = {}
    kept: dict[int, set[int]] = {}
    for index, tensors in short.state.memories.items():
        memories[index] = list(tensors)
        for place, tensor in enumerate(tensors):
            if tensor is None:
                continue
            if tensor.is_floating_point():
                leaves[index, place] = memories[index][place] = tensor.detach().requires_grad_()
            else:
                kept.setdefault(index, set()).add(place)
    logits = fast.rerun(replace(short, state=replace(short.state, memories=memories)), capture.weights.unsqueeze(1))
    if logits.requires_grad:
        gradients = torch.autograd.grad(logits.sum(), list(leaves.values()), allow_unused=True)
        for (index, place), gradient in zip(leaves, gradients, strict=True):
            if gradient is not None:
                kept.setdefault(index, set()).add(place)
    for index, places in kept.items():
        for place in places:
            dims = whole.trail.memories[index].dims[place] or ()
            if "N" in dims and "B" not in dims:
                raise UnsupportedModelError("what comes before runs texts into one another (or is the same for all)")
    live = {index: frozenset(places) for index, places in kept.items()}
    fast = fast.with_tail(path, live=live)
    memories = {
        index: [tensor if place in live.get(index, ()) else None for place, tensor in enumerate(tensors)]
        for index, tensors in short.state.memories.items()
    }
    return fast, replace(short, state=replace(short.state, memories=memories))


def _batched(
    fast: TracedAdapter, single: dict[str, Any], capture: Capture, weights: Tensor, twin: Tensor, effect: float
) -> tuple[float, float, int]:
    """The text in a batch, padded beside a longer one, on the side that the model allows.

    Returns:
        How far its logits are from those it has alone, how far its edited logits are from its twin's, and how many
        texts went through the model for it; NaN for a model that cannot be padded.
    """
    pad_id = pad_id_of(fast)
    if pad_id is None:
        return float("nan"), float("nan"), 0
    tolerance, scale = tolerance_of(capture.logits), scale_of(capture.logits)
    half = tolerance > 1e-2
    gaps, texts = [], 0
    for left in (False, True):
        batch = with_longer_text(single, pad_id, left=left)
        if half:  # the second pass over the padding takes the other text's place
            batch = first_unpadded(batch, padding=True)
        texts += len(batch["input_ids"])
        try:
            together = fast.capture(**batch)
        except InputError:  # decided at the padding of this side
            gaps.append(float("inf"))
            continue
        gaps.append(relative_difference(together.logits[:1], capture.logits, scale))
        if gaps[-1] <= tolerance:
            break
    else:
        raise UnsupportedModelError(
            f"This model cannot be cut faithfully: padding a text changes its logits (by {gaps[0]:.1e} on the right, "
            f"{gaps[1]:.1e} on the left): the mask is not honoured."
        )
    before, after = int(capture.lengths), int(together.lengths[0])
    refuse_unless(before == after, f"padding changes how many items its attention has (from {before} to {after}).")
    refuse_unless(
        together.shape[2] > capture.shape[2],
        f"its attention in {fast.trail.name} has {capture.shape[2]} items whatever the text: they are not its tokens.",
    )
    if half:
        _check_blind(fast, together, scale)
        texts += 1
    with torch.no_grad():
        logits = fast.rerun(together, _spread(weights, capture, together))[:1]
    return gaps[-1], relative_difference(logits, twin, effect), texts


def _spread(weights: Tensor, capture: Capture, together: Capture) -> Tensor:
    """The weights of one text alone, at its places in a batch; the other text keeps its own."""
    count = weights.shape[1]
    placed = together.weights.unsqueeze(1).repeat(1, count, 1, 1)
    placed[0] = 0
    rows, longest = capture.state.rows.shape[1], together.state.rows.shape[1]
    parts = placed[0].unflatten(1, (-1, longest))[:, :, :rows]  # [K, H, R, N], a view
    parts[..., together.mask[0]] = weights[0].unflatten(1, (-1, rows))[..., capture.mask[0]]
    return placed


def pad_id_of(adapter: Adapter) -> int | None:
    """The id that pads what an adapter cuts, as `padding_id`."""
    return padding_id(adapter.model)


def _check_blind(fast: TracedAdapter, longer: Capture, scale: float) -> None:
    """In half precision rounding hides a leaking mask, so change what stands at the padding: nothing may move."""
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
        leak = relative_difference(fast.forward(inputs), longer.logits, scale)
    refuse_unless(
        leak <= 1e-6, f"what stands at the padding changes its logits (by {leak:.1e}): the mask is not honoured."
    )


def prove_registered_adapter(adapter: Adapter, inputs: dict[str, Any]) -> tuple[SelfCheck, str]:
    """Prove a cut that somebody described: identity, effect, every form of the edit, padding."""
    single = first_unpadded(inputs)
    capture = adapter.capture(**single)
    _check_capture(adapter, capture)
    scale, tolerance = scale_of(capture.logits), tolerance_of(capture.logits)
    with torch.no_grad():
        identity = relative_difference(
            adapter.rerun(capture, capture.weights.unsqueeze(1))[:, 0], capture.logits, scale
        )
        refuse_unless(identity <= tolerance, f"its tail does not reproduce its own logits (off by {identity:.1e}).")
        _, effect = trial_weights(capture, adapter)
        refuse_unless(effect > 1e-6, "its logits do not depend on the attention.")
        order = capture.mask.int().argsort(dim=-1, descending=True, stable=True)
        steps = capture.shape[2] + 1
        prefixes = adapter.rerun_prefixes(capture, order, 0, steps, steps)
        erased = erase(
            capture.weights.unsqueeze(1), prefix_keeps(order, capture.mask, 0, steps), _unsqueezed(capture.log_weights)
        )
        twin = adapter.rerun(capture, erased)
        edit = relative_difference(prefixes, twin, max(relative_difference(twin, twin[:, :1], 1.0), scale))
        refuse_unless(edit <= tolerance, f"its fast path is not equal to its own tail (off by {edit:.1e}).")
    padding, texts, pad_id = float("nan"), 1, pad_id_of(adapter)
    if pad_id is not None:
        longer = adapter.capture(**with_longer_text(single, pad_id))
        _check_capture(adapter, longer)
        padding, texts = relative_difference(longer.logits[:1], capture.logits, scale), 3
        refuse_unless(padding <= tolerance, f"padding changes its logits (by {padding:.1e}): it ignores the mask.")
    groups = capture.shape[1]
    return SelfCheck(identity, effect, edit, padding, texts), with_noun(groups, "distribution")


def _unsqueezed(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.unsqueeze(1)


def _check_capture(adapter: Adapter, capture: Capture) -> None:
    batch, _, items = capture.shape
    for name, expected in {"mask": (batch, items), "logits": (batch, capture.logits.shape[-1])}.items():
        got = tuple(getattr(capture, name).shape)
        if got != expected:
            raise UnsupportedModelError(f"{type(adapter).__name__}.capture: {name} is {got}, expected {expected}.")
    loose = (capture.weights * ~capture.mask.unsqueeze(1)).abs().max().item()
    refuse_unless(loose == 0, f"padding carries attention (up to {loose:.1e}).")


def _words(capture: Capture, adapter: TracedAdapter) -> str:
    rows, length = capture.state.rows[0].tolist(), capture.shape[2]
    heads, total = capture.shape[1] // len(rows), adapter.trail.shape[1]
    if rows == [0]:
        where = "the first position"
    elif rows == [length - 1]:
        where = "the last token"
    elif rows == list(range(length)):
        where = "every token"
    else:
        where = f"positions {', '.join(map(str, rows))} of {length}"
    return f"{where}, {with_noun(heads, 'head')}" + ("" if adapter.heads is None else f" of {total}")


def with_noun(count: int, noun: str) -> str:
    """A count with its noun."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
