"""What happens to the explained number when an item is not there."""

from __future__ import annotations

import torch
from torch import Tensor

from attnfaith.attribution.embedding_gradients import baseline_vectors, pieces, token_vectors, values_on
from attnfaith.attribution.method import Request, Scores, method

ROUNDINGS = 8
"""Two numbers that are fewer machine epsilons apart are equal: they come from passes of other shapes."""


@method("attention", "occlusion", passes=1, passes_per="item", reference="Serrano & Smith 2019, section 4")
def occlusion_at_attention(request: Request) -> Scores:
    """d(w) - d(w without item i, rescaled)."""
    whole = request.quantity(request.capture.logits).unsqueeze(-1)
    return request.scores(fall(whole, request.quantity(request.without_each)))


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
    """At each step the item whose removal lowers the decision's margin most; a score of N is the first to go."""
    capture = request.capture
    before = capture.logits.unsqueeze(1)
    left = capture.mask.clone()
    values = torch.zeros(capture.mask.shape, dtype=torch.float64, device=left.device)
    alone = torch.eye(capture.shape[2], dtype=torch.bool, device=left.device)
    for step in range(int(capture.lengths.max())):
        logits = request.cut.rerun(capture, keep=left.unsqueeze(1) & ~alone)
        margin = request.decision.margin(before.expand_as(logits), logits).masked_fill(~left, torch.inf)
        first = margin.argmin(-1, keepdim=True)
        still = left.gather(-1, first)
        place = (capture.lengths - step).double().unsqueeze(-1)  # of the text, not of its padded batch
        values.scatter_(-1, first, torch.where(still, place, values.gather(-1, first)))
        left = left.scatter(-1, first, False)
    return request.scores(values)


@method("input", "occlusion", passes=1, passes_per="item", reference="Zeiler & Fergus 2014")
def occlusion_at_input(request: Request) -> Scores:
    """The explained number, minus what it is when a token's vector is replaced by the baseline."""
    vectors = token_vectors(request)
    absent = baseline_vectors(request, vectors)
    length = vectors.shape[1]
    columns = []
    for piece in pieces(request, length):
        alone = torch.eye(length, dtype=torch.bool, device=vectors.device)[piece, :, None]
        columns.append(values_on(request, torch.where(alone, absent.unsqueeze(1), vectors.unsqueeze(1))))
    whole = values_on(request, vectors.unsqueeze(1))
    return request.scores(fall(whole, torch.cat(columns, dim=1)), request.tokens)


@method("input", "omission", passes=1, passes_per="item", reference="Jain & Wallace 2019, leave-one-out")
def omission(request: Request) -> Scores:
    """The explained number, minus what it is when a token is left out of the ids, and the rest moves up.

    Special tokens cannot be left out: the model would be given something that is no text; their score is undefined.
    """
    whole, shorter = request.shortened
    before, after = request.quantity(whole.double()).unsqueeze(-1), request.quantity(shorter.double())
    return deletion_scores(request, fall(before, after, precision=whole.dtype))


def deletion_scores(request: Request, values: Tensor) -> Scores:
    """Scores of what leaving each token out does; undefined for those that cannot be left out."""
    undefined = request.tokens & ~request.omissible
    note = "a special token, or the only one, cannot be left out" if bool(undefined.any()) else ""
    return request.scores(values.masked_fill(~request.omissible, torch.nan), request.tokens, note=note)


def fall(whole: Tensor, without: Tensor, *, precision: torch.dtype | None = None) -> Tensor:
    """The explained number minus what it is without an item; 0 where the two differ by rounding only.

    Rounding depends on the shape of the batch. An item that changes nothing (one outside the window of an attention)
    would get a place in the ranking by it, and another place in another batch.

    Args:
        whole: ``[B, 1]``.
        without: ``[B, N]``.
        precision: in which the model computed; that of ``without`` by default.

    Example:
        >>> fall(torch.tensor([[0.5]]), torch.tensor([[0.5 + 1e-7, 0.25]])).tolist()
        [[0.0, 0.25]]
    """
    difference = whole - without
    rounding = ROUNDINGS * torch.finfo(precision or without.dtype).eps * torch.maximum(whole.abs(), without.abs())
    return torch.where(difference.abs() <= rounding, torch.zeros_like(difference), difference)
