"""Rankings that know nothing: what every other one must beat."""

from __future__ import annotations

import torch

from attnfaith.attribution.method import Request, Scores, method
from attnfaith.randomness import keyed_generator


def _uniform(request: Request, level: str) -> torch.Tensor:
    mask = request.capture.mask if level == "attention" else request.tokens
    values = torch.zeros(mask.shape, dtype=torch.float64)
    for row, (text, items) in enumerate(zip(request.text_ids, mask.cpu(), strict=True)):
        generator = keyed_generator(request.settings.seed, text, "random", level)
        values[row, items] = torch.rand(int(items.sum()), generator=generator, dtype=torch.float64)
    return values.to(mask.device)


@method("attention", "random", cost="none", reference="Serrano & Smith 2019", signed=False, seeded=True)
def random_items(request: Request) -> Scores:
    """A uniform draw for each item, keyed by seed and text."""
    return request.scores(_uniform(request, "attention"))


@method("input", "random", cost="none", reference="Serrano & Smith 2019", signed=False, seeded=True)
def random_tokens(request: Request) -> Scores:
    """A uniform draw for each token, keyed by seed and text."""
    return request.scores(_uniform(request, "input"), request.tokens)
