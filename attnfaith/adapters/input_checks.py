"""Validation of user input to a cut, once, where it enters: the model, its inputs, and edits of attention."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from attnfaith.adapters.dummy_inputs import make_dummy_inputs, position_tables, text_configs
from attnfaith.errors import InputError, NumericalError, UnsupportedModelError
from attnfaith.types import Capture
from attnfaith.validation import short_repr


def check_model(model: nn.Module) -> None:
    """Refuse a model that cannot run: weights on the meta device, or NaN."""
    parameters = [*model.parameters(), *model.buffers()]
    if any(parameter.is_meta for parameter in parameters):
        raise UnsupportedModelError(
            "Some of the model's weights are on the meta device, so it cannot run. Load it with real weights (without "
            "device_map offloading) and cut it again."
        )
    broken = [name for name, value in model.named_parameters() if value.is_floating_point() and value.isnan().any()]
    if broken:
        raise NumericalError(f"The model's weights contain NaN: {', '.join(broken[:3])}. Load or train it again.")


def check_inputs(model: nn.Module, inputs: dict[str, Any]) -> dict[str, Any]:
    """Check a model's inputs, and return them on its device, with a mask and without labels."""
    inputs = {name: value for name, value in inputs.items() if name != "labels" and value is not None}
    ids = inputs.get("input_ids")
    if not isinstance(ids, Tensor) or ids.dim() != 2 or ids.dtype not in (torch.int64, torch.int32):
        actual = type(ids).__name__ if not isinstance(ids, Tensor) else f"{ids.dtype} of shape {tuple(ids.shape)}"
        raise InputError(f"Expected input_ids as a tensor of token ids [batch, length], got {actual}.")
    if ids.numel() == 0:
        raise InputError(f"input_ids is empty, of shape {tuple(ids.shape)}: expected at least one text and one token.")
    size = vocabulary_of(model)
    if size is not None and not (int(ids.min()) >= 0 and int(ids.max()) < size):
        wrong = int(ids.min()) if int(ids.min()) < 0 else int(ids.max())
        raise InputError(
            f"input_ids holds the id {wrong}, but the model's vocabulary has {size} entries, 0..{size - 1}. Were the "
            "ids made by the model's own tokenizer?",
            code="wrong-tokenizer",
        )
    mask = inputs.get("attention_mask")
    if mask is None:
        pad = getattr(getattr(model, "config", None), "pad_token_id", None)
        if pad is not None and ids.shape[0] > 1 and bool((ids == pad).any()):
            raise InputError(
                "input_ids holds padding but there is no attention_mask. Pass the tokenizer's attention_mask too: "
                "without it padding would be read as text."
            )
        mask = torch.ones_like(ids)
    if not isinstance(mask, Tensor) or mask.shape != ids.shape:
        actual = type(mask).__name__ if not isinstance(mask, Tensor) else str(tuple(mask.shape))
        raise InputError(f"Expected attention_mask of the shape of input_ids, {tuple(ids.shape)}, got {actual}.")
    if not bool(((mask == 0) | (mask == 1)).all()):  # NaN is neither, and PyTorch would take it for 1
        odd = mask[(mask != 0) & (mask != 1)].flatten()[0].item()
        raise InputError(f"Expected attention_mask of 1 (a token) and 0 (padding), got {odd}.")
    empty = (mask == 0).all(-1).nonzero().flatten().tolist()
    if empty:
        raise InputError(f"The attention_mask of texts {empty} hides every token: there is nothing to attend.")
    pads = [part.pad_token_id for part in text_configs(getattr(model, "config", None)) if hasattr(part, "pad_token_id")]
    if pads and all(pad is None for pad in pads) and bool((mask == 0).any()):
        raise InputError(
            "The batch is padded, but the model has no padding token and cannot tell padding from text. Set "
            "model.config.pad_token_id to the tokenizer's pad_token_id, or pass texts of one length.",
            code="missing-padding-token",
        )
    extra_inputs = {name: value for name, value in inputs.items() if name not in ("input_ids", "attention_mask")}
    _check_others(model, extra_inputs, ids)
    device = next((parameter.device for parameter in model.parameters()), ids.device)
    inputs["attention_mask"] = mask
    return {name: value.to(device) if isinstance(value, Tensor) else value for name, value in inputs.items()}


def _check_others(model: nn.Module, extra_inputs: dict[str, Any], ids: Tensor) -> None:
    """Check the inputs beside ids and mask: the model has such an input, and its values fit the tokens."""
    parameters = inspect.signature(model.forward).parameters.values()
    accepted = {parameter.name for parameter in parameters}
    open_ended = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    types = next((count for part in text_configs(getattr(model, "config", None)) if (count := _types_of(part))), None)
    for name, value in extra_inputs.items():
        if "input_ids" in accepted and name not in accepted and not open_ended:
            raise InputError(
                f"{type(model).__name__} has no input {short_repr(name)}. Leave it out; the model has "
                f"{', '.join(sorted(accepted))}.",
                code="unknown-name",
            )
        if name not in ("token_type_ids", "position_ids"):
            continue
        is_integer = isinstance(value, Tensor) and value.dtype in (torch.int64, torch.int32)
        # TAPAS has several numbers for each token, in a third dimension
        if not is_integer or tuple(value.shape[:2]) not in (tuple(ids.shape), (1, ids.shape[1])):
            actual = f"{value.dtype} of shape {tuple(value.shape)}" if isinstance(value, Tensor) else short_repr(value)
            shape = tuple(ids.shape)
            raise InputError(f"Expected {name} as whole numbers of the shape of input_ids, {shape}, got {actual}.")
        positions = min((table.num_embeddings for table in position_tables(model)), default=None)
        count, smallest, largest = types if name == "token_type_ids" else positions, int(value.min()), int(value.max())
        if smallest < 0 or (count is not None and largest >= count):
            expected = "0 or more" if count is None else f"0 to {count - 1}"
            raise InputError(f"{name} holds values from {smallest} to {largest}; the model expects {expected}.")


def _types_of(part: Any) -> int | None:
    count = getattr(part, "type_vocab_size", None)
    return count if isinstance(count, int) and count > 0 else None


def vocabulary_of(model: Any) -> int | None:
    """The number of ids that the model has vectors for; None if it is not known, or any number is an id (CANINE)."""
    if hasattr(getattr(model, "config", None), "num_hash_buckets") or not hasattr(model, "get_input_embeddings"):
        return None
    try:
        count = getattr(model.get_input_embeddings(), "num_embeddings", None)
    except (NotImplementedError, AttributeError):
        return None
    return count if isinstance(count, int) else None


@contextmanager
def known_ids() -> Iterator[None]:
    """Turn PyTorch's error for an id without a vector into an `InputError`: the vocabulary size may be unknown."""
    try:
        yield
    except IndexError as error:
        if "out of range in self" not in str(error):
            raise
        raise InputError(
            "The model has no vector for one of the numbers in its inputs. Were the ids made by the model's own "
            "tokenizer, and is the text short enough for its positions?",
            code="wrong-tokenizer",
        ) from error


def check_capture(capture: Any) -> None:
    """Refuse what is not a `Capture`."""
    if not isinstance(capture, Capture):
        raise InputError(f"Expected a Capture, as cut.capture(...) returns it, got {type(capture).__name__}.")


def check_keep(capture: Capture, keep: Any) -> Tensor:
    """Check that ``keep`` is ``[B, K, N]`` bool and keeps no padding, and return it on the capture's device."""
    check_capture(capture)
    batch, _, items = capture.shape
    if not isinstance(keep, Tensor) or keep.dim() != 3 or (keep.shape[0], keep.shape[2]) != (batch, items):
        actual = tuple(keep.shape) if isinstance(keep, Tensor) else type(keep).__name__
        raise InputError(f"Expected keep of shape [batch, candidates, items] = [{batch}, K, {items}], got {actual}.")
    if keep.dtype != torch.bool:
        raise InputError(f"Expected keep as bool (True = the item stays), got {keep.dtype}. Use keep.bool().")
    keep = keep.to(capture.mask.device)
    wrong = (keep & ~capture.mask.unsqueeze(1)).any(-1).any(-1).nonzero().flatten().tolist()
    if wrong:
        raise InputError(f"keep is True at padding in texts {wrong}. Use keep & capture.mask[:, None].")
    return keep


def check_weights(capture: Capture, weights: Any) -> Tensor:
    """Check that ``weights`` is ``[B, K, G, N]``, finite, and zero at padding; return it on the capture's device."""
    check_capture(capture)
    batch, groups, items = capture.shape
    expected = (batch, groups, items)
    if not isinstance(weights, Tensor) or weights.dim() != 4 or (weights.shape[0], *weights.shape[2:]) != expected:
        actual = tuple(weights.shape) if isinstance(weights, Tensor) else type(weights).__name__
        raise InputError(
            f"Expected weights of shape [batch, candidates, distributions, items] = [{batch}, K, {groups}, {items}], "
            f"got {actual}."
        )
    if not weights.is_floating_point():
        raise InputError(f"Expected weights as floating-point numbers, got {weights.dtype}. Use weights.float().")
    if not bool(weights.isfinite().all()):
        raise InputError("weights holds NaN or infinity; every counterfactual weight must be a finite number.")
    largest = torch.finfo(capture.weights.dtype).max
    if bool((weights.detach().abs() > largest).any()):
        raise InputError(
            f"weights holds numbers beyond {largest:.3g}, the largest number of the model's {capture.weights.dtype}. "
            "Use smaller weights, or a model in double precision."
        )
    if bool((weights * ~capture.mask[:, None, None].to(weights.device)).any()):
        raise InputError("weights is not zero at padding. Use weights * capture.mask[:, None, None].")
    return weights.to(capture.weights.device)


def check_order(capture: Capture, order: Any) -> Tensor:
    """Check that ``order`` is ``[B, N]``, or several of them, ``[O, B, N]``; return it on the same device.

    Each row must be a permutation with padding last.
    """
    check_capture(capture)
    batch, _, items = capture.shape
    is_integer = isinstance(order, Tensor) and order.dtype in (torch.int64, torch.int32, torch.int16, torch.uint8)
    if not isinstance(order, Tensor) or order.dim() > 3 or order.shape[-2:] != (batch, items) or not is_integer:
        actual = f"{order.dtype} {tuple(order.shape)}" if isinstance(order, Tensor) else type(order).__name__
        raise InputError(f"Expected order as positions of shape [batch, items] = [{batch}, {items}], got {actual}.")
    order = order.to(capture.mask.device).long()
    positions = torch.arange(items, device=order.device)
    inside = not order.numel() or 0 <= int(order.min()) <= int(order.max()) < items
    if not inside or not bool(torch.zeros_like(order, dtype=torch.bool).scatter_(-1, order, True).all()):
        raise InputError(f"Each row of order must hold every position 0..{items - 1} once.")
    is_item = positions < capture.lengths.unsqueeze(-1)
    if not torch.equal(capture.mask.expand_as(order).gather(-1, order), is_item.expand_as(order)):
        raise InputError("order must list the items first and padding last. Sort scores with padding at -inf.")
    return order


def example_for(model: nn.Module) -> dict[str, Any]:
    """One dummy text, of a length that is no size of a weight or setting, so that lengths and widths differ."""
    sizes = {size for parameter in model.parameters() for size in parameter.shape}
    config = getattr(model, "config", None)
    sizes |= {value for value in vars(config).values() if isinstance(value, int)} if config is not None else set()
    length = next((size for size in (9, 11, 13, 17, 19, 23) if size not in sizes), 9)
    return make_dummy_inputs(model, lengths=(length,))
