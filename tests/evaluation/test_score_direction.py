"""The direction in which scores can change a decision."""

import pytest
import torch

from attnfaith.attribution.method import YOURS
from attnfaith.evaluation.rankings import Ranking
from attnfaith.evaluation.score_direction import toward_change
from tests.helpers.removal_batches import SIZES, batch_of

SIGNED = Ranking("gradient", "attention")
UNSIGNED = (Ranking("attention", "attention"), Ranking("random", "attention"), Ranking("human", YOURS, "human"))


@pytest.mark.parametrize("kind", list(SIZES))
def test_only_signed_scores_are_turned_and_only_where_a_decision_has_two_sides(kind, generator):
    batch = batch_of("FLANrnn", kind, **({"target": 1} if kind == "multilabel" else {}))
    scores = torch.randn(batch.capture.mask.shape, generator=generator)
    for ranking in UNSIGNED:
        assert [item.tolist() for item in toward_change(batch, ranking, scores)] == [scores.tolist()]
    result = toward_change(batch, SIGNED, scores)
    expected = {"multiclass": [[1] * 8], "sigmoid": [[1] * 8], "regression": [[1] * 8, [-1] * 8]}
    if kind == "multilabel":
        expected[kind] = [[1 if on else -1 for on in (batch.logits[:, 1] > 0).tolist()]]
        assert set(expected[kind][0]) == {1, -1}
    assert len(result) == len(expected[kind])
    for entry, signs in zip(result, expected[kind], strict=True):
        assert torch.equal(entry, scores * torch.tensor(signs).unsqueeze(1))


def test_undefined_scores_stay_undefined():
    scores = torch.tensor([[0.5, torch.nan, -0.5]])
    batch = batch_of("FLANrnn", "regression", lengths=(3,))
    assert all(bool(item[0, 1].isnan()) for item in toward_change(batch, SIGNED, scores))
