"""Encode texts, put them in batches and collate model inputs; texts that cannot be classified are refused."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from attnfaith import validation
from attnfaith.adapters.dummy_inputs import (
    SPECIAL_NAMES,
    config_value,
    position_limit,
    text_configs,
)
from attnfaith.adapters.input_checks import vocabulary_of
from attnfaith.errors import InputError
from attnfaith.parameter_names import parameter
from attnfaith.text.encoded import EncodedText, build_encoded
from attnfaith.text.offsets import TokenizerOutput, tokenize
from attnfaith.text.padding_trial import padding_is_ignored

_UNLIMITED = 10**20  # Transformers says "no limit" as 1e30


class TextEncoder:
    """Encodes texts for one tokenizer and model.

    Args:
        tokenizer: any Transformers tokenizer, fast or slow.
        model: the classifier.
        max_length: longer texts are cut off; by default at what tokenizer and model take.

    Example:
        >>> import attnfaith as af
        >>> tokenizer = af.models.WordTokenizer.train(["a fine film"], min_count=1)
        >>> texts = TextEncoder(tokenizer, af.models.from_preset("FLANnoenc", num_labels=2, tokenizer=tokenizer))
        >>> texts.encode(["A fine, fine film"])[0].tokens
        ('A', 'fine', ',', 'fine', 'film')
    """

    def __init__(self, tokenizer: Any, model: nn.Module, max_length: int | None = None) -> None:
        if not isinstance(tokenizer, PreTrainedTokenizerBase):
            raise InputError(
                f"Expected a Transformers tokenizer, got {type(tokenizer).__name__}. Load one with "
                "AutoTokenizer.from_pretrained; wrap a tokenizers.Tokenizer as "
                "PreTrainedTokenizerFast(tokenizer_object=...).",
                code="wrong-tokenizer",
            )
        if not tokenizer.is_fast and not hasattr(tokenizer, "prepare_for_model"):
            raise InputError(
                f"{type(tokenizer).__name__} gives neither offsets nor tokens. Use a fast tokenizer.",
                code="wrong-tokenizer",
            )
        self.tokenizer, self.model = tokenizer, model
        self.config = getattr(model, "config", None)
        self.special_ids = special_ids_of(self.config, tokenizer)
        self.max_length = self._limit(max_length)
        self._accepted = _accepted_by(model)
        self._vocabulary = vocabulary_of(model)

    def encode(self, texts: Sequence[Any]) -> list[EncodedText]:
        """Tokenize texts and (text, text) pairs; a text that cannot be classified is refused with its index."""
        texts = list(texts)
        if not texts:
            raise InputError("Got an empty list; expected at least one text.", code="no-texts")
        pairs = [
            self._checked(entry, f"Entry {index}" if len(texts) > 1 else "It") for index, entry in enumerate(texts)
        ]
        outputs: dict[int, TokenizerOutput] = {}
        for paired in (False, True):
            indices = [index for index, pair in enumerate(pairs) if (pair[1] is not None) == paired]
            if indices:
                self._check_room(paired)
                tokenized = tokenize(self.tokenizer, [pairs[index] for index in indices], self.max_length)
                outputs |= zip(indices, tokenized, strict=True)
        roles = {number: name.removesuffix("_token") for name, number in _roles(self.tokenizer).items()}
        return [
            self._encoded(*pair, outputs[index], roles, f"Entry {index}" if len(texts) > 1 else "It")
            for index, pair in enumerate(pairs)
        ]

    def batches(self, encoded: Sequence[EncodedText], size: int) -> Iterator[list[int]]:
        """Index lists of at most ``size`` texts of similar length, the longest first; each index once.

        If texts cannot be padded, only texts of equal length share a batch. A model whose configuration has no padding
        token gets its texts one by one: decoders refuse larger batches.
        """
        size = validation.whole_number(size, "batch_size", least=1)
        declared = any(hasattr(part, "pad_token_id") for part in text_configs(self.config) if part is not None)
        if declared and _pad_of(self.config) is None:
            size = 1
        equal = not self.mixes_lengths
        order = sorted(range(len(encoded)), key=lambda index: -len(encoded[index].ids))
        batch: list[int] = []
        for index in order:
            differs = batch and len(encoded[index].ids) != len(encoded[batch[0]].ids)
            if len(batch) == size or (equal and differs):
                yield batch
                batch = []
            batch.append(index)
        if batch:
            yield batch

    @cached_property
    def mixes_lengths(self) -> bool:
        """True if texts of different lengths can share a batch, see `attnfaith.text.padding_trial`.

        The tokenizer chooses the side of the padding, and not every model allows both: a model that classifies from its
        first position would read left padding there.
        """
        return self._pad is not None and padding_is_ignored(self.model, self.tokenizer.padding_side)

    def collate(self, encoded: Sequence[EncodedText]) -> dict[str, Tensor]:
        """The inputs of the model, padded on the tokenizer's side, with an ``attention_mask``."""
        width = max(len(text.ids) for text in encoded)
        if self._pad is None and any(len(text.ids) != width for text in encoded):
            raise InputError(
                "Texts of several lengths need a padding token; batches() puts equal lengths together.",
                code="missing-padding-token",
            )
        fills = {"input_ids": self._pad or 0, "token_type_ids": self.tokenizer.pad_token_type_id}
        batch = {}
        for name in encoded[0].inputs:
            rows = [torch.tensor(text.inputs[name]) for text in encoded]
            batch[name] = torch.stack([self._padded(row, width, fills.get(name, 0)) for row in rows])
        return batch

    @property
    def _pad(self) -> int | None:
        pad = _pad_of(self.config)  # the id of the model first: some models find positions and last tokens by it
        return self.tokenizer.pad_token_id if pad is None else pad

    def _padded(self, row: Tensor, width: int, fill: int) -> Tensor:
        padding = row.new_full((width - len(row), *row.shape[1:]), fill)
        return torch.cat((padding, row) if self.tokenizer.padding_side == "left" else (row, padding))

    def _limit(self, requested: int | None) -> int | None:
        position_count = position_limit(self.model)
        if requested is None:
            stated = self.tokenizer.model_max_length
            limits = [position_count, stated if stated and 0 < stated < _UNLIMITED else None]
            return min((int(limit) for limit in limits if limit is not None), default=None)
        requested = validation.whole_number(requested, "max_length", least=1)
        if position_count is not None and requested > position_count:
            raise InputError(
                f"{parameter('max_length', requested)} is more than the {position_count} tokens that "
                f"{_name(self.model)} takes."
            )
        return requested

    def _check_room(self, paired: bool) -> None:
        special = self.tokenizer.num_special_tokens_to_add(pair=paired)
        needed = special + (2 if paired else 1)
        if self.max_length is not None and self.max_length < needed:
            raise InputError(
                f"{parameter('max_length', self.max_length)} leaves no room for a {'pair' if paired else 'text'}: the "
                f"tokenizer adds {special} special tokens, so at least {needed} are needed."
            )

    def _checked(self, entry: Any, where: str) -> tuple[str, str | None]:
        """An entry as ``(text, pair or None)``; the wrong kind is refused."""
        if isinstance(entry, tuple) and len(entry) != 2:
            raise InputError(
                f"{where} is a tuple of {len(entry)}; expected a text, or a pair (text, text).", code="not-a-text"
            )
        parts = entry if isinstance(entry, tuple) else (entry,)
        for side, part in zip(("first", "second"), parts, strict=False):
            text_name = f"The {side} text of {where[:1].lower() + where[1:]}" if len(parts) == 2 else where
            if not isinstance(part, str):
                raise InputError(
                    f"{text_name} is of type {type(part).__name__}: expected a str, or a tuple of two.",
                    code="not-a-text",
                )
            try:
                part.encode()
            except UnicodeEncodeError as error:
                raise InputError(
                    f"{text_name} holds half a character (a lone surrogate) at position {error.start}, which no "
                    "tokenizer reads. Clean it with text.encode('utf-8', 'replace').decode().",
                    code="not-a-text",
                ) from error
        if len(parts) == 1 and getattr(self.config, "query", False):
            raise InputError(
                f"{where} is a single text; this model reads pairs: expected a tuple (text, text).", code="not-a-text"
            )
        return (parts[0], parts[1] if len(parts) == 2 else None)

    def _encoded(
        self, text: str, pair: str | None, output: TokenizerOutput, roles: dict[int, str], where: str
    ) -> EncodedText:
        self._check_fit(output, pair, where)
        ids = output.ids
        raw: Any = self.tokenizer.convert_ids_to_tokens(ids)
        accepted = {name: tuple(rows) for name, rows in output.inputs.items() if self._accepts(name, rows, len(ids))}
        return build_encoded(
            output,
            text,
            pair,
            raw=raw,
            inputs={**accepted, "attention_mask": (1,) * len(ids)},
            special_ids=self.special_ids,
            roles=roles,
            max_length=self.max_length,
            sentences=self._sentences(ids),
        )

    def _check_fit(self, output: TokenizerOutput, pair: str | None, where: str) -> None:
        ids = output.ids
        if not ids:
            raise InputError(
                f"{where} is empty or white space, and {_name(self.tokenizer)} adds no special tokens: there is "
                "nothing to classify. Leave it out.",
                code="no-texts",
            )
        if self._vocabulary is not None and not 0 <= min(ids) <= max(ids) < self._vocabulary:
            raise InputError(
                f"{where} has the token id {max(ids)}, but the model's vocabulary has {self._vocabulary} entries. Is "
                "this the model's own tokenizer?",
                code="wrong-tokenizer",
            )
        types, type_count = output.inputs.get("token_type_ids"), getattr(self.config, "type_vocab_size", None)
        types = types if types and "token_type_ids" in (self._accepted or ("token_type_ids",)) else None
        if types and pair is not None and isinstance(type_count, int) and type_count and max(types) >= type_count:
            raise InputError(
                f"{where} is a pair, but {_name(self.model)} knows {type_count} token type(s): it does not take "
                "pairs. Join the two texts into one.",
                code="not-a-text",
            )

    def _accepts(self, name: str, rows: Any, length: int) -> bool:
        per_token = isinstance(rows, list | tuple) and len(rows) == length
        accepted = self._accepted is None or name in self._accepted
        return per_token and accepted and name not in ("special_tokens_mask", "offset_mapping")

    def _sentences(self, ids: list[int]) -> tuple[int, ...] | None:
        if not getattr(self.tokenizer, "sentences", False):
            return None
        marks = {getattr(self.tokenizer, name, None) for name in ("sentence_token_id", "sep_token_id")} - {None}
        return tuple(accumulate(number in marks for number in ids))


def special_ids_of(config: Any, tokenizer: Any = None) -> frozenset[int]:
    """The ids of special tokens, from the tokenizer or from a model's configuration; "unknown" is not one of them.

    Example:
        >>> from attnfaith.tiny_models import tiny_model
        >>> sorted(special_ids_of(tiny_model("bert").config))
        [0, 1, 2]
    """
    if tokenizer is not None and hasattr(tokenizer, "all_special_ids"):
        other_ids = {number for name, number in _roles(tokenizer).items() if name != "unk_token"}
        ids = set(tokenizer.all_special_ids)
        unknown = getattr(tokenizer, "unk_token_id", None)
        return frozenset(ids if unknown in other_ids else ids - {unknown})
    values: set[Any] = set()
    for part in text_configs(config):
        if not hasattr(part, "to_dict"):
            continue
        for name in {*part.to_dict(), *part.attribute_map}:
            if SPECIAL_NAMES.search(name) and not name.startswith("unk"):
                value = getattr(part, name, None)
                values.update(value if isinstance(value, list | tuple) else [value])
    return frozenset(number for number in values if isinstance(number, int) and number >= 0)


def _roles(tokenizer: Any) -> dict[str, int]:
    named = getattr(tokenizer, "special_tokens_map", {})
    return {name: getattr(tokenizer, f"{name}_id") for name, token in named.items() if isinstance(token, str)}


def _pad_of(config: Any) -> int | None:
    pad = None if config is None else config_value(config, "pad_token_id", "pad_index")
    return pad if isinstance(pad, int) and pad >= 0 else None


def _accepted_by(model: Any) -> frozenset[str] | None:
    """The argument names of the forward pass; None if it has no ``input_ids``, and so takes any names."""
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    names = frozenset(inspect.signature(base.forward).parameters)
    return names if "input_ids" in names else None


def _name(value: Any) -> str:
    return type(value).__name__
