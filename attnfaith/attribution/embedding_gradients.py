"""Outputs and gradients of a model for given embedding vectors; texts of similar lengths share a pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from attnfaith.adapters.embeddings import read_vectors
from attnfaith.adapters.inference_state import inference_state
from attnfaith.adapters.pass_groups import groups_by_length
from attnfaith.adapters.positions import first_positions, select_texts
from attnfaith.errors import InputError

if TYPE_CHECKING:  # a request keeps what these functions compute
    from attnfaith.attribution.request import Request


def token_vectors(request: Request) -> Tensor:
    """``[B, L, E]``, the embedding vectors of the tokens."""
    with inference_state(request.cut.model, gradients=False):
        return request.cut.adapter.vectors(request.inputs)


def values_on(request: Request, texts: Tensor, vectors: Callable[[Tensor, int], Tensor]) -> Tensor:
    """The explained number ``[M]`` for other vectors of texts ``[M]``.

    Args:
        request: the request to the method.
        texts: the text of each candidate.
        vectors: from the indices ``[K]`` of some candidates and a number of positions to ``[K, positions, E]``.
    """
    order, numbers = [], []
    with inference_state(request.cut.model, gradients=False):
        for group in passes(request, texts):
            changed = vectors(group.candidates, group.width).clone()  # CTRL scales them in place
            logits = request.cut.adapter.logits_at(group.deciding, group.inputs, changed)
            order.append(group.candidates)
            numbers.append(group.quantity(request, logits))
    return _sorted_back(numbers, order)


def values_of(request: Request, vectors: Tensor) -> Tensor:
    """The explained number ``[B]`` for one other tensor of vectors for each text, ``[B, L, E]``."""
    texts = torch.arange(len(vectors), device=vectors.device)
    return values_on(request, texts, lambda some, width: vectors[some, :width])


def vector_gradient(request: Request, vectors: Tensor) -> Tensor:
    """The gradient of the explained number at vectors ``[B, L, E]``, in the same shape."""
    gradients = torch.zeros_like(vectors)
    with inference_state(request.cut.model), torch.backends.cudnn.flags(enabled=False):
        # cuDNN's recurrent layers have no backward pass in evaluation mode; torch's implementation has one
        for group in passes(request, torch.arange(len(vectors), device=vectors.device)):
            leaf = vectors[group.candidates, : group.width].detach().requires_grad_()
            with request.rules():
                logits = request.cut.adapter.forward_on(leaf.clone(), group.inputs)
            (gradient,) = torch.autograd.grad(group.quantity(request, logits).sum(), leaf)
            gradients[group.candidates, : group.width] = gradient
    return gradients


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
    adapter = request.cut.adapter
    order, numbers, derivatives = [], [], vectors.new_zeros(len(texts), vectors.shape[1])
    with inference_state(request.cut.model), torch.backends.cudnn.flags(enabled=False):  # see `vector_gradient`
        for group in passes(request, texts):
            chosen, width = group.candidates, group.width
            path, end = difference[group.texts, :width], vectors[group.texts, :width]
            leaf = (end - (1 - points[chosen]).to(vectors)[:, None, None] * path).requires_grad_()
            if request.rules is nullcontext:  # the tail was proved for the derivative, and not for other rules
                logits = adapter.logits_on(group.deciding, group.inputs, leaf.clone())
            else:
                with request.rules():
                    logits = adapter.forward_on(leaf.clone(), group.inputs)
            number = group.quantity(request, logits)
            (gradient,) = torch.autograd.grad(number.sum(), leaf)
            order.append(chosen)
            numbers.append(number.detach())
            derivatives[chosen, :width] = (gradient * path).sum(-1)
    return _sorted_back(numbers, order), derivatives


@dataclass(frozen=True)
class Pass:
    """Candidates that go through the model together.

    A candidate is one set of vectors for a text, which may have several.

    Attributes:
        candidates: ``[K]``, their numbers.
        texts: ``[K]``, the text of each.
        width: one more than the last position that any of them uses.
        inputs: of the model, cut to this width.
        deciding: the positions that decide, and which of them exist, see `Adapter.deciding_rows`.
    """

    candidates: Tensor
    texts: Tensor
    width: int
    inputs: dict[str, Any]
    deciding: tuple[Tensor, Tensor]

    def quantity(self, request: Request, logits: Tensor) -> Tensor:
        """The explained number of each candidate."""
        return request.decision.quantity(logits, request.target.to(logits.device)[self.texts], request.output)


def passes(request: Request, texts: Tensor) -> Iterator[Pass]:
    """The passes in which candidates of texts ``[M]`` are run; those of similar lengths share one."""
    tokens = request.tokens
    rows = request.cut.adapter.deciding_rows(request.capture)
    most = request.settings.chunk
    for candidates in groups_by_length(tokens.sum(1)[texts], request.cut.model, most=most):
        index = texts[candidates]
        width = int(tokens[index].any(0).nonzero().max()) + 1
        inputs = first_positions(select_texts(request.inputs, len(tokens), index), tokens.shape[1], width)
        yield Pass(candidates, index, width, inputs, (rows[0][index], rows[1][index]))


def _sorted_back(values: list[Tensor], order: list[Tensor]) -> Tensor:
    """Values by pass in the order of the candidates."""
    joined = torch.cat(values)
    return torch.empty_like(joined).index_copy_(0, torch.cat(order), joined)


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
