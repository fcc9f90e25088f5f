"""Hide tokens from the whole model, to erase items at the input level."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from attnfaith.adapters.cut import Cut
from attnfaith.adapters.dummy_inputs import config_value, position_tables
from attnfaith.adapters.inference_state import inference_state
from attnfaith.adapters.pass_groups import BUDGET, groups_by_length
from attnfaith.adapters.positions import select_texts
from attnfaith.adapters.self_check import relative_difference, scale_of, tolerance_of
from attnfaith.errors import InputError, UnsupportedModelError
from attnfaith.evaluation.deciding_token import NEVER, attends_by_position, why_protected
from attnfaith.evaluation.hiding_trials import MODEL_ERRORS, Trial, failed_trial, same_logits
from attnfaith.parameter_names import parameter

WAYS = ("attention_mask", "mask_token", "pad", "zero", "delete")
"""The ways of hiding tokens.

- attention_mask: no layer attends to them; positions stay.
- mask_token, pad, zero: replaced by the mask token, by padding, by a zero vector.
- delete: taken out, so that the rest moves up.
"""


@dataclass(frozen=True)
class Hiding:
    """How tokens are hidden from one model, and what was proved about it.

    Attributes:
        cut: the model, cut.
        hide: one of `WAYS`.
        token: the id that replaces hidden tokens, if the way needs one.
        first_position: the number of the first position, if positions can be passed to the model; else None.
        left: True if padding goes on the left.
        pad: the id of padding; None if texts of different lengths cannot share a batch.
        protects: True if the deciding token must never be hidden; every set to keep then has to contain it.
        leave_out: True if tokens that the attention mask hides can be left out of the batch.
        reach: the largest length of a text for which that holds, since windows would move; None without limit.
        fast: True if the tail can be run on the deciding token alone.
        notes: notes for the reader of the results.
    """

    cut: Cut
    hide: str
    token: int | None
    first_position: int | None
    left: bool
    pad: int | None
    protects: bool = False
    leave_out: bool = True
    reach: int | None = None
    fast: bool = True
    notes: tuple[str, ...] = ()

    def run(
        self, inputs: Mapping[str, Any], deciding: Tensor | None, texts: Tensor, keep: Tensor, *, budget: int = BUDGET
    ) -> Tensor:
        """The logits ``[M, C]`` of texts ``[M]`` with only some tokens left, ``[M, L]``.

        The deciding token is never taken out of the sequence: if it is hidden, no token attends to it, and it still
        reads the others.

        Args:
            inputs: of the model, for the batch.
            deciding: ``[B]``, the position of each text's deciding token; None if there is not exactly one.
            texts: the text of each candidate.
            keep: the tokens that are left.
            budget: tokens in one pass.
        """
        tokens = inputs["attention_mask"].bool()[texts]
        stays = keep.clone()
        if deciding is not None:
            stays.scatter_(1, deciding[texts].unsqueeze(1), True)
        present = torch.where(self._left_out(tokens.sum(1)).unsqueeze(1), stays, tokens)
        lengths = present.sum(1)
        groups = groups_by_length(lengths, self.cut.model, budget=budget, mixed=self.pad is not None)
        parts = []
        with inference_state(self.cut.model, gradients=False):
            for rows in groups:
                width = int(lengths[rows[0]])
                parts.append(self._run(inputs, deciding, texts[rows], present[rows], keep[rows], stays[rows], width))
        logits = torch.cat(parts)
        return torch.empty_like(logits).index_copy_(0, torch.cat(groups), logits)

    def hidden(self, inputs: Mapping[str, Any], deciding: Tensor | None, keep: Tensor) -> dict[str, Any]:
        """The inputs of a batch with only some tokens left, ``[B, L]``; what is hidden is left out only by deletion.

        Not for "zero", which replaces word vectors.
        """
        assert self.hide != "zero"
        tokens = inputs["attention_mask"].bool()
        stays = keep if deciding is None else keep.scatter(1, deciding.unsqueeze(1), True)
        present = stays if self.hide == "delete" else tokens
        texts = torch.arange(len(keep), device=keep.device)
        return self._inputs(inputs, texts, present, keep, stays, int(present.sum(1).max()))[0]

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
        """Run one pass."""
        shortened, vectors, picked = self._inputs(inputs, texts, present, keep, stays, width)
        if deciding is None or not self.fast:
            adapter = self.cut.adapter
            return adapter.forward(shortened) if vectors is None else adapter.forward_on(vectors, shortened)
        row = (picked == deciding[texts].unsqueeze(1)).int().argmax(1, keepdim=True)
        return self.cut.adapter.logits_at((row, torch.ones_like(row, dtype=torch.bool)), shortened, vectors)

    def _inputs(
        self,
        inputs: Mapping[str, Any],
        texts: Tensor,
        present: Tensor,
        keep: Tensor,
        stays: Tensor,
        width: int,
    ) -> tuple[dict[str, Any], Tensor | None, Tensor]:
        """The inputs of one pass: the present tokens side by side, padded to one width; word vectors; positions."""
        chosen = select_texts(inputs, len(inputs["input_ids"]), texts)
        length = present.shape[1]
        # present tokens first (or last, with padding on the left), in their order
        picked = present.int().argsort(dim=1, descending=not self.left, stable=True)
        picked = picked[:, length - width :] if self.left else picked[:, :width]
        real = present.gather(1, picked)
        vectors = None
        if self.hide in ("mask_token", "pad"):
            # The deciding token is not replaced by padding: some models find their last token by the id of padding.
            hidden = ~(stays if self.hide == "pad" else keep) & present
            chosen["input_ids"] = chosen["input_ids"].masked_fill(hidden, self.token)
        if self.hide == "zero":
            vectors = self.cut.adapter.vectors(chosen) * (keep | ~present).unsqueeze(-1)
            vectors = vectors[torch.arange(len(texts), device=texts.device).unsqueeze(1), picked]
        shortened = {
            name: _pick(value, picked, present.shape) if isinstance(value, Tensor) else value
            for name, value in chosen.items()
        }
        shortened["input_ids"] = shortened["input_ids"].masked_fill(~real, 0 if self.pad is None else self.pad)
        visible = keep.gather(1, picked) if self.hide == "attention_mask" else real
        shortened["attention_mask"] = visible.to(shortened["attention_mask"].dtype)
        if self.first_position is not None and self.hide != "delete":
            start = inputs["attention_mask"].bool()[texts].int().argmax(1, keepdim=True)
            shortened["position_ids"] = (picked - start + self.first_position).masked_fill(~real, 0)
        return shortened, vectors, picked

    def _left_out(self, lengths: Tensor) -> Tensor:
        """``[M]``, True for a text of this length if hidden tokens are left out of its sequence."""
        if self.hide == "attention_mask" and self.leave_out and self.reach is not None:
            return lengths <= self.reach
        everywhere = self.hide == "delete" or (self.hide == "attention_mask" and self.leave_out)
        return torch.full_like(lengths, everywhere, dtype=torch.bool)

    @property
    def slow(self) -> Hiding:
        """The same way of hiding without its fast paths: the definition of hiding."""
        return replace(self, leave_out=False, fast=False)

    def proved(self, inputs: Mapping[str, Any], deciding: Tensor | None) -> Hiding:
        """This way of hiding, or its slow form if the two differ on the longest text with half of its tokens hidden.

        The slow form is correct for every batch, so no result depends on which texts share a batch.
        """
        if self == self.slow:
            return self
        tokens = inputs["attention_mask"].bool()
        text = tokens.sum(1).argmax().view(1)
        draw = torch.rand(tokens.shape[1], generator=torch.Generator().manual_seed(0)).to(tokens.device)
        keep = tokens[text] & (draw < 0.5)
        if deciding is not None:
            keep.scatter_(1, deciding[text].unsqueeze(1), self.protects)
        if not bool(keep.any()):
            return self.slow
        plain, whole = (self.slow.run(inputs, deciding, text, mask) for mask in (keep, tokens[text]))
        return self if same_logits(self.run(inputs, deciding, text, keep), plain, whole) else self.slow


def _pick(value: Tensor, picked: Tensor, shape: torch.Size) -> Tensor:
    """A model input at the picked positions; an input without positions is returned as it is."""
    if value.dim() < 2 or value.shape[:2] != shape:
        return value
    return value[torch.arange(len(value), device=value.device).unsqueeze(1), picked]


def hiding_for(
    cut: Cut,
    inputs: Mapping[str, Any],
    *,
    hide: str | None,
    mask_id: int | None,
    left: bool,
    longest: int | None = None,
    protect: bool = False,
) -> Hiding:
    """Choose how tokens are hidden from a model, and prove that it works.

    The proof is about the model and not about the texts: it runs on dummy texts and keeps the sets of tokens that are
    the hardest cases for a model (see `Trial`).

    Args:
        cut: the model, cut.
        inputs: of one text, unpadded; the proof runs on it if no dummy texts can be made for the model.
        hide: one of `WAYS`; None for the attention mask if it hides tokens, else deletion.
        mask_id: the id of the mask token.
        left: whether the tokenizer pads on the left.
        longest: the largest length of a text in tokens; None without limit.
        protect: whether the deciding token is never hidden anyway.

    Raises:
        InputError: no such way of hiding, or the token that it needs does not exist.
        UnsupportedModelError: this way does not hide tokens from the model.
    """
    if hide is not None and hide not in WAYS:
        raise InputError(f"Expected {parameter('hide')} to be one of {', '.join(WAYS)}, got {hide!r}.")
    config = getattr(cut.model, "config", None)
    pad = None if config is None else config_value(config, "pad_token_id", "pad_index")
    pad = pad if isinstance(pad, int) and pad >= 0 else None
    token = {"mask_token": mask_id, "pad": pad}.get(hide or "")
    if hide in ("mask_token", "pad") and token is None:
        kind = "mask" if hide == "mask_token" else "padding"
        raise InputError(
            f"{parameter('hide', hide)} needs a {kind} token, and there is none. Use {parameter('hide', 'zero')} or "
            f"{parameter('hide', 'delete')}.",
            code="cannot-hide",
        )
    with inference_state(cut.model, gradients=False):
        trials = {side: Trial.of(cut, inputs, left=side, longest=longest) for side in (left, not left)}
        trial = trials[left]
        first = None if hide == "delete" else _first_position(cut, trial.text(0), pad)
        notes: tuple[str, ...] = ()
        for candidate in (hide,) if hide else ("attention_mask", "delete"):
            first_position = None if candidate == "delete" else first
            untried = Hiding(cut, candidate, token, first_position, left, pad, notes=notes)
            hiding = _prove(untried, trials, protect=protect)
            reason = PROTECTED.get(candidate)
            if hiding is not None and not hiding.protects:
                reason = why_protected(hiding, trial)
                hiding = hiding if reason is None else _prove(untried, trials, protect=True)
            if hiding is None:
                notes = (DELETED,)
                continue
            if candidate == "attention_mask" and _is_deletion(hiding, trial):
                notes = () if trial.deciding is None else (MOVES_UP,)
                if hide is None:
                    continue
                hiding = replace(hiding, notes=notes)
            if hiding.protects and not protect and reason is not None:
                hiding = replace(hiding, notes=(*hiding.notes, reason))
            return _fastest(hiding, trial, Trial.near(cut, inputs, left=left, longest=longest))
    if hide is None:
        raise UnsupportedModelError(
            "With some tokens deleted, the logits of this model depend on padding or on the other texts of the batch, "
            "so erasing at the input level would give other results in another batch. Use "
            f"{parameter('level', 'attention')}.",
            code="cannot-hide",
        )
    what = "An attention mask" if hide == "attention_mask" else parameter("hide", hide)
    others = " or ".join(parameter("hide", other) for other in ("delete", "zero") if other != hide)
    raise UnsupportedModelError(
        f"{what} does not hide tokens from this model: what stands there, or the padding, or the other texts of the "
        f"batch still change its logits. Use {others}.",
        code="cannot-hide",
    )


DELETED = (
    "Tokens are deleted: with an attention mask, what it hides still changes the logits of this model, or they are not "
    "finite."
)
MOVES_UP = (
    "This model counts positions along the attention mask, so hiding tokens by the mask is the same as deleting them: "
    "what stands behind a hidden token moves up."
)
PROTECTED = {
    "attention_mask": NEVER
    + "with everything that it attends to hidden as well, this model would read hidden tokens or padding.",
    **{
        hide: f"Where tokens are {how}, the token that decides stays in the text and is no item at the input level."
        for hide, how in {"delete": "deleted", "pad": "replaced by padding"}.items()
    },
}
"""The reasons why the deciding token is not among the items, by the way of hiding."""


def _prove(hiding: Hiding, trials: Mapping[bool, Trial], *, protect: bool) -> Hiding | None:
    """The way of hiding in the form that works: with the deciding token protected, without padding; None if none works.

    Whether the deciding token has to be protected is a fact about the model: it is tested with padding on either side,
    and not only on the side on which the tokenizer pads.

    Args:
        hiding: a way of hiding.
        trials: by whether padding is on the left.
        protect: whether the deciding token is never hidden anyway.
    """
    if trials[hiding.left].deciding is None:
        protects = [False]
    elif hiding.hide in ("delete", "pad"):  # these leave the deciding token as it is: its removal would change nothing
        protects = [True]
    else:
        protects = [protect, True] if hiding.hide == "attention_mask" else [protect]
    forms = [replace(hiding, protects=protected) for protected in dict.fromkeys(protects)]
    unpadded = [replace(form, pad=None) for form in forms]
    for form in forms if hiding.pad is not None else ():
        by_side = [replace(form, left=left) for left in (hiding.left, not hiding.left)]
        if any(_takes_padding(padded) and _holds(padded, trials[padded.left]) for padded in by_side):
            unpadded = [replace(form, pad=None)]
            break
    padded_forms = [form for form in forms if form.protects == unpadded[0].protects and _takes_padding(form)]
    return next((form for form in (*padded_forms, *unpadded) if _holds(form, trials[form.left])), None)


def _takes_padding(hiding: Hiding) -> bool:
    """True if padding leaves the positions of the text as they are; a table of positions counts left padding too."""
    return hiding.pad is not None and not (hiding.left and position_tables(hiding.cut.model))


def _holds(hiding: Hiding, trial: Trial) -> bool:
    """True if the logits do not depend on hidden ids, on padding, or on the other texts of the batch."""
    slow, inputs, deciding = hiding.slow, trial.inputs, trial.deciding
    tokens = inputs["attention_mask"].bool()
    count = 2 if hiding.pad is None else len(tokens)
    texts = torch.arange(count, device=tokens.device)
    try:
        whole = slow.run(inputs, deciding, texts[:1], tokens[:1])
        for keep in trial.sets(protects=hiding.protects):
            single = slow.run(inputs, deciding, texts[:1], keep[None])
            # the same ids at what is kept, others at what is hidden, beside a longer text
            changed = {**inputs, "input_ids": inputs["input_ids"].clone()}
            changed["input_ids"][1] = torch.where(keep, inputs["input_ids"][0], inputs["input_ids"][1])
            sets = torch.stack((keep, keep, tokens[-1]))[:count]
            together = slow.run(changed, deciding, texts, sets, budget=tokens.numel())
            if not all(same_logits(logits[None], single, whole) for logits in together[:2]):
                return False
    except MODEL_ERRORS as error:
        return failed_trial(error)
    return True


def _is_deletion(hiding: Hiding, trial: Trial) -> bool:
    """True if hiding by the mask is deletion.

    It is if a model drops what the mask hides, as those of attnfaith do, and if it counts positions along the mask. In
    a model without positions the two are equal as well, and the mask hides tokens as it should.

    Args:
        hiding: by the attention mask, proved.
        trial: the texts.
    """
    hiding = replace(hiding, protects=trial.deciding is not None)  # deletion always leaves the deciding token
    deletion = replace(hiding, hide="delete", first_position=None)
    if trial.deciding is None:
        return _equal(deletion, hiding, trial)
    return all(_equal(deletion, hiding, text) for text in (trial, trial.plain)) and attends_by_position(
        hiding, trial.plain
    )


def _equal(hiding: Hiding, other: Hiding, trial: Trial) -> bool:
    """True if a form of hiding gives the logits of the slow form of another, on every set."""
    keeps = trial.sets(protects=other.protects)
    texts = torch.zeros(len(keeps), dtype=torch.long, device=keeps.device)
    try:
        whole = other.run(trial.inputs, trial.deciding, texts[:1], trial.inputs["attention_mask"][:1].bool())
        logits, expected = (form.run(trial.inputs, trial.deciding, texts, keeps) for form in (hiding, other.slow))
    except MODEL_ERRORS as error:
        return failed_trial(error)
    return all(same_logits(a[None], b[None], whole) for a, b in zip(logits, expected, strict=True))


def _fastest(hiding: Hiding, trial: Trial, near: Trial | None) -> Hiding:
    """The fastest form that gives the logits of the slow one.

    Args:
        hiding: a way of hiding that was proved.
        trial: texts longer than every window of the model.
        near: a text shorter than all of them; None for a model without windows.
    """
    forms = [replace(hiding, leave_out=True), replace(hiding, leave_out=False)]
    if near is not None:
        forms.insert(1, replace(hiding, leave_out=True, reach=near.length))
    if hiding.hide != "attention_mask":
        forms = forms[-1:]
    for form in forms:
        for fast in (True, False) if trial.deciding is not None and hiding.cut.adapter.rows_are_tokens else (False,):
            candidate = replace(form, fast=fast)
            trials = [trial] if near is None or candidate.reach is None else [trial, near]
            if all(_equal(candidate, hiding, text) for text in trials):
                return candidate
    return hiding.slow


def _first_position(cut: Cut, inputs: Mapping[str, Any], pad: int | None) -> int | None:
    """The number of a model's first position: passing positions from there on leaves the logits, others change them."""
    if "position_ids" not in inspect.signature(cut.model.forward).parameters:
        return None
    length = inputs["input_ids"].shape[1]
    logits = cut.adapter.forward(inputs)
    tolerance = tolerance_of(logits) / 10
    positions = torch.arange(length, device=logits.device).unsqueeze(0)
    for first in (0, 1 if pad is None else pad + 1):
        try:
            passed = cut.adapter.forward({**inputs, "position_ids": positions + first})
            reversed_ = cut.adapter.forward({**inputs, "position_ids": positions.flip(1) + first})
        except (RuntimeError, TypeError, ValueError, IndexError):
            continue
        if relative_difference(passed, logits, scale_of(logits)) <= tolerance and not torch.equal(reversed_, passed):
            return first
    return None
