"""Every ranking of a model on another device is the one of the same model on the CPU."""

import copy

import pytest

import attnfaith as af
from attnfaith.attribution.method import methods
from tests.helpers.other_device import OtherDevice
from tests.helpers.small_runs import TEXTS, evaluator_of


@pytest.mark.parametrize(("level", "name"), [key for key in methods if key != ("input", "rollout")])
def test_a_method_scores_texts_there_as_here(level, name):
    """Of texts: the tokenizer makes tensors on the CPU. A FLAN has one attention, so nothing to roll out."""
    evaluator, _ = evaluator_of("multiclass")
    model, tokenizer = evaluator.cut.model.double(), evaluator.encoder.tokenizer
    here = af.Attributor(model, tokenizer, method=name, level=level)(TEXTS[:5])
    with OtherDevice() as device:
        moved = device.put(copy.deepcopy(model))
        there = af.Attributor(moved, tokenizer, method=name, level=level)(TEXTS[:5])
    assert max(map(max, (item.scores for item in here))) > 0
    for first, other in zip(here, there, strict=True):
        assert list(other.scores) == pytest.approx(list(first.scores), abs=1e-9, nan_ok=True)
