"""Trying on a model whether padding changes its logits, and so whether texts of several lengths can share a batch."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from attnfaith.adapters.dummy_inputs import make_dummy_inputs, position_limit, position_tables
from attnfaith.adapters.embeddings import read_vectors, run_on_vectors
from attnfaith.adapters.forward_pass import logits_of
from attnfaith.adapters.inference_state import inference_state, unwrapped
from attnfaith.adapters.positions import repeat_inputs
from attnfaith.adapters.self_check import first_unpadded, relative_difference, scale_of, tolerance_of
from attnfaith.errors import InputError, UnsupportedModelError

_TRIAL_LENGTH = 48  # tokens of the dummy text beside which another is padded
_OTHER_CHOICE = 1e-3  # of the logits' scale: more than rounding, so that the model has chosen other keys


def padding_is_ignored(model: nn.Module, side: str) -> bool:
    """Whether a dummy text has the same logits alone and padded; True without a trial if no dummy texts can be made.

    Tried with the text as it is, and with each token replaced by the zero vector, as occlusion does: a model that
    chooses the keys to attend by an index may find all of them equal there, and the width then decides which it takes.

    Args:
        model: the classifier; not changed.
        side: the side of the padding, "left" or "right".

    Example:
        >>> from attnfaith.tiny_models import tiny_model
        >>> padding_is_ignored(tiny_model("bert"), "right"), padding_is_ignored(tiny_model("bert"), "left")
        (True, False)
    """
    # with a table of positions, left padding shifts the positions of the text
    if side == "left" and position_tables(model):
        return False
    longest = min(limit for limit in (position_limit(model), _TRIAL_LENGTH) if limit is not None)
    try:
        batch = make_dummy_inputs(model, (longest // 2, longest), side)
    except InputError:
        return True
    if len(batch["input_ids"]) < 2:
        return False
    with inference_state(unwrapped(model), gradients=False) as copy:
        try:
            single, together = (logits_of(copy(**inputs)) for inputs in (first_unpadded(batch), batch))
        except (RuntimeError, ValueError, IndexError, TypeError):  # raised by the code of the model
            return False
        if relative_difference(together[:1], single, scale_of(single)) > tolerance_of(single) / 10:
            return False
        try:
            single, padded = (_without_each_vector(copy, first_unpadded(batch, padding=pad)) for pad in (False, True))
        except (UnsupportedModelError, RuntimeError, ValueError, IndexError, TypeError):
            return True  # its word vectors cannot be replaced, so no token is occluded
    return relative_difference(padded, single, scale_of(single)) <= _OTHER_CHOICE


def _without_each_vector(model: nn.Module, inputs: dict[str, Any]) -> Tensor:
    """The logits ``[K, C]`` of one text with the vector of each of its K tokens replaced by zeros."""
    indices = inputs["attention_mask"][0].nonzero().flatten()
    repeated = repeat_inputs(inputs, 1, len(indices))
    vectors = read_vectors(model, repeated["input_ids"]).clone()
    vectors[torch.arange(len(indices), device=indices.device), indices] = 0
    return run_on_vectors(model, lambda: logits_of(model(**repeated)), repeated["input_ids"], vectors)
