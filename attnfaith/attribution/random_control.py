"""The random control: uniformly drawn scores, which every other ranking should beat."""

from __future__ import annotations

import hashlib
from typing import Any

import torch

from attnfaith.attribution.method import CONTROL, PlotStyle, Request, Scores, method

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


def keyed_generator(*key: object) -> torch.Generator:
    """A random generator seeded by a key alone: draws do not depend on batches, processes or earlier draws.

    Example:
        >>> torch.rand(1, generator=keyed_generator(0, 17)) == torch.rand(1, generator=keyed_generator(0, 17))
        tensor([True])
    """
    digest = hashlib.sha256(repr(key).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)


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
