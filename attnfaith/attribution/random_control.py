"""The random control: uniformly drawn scores, which every other ranking should beat."""

from __future__ import annotations

from typing import Any

import torch

from attnfaith.attribution.method import CONTROL, PlotStyle, method
from attnfaith.attribution.request import Request
from attnfaith.attribution.scores import Scores
from attnfaith.randomness import keyed_generator

_FACTS: dict[str, Any] = {
    "display_name": "random order",
    "passes": 0,
    "reference": "Serrano & Smith 2019",
    "role": "control",
    "signed": False,
    "seeded": True,
    "same_at_both_levels": True,
    "style": PlotStyle("#707070", "x"),
}


def _uniform(request: Request, level: str) -> torch.Tensor:
    mask = request.capture.mask if level == "attention" else request.tokens
    values = torch.zeros(mask.shape, dtype=torch.float64)
    for row, (text, items) in enumerate(zip(request.text_ids, mask.cpu(), strict=True)):
        generator = keyed_generator(request.settings.seed, text, CONTROL, level)
        values[row, items] = torch.rand(int(items.sum()), generator=generator, dtype=torch.float64)
    return values.to(mask.device)


@method("attention", CONTROL, **_FACTS)
def random_items(request: Request) -> Scores:
    """A uniform draw for each item, keyed by seed and text."""
    return request.scores(_uniform(request, "attention"))


@method("input", CONTROL, **_FACTS)
def random_tokens(request: Request) -> Scores:
    """A uniform draw for each token, keyed by seed and text."""
    return request.scores(_uniform(request, "input"), request.tokens)
