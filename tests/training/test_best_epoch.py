"""`BestEpoch`: which epoch is the best."""

import math
from types import SimpleNamespace

import pytest
import torch

from attnfaith.training.best_epoch import BestEpoch


@pytest.mark.parametrize(
    ("losses", "best"),
    [([3.0, 1.0, 2.0], 2), ([1.0, 1.0], 1), ([math.nan, 2.0, 1.0, math.nan], 3), ([2.0, math.nan], 1)],
    ids=str,
)
def test_the_lowest_loss_is_the_best_and_one_that_is_no_number_never(losses, best):
    model, control = torch.nn.Linear(1, 1), SimpleNamespace(should_evaluate=True)
    kept = BestEpoch(model, patience=None, epochs=len(losses) + 1, by_loss=True)
    for epoch, loss in enumerate(losses, 1):
        torch.nn.init.constant_(model.weight, epoch)
        kept.on_epoch_end(None, None, control)
        kept.on_evaluate(None, None, control, metrics={"eval_loss": loss})
    assert kept.best_epoch == best
    kept.restore_best()
    assert model.weight.item() == best
