"""Outputs and gradients of a model for given embedding vectors, in batches that fit a budget."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from attnfaith.adapters.embeddings import read_vectors
from attnfaith.adapters.inference_state import inference_state
from attnfaith.adapters.positions import first_positions, repeat_index, repeat_inputs, select_texts
from attnfaith.errors import InputError

if TYPE_CHECKING:  # a request keeps what these functions compute
    from attnfaith.attribution.request import Request


def token_vectors(request: Request) -> Tensor:
    """``[B, L, E]``, the embedding vectors of the tokens."""
    with inference_state(request.cut.model, gradients=False):
        return request.cut.adapter.vectors(request.inputs)


def values_on(request: Request, vectors: Tensor) -> Tensor:
    """The explained number ``[B, K]`` for vectors ``[B, K, L, E]``."""
    batch, count = vectors.shape[:2]
    parts = []
    rows = request.cut.adapter.deciding_rows(request.capture)
    with inference_state(request.cut.model, gradients=False):
        for piece in pieces(request, count):
            part = vectors[:, piece]
            texts = repeat_index(batch, part.shape[1], vectors.device)
            logits = request.cut.adapter.logits_at(
                (rows[0][texts], rows[1][texts]),
                select_texts(request.inputs, batch, texts),
                part.flatten(0, 1).clone(),  # CTRL scales them in place
            )
            parts.append(request.quantity(logits.unflatten(0, (batch, -1))))
    return torch.cat(parts, dim=1)


def vector_gradient(request: Request, vectors: Tensor) -> Tensor:
    """The gradient of the explained number at vectors ``[B, K, L, E]``, in the same shape."""
    batch, count = vectors.shape[:2]
    parts = []
    with inference_state(request.cut.model), torch.backends.cudnn.flags(enabled=False):
        # cuDNN's recurrent layers have no backward pass in evaluation mode; torch's implementation has one
        for piece in pieces(request, count):
            leaf = vectors[:, piece].detach().flatten(0, 1).requires_grad_()
            inputs = repeat_inputs(request.inputs, batch, leaf.shape[0] // batch)
            with request.rules():
                logits = request.cut.adapter.forward_on(leaf.clone(), inputs)
            (gradient,) = torch.autograd.grad(request.quantity(logits.unflatten(0, (batch, -1))).sum(), leaf)
            parts.append(gradient.unflatten(0, (batch, -1)))
    return torch.cat(parts, dim=1)


def derivatives_on_path(
    request: Request, vectors: Tensor, difference: Tensor, texts: Tensor, points: Tensor
) -> tuple[Tensor, Tensor]:
    """The explained number at points of the texts' paths, and how much each token's vector contributes to its slope.

    Args:
        request: the request to the method.
        vectors: ``[B, L, E]``, where the paths end, at point 1.
        difference: ``[B, L, E]``, how far that is from where they start, at point 0.
        texts: ``[M]``, the text of each point.
        points: ``[M]``.

    Returns:
        ``[M]`` and ``[M, L]``.
    """
    tokens, adapter = request.tokens, request.cut.adapter
    rows = adapter.deciding_rows(request.capture)
    order = tokens.sum(1)[texts].argsort(descending=True, stable=True)  # texts of one length go together
    numbers, derivatives = [], vectors.new_zeros(len(texts), vectors.shape[1])
    with inference_state(request.cut.model), torch.backends.cudnn.flags(enabled=False):  # see `vector_gradient`
        for chosen in order.split(request.settings.chunk):
            index = texts[chosen]
            width = int(tokens[index].any(0).nonzero().max()) + 1  # all behind it is padding
            inputs = first_positions(select_texts(request.inputs, len(vectors), index), tokens.shape[1], width)
            path = difference[index, :width]
            leaf = (vectors[index, :width] - (1 - points[chosen]).to(vectors)[:, None, None] * path).requires_grad_()
            if (
                request.rules is nullcontext
            ):  # the tail was proved to have the derivative, and not what other rules give
                logits = adapter.logits_on((rows[0][index], rows[1][index]), inputs, leaf.clone())
            else:
                with request.rules():
                    logits = adapter.forward_on(leaf.clone(), inputs)
            number = request.decision.quantity(logits, request.target.to(logits.device)[index], request.output)
            (gradient,) = torch.autograd.grad(number.sum(), leaf)
            numbers.append(number.detach())
            derivatives[chosen, :width] = (gradient * path).sum(-1)
    joined = torch.cat(numbers)
    return torch.empty_like(joined).index_copy_(0, order, joined), derivatives


def pieces(request: Request, count: int) -> Iterator[slice]:
    """Slices of candidates that are run together."""
    size = max(1, request.settings.chunk // len(request.inputs["input_ids"]))
    return (slice(start, min(start + size, count)) for start in range(0, count, size))


def baseline_vectors(request: Request, vectors: Tensor) -> Tensor:
    """``[B, L, E]``, the baseline for the absence of a token: zeros, a special token's vector, or the user's tensor."""
    baseline = request.settings.baseline
    if isinstance(baseline, Tensor):
        try:
            return baseline.to(vectors).expand_as(vectors)
        except RuntimeError as error:
            raise InputError(
                f"The baseline has shape {tuple(baseline.shape)}; expected one that fits word vectors "
                f"{tuple(vectors.shape)}."
            ) from error
    if baseline == "zero":
        return torch.zeros_like(vectors)
    if baseline not in ("pad", "mask"):
        raise InputError(
            f"Expected baseline to be 'zero', 'pad', 'mask' or a tensor of word vectors, got {baseline!r}."
        )
    token = request.settings.pad_id if baseline == "pad" else request.settings.mask_id
    if token is None:
        raise InputError(f"The model has no [{baseline.upper()}] token. Use baseline='zero'.")
    with inference_state(request.cut.model, gradients=False):
        ids = torch.tensor([[token]], device=vectors.device)
        return read_vectors(request.cut.adapter.model, ids).expand_as(vectors)
