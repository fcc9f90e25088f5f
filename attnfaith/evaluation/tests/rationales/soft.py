"""Soft sufficiency and comprehensiveness of rankings at the input level, for the rationales test."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from attnfaith.adapters.inference_state import inference_state
from attnfaith.errors import NumericalError
from attnfaith.evaluation.removal import Eraser
from attnfaith.functional.soft_erasure import importance, kept_elements, soft_comprehensiveness, soft_sufficiency
from attnfaith.randomness import keyed_generator

COLUMNS = ("soft_comprehensiveness", "soft_sufficiency")


def soft_scores(eraser: Eraser, scores: Sequence[Tensor], draws: int) -> dict[str, Tensor]:
    """The two figures of every ranking and text, ``[R, B]``; means over draws. All NaN for a regression.

    The draws of a text are the same for all rankings, so that rankings differ by their scores alone. What cannot be
    erased keeps all elements.

    Args:
        eraser: at the input level.
        scores: of each ranking, ``[B, L]``.
        draws: how many.
    """
    batch, decision = eraser.batch, eraser.batch.config.decision
    nothing = torch.full((len(scores), len(batch.rows)), torch.nan, dtype=torch.float64, device=batch.logits.device)
    if decision.kind == "regression":
        return dict.fromkeys(COLUMNS, nothing)
    shares = [importance(score, eraser.erasable) for score in scores]
    # what is 0 or less is never kept, what is 1 or more always
    kept = [torch.where(eraser.erasable, share, 1.0) for share in shares]
    without = [torch.where(eraser.erasable, 1 - share, 1.0) for share in shares]
    with inference_state(batch.config.cut.model, gradients=False):
        vectors = batch.config.cut.adapter.vectors(batch.inputs)

        def probability(keep: Tensor) -> Tensor:
            logits = batch.config.cut.adapter.forward_on(vectors * keep.to(vectors.dtype), batch.inputs)
            if not bool(logits.isfinite().all()):
                raise NumericalError("With parts of the embeddings removed, the model's logits are not finite.")
            return decision.quantity(logits.double(), batch.target, "probability")

        before = decision.quantity(batch.logits.double(), batch.target, "probability")
        empty = probability((~eraser.erasable).unsqueeze(-1))
        sums = {name: torch.zeros_like(nothing) for name in COLUMNS}
        for number in range(draws):
            uniform = _uniform(eraser, vectors, number)
            for index in range(len(scores)):
                rest, top = (probability(kept_elements(share[index], uniform)) for share in (without, kept))
                sums["soft_comprehensiveness"][index] += soft_comprehensiveness(before, rest, empty)
                sums["soft_sufficiency"][index] += soft_sufficiency(before, top, empty)
    return {name: values / draws for name, values in sums.items()}


def _uniform(eraser: Eraser, vectors: Tensor, number: int) -> Tensor:
    """Uniform draws ``[B, L, E]``: of a text they depend on the seed, its row and the draw, not on the batch."""
    batch, seed = eraser.batch, eraser.batch.config.settings.seed
    uniform = torch.zeros(vectors.shape, dtype=torch.float64)
    for text, (row, there) in enumerate(zip(batch.rows, eraser.items.cpu(), strict=True)):
        generator = keyed_generator(seed, row.number, "rationales", "soft", number)
        uniform[text, there] = torch.rand(int(there.sum()), vectors.shape[-1], generator=generator, dtype=torch.float64)
    return uniform.to(vectors.device)
