"""Made-up texts on which a way of hiding tokens is proved: the hardest ones that a model can meet."""

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

LENGTH = 64  # tokens of a made-up text, where no window of the model asks for more
MORE = 4  # by how many tokens it is padded
COSTLY = 1024  # tokens from which on only the two hardest sets are tried
FOREIGN = (RuntimeError, ValueError, IndexError, TypeError)
"""What the code of a model raises for inputs that it does not take."""
_WINDOW = re.compile(r"^(?!.*(pattern|layer)).*(window|local_attention|chunk_size|chunk_length|block_size)")


def windows_of(config: Any) -> list[int]:
    """How far single layers look, by the configuration: what it calls a window, or a chunk or block of the text.

    Example:
        >>> from attnfaith.tiny_models import tiny_model
        >>> windows_of(tiny_model("mistral").config), windows_of(tiny_model("bert").config)
        ([8], [])
    """
    found: set[int] = set()
    for part in text_configs(config):
        for name, value in part.to_dict().items() if hasattr(part, "to_dict") else ():
            if _WINDOW.search(name):
                sizes = value if isinstance(value, list | tuple) else [value]
                found.update(size for size in sizes if isinstance(size, int) and size > 1)
    return sorted(found)


@dataclass(frozen=True)
class Trial:
    """A made-up text, what is kept of it, and what must not change its logits.

    Attributes:
        inputs: of the text, of the same text with other ids, and of a longer text beside which the two are padded; the
            last is missing for a model that cannot be padded.
        deciding: ``[B]``, their deciding tokens, or None.
        keeps: ``[K, L]``, what is kept of the text: one token, far from the deciding one or beside it; the far half;
            the deciding token alone. It is hidden in all but the last two. With its whole neighbourhood hidden it may
            have nothing to attend to: the softmax of a row that is masked everywhere is uniform, and so it would read
            hidden tokens and padding.
    """

    inputs: dict[str, Any]
    deciding: Tensor | None
    keeps: Tensor

    @classmethod
    def of(cls, cut: Cut, inputs: Mapping[str, Any], *, left: bool, longest: int | None) -> Trial:
        """A text longer than every window of the model, as far as the model takes such texts.

        Args:
            cut: the model, cut.
            inputs: of one text, where none can be made up.
            left: whether padding goes on the left.
            longest: the most tokens that a text of the run can have.
        """
        window = max(windows_of(getattr(cut.model, "config", None)), default=0)
        return cls._sized(cut, inputs, left=left, longest=longest, length=max(LENGTH, window + MORE))

    @classmethod
    def near(cls, cut: Cut, inputs: Mapping[str, Any], *, left: bool, longest: int | None) -> Trial | None:
        """A text shorter than half of every window; None for a model without windows, or with very small ones."""
        reach = min(windows_of(getattr(cut.model, "config", None)), default=0) // 2
        if reach < 3:
            return None
        return cls._sized(cut, inputs, left=left, longest=longest, length=reach)

    @classmethod
    def _sized(cls, cut: Cut, inputs: Mapping[str, Any], *, left: bool, longest: int | None, length: int) -> Trial:
        limits = [limit - MORE for limit in (longest, position_limit(cut.model)) if limit is not None]
        length = max(3, min([length, *limits]))
        side = "left" if left else "right"
        try:
            rows = make_dummy_inputs(cut.model, (length, length + MORE), side)
            others = make_dummy_inputs(cut.model, (length, length + MORE), side, seed=1)["input_ids"][:1]
        except InputError:  # a model without a configuration that says what its texts look like
            pad = pad_id_of(cut.adapter)
            rows = dict(inputs) if pad is None else with_longer_text(inputs, pad, left=left)
            others = rows["input_ids"][-1:].roll(1, dims=1)
        tokens = rows["attention_mask"].bool()
        decides = [_deciding(cut, rows, text) for text in range(len(tokens))]
        own, changes = decides[0], tokens[:1].clone()
        if own is not None:
            changes[0, own] = False
        numbers = [0, *range(len(tokens))]
        rows = select_texts(rows, len(tokens), torch.tensor(numbers, device=tokens.device))
        rows["input_ids"][1] = torch.where(changes, others, rows["input_ids"][:1])[0]
        deciding = None if own is None else torch.tensor([decides[number] for number in numbers], device=tokens.device)
        return cls(rows, deciding, _hard_sets(tokens[0], own))

    @property
    def length(self) -> int:
        """How many tokens the text has."""
        return int(self.inputs["attention_mask"][0].sum())

    def text(self, number: int) -> dict[str, Any]:
        """One of the texts without padding."""
        return _single(self.inputs, number)

    @property
    def plain(self) -> Trial:
        """The same, with what the model is given beside the ids the same at every position."""
        shape = self.inputs["input_ids"].shape
        own = 0 if self.deciding is None else int(self.deciding[0])
        same = {
            name: value[:1, own : own + 1].expand_as(value)
            for name, value in self.inputs.items()
            if name not in ("input_ids", "attention_mask") and isinstance(value, Tensor) and value.shape[:2] == shape
        }
        return replace(self, inputs={**self.inputs, **same})

    def sets(self, *, protects: bool) -> Tensor:
        """What is kept, with the deciding token in every set where it is protected."""
        if self.deciding is None or not protects:
            return self.keeps
        keeps = self.keeps.clone()
        keeps[:, self.deciding[0]] = True
        return keeps.unique(dim=0)


def _single(inputs: Mapping[str, Any], number: int) -> dict[str, Any]:
    ids = inputs["input_ids"]
    return first_unpadded(select_texts(inputs, len(ids), torch.tensor([number], device=ids.device)))


def _deciding(cut: Cut, rows: Mapping[str, Any], number: int) -> int | None:
    found = cut.adapter.deciding_tokens(cut.capture(**_single(rows, number)))
    return None if found is None else int(found) + int(rows["attention_mask"][number].int().argmax())


def _hard_sets(tokens: Tensor, own: int | None) -> Tensor:
    """See `Trial.keeps`."""
    places = tokens.nonzero().squeeze(-1)
    centre = int(places[0]) if own is None else own
    by_distance = places[(places - centre).abs().argsort(stable=True)]
    decides, others = by_distance[:1], by_distance[1:]
    draw = torch.rand(len(others), generator=torch.Generator().manual_seed(0)).to(places.device)
    sets: Sequence[Tensor] = [
        others[-1:],
        others[:1],
        others[len(others) // 2 :],
        others[draw < 0.5],
        decides,
        torch.cat((decides, others[-1:])),
    ]
    if len(places) > COSTLY:
        sets = [sets[0], sets[-1]]
    keeps = torch.zeros(len(sets), len(tokens), dtype=torch.bool, device=tokens.device)
    for row, kept in enumerate(sets):
        keeps[row, kept] = True
    return keeps[keeps.any(1)]


def same_logits(found: Tensor, plain: Tensor, whole: Tensor) -> bool:
    """Whether logits are equal to the plain ones, relative to their scale and to what hiding does to the text.

    Args:
        found: the logits in question.
        plain: what they should be.
        whole: the logits of the text with nothing hidden.
    """
    scale, tolerance = scale_of(whole), tolerance_of(whole)
    off, effect = relative_difference(found, plain, scale), relative_difference(plain, whole, scale)
    return off <= tolerance / 10 and off <= max(0.02 * effect, 1e-6, tolerance / 200)


def refused(error: Exception) -> bool:
    """That a model does not take an input proves something; that memory ran out does not.

    Returns:
        False: what was tried does not hold.
    """
    if should_reduce_batch_size(error):
        raise AttnFaithError(
            "Memory ran out while it was tried how tokens can be hidden from this model, on made-up texts longer than "
            "its windows. Pass a smaller max_length, or use level='attention'."
        ) from error
    return False
