"""Fingerprints of models, tokenizers, functions and rows: hashes that do not depend on process, device or path."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterable, Mapping
from functools import partial
from types import CodeType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from attnfaith.errors import InputError

if TYPE_CHECKING:
    from attnfaith.data.source import Row

# Entries of configurations and tokenizers that do not affect logits: their origin, and the options of the last call.
_BOOKKEEPING = (
    "_name_or_path", "name_or_path", "transformers_version", "architectures", "dtype", "torch_dtype", "_commit_hash",
    "output_attentions", "output_hidden_states", "return_dict", "_attn_implementation", "_experts_implementation",
)  # fmt: skip
_OF_CALLS = (
    "backend", "is_local", "local_files_only", "max_length", "stride", "truncation_strategy", "truncation_side",
    "padding_side", "pad_to_multiple_of", "pad_token_type_id", "model_max_length", "vocab_file", "merges_file",
    "tokenizer_file", "tokenizer_class", "processor_class", "chat_template", "special_tokens_map_file",
)  # fmt: skip


def fingerprint_model(model: nn.Module) -> str:
    """The sha256 of a model's class, configuration and weights, buffers that are saved with them included.

    Buffers that are not saved follow from the configuration, and can differ in their last bit on another device.

    Example:
        >>> import attnfaith as af
        >>> model = af.models.from_preset("FLANnoenc", num_labels=2, vocab_size=9)
        >>> before = fingerprint_model(model)
        >>> before == fingerprint_model(model), before == fingerprint_model(model.half())
        (True, False)
    """
    digest = hashlib.sha256()
    config: Any = getattr(model, "config", None)
    settings = config.to_dict() if hasattr(config, "to_dict") else {}
    _add(digest, type(getattr(model, "_orig_mod", model)).__qualname__, _as_json(_without(settings, _BOOKKEEPING)))
    state = {name.removeprefix("_orig_mod."): value for name, value in model.state_dict().items()}
    for name in sorted(state):
        _add_value(digest, name, state[name])
    return digest.hexdigest()


def fingerprint_tokenizer(tokenizer: Any) -> str:
    """The sha256 of a tokenizer's class, vocabulary, rules and special tokens.

    The options of its last call (a fast tokenizer keeps truncation and padding) and its maximum length do not count.
    """
    digest = hashlib.sha256()
    _add(digest, type(tokenizer).__qualname__, _as_json(tokenizer.special_tokens_map), tokenizer.truncation_side)
    skipped = {*_BOOKKEEPING, *_OF_CALLS, *tokenizer.special_tokens_map}
    settings = {
        name: value
        for name, value in tokenizer.init_kwargs.items()
        if isinstance(value, bool | int | float | str) and name not in skipped
    }
    _add(digest, _as_json(settings))
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        rules = json.loads(backend.to_str())
        _add(digest, _as_json({name: value for name, value in rules.items() if name not in ("truncation", "padding")}))
    else:
        _add(digest, _as_json(tokenizer.get_vocab()))
        pieces: Any = getattr(tokenizer, "sp_model", None)
        if hasattr(pieces, "serialized_model_proto"):
            _add(digest, pieces.serialized_model_proto())
    return digest.hexdigest()


def fingerprint_function(function: Any) -> str:
    """The sha256 of a function, or of an object that can be called: its code, and the values that it holds.

    Held are defaults, closures, what `functools.partial` binds, and the attributes of an object. Globals are not.

    Example:
        >>> def scaled(factor):
        ...     return lambda inputs: inputs["input_ids"] * factor
        >>> fingerprint_function(scaled(2)) == fingerprint_function(scaled(2))
        True
        >>> fingerprint_function(scaled(2)) == fingerprint_function(scaled(3))
        False
    """
    digest = hashlib.sha256()
    _add_part(digest, function, set())
    return digest.hexdigest()


def _add_part(digest: Any, value: Any, seen: set[int]) -> None:
    """Add a value that a function holds; of an object its class and attributes, once."""
    if isinstance(value, nn.Module):
        _add(digest, fingerprint_model(value))
        return
    if isinstance(value, Tensor | np.ndarray):
        _add_value(digest, "array", torch.as_tensor(value))
        return
    if value is None or isinstance(value, str | bytes | int | float | complex):
        _add(digest, type(value).__name__, repr(value))
        return
    parts: Iterable[Any]
    if isinstance(value, CodeType):
        parts = (value.co_code, value.co_names, value.co_consts)
    elif isinstance(value, Mapping):
        parts = [part for item in value.items() for part in item]
    elif isinstance(value, list | tuple):
        parts = value
    elif isinstance(value, set | frozenset):
        parts = sorted(map(repr, value))
    elif id(value) in seen:  # it refers to itself
        return
    else:
        seen.add(id(value))
        parts = _held_by(value)
    _add(digest, type(value).__qualname__)
    for part in parts:
        _add_part(digest, part, seen)


def _held_by(value: Any) -> tuple[Any, ...]:
    """What decides the values of a function, or of an object that can be called."""
    if isinstance(value, FunctionType):
        cells = tuple(cell.cell_contents for cell in value.__closure__ or ())
        return (value.__code__, value.__defaults__, value.__kwdefaults__, cells)
    if isinstance(value, MethodType):
        return (value.__func__, value.__self__)
    if isinstance(value, partial):
        return (value.func, value.args, value.keywords)
    return (getattr(type(value).__call__, "__code__", None), getattr(value, "__dict__", None))


def fingerprint_rows(rows: Iterable[Row]) -> str:
    """The sha256 of rows in their order: texts, pairs, labels, scores and rationales, without their row numbers.

    Example:
        >>> from attnfaith.data.source import Row
        >>> fingerprint_rows([Row(0, "a", "b")]) == fingerprint_rows([Row(0, "a b")])
        False
    """
    digest = hashlib.sha256()
    for row in rows:
        for value in (row.text, row.pair, row.label):
            _add_cell(digest, value)
        for name in sorted(row.scores):
            _add_cell(digest, name)
            _add_cell(digest, row.scores[name])
        if row.rationale is not None:
            _add_cell(digest, row.rationale.form)
            _add_cell(digest, row.rationale.values)
        digest.update(b"\n")
    return digest.hexdigest()


def _add_cell(digest: Any, value: Any) -> None:
    """Add a cell with its type and length before it, so that no two lists of cells give the same bytes."""
    if value is None:
        digest.update(b"0")
    elif isinstance(value, str):
        encoded = value.encode("utf-8", "surrogatepass")
        digest.update(b"s%d:" % len(encoded) + encoded)
    elif isinstance(value, tuple):
        digest.update(b"t%d:" % len(value))
        for part in value:
            _add_cell(digest, part)
    elif isinstance(value, float):
        digest.update(b"f" + struct.pack("<d", value if value == value else float("nan")))
    else:
        digest.update(b"i%d:" % value)


def _add(digest: Any, *parts: str | bytes) -> None:
    for part in parts:
        encoded = part.encode() if isinstance(part, str) else part
        digest.update(b"%d:" % len(encoded) + encoded)


def _add_value(digest: Any, name: str, value: Any) -> None:
    """Add a tensor by its name, type, shape and bytes, or another value of a module's state by its name and repr."""
    if isinstance(value, tuple | list):  # the packed weights of a quantised layer
        for index, part in enumerate(value):
            _add_value(digest, f"{name}.{index}", part)
    elif isinstance(value, Mapping):
        for key in sorted(value, key=str):
            _add_value(digest, f"{name}.{key}", value[key])
    elif isinstance(value, Tensor):
        if value.is_meta:
            raise InputError(
                f"The weight {name!r} is not loaded (it is on the meta device). Load the whole model.",
                code="broken-model",
            )
        _add(digest, name, f"{value.dtype}{tuple(value.shape)}")
        dense = value.dequantize() if value.is_quantized else value.detach()
        digest.update(dense.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    else:
        _add(digest, name, repr(value))


def _without(settings: Any, names: tuple[str, ...]) -> Any:
    if isinstance(settings, Mapping):
        return {str(key): _without(value, names) for key, value in settings.items() if key not in names}
    return [_without(value, names) for value in settings] if isinstance(settings, list | tuple) else settings


def _as_json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=True, default=str)
