"""How small a set can flip each decision: exactly, or between bounds (PROTOCOLS: the gold standard)."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import torch
from torch import Tensor

from attnfaith.attribution.optimal import optimum_of
from attnfaith.evaluation.batch import Batch
from attnfaith.evaluation.erasers import AttentionEraser
from attnfaith.evaluation.rankings import Ranking

BUILT_IN = (
    "attention",
    "gradient",
    "gradient_x_attention",
    "greedy",
    "integrated_gradients",
    "lrp",
    "occlusion",
    "random",
)
"""The rankings whose best is the upper bound, whatever was asked for: adding a ranking changes nobody's numbers."""
TRIPLES = 24
_PIECE = 65536


@dataclass(frozen=True)
class Smallest:
    """The size of each text's smallest flipping set.

    Attributes:
        low: a size that it has at least; None where no set flips.
        high: a size that it has at most; None where that is not known, or no set flips.
        flippable: whether any set flips; None where that is not known.
        order: ``[B, N]``, an order that flips as early as can be, where the size is known from an affine tail.
    """

    low: list[int | None]
    high: list[int | None]
    flippable: list[bool | None]
    order: Tensor | None = None


def smallest_sets(eraser: AttentionEraser, *, bounds: bool) -> Smallest:
    """Exact where the tail is affine; else bounds, those beyond one item only where they are asked for."""
    batch = eraser.batch
    best = optimum_of(batch.setup.cut, batch.capture, batch.setup.decision, fixed=~eraser.erasable)
    if best is not None:
        flips = best.flips.tolist()
        sizes = [size if flip else None for size, flip in zip(best.size.tolist(), flips, strict=True)]
        return Smallest(sizes, sizes, flips, best.order)
    one = _flips(batch, batch.request.without_each) & eraser.erasable
    exact: list[int | None] = [1 if found else None for found in one.any(1).tolist()]
    counts = eraser.counts.tolist()
    low = [1 if size else min(2, count) for size, count in zip(exact, counts, strict=True)]
    if not bounds:
        return Smallest(list(low), exact, [True if size else None for size in exact])
    upper = _upper(eraser)
    for text, count in enumerate(counts):
        for size in (2, 3):
            if exact[text] is None and count >= size and (size == 2 or count <= TRIPLES):
                found = _any_of(eraser, text, size)
                exact[text] = size if found else None
                low[text] = size if found else min(size + 1, count)
    high = [size if size is not None else most for size, most in zip(exact, upper, strict=True)]
    flippable: list[bool | None] = [True if most is not None else None for most in high]
    least: list[int | None] = list(low)
    for text, count in enumerate(counts):
        if exact[text] is None and count <= 3:  # every set has been tried
            least[text], high[text], flippable[text] = None, None, False
    return Smallest(least, high, flippable)


def _upper(eraser: AttentionEraser) -> list[int | None]:
    """The fewest removals after which any built-in ranking flips, in either direction where it has two."""
    rankings = [Ranking(name, "attention") for name in BUILT_IN]
    scores = [eraser.batch.scores(one, "attention") for one in rankings]
    if eraser.batch.setup.decision.kind in ("regression", "multilabel"):
        scores += [-values for values, one in zip(scores, rankings, strict=True) if one.signed]
    found = eraser.flips(torch.stack([eraser.order(one) for one in scores]))
    most = eraser.everything.shape[1] + 1
    fewest = torch.where(found.flips, found.removed, most).amin(0)
    return [None if size == most else size for size in fewest.tolist()]


def _any_of(eraser: AttentionEraser, text: int, size: int) -> bool:
    """Whether any set of this many items flips one text."""
    places = eraser.erasable[text].nonzero().flatten().tolist()
    sets = itertools.combinations(places, size)
    batch = eraser.batch
    while piece := list(itertools.islice(sets, _PIECE)):
        removed = torch.tensor(piece, device=batch.logits.device)
        keep = eraser.everything[text].repeat(len(piece), 1).scatter(1, removed, False)
        texts = torch.full((len(piece),), text, device=keep.device)
        logits = batch.setup.cut.rerun_sets(batch.capture, texts, keep)
        if bool(batch.setup.decision.flips(batch.logits[text].expand_as(logits), logits).any()):
            return True
    return False


def _flips(batch: Batch, logits: Tensor) -> Tensor:
    """Whether logits ``[B, K, C]`` decide otherwise than the texts as they are."""
    return batch.setup.decision.flips(batch.logits.unsqueeze(1).expand_as(logits), logits)
