"""Dummy texts on which a way of hiding tokens is proved: the hardest cases for a model."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from accelerate.utils.memory import should_reduce_batch_size
from torch import Tensor

from attnfaith.adapters.choose_tail import pad_id_of
from attnfaith.adapters.cut import Cut
from attnfaith.adapters.dummy_inputs import make_dummy_inputs, position_limit, text_configs
from attnfaith.adapters.positions import select_texts
from attnfaith.adapters.self_check import first_unpadded, relative_difference, scale_of, tolerance_of, with_longer_text
from attnfaith.errors import AttnFaithError, InputError
from attnfaith.parameter_names import parameter

LENGTH = 64  # tokens of a dummy text, if no window of the model is larger
PADDING = 4  # tokens of padding
COSTLY = 1024  # length from which on only the two hardest sets are tried
MODEL_ERRORS = (RuntimeError, ValueError, IndexError, TypeError)
"""Exceptions that the code of a model raises for inputs that it does not accept."""
_WINDOW = re.compile(r"^(?!.*(pattern|layer)).*(window|local_attention|chunk_size|chunk_length|block_size)")


def windows_of(config: Any) -> list[int]:
    """The attention windows of single layers, by the configuration: its windows, chunks and blocks of the text.

    Example:
        >>> from attnfaith.tiny_models import tiny_model
        >>> windows_of(tiny_model("mistral").config), windows_of(tiny_model("bert").config)
        ([8], [])
    """
    windows: set[int] = set()
    for part in text_configs(config):
        for name, value in part.to_dict().items() if hasattr(part, "to_dict") else ():
            if _WINDOW.search(name):
                sizes = value if isinstance(value, list | tuple) else [value]
                windows.update(size for size in sizes if isinstance(size, int) and size > 1)
    return sorted(windows)


@dataclass(frozen=True)
class Trial:
    """A dummy text, sets of its tokens to keep, and changes that must not affect the logits.

    Attributes:
        inputs: of the text, of the same text with other ids, and of a longer text beside which the two are padded; the
            last is missing for a model that cannot be padded.
        deciding: ``[B]``, their deciding tokens, or None.
        keeps: ``[K, L]``, the kept tokens: one token, far from the deciding one or beside it; the far half; a random
            half; the deciding token alone. The deciding token is hidden in most of them. With its whole neighbourhood
            hidden it may have nothing to attend to: the softmax of a row that is masked everywhere is uniform, so it
            would read hidden tokens and padding.
    """

    inputs: dict[str, Any]
    deciding: Tensor | None
    keeps: Tensor

    @classmethod
    def of(cls, cut: Cut, inputs: Mapping[str, Any], *, left: bool, longest: int | None) -> Trial:
        """A text longer than every window of the model, if the model accepts such texts.

        Args:
            cut: the model, cut.
            inputs: of one text, used if no dummy text can be made.
            left: whether padding goes on the left.
            longest: the length of the longest text of the run, if it is limited.
        """
        window = max(windows_of(getattr(cut.model, "config", None)), default=0)
        return cls._sized(cut, inputs, left=left, longest=longest, length=max(LENGTH, window + PADDING))

    @classmethod
    def near(cls, cut: Cut, inputs: Mapping[str, Any], *, left: bool, longest: int | None) -> Trial | None:
        """A text shorter than half of every window; None for a model without windows, or with very small ones."""
        length = min(windows_of(getattr(cut.model, "config", None)), default=0) // 2
        if length < 3:
            return None
        return cls._sized(cut, inputs, left=left, longest=longest, length=length)

    @classmethod
    def _sized(cls, cut: Cut, inputs: Mapping[str, Any], *, left: bool, longest: int | None, length: int) -> Trial:
        limits = [limit - PADDING for limit in (longest, position_limit(cut.model)) if limit is not None]
        length = max(3, min([length, *limits]))
        side = "left" if left else "right"
        try:
            rows = make_dummy_inputs(cut.model, (length, length + PADDING), side)
            others = make_dummy_inputs(cut.model, (length, length + PADDING), side, seed=1)["input_ids"][:1]
        except InputError:  # the configuration does not describe the inputs
            pad = pad_id_of(cut.adapter)
            rows = dict(inputs) if pad is None else with_longer_text(inputs, pad, left=left)
            others = rows["input_ids"][-1:].roll(1, dims=1)
        tokens = rows["attention_mask"].bool()
        decides = [_deciding(cut, rows, text) for text in range(len(tokens))]
        deciding_token, changes = decides[0], tokens[:1].clone()
        if deciding_token is not None:
            changes[0, deciding_token] = False
        numbers = [0, *range(len(tokens))]
        rows = select_texts(rows, len(tokens), torch.tensor(numbers, device=tokens.device))
        rows["input_ids"][1] = torch.where(changes, others, rows["input_ids"][:1])[0]
        deciding = None
        if deciding_token is not None:
            deciding = torch.tensor([decides[number] for number in numbers], device=tokens.device)
        return cls(rows, deciding, _hard_sets(tokens[0], deciding_token))

    @property
    def length(self) -> int:
        """The number of tokens of the text."""
        return int(self.inputs["attention_mask"][0].sum())

    def text(self, number: int) -> dict[str, Any]:
        """One of the texts without padding."""
        return _single(self.inputs, number)

    @property
    def plain(self) -> Trial:
        """The same trial with all inputs other than the ids equal at every position."""
        shape = self.inputs["input_ids"].shape
        index = 0 if self.deciding is None else int(self.deciding[0])
        same = {
            name: value[:1, index : index + 1].expand_as(value)
            for name, value in self.inputs.items()
            if name not in ("input_ids", "attention_mask") and isinstance(value, Tensor) and value.shape[:2] == shape
        }
        return replace(self, inputs={**self.inputs, **same})

    def sets(self, *, protects: bool) -> Tensor:
        """The sets of tokens to keep; the deciding token is in each of them if it is protected."""
        if self.deciding is None or not protects:
            return self.keeps
        keeps = self.keeps.clone()
        keeps[:, self.deciding[0]] = True
        return keeps.unique(dim=0)


def _single(inputs: Mapping[str, Any], number: int) -> dict[str, Any]:
    ids = inputs["input_ids"]
    return first_unpadded(select_texts(inputs, len(ids), torch.tensor([number], device=ids.device)))


def _deciding(cut: Cut, rows: Mapping[str, Any], number: int) -> int | None:
    deciding = cut.adapter.deciding_tokens(cut.capture(**_single(rows, number)))
    return None if deciding is None else int(deciding) + int(rows["attention_mask"][number].int().argmax())


def _hard_sets(tokens: Tensor, deciding_token: int | None) -> Tensor:
    """The sets of `Trial.keeps`."""
    positions = tokens.nonzero().squeeze(-1)
    centre = int(positions[0]) if deciding_token is None else deciding_token
    by_distance = positions[(positions - centre).abs().argsort(stable=True)]
    decides, others = by_distance[:1], by_distance[1:]
    draw = torch.rand(len(others), generator=torch.Generator().manual_seed(0)).to(positions.device)
    sets: Sequence[Tensor] = [
        others[-1:],
        others[:1],
        others[len(others) // 2 :],
        others[draw < 0.5],
        decides,
        torch.cat((decides, others[-1:])),
    ]
    if len(positions) > COSTLY:
        sets = [sets[0], sets[-1]]
    keeps = torch.zeros(len(sets), len(tokens), dtype=torch.bool, device=tokens.device)
    for row, kept in enumerate(sets):
        keeps[row, kept] = True
    return keeps[keeps.any(1)]


def same_logits(logits: Tensor, expected: Tensor, whole: Tensor) -> bool:
    """True if logits equal the expected ones, relative to their scale and to the effect of hiding.

    Args:
        logits: the logits to compare.
        expected: what they should be.
        whole: the logits of the text with nothing hidden.
    """
    scale, tolerance = scale_of(whole), tolerance_of(whole)
    error, effect = relative_difference(logits, expected, scale), relative_difference(expected, whole, scale)
    return error <= tolerance / 10 and error <= max(0.02 * effect, 1e-6, tolerance / 200)


def failed_trial(error: Exception) -> bool:
    """False, since a model that rejects an input fails the trial; raises if memory ran out, which proves nothing."""
    if should_reduce_batch_size(error):
        raise AttnFaithError(
            "Memory ran out while ways of hiding tokens from this model were tried, on dummy texts longer than its "
            f"attention windows. Use a smaller {parameter('max_length')}, or {parameter('level', 'attention')}.",
            code="out-of-memory",
        ) from error
    return False
