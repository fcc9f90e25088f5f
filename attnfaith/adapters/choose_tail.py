"""Choosing the fastest tail that is proved equal to the full forward pass, and proving registered adapters.

The full forward pass with the edit is the reference: it runs the model's own code on everything. Each faster tail is
compared with it on one short text, with the original weights and with an edit, and again in a padded batch. A tail that
differs, or whose code fails, is skipped with its reason.

Two requirements make the comparison mean something. The edit must move the logits (`trial_weights`): if it did not, a
tail that ignores edits would pass. And padding must change no logits: the padded batch would otherwise say nothing
about the tail.
"""

from __future__ import annotations

import math
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
from attnfaith.adapters.tail import FULL_FORWARD, LAST_BLOCK, TAILS
from attnfaith.adapters.traced import TracedAdapter
from attnfaith.errors import AttnFaithError, InputError, UnsupportedModelError
from attnfaith.functional.erasure import erase, prefix_keeps
from attnfaith.types import Capture

# what a model's code may raise when it is run in a way that its authors did not plan for
FAILURES = (AttnFaithError, RuntimeError, ValueError, LookupError, TypeError, AttributeError, AssertionError)


def choose_tail(
    reference: TracedAdapter, one_text: dict[str, Any], passes_so_far: int, decided: Tensor | None
) -> tuple[TracedAdapter, SelfCheck, str]:
    """Try the tails from the fastest to the full forward pass, and take the first that equals the full forward pass.

    Args:
        reference: the adapter with the full forward pass as its tail.
        one_text: the inputs of one text.
        passes_so_far: the number of short texts that have gone through the model for this cut so far.
        decided: ``[Q]``, the query rows that decide this text, if known.

    Returns:
        The adapter with its fastest tail, the results of the self-check, and the deciding rows in words.
    """
    try:
        reference = reference.with_tail(FULL_FORWARD, every_row=_every_token_decides(reference, one_text, decided))
        stores_everything, capture, captures = _capture_for_all_tails(reference, one_text)
    except FAILURES as error:
        raise refusal(error) from error
    passes = passes_so_far + captures + 2 + (decided is None)  # two with noise, and the unchanged text if needed
    scale, tolerance = scale_of(capture.logits), tolerance_of(capture.logits)
    weights = reference_logits = None
    reasons: dict[str, str] = {}
    for tail in TAILS:  # from the fastest to the full forward pass; the loop ends at the first that passes all checks
        try:
            fast, trimmed = _with_needed_tensors(stores_everything, capture, tail)
            with torch.no_grad():
                weights = trial_weights(trimmed, fast)[0] if weights is None else weights
                logits = fast.rerun(trimmed, weights)
                if reference_logits is None:  # the same for all tails
                    reference_logits = reference.rerun(capture, weights)
                    passes += weights.shape[1]
        except FAILURES as error:
            if tail == FULL_FORWARD:
                raise refusal(error) from error
            reasons[tail] = one_line(error)
            continue
        unchanged = relative_difference(reference_logits[:, 0], capture.logits, scale)
        effect = relative_difference(reference_logits[:, 1], reference_logits[:, 0], scale)
        refuse_unless(
            unchanged <= tolerance,
            f"its final attention, put back unchanged, changes its logits (by {unchanged:.1e}).",
        )
        refuse_unless(effect > 1e-6, "its logits do not depend on the final attention.")
        identity = relative_difference(logits[:, 0], capture.logits, scale)
        # Scale by the effect of the edit: relative to the logits, a tail that ignores a weak edit would pass.
        edit = relative_difference(logits[:, 1], reference_logits[:, 1], scale * effect)
        if max(identity, edit) > tolerance:
            reasons[tail] = f"identity {identity:.0e}, edit {edit:.0e}"
            continue
        try:
            padding, batched, extra_passes = _compare_in_batch(
                fast, one_text, trimmed, weights, reference_logits, scale * effect
            )
        except FAILURES as error:
            if tail == FULL_FORWARD or isinstance(error, AttnFaithError):
                raise refusal(error) from error
            reasons[tail] = f"in a padded batch, {one_line(error)}"
            passes += 2
            continue
        passes += extra_passes
        if math.isnan(batched) or batched <= tolerance:  # NaN: the model cannot be padded
            break
        reasons[tail] = f"in a padded batch, edit {batched:.0e}"
    else:
        raise UnsupportedModelError(
            f"This model cannot be cut faithfully: its tail changes with what else is in the batch ({reasons[tail]}).",
            code="padding-changes-logits",
        )
    fast.reasons = reasons
    return fast, SelfCheck(identity, effect, edit, padding, passes), _describe_rows(trimmed, fast)


def _every_token_decides(reference: TracedAdapter, one_text: dict[str, Any], decided: Tensor | None) -> bool:
    """Whether every token must be treated as deciding.

    This holds if every token decides already, or if an edit changes which rows decide. The gradient at the original
    text shows only the rows that decide now: under a maximum over positions, or behind rectified gates, other rows take
    over once the attention is edited. If they were not edited too, the edit would silently be incomplete.
    """
    # A rectified gate that the noise closes is opened by the negative of the noise, so any row read in one of the two
    # passes may decide.
    rows = reference.rows_read_under_noise(one_text, original=decided is None)
    before = rows[0] if decided is None else decided
    may_decide = rows.any(0) | before
    tokens = one_text["attention_mask"][0].bool()
    if may_decide.equal(before) and not (may_decide.shape == tokens.shape and bool(may_decide[tokens].all())):
        return False
    if may_decide.shape != tokens.shape:
        raise UnsupportedModelError(
            f"An edit of the attention in {reference.call_path.name} changes which of its rows the decision depends "
            "on, and these rows are not tokens. It is then unknown which rows to edit. Write an adapter "
            "(register_adapter)."
        )
    return True


def _capture_for_all_tails(reference: TracedAdapter, one_text: dict[str, Any]) -> tuple[TracedAdapter, Capture, int]:
    """Capture everything that any tail needs; return the adapter that does so, the capture, and the number of tries.

    The deciding rows are read at the layer's result, ``[B, Q, ...]`` or ``[Q, B, ...]``, or else at the attention's.
    """
    options = [{"at_block": True}, {"at_block": True, "rows_second": False}, {"at_block": False}]
    for tries, option in enumerate(options if reference.call_path.block is not None else options[-1:], start=1):
        stores_everything = reference.with_tail(LAST_BLOCK, **option)
        try:
            return stores_everything, stores_everything.capture(**one_text), tries
        except UnsupportedModelError as error:
            last_error = error
    raise last_error


def refusal(error: BaseException) -> UnsupportedModelError:
    """The error that refuses a model because of another error."""
    if isinstance(error, UnsupportedModelError):
        return error
    return UnsupportedModelError(f"This model cannot be cut faithfully: {one_line(error)}")


def _with_needed_tensors(
    stores_everything: TracedAdapter, capture: Capture, tail: str
) -> tuple[TracedAdapter, Capture]:
    """An adapter that stores only the tensors its tail reads, and the capture as this adapter would have made it.

    Cached calls return more than the tail reads (the whole hidden state of each layer, masks, position tables), and
    storing all of it would take as much memory as the model's activations. Which tensors are read is found by running
    the tail with each of them as a leaf: those with a gradient, and those that cannot have one (whole numbers).
    """
    fast = stores_everything.with_tail(tail)
    trimmed = replace(capture, state=fast.for_tail(capture.state))
    if tail == FULL_FORWARD:
        return fast, trimmed
    leaves: dict[tuple[int, int], Tensor] = {}
    cached: dict[int, list[Tensor | None]] = {}
    needed: dict[int, set[int]] = {}  # by cached call, the indices of the leaves of its result
    for call, tensors in trimmed.state.cached.items():
        cached[call] = list(tensors)
        for index, tensor in enumerate(tensors):
            if tensor is None:
                continue
            if tensor.is_floating_point():
                leaves[call, index] = cached[call][index] = tensor.detach().requires_grad_()
            else:
                needed.setdefault(call, set()).add(index)
    # The gradients say which leaves the logits depend on. They are looked at for None, which means that the tail never
    # read the leaf: a leaf whose gradient happens to be zero is still needed.
    logits = fast.rerun(replace(trimmed, state=replace(trimmed.state, cached=cached)), capture.weights.unsqueeze(1))
    if logits.requires_grad:
        gradients = torch.autograd.grad(logits.sum(), list(leaves.values()), allow_unused=True)
        for (call, index), gradient in zip(leaves, gradients, strict=True):
            if gradient is not None:
                needed.setdefault(call, set()).add(index)
    for call, indices in needed.items():
        for index in indices:
            dims = stores_everything.call_path.cached_calls[call].dims[index] or ()
            if "N" in dims and "B" not in dims:
                raise UnsupportedModelError(
                    "a module that runs before the tail returns positions without a batch dimension, so texts cannot "
                    "differ in them"
                )
    needed_leaves = {call: frozenset(indices) for call, indices in needed.items()}
    fast = fast.with_tail(tail, needed_leaves=needed_leaves)
    cached = {
        call: [tensor if index in needed_leaves.get(call, ()) else None for index, tensor in enumerate(tensors)]
        for call, tensors in trimmed.state.cached.items()
    }
    return fast, replace(trimmed, state=replace(trimmed.state, cached=cached))


def _compare_in_batch(
    fast: TracedAdapter,
    one_text: dict[str, Any],
    capture: Capture,
    weights: Tensor,
    reference_logits: Tensor,
    effect: float,
) -> tuple[float, float, int]:
    """Compare the text alone with the text in a batch, padded beside a longer one, on the side that the model allows.

    Returns:
        How far its logits are from those it has alone, how far its edited logits are from the reference, and how many
        texts went through the model for the comparison; NaN for a model that cannot be padded.
    """
    pad_id = pad_id_of(fast)
    if pad_id is None:
        return float("nan"), float("nan"), 0
    tolerance, scale = tolerance_of(capture.logits), scale_of(capture.logits)
    half_precision = capture.logits.dtype in (torch.bfloat16, torch.float16)
    differences, passes = [], 0
    for left in (False, True):
        batch = with_longer_text(one_text, pad_id, left=left)
        # In half precision the padded text runs alone: the tolerance is too wide to see a leaking mask beside a longer
        # text. `_check_padding_is_ignored` puts noise at the padding instead.
        if half_precision:
            batch = first_unpadded(batch, padding=True)
        passes += len(batch["input_ids"])
        try:
            together = fast.capture(**batch)
        except InputError:  # the text is decided at the padding of this side
            differences.append(float("inf"))
            continue
        differences.append(relative_difference(together.logits[:1], capture.logits, scale))
        if differences[-1] <= tolerance:
            break
    else:
        raise UnsupportedModelError(
            f"This model cannot be cut faithfully: padding a text changes its logits (by {differences[0]:.1e} on the "
            f"right, {differences[1]:.1e} on the left): the mask is not honoured.",
            code="padding-changes-logits",
        )
    before, after = int(capture.lengths), int(together.lengths[0])
    refuse_unless(before == after, f"padding changes how many items its attention has (from {before} to {after}).")
    refuse_unless(
        together.shape[2] > capture.shape[2],
        f"its attention in {fast.call_path.name} has {capture.shape[2]} items however long the text is, so they are "
        "not its tokens.",
    )
    if half_precision:
        _check_padding_is_ignored(fast, together, scale)
        passes += 1
    with torch.no_grad():
        logits = fast.rerun(together, _weights_in_batch(weights, capture, together))[:1]
    return differences[-1], relative_difference(logits, reference_logits, effect), passes


def _weights_in_batch(weights: Tensor, capture: Capture, together: Capture) -> Tensor:
    """The weights of the first text, moved to its positions in a batch; the other text keeps its weights."""
    count = weights.shape[1]
    moved = together.weights.unsqueeze(1).repeat(1, count, 1, 1)
    moved[0] = 0
    # In a batch, G = heads * R counts the deciding rows of the text that has most of them, so R may have grown. The
    # items of the text may be shifted by padding on the left; the mask says where they are.
    rows, longest = capture.state.rows.shape[1], together.state.rows.shape[1]
    by_row = moved[0].unflatten(1, (-1, longest))[:, :, :rows]  # [K, H, R, N], a view
    by_row[..., together.mask[0]] = weights[0].unflatten(1, (-1, rows))[..., capture.mask[0]]
    return moved


def pad_id_of(adapter: Adapter) -> int | None:
    """The id of padding for the model of an adapter, see `padding_id`."""
    return padding_id(adapter.model)


def _check_padding_is_ignored(fast: TracedAdapter, longer: Capture, scale: float) -> None:
    """Refuse a model whose logits change with the vectors at the padding.

    In half precision the tolerance is so wide that a leaking mask could hide in it. With noise at the padding nothing
    may change beyond 1e-6, whatever the precision: the two runs are otherwise the same.
    """
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
    refuse_unless(leak <= 1e-6, f"vectors at the padding change its logits (by {leak:.1e}): the mask is not honoured.")


def prove_registered_adapter(adapter: Adapter, inputs: dict[str, Any]) -> tuple[SelfCheck, str]:
    """Prove a registered adapter: identity, effect, its fast path against its tail, padding."""
    one_text = first_unpadded(inputs)
    capture = adapter.capture(**one_text)
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
        reference_logits = adapter.rerun(capture, erased)
        size = max(relative_difference(reference_logits, reference_logits[:, :1], 1.0), scale)
        edit = relative_difference(prefixes, reference_logits, size)
        refuse_unless(edit <= tolerance, f"its fast path is not equal to its own tail (off by {edit:.1e}).")
    padding, passes, pad_id = float("nan"), 1, pad_id_of(adapter)
    if pad_id is not None:
        longer = adapter.capture(**with_longer_text(one_text, pad_id))
        _check_capture(adapter, longer)
        padding, passes = relative_difference(longer.logits[:1], capture.logits, scale), 3
        refuse_unless(padding <= tolerance, f"padding changes its logits (by {padding:.1e}): it ignores the mask.")
    groups = capture.shape[1]
    return SelfCheck(identity, effect, edit, padding, passes), with_noun(groups, "distribution")


def _unsqueezed(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.unsqueeze(1)


def _check_capture(adapter: Adapter, capture: Capture) -> None:
    batch, _, items = capture.shape
    for name, expected in {"mask": (batch, items), "logits": (batch, capture.logits.shape[-1])}.items():
        shape = tuple(getattr(capture, name).shape)
        if shape != expected:
            raise UnsupportedModelError(f"{type(adapter).__name__}.capture: {name} is {shape}, expected {expected}.")
    leaked = (capture.weights * ~capture.mask.unsqueeze(1)).abs().max().item()
    refuse_unless(leaked == 0, f"padding has attention weights (up to {leaked:.1e}).")


def _describe_rows(capture: Capture, adapter: TracedAdapter) -> str:
    """The deciding rows in words."""
    rows, length = capture.state.rows[0].tolist(), capture.shape[2]
    heads, total = capture.shape[1] // len(rows), adapter.call_path.shape[1]
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
