"""The attention itself as a ranking."""

from __future__ import annotations

import torch

from attnfaith.attribution.methods import method
from attnfaith.attribution.request import Request, Scores


@method("attention", "attention", cost="none beyond the capture", reference="the question itself", signed=False)
def attention_at_attention(request: Request) -> Scores:
    """The mean over the distributions that the decision reads."""
    capture = request.capture
    if capture.groups is None:
        return request.scores(capture.weights.mean(1))
    count = capture.groups.sum(-1, keepdim=True).clamp_min(1)
    return request.scores(torch.where(capture.groups.unsqueeze(-1), capture.weights, 0).sum(1) / count)
