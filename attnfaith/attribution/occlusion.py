"""Occlusion, omission and greedy removal: the change of the output when an item is removed."""

from __future__ import annotations

import torch
from torch import Tensor

from attnfaith.attribution.embedding_gradients import baseline_vectors, values_of, values_on
from attnfaith.attribution.method import method
from attnfaith.attribution.request import Request
from attnfaith.attribution.scores import Scores

ROUNDINGS = 8
"""Two numbers that differ by fewer machine epsilons count as equal, since batches of other shapes round differently."""


@method(
    "attention",
    "occlusion",
    passes=1,
    passes_per="item",
    erased_at_input=False,
    reference="Serrano & Smith 2019, section 4",
)
def occlusion_at_attention(request: Request) -> Scores:
    """d(w) - d(w without item i, rescaled)."""
    full = request.quantity(request.capture.logits).unsqueeze(-1)
    return request.scores(fall(full, request.quantity(request.without_each)))


@method(
    "attention",
    "greedy",
    display_name="greedy order",
    passes=0.5,
    passes_per="pair",
    reference="steepest descent of the margin",
    role="search",
    on_request=True,
    signed=False,
)
def greedy_at_attention(request: Request) -> Scores:
    """At each step the item whose removal lowers the margin of the decision most; the first removed has the score N."""
    capture = request.capture
    before = capture.logits.unsqueeze(1)
    remaining = capture.mask.clone()
    values = torch.zeros(capture.mask.shape, dtype=torch.float64, device=remaining.device)
    alone = torch.eye(capture.shape[2], dtype=torch.bool, device=remaining.device)
    for step in range(int(capture.lengths.max())):
        logits = request.cut.rerun(capture, keep=remaining.unsqueeze(1) & ~alone)
        margin = request.decision.margin(before.expand_as(logits), logits).masked_fill(~remaining, torch.inf)
        rounding = ROUNDINGS * torch.finfo(logits.dtype).eps * logits.abs().amax((1, 2)).unsqueeze(-1)
        # Of items that change nothing (outside an attention window, say) the first, not the one that rounding prefers.
        first = (margin <= margin.amin(-1, keepdim=True) + rounding).int().argmax(-1, keepdim=True)
        is_present = remaining.gather(-1, first)
        score = (capture.lengths - step).double().unsqueeze(-1)  # by the length of the text, not of the batch
        values.scatter_(-1, first, torch.where(is_present, score, values.gather(-1, first)))
        remaining = remaining.scatter(-1, first, False)
    return request.scores(values)


@method("input", "occlusion", passes=1, passes_per="item", reference="Zeiler & Fergus 2014")
def occlusion_at_input(request: Request) -> Scores:
    """The fall of the explained number when a token's vector is replaced by the baseline."""
    vectors = request.token_vectors
    absent = baseline_vectors(request, vectors)
    texts, items = request.tokens.nonzero(as_tuple=True)

    def without(some: Tensor, width: int) -> Tensor:
        text, item = texts[some], items[some]
        changed = vectors[text, :width]
        changed[torch.arange(len(some), device=item.device), item] = absent[text, item]
        return changed

    alone = torch.zeros(request.tokens.shape, dtype=vectors.dtype, device=vectors.device)
    alone[texts, items] = values_on(request, texts, without)
    full = values_of(request, vectors).unsqueeze(1)
    return request.scores(fall(full, alone), request.tokens)


@method("input", "omission", passes=1, passes_per="item", reference="Jain & Wallace 2019, leave-one-out")
def omission(request: Request) -> Scores:
    """The fall of the explained number when a token is left out of the ids; the tokens after it move up.

    Special tokens cannot be left out, because the rest would be no valid input; their score is undefined.
    """
    full, shorter = request.shortened
    before, after = request.quantity(full.double()).unsqueeze(-1), request.quantity(shorter.double())
    return deletion_scores(request, fall(before, after, precision=full.dtype))


def deletion_scores(request: Request, values: Tensor) -> Scores:
    """Scores by leaving each token out; undefined for tokens that cannot be left out."""
    undefined = request.tokens & ~request.removable
    note = "a special token, or the only one, cannot be left out" if bool(undefined.any()) else ""
    return request.scores(values.masked_fill(~request.removable, torch.nan), request.tokens, note=note)


def fall(full: Tensor, without: Tensor, *, precision: torch.dtype | None = None) -> Tensor:
    """The explained number minus its value without an item; 0 if the two differ by rounding only.

    Rounding depends on the shape of the batch. An item that changes nothing (outside an attention window, say) would
    get a rank from rounding, and another rank in another batch.

    Args:
        full: ``[B, 1]``.
        without: ``[B, N]``.
        precision: the precision of the model; that of ``without`` by default.

    Example:
        >>> fall(torch.tensor([[0.5]]), torch.tensor([[0.5 + 1e-7, 0.25]])).tolist()
        [[0.0, 0.25]]
    """
    difference = full - without
    rounding = ROUNDINGS * torch.finfo(precision or without.dtype).eps * torch.maximum(full.abs(), without.abs())
    return torch.where(difference.abs() <= rounding, torch.zeros_like(difference), difference)
