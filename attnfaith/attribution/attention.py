"""Attention as a ranking: at the cut, averaged over all layers, and attention rollout."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from attnfaith.adapters.inference_state import inference_state
from attnfaith.attribution.method import ATTENTION, PlotStyle, method
from attnfaith.attribution.request import Request
from attnfaith.attribution.scores import Scores
from attnfaith.errors import UnsupportedModelError

_FACTS: dict[str, Any] = {
    "passes": 0,
    "reference": "Jain & Wallace 2019; Serrano & Smith 2019",
    "signed": False,
    "same_at_both_levels": True,
    "averages_layers": True,
    "style": PlotStyle("#D55E00", "o"),
}


@method("attention", ATTENTION, **_FACTS)
def attention_at_attention(request: Request) -> Scores:
    """The mean attention over the distributions that the decision reads, or over all layers."""
    return request.scores(_mean_of_layers(request) if request.settings.layer == "mean" else mean_distribution(request))


@method("input", ATTENTION, **_FACTS)
def attention_at_input(request: Request) -> Scores:
    """The attention of each token; in a HAN the weight of its sentence times its weight within the sentence."""
    if request.settings.layer == "mean":
        return request.scores(_mean_of_layers(request), request.tokens)
    items = request.capture.items
    weights = mean_distribution(request)
    if items is None or items.spans is None:
        raise UnsupportedModelError(
            "The items of this model's attention do not correspond to tokens, so its weights cannot be given by token.",
            code="unsupported-ranking",
        )
    positions = torch.arange(request.tokens.shape[1], device=weights.device)
    inside = (
        (positions >= items.spans[..., :1]) & (positions < items.spans[..., 1:]) & request.capture.mask.unsqueeze(-1)
    )
    by_token = (weights.unsqueeze(-1) * inside).sum(1)
    if items.kind == "sentences":
        with inference_state(request.cut.model, gradients=False):
            words = request.cut.adapter.word_weights(request.inputs)
        by_token = by_token * words
    return request.scores(by_token, request.tokens)


@method(
    "input",
    "rollout",
    passes=1,
    erased_at_input=False,
    needs="self-attention in every layer",
    reference="Abnar & Zuidema 2020",
    signed=False,
)
def rollout(request: Request) -> Scores:
    """Attention rollout: the attention matrices, averaged with the identity, multiplied through the layers."""
    matrices = _matrices(request)
    length = request.tokens.shape[1]
    encoder_decoder = getattr(getattr(request.cut.model, "config", None), "is_encoder_decoder", False)
    if encoder_decoder or any(matrix.shape[1:] != (length, length) for matrix in matrices):
        raise UnsupportedModelError(
            "Rollout multiplies the attention of layer after layer, so every attention must go from the tokens to the "
            "tokens; this model has others (an encoder-decoder, or pooled positions). Use 'attention'.",
            code="unsupported-ranking",
        )
    identity = torch.eye(length, dtype=matrices[0].dtype, device=matrices[0].device)
    rolled = identity.expand_as(matrices[0])
    for matrix in matrices:
        mixed = matrix + identity
        rolled = (mixed / mixed.sum(-1, keepdim=True)) @ rolled
    return request.scores(_read_by_deciding(request, rolled), request.tokens)


def mean_distribution(request: Request) -> Tensor:
    """``[B, N]``, the mean over the distributions that exist."""
    capture = request.capture
    if capture.groups is None:
        return capture.weights.mean(1)
    return capture.weights.sum(1) / capture.groups.sum(-1, keepdim=True).clamp_min(1)  # missing ones are 0


def _mean_of_layers(request: Request) -> Tensor:
    """The attention of the deciding rows, averaged over all layers with attention from tokens to tokens."""
    length = request.tokens.shape[1]
    square = [matrix for matrix in _matrices(request) if matrix.shape[1:] == (length, length)]
    if not square:
        raise UnsupportedModelError(
            "No attention of this model goes from the tokens to the tokens, so there is none to average. Use "
            "layer='final'.",
            code="unsupported-ranking",
        )
    return _read_by_deciding(request, torch.stack(square).mean(0))


def _matrices(request: Request) -> list[Tensor]:
    with inference_state(request.cut.model, gradients=False):
        return request.cut.adapter.attentions(request.inputs)


def _read_by_deciding(request: Request, matrix: Tensor) -> Tensor:
    """``[B, Q, N]`` to ``[B, N]``: the mean over the query rows that decide."""
    rows, exists = request.cut.adapter.deciding_rows(request.capture)
    if matrix.shape[1] <= int(rows.max()):
        raise UnsupportedModelError(
            "The positions that decide are not among the rows of the attention asked for, so their weights cannot be "
            "read from it. Use layer='final'.",
            code="unsupported-ranking",
        )
    picked = matrix.gather(1, rows.unsqueeze(-1).expand(-1, -1, matrix.shape[2]))
    return (picked * exists.unsqueeze(-1)).sum(1) / exists.sum(-1, keepdim=True)
