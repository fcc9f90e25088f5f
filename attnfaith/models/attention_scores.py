"""Attention forms (how an item is scored) and normalisers (how scores become weights)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from attnfaith.models.ragged import Layout

if TYPE_CHECKING:
    from attnfaith.models.configuration import AttentionClassifierConfig


class Additive(nn.Module):
    """Additive attention, ``v . tanh(W h_i + b + U q)`` (Bahdanau et al.; Wen et al., eq. 2); ``U q`` with a query."""

    def __init__(self, config: AttentionClassifierConfig, size: int, *, query: bool = False) -> None:
        super().__init__()
        width = config.attention_size or size
        self.project = nn.Linear(size, width)
        self.query = nn.Linear(size, width, bias=False) if query else None
        self.context = nn.Linear(width, 1, bias=False)

    def forward(self, items: Tensor, layout: Layout, query: Tensor | None = None) -> Tensor:
        """Items [M, D] and a query per sequence [G, D] -> scores [M]."""
        hidden = self.project(items)
        if self.query is not None:
            hidden = hidden + self.query(query)[layout.rows]
        return self.context(torch.tanh(hidden)).squeeze(-1)


class Dot(nn.Module):
    """Dot-product attention, ``v . h_i / sqrt(D)`` with v learned, or ``q . h_i / sqrt(D)`` (Wen et al., eq. 5, 1)."""

    def __init__(self, config: AttentionClassifierConfig, size: int, *, query: bool = False) -> None:
        super().__init__()
        self.context = None if query else nn.Linear(size, 1, bias=False)
        scaled = query if config.dot_scale is None else config.dot_scale
        self.scale = 1 / math.sqrt(size) if scaled else 1.0

    def forward(self, items: Tensor, layout: Layout, query: Tensor | None = None) -> Tensor:
        """Items [M, D] and a query per sequence [G, D] -> scores [M]."""
        if self.context is not None:
            return self.context(items).squeeze(-1) * self.scale
        assert query is not None
        return (items * query[layout.rows]).sum(-1) * self.scale


class Deep(nn.Module):
    """Deep attention, ``W_s relu(... relu(W_h h_i + W_q q))``, s = ``config.deep_layers`` (Wen et al., eq. 3, 4)."""

    def __init__(self, config: AttentionClassifierConfig, size: int, *, query: bool = False) -> None:
        super().__init__()
        width = config.attention_size or size
        self.project = nn.Linear(size, width)
        self.query = nn.Linear(size, width, bias=False) if query else None
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(config.deep_layers - 1))
        self.context = nn.Linear(width, 1, bias=False)

    def forward(self, items: Tensor, layout: Layout, query: Tensor | None = None) -> Tensor:
        """Items [M, D] and a query per sequence [G, D] -> scores [M]."""
        hidden = self.project(items)
        if self.query is not None:
            hidden = hidden + self.query(query)[layout.rows]
        for layer in self.layers:
            hidden = layer(torch.relu(hidden))
        return self.context(torch.relu(hidden)).squeeze(-1)


ATTENTIONS: dict[str, type[nn.Module]] = {"additive": Additive, "dot": Dot, "deep": Deep}


def sparsemax(scores: Tensor) -> Tensor:
    """Sparsemax of scores [..., N], the nearest point of the simplex (Martins & Astudillo 2016); -inf has weight 0.

    Example:
        >>> sparsemax(torch.tensor([1.0, 0.8, -1.0]))
        tensor([0.6000, 0.4000, 0.0000])
    """
    shifted = (scores - scores.amax(-1, keepdim=True)).double()
    ordered = shifted.sort(-1, descending=True).values
    finite = ordered.isfinite()
    total = ordered.masked_fill(~finite, 0).cumsum(-1)
    count = torch.arange(1, scores.shape[-1] + 1, device=scores.device)
    size = ((1 + count * ordered > total) & finite).sum(-1, keepdim=True)
    threshold = (total.gather(-1, size - 1) - 1) / size
    return (shifted - threshold).clamp(min=0).to(scores.dtype)


class Normaliser(nn.Module):
    """Turns scores [G, N] (-inf = no item) into (scores, weights, log-weights), each [G, N].

    The weights are the softmax (or sparsemax) of the returned scores: "gumbel" divides the scores by its temperature,
    and adds Gumbel noise before while training. A row without items has weights 0 and log-weights -inf.
    """

    def __init__(self, config: AttentionClassifierConfig) -> None:
        super().__init__()
        self.kind = config.normaliser
        self.temperature = config.temperature

    def extra_repr(self) -> str:
        """The options shown by ``print(model)``."""
        return f"{self.kind!r}" + (f", temperature={self.temperature}" if self.kind == "gumbel" else "")

    def forward(self, scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Scores [G, N] -> (scores, weights, log-weights)."""
        if scores.shape[-1] == 0:
            return scores, scores, scores
        if self.kind == "gumbel":
            if self.training:
                noise = torch.empty_like(scores, dtype=torch.float32).exponential_().clamp(min=1e-30).log()
                scores = scores - noise.to(scores.dtype)
            scores = scores / self.temperature
        absent = scores == -torch.inf
        safe = scores.masked_fill(absent.all(-1, keepdim=True), 0)
        if self.kind == "sparsemax":
            weights = sparsemax(safe).masked_fill(absent, 0)
            return scores, weights, weights.log()
        weights = torch.softmax(safe, dim=-1).masked_fill(absent, 0)
        return scores, weights, torch.log_softmax(safe, dim=-1).masked_fill(absent, -torch.inf)
