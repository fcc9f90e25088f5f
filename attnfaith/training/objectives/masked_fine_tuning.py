"""Masked fine-tuning: texts with hidden tokens are trained on, so that erasing gives the model nothing unknown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from attnfaith import validation
from attnfaith.adapters.cut import Cut, cut
from attnfaith.adapters.input_checks import example_for
from attnfaith.errors import InputError, UnsupportedModelError
from attnfaith.evaluation.token_hiding import Hiding, hiding_for
from attnfaith.parameter_names import parameter
from attnfaith.training.objectives.objective import Objective, Setting, Step

WAYS = ("attention_mask", "mask_token", "pad", "delete")
"""The ways of hiding tokens that a change of the inputs can express."""


@dataclass(frozen=True)
class _Masking:
    """How tokens are hidden from the model that is trained.

    Attributes:
        hiding: the way that an evaluation at the input level takes.
        special: ids of special tokens, which are never erased; empty where they are erased like others.
        last: whether the last token of a text decides, else the first; None if there is no single one.
    """

    hiding: Hiding
    special: frozenset[int]
    last: bool | None


@dataclass(frozen=True)
class MaskedFineTuning(Objective):
    """Hides a share of the tokens of some texts of each batch, so that the model knows texts with holes.

    This is the masked fine-tuning of Madsen et al. (2024, "Faithfulness Measurable Masked Language Models"). The share
    is drawn for each text, uniformly from 0 to 1, and so are the tokens. They are hidden as erasing at the input level
    hides them (``hide`` of `Evaluator.compute`), and what erasing always keeps stays. Validation reads whole texts.

    Args:
        texts: the share of the texts of a batch that get holes; half of them in the paper.
        hide: "attention_mask", "mask_token", "pad" or "delete"; by default as an evaluation of this model does.

    Example:
        >>> MaskedFineTuning().texts
        0.5
    """

    texts: float = 0.5
    hide: str | None = None
    name: ClassVar[str] = "masked_fine_tuning"

    def __post_init__(self) -> None:
        validation.share(self.texts, "texts", zero=True, one=True)
        if self.hide == "zero":
            raise InputError(
                f"{parameter('hide', 'zero')} replaces word vectors, which training does not do: expected one of "
                f"{', '.join(WAYS)}."
            )
        validation.one_of(self.hide, (None, *WAYS), "hide")

    @contextmanager
    def hold(self, setting: Setting) -> Iterator[_Masking]:
        """Choose the way of hiding, and prove on the model that it hides."""
        tokenizer = setting.texts.tokenizer
        example = dict(setting.example or example_for(setting.model))
        model_cut = cut(setting.model, example=example)
        left = tokenizer.padding_side == "left"
        hiding = hiding_for(
            model_cut, example, hide=self.hide, mask_id=getattr(tokenizer, "mask_token_id", None), left=left
        )
        own = model_cut.adapter.may_be_affine
        last = _decides_last(model_cut, model_cut.capture(**example))
        if hiding.hide == "delete" and hiding.pad is None:
            raise UnsupportedModelError(
                "Tokens can only be deleted for this model, and texts of different lengths cannot share a batch. Use "
                f"{parameter('hide', 'mask_token')}.",
                code="cannot-hide",
            )
        yield _Masking(hiding, setting.texts.special_ids if own else frozenset(), last)

    def deletes(self, state: _Masking) -> bool:
        """Whether tokens are hidden by deletion."""
        return state.hiding.hide == "delete"

    def change(self, step: Step) -> Mapping[str, Any]:
        """Hide tokens of some texts."""
        masking: _Masking = step.state
        inputs = {name: value for name, value in step.inputs.items() if name != "labels"}
        generator = step.generator(self.name)
        chosen = torch.rand(len(step.tokens), generator=generator) < self.texts
        keep = self.kept(step.inputs["input_ids"].cpu(), step.tokens.cpu(), masking, generator)
        keep = torch.where(chosen.unsqueeze(1), keep, step.tokens.cpu()).to(step.tokens.device)
        if bool((keep == step.tokens).all()):
            return step.inputs
        hidden = masking.hiding.hidden(inputs, _deciding(masking, step.tokens), keep)
        return hidden | {name: value for name, value in step.inputs.items() if name == "labels"}

    @staticmethod
    def kept(ids: Tensor, tokens: Tensor, masking: _Masking, generator: torch.Generator) -> Tensor:
        """Draw the tokens ``[B, L]`` that are left: a share of each text that is uniform from 0 to 1, at least one."""
        erasable = tokens.clone()
        for special in masking.special:
            erasable &= ids != special
        deciding = _deciding(masking, tokens)
        if deciding is not None and masking.hiding.protects:
            erasable.scatter_(1, deciding.unsqueeze(1), False)
        count = erasable.sum(1)
        hide = (torch.rand(len(ids), generator=generator) * (count + 1)).long().clamp(max=count)
        order = torch.rand(ids.shape, generator=generator).masked_fill(~erasable, 2.0).argsort(1).argsort(1)
        keep = tokens & ~((order < hide.unsqueeze(1)) & erasable)
        content = keep.clone()
        for special in masking.special:
            content &= ids != special
        # With everything hidden, erasing keeps the token that decides; where there is none, something has to stay.
        first_hidden = order.masked_fill(~erasable, order.shape[1]).argmin(1, keepdim=True)
        rescue = first_hidden if deciding is None else deciding.unsqueeze(1)
        empty = ~content.any(1, keepdim=True)
        return keep | (torch.zeros_like(keep).scatter(1, rescue, True) & empty & tokens)


def _decides_last(model_cut: Cut, capture: Any) -> bool | None:
    """Whether the last token decides, or the first; None if there is no single one that decides."""
    deciding = model_cut.adapter.deciding_tokens(capture)
    if deciding is None:
        return None
    position, length = int(deciding[0]), int(capture.mask[0].sum())
    if position not in (0, length - 1):
        raise UnsupportedModelError(
            f"Token {position} of {length} decides in this model. Masked fine-tuning knows the first and the last; use "
            "another model, or train without it."
        )
    return position > 0


def _deciding(masking: _Masking, tokens: Tensor) -> Tensor | None:
    """The position of the token that decides each text, ``[B]``."""
    if masking.last is None:
        return None
    if masking.last:
        return tokens.shape[1] - 1 - tokens.flip(1).int().argmax(1)
    return tokens.int().argmax(1)
