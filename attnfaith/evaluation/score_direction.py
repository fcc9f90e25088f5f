"""Choose the sign of scores so that the items whose removal can change the decision come first."""

from __future__ import annotations

import torch
from torch import Tensor

from attnfaith.evaluation.batch import Batch
from attnfaith.evaluation.rankings import Ranking


def toward_change(batch: Batch, ranking: Ranking, scores: Tensor) -> list[Tensor]:
    """The scores to sort by so that the items whose removal can change the decision come first.

    Signed scores speak for or against the explained target, so the sign matters where the decision can change in more
    than one direction. Multi-label: the scores of a text are negated where the explained label is absent, because only
    a removal that raises its logit can change it. Regression: the value can move up or down, so there are two results,
    the scores and their negation; the caller tries both. All other scores come back as they are.

    Args:
        batch: the texts.
        ranking: the ranking of the scores.
        scores: ``[B, N]``, higher = more important.

    Returns:
        One or two tensors ``[B, N]``.
    """
    decision = batch.config.decision
    if not ranking.signed:
        return [scores]
    if decision.kind == "multilabel":
        present = decision.labels_on(batch.logits).gather(1, batch.target.unsqueeze(1))
        return [torch.where(present, scores, -scores)]
    return [scores, -scores] if decision.kind == "regression" else [scores]
