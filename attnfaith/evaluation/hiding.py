"""Taking tokens away from the whole model, and not from its final attention only (PROTOCOLS: the input level)."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from attnfaith.adapters.borrow import borrowed
from attnfaith.adapters.cut import Cut
from attnfaith.adapters.probe import position_tables, setting
from attnfaith.adapters.rows import choose_inputs
from attnfaith.adapters.selfcheck import gap, scale_of, tolerance_of
from attnfaith.errors import InputError, UnsupportedModelError

WAYS = ("attention_mask", "mask_token", "pad", "zero", "delete")
"""No layer attends them and positions stay; replaced by a token, by padding, by zero vectors; the rest moves up."""
TOKENS = 2048  # in one pass through the model, so that activations stay in the processor's cache


@dataclass(frozen=True)
class Hiding:
    """How tokens are hidden from one model, and what was proved about it.

    Attributes:
        cut: the model, cut.
        way: one of `WAYS`.
        token: the id that stands for what is hidden, where the way needs one.
        first_position: what the model calls the first position, where positions can be said; else None.
        left: whether padding goes on the left.
        pad: the id of padding; None where texts of several lengths cannot share a batch.
        leave_out: whether what the attention mask hides may be left out of the batch; proved batch by batch.
        fast: whether what follows the final attention may be run on the deciding token alone; likewise.
    """

    cut: Cut
    way: str
    token: int | None
    first_position: int | None
    left: bool
    pad: int | None
    leave_out: bool = True
    fast: bool = True

    def run(
        self, inputs: Mapping[str, Any], deciding: Tensor | None, texts: Tensor, keep: Tensor, *, budget: int = TOKENS
    ) -> Tensor:
        """The logits ``[M, C]`` of texts ``[M]`` with only some tokens left, ``[M, L]``.

        The deciding token is never taken out of the sequence: where it is hidden, nobody attends it, and it goes on
        reading the others.

        Args:
            inputs: the model's, of the batch.
            deciding: ``[B]``, the position of each text's deciding token; None where there is not one alone.
            texts: which text each candidate is one of.
            keep: what is left.
            budget: tokens in one pass.
        """
        tokens = inputs["attention_mask"].bool()[texts]
        stays = keep.clone()
        if deciding is not None:
            stays.scatter_(1, deciding[texts].unsqueeze(1), True)
        out = self.way == "delete" or (self.way == "attention_mask" and self.leave_out)
        present = stays if out else tokens
        lengths = present.sum(1)
        order = lengths.argsort(descending=True, stable=True)
        parts = []
        place = 0
        with borrowed(self.cut.model, gradients=False):
            while place < len(order):
                width = int(lengths[order[place]])
                size = max(1, budget // width)
                if self.pad is None:
                    size = min(size, int((lengths[order[place:]] == width).sum()))
                rows = order[place : place + size]
                parts.append(self._run(inputs, deciding, texts[rows], present[rows], keep[rows], stays[rows], width))
                place += size
        logits = torch.cat(parts)
        return torch.empty_like(logits).index_copy_(0, order, logits)

    def _run(
        self,
        inputs: Mapping[str, Any],
        deciding: Tensor | None,
        texts: Tensor,
        present: Tensor,
        keep: Tensor,
        stays: Tensor,
        width: int,
    ) -> Tensor:
        """One pass: the present tokens side by side, padded to one width."""
        chosen = choose_inputs(inputs, len(inputs["input_ids"]), texts)
        length = present.shape[1]
        # the present ones first (or last), in their order
        picked = present.int().argsort(dim=1, descending=not self.left, stable=True)
        picked = picked[:, length - width :] if self.left else picked[:, :width]
        real = present.gather(1, picked)
        vectors = None
        if self.way in ("mask_token", "pad"):
            # what must go on deciding stays itself: models find their last token by the padding's id
            gone = ~(stays if self.way == "pad" else keep) & present
            chosen["input_ids"] = chosen["input_ids"].masked_fill(gone, self.token)
        if self.way == "zero":
            vectors = self.cut.adapter.vectors(chosen) * (keep | ~present).unsqueeze(-1)
            vectors = vectors[torch.arange(len(texts), device=texts.device).unsqueeze(1), picked]
        short = {
            name: _picked(value, picked, present.shape) if isinstance(value, Tensor) else value
            for name, value in chosen.items()
        }
        short["input_ids"] = short["input_ids"].masked_fill(~real, 0 if self.pad is None else self.pad)
        seen = keep.gather(1, picked) if self.way == "attention_mask" else real
        short["attention_mask"] = seen.to(short["attention_mask"].dtype)
        if self.first_position is not None and self.way != "delete":
            start = inputs["attention_mask"].bool()[texts].int().argmax(1, keepdim=True)
            short["position_ids"] = (picked - start + self.first_position).masked_fill(~real, 0)
        if deciding is None or not self.fast:
            adapter = self.cut.adapter
            return adapter.forward(short) if vectors is None else adapter.forward_on(vectors, short)
        row = (picked == deciding[texts].unsqueeze(1)).int().argmax(1, keepdim=True)
        return self.cut.adapter.logits_at((row, torch.ones_like(row, dtype=torch.bool)), short, vectors)

    def proved(self, inputs: Mapping[str, Any], deciding: Tensor | None) -> Hiding:
        """The fastest way that is equal, on this batch's longest text with half its tokens hidden, to the plain one."""
        tokens = inputs["attention_mask"].bool()
        text = tokens.sum(1).argmax().view(1)
        draw = torch.rand(tokens.shape[1], generator=torch.Generator().manual_seed(0)).to(tokens.device)
        keep = tokens[text] & (draw < 0.5)
        if deciding is not None:
            keep.scatter_(1, deciding[text].unsqueeze(1), False)
        if not bool(keep.any()):
            return replace(self, leave_out=False, fast=False)
        slow = replace(self, leave_out=False, fast=False)
        plain, whole = (slow.run(inputs, deciding, text, mask) for mask in (keep, tokens[text]))
        if not bool(plain.isfinite().all()):
            return slow
        scale, tolerance = scale_of(whole), tolerance_of(whole) / 10
        effect = gap(plain, whole, scale)
        for leave_out in (True, False) if self.way == "attention_mask" else (False,):
            found = replace(self, leave_out=leave_out, fast=deciding is not None)
            off = gap(found.run(inputs, deciding, text, keep), plain, scale)
            if off <= tolerance and off <= max(0.02 * effect, 1e-6):
                return found
        return slow


def _picked(value: Tensor, picked: Tensor, shape: torch.Size) -> Tensor:
    """A model input at the positions that are picked; what has no positions is passed on."""
    if value.dim() < 2 or value.shape[:2] != shape:
        return value
    return value[torch.arange(len(value), device=value.device).unsqueeze(1), picked]


def hiding_for(
    cut: Cut,
    inputs: Mapping[str, Any],
    deciding: Tensor | None,
    *,
    way: str | None,
    mask_id: int | None,
    left: bool,
    recurrent: bool,
) -> Hiding:
    """Find how tokens can be hidden from a model.

    Args:
        cut: the model, cut.
        inputs: of one text, unpadded; of a few tokens at least, or nothing can be proved.
        deciding: as for `Hiding.run`.
        way: one of `WAYS`; None for the attention mask where it hides tokens, else deletion.
        mask_id: the tokenizer's mask token.
        left: whether the tokenizer pads on the left.
        recurrent: whether a mask is known to hide nothing.
    """
    if way is not None and way not in WAYS:
        raise InputError(f"Expected hide to be one of {', '.join(WAYS)}, got {way!r}.")
    config = getattr(cut.model, "config", None)
    pad = None if config is None else setting(config, "pad_token_id", "pad_index")
    pad = pad if isinstance(pad, int) and pad >= 0 else None
    token = {"mask_token": mask_id, "pad": pad}.get(way or "")
    if way in ("mask_token", "pad") and token is None:
        kind = "mask" if way == "mask_token" else "padding"
        raise InputError(f"hide={way!r} needs a {kind} token, and there is none. Use hide='zero' or 'delete'.")
    padded = None if left and position_tables(cut.model) else pad  # a table counts left padding along with the text
    with borrowed(cut.model, gradients=False):
        first = None if way == "delete" or recurrent else _first_position(cut, inputs, pad)
        hiding = Hiding(cut, way or "attention_mask", token, first, left, padded)
        if hiding.way == "attention_mask" and (recurrent or not _hides(hiding, inputs, deciding)):
            if way is not None:
                raise UnsupportedModelError(
                    "An attention mask does not hide tokens from this model: what stands there still changes its "
                    "logits. Use hide='delete' or 'zero'."
                )
            hiding = replace(hiding, way="delete", first_position=None)
    return hiding


def _first_position(cut: Cut, inputs: Mapping[str, Any], pad: int | None) -> int | None:
    """What a model calls its first position, found by telling it: its logits stay, and move with other positions."""
    if "position_ids" not in inspect.signature(cut.model.forward).parameters:
        return None
    length = inputs["input_ids"].shape[1]
    own = cut.adapter.forward(inputs)
    tolerance = tolerance_of(own) / 10
    places = torch.arange(length, device=own.device).unsqueeze(0)
    for first in (0, 1 if pad is None else pad + 1):
        try:
            said = cut.adapter.forward({**inputs, "position_ids": places + first})
            other = cut.adapter.forward({**inputs, "position_ids": places.flip(1) + first})
        except (RuntimeError, TypeError, ValueError, IndexError):
            continue
        if gap(said, own, scale_of(own)) <= tolerance and not torch.equal(other, said):
            return first
    return None


def _hides(hiding: Hiding, inputs: Mapping[str, Any], deciding: Tensor | None) -> bool:
    """Whether what stands at hidden tokens changes nothing."""
    slow = replace(hiding, leave_out=False, fast=False)
    ids = inputs["input_ids"]
    keep = torch.ones_like(ids, dtype=torch.bool)
    keep[:, 1::2] = False
    if deciding is not None:
        keep.scatter_(1, deciding.unsqueeze(1), True)
    hidden = (~keep[0]).nonzero().squeeze(-1)
    if not len(hidden) or not bool(keep.any()):
        return True
    others = ids.clone()
    kept = keep[0].nonzero().squeeze(-1)
    others[:, hidden] = ids[:, kept[torch.arange(len(hidden), device=ids.device) % len(kept)]]
    if torch.equal(others, ids):
        others[:, hidden] = ids[:, hidden] - 1
    text = torch.zeros(1, dtype=torch.long, device=ids.device)
    try:
        before, after = (slow.run({**inputs, "input_ids": one}, deciding, text, keep) for one in (ids, others))
    except (RuntimeError, ValueError, IndexError):
        return False
    return gap(before, after, scale_of(before)) <= tolerance_of(before) / 10
