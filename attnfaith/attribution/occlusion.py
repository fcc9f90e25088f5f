"""What happens to the explained number when an item is not there."""

from __future__ import annotations

import torch

from attnfaith.adapters.borrow import borrowed
from attnfaith.attribution.methods import method
from attnfaith.attribution.request import Request, Scores
from attnfaith.attribution.vectors import baseline_vectors, pieces, token_vectors, values_on


@method("attention", "occlusion", cost="N tails", reference="Serrano & Smith 2019, section 4")
def occlusion_at_attention(request: Request) -> Scores:
    """d(w) - d(w without item i, rescaled)."""
    capture = request.capture
    alone = torch.eye(capture.shape[2], dtype=torch.bool, device=capture.mask.device)
    keep = capture.mask.unsqueeze(1) & ~alone
    without = request.quantity(request.cut.rerun(capture, keep=keep))
    return request.scores(request.quantity(capture.logits).unsqueeze(-1) - without)


@method("attention", "greedy", cost="N x N / 2 tails", reference="steepest descent of the margin", signed=False)
def greedy_at_attention(request: Request) -> Scores:
    """At each step the item whose removal lowers the decision's margin most; a score of N is the first to go."""
    capture = request.capture
    decision = request.decision
    prediction = decision.predict(capture.logits)
    left = capture.mask.clone()
    values = torch.zeros(capture.mask.shape, dtype=torch.float64, device=left.device)
    alone = torch.eye(capture.shape[2], dtype=torch.bool, device=left.device)
    for step in range(int(capture.lengths.max())):
        logits = request.cut.rerun(capture, keep=left.unsqueeze(1) & ~alone)
        margin = decision.quantity(logits, prediction, "log_odds").masked_fill(~left, torch.inf)
        first = margin.argmin(-1, keepdim=True)
        still = left.gather(-1, first)
        values.scatter_(-1, first, torch.where(still, float(capture.shape[2] - step), values.gather(-1, first)))
        left = left.scatter(-1, first, False)
    return request.scores(values)


@method("input", "occlusion", cost="N forward", reference="Zeiler & Fergus 2014")
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
    return request.scores(whole - torch.cat(columns, dim=1), request.tokens)


@method("input", "omission", cost="N forward, each a token shorter", reference="Jain & Wallace 2019, leave-one-out")
def omission(request: Request) -> Scores:
    """The explained number, minus what it is when a token is left out of the ids, and the rest moves up.

    Special tokens cannot be left out: the model would be given something that is no text; their score is undefined.
    """
    ids, tokens = request.inputs["input_ids"], request.tokens
    length = ids.shape[1]
    special = torch.isin(ids, torch.tensor(sorted(request.settings.special_ids), device=ids.device))
    leave = tokens & ~special
    alone = torch.eye(length, dtype=torch.bool, device=ids.device)
    rest = alone.logical_not().nonzero()[:, 1].view(length, length - 1)  # the positions that stay
    adapter = request.cut.adapter
    columns = []
    with borrowed(request.cut.model, gradients=False):
        whole = request.quantity(adapter.forward(request.inputs)).unsqueeze(1)
        for piece in pieces(request, length) if length > 1 else ():
            index = rest[piece]
            shorter = {
                name: value[:, index].flatten(0, 1)
                if isinstance(value, torch.Tensor) and value.shape[:2] == ids.shape
                else value.repeat_interleave(len(index), 0)
                if isinstance(value, torch.Tensor) and value.dim() and len(value) == len(ids)
                else value
                for name, value in request.inputs.items()
            }
            # a text of special tokens and one word would have nothing left: its score is undefined below
            shorter["attention_mask"] = torch.where(
                shorter["attention_mask"].any(-1, keepdim=True), shorter["attention_mask"], 1
            )
            columns.append(request.quantity(adapter.forward(shorter).unflatten(0, (len(ids), -1))))
    values = whole - torch.cat(columns, dim=1) if columns else torch.zeros_like(ids, dtype=whole.dtype)
    undefined = tokens & (~leave | (tokens.sum(-1, keepdim=True) < 2))
    note = "special tokens cannot be left out" if bool(undefined.any()) else ""
    return request.scores(values.masked_fill(undefined, torch.nan), tokens, note=note)
