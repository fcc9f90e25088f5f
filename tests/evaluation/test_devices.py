"""A model on another device: every test gives what it gives on the CPU, and no tensor is made on the wrong one."""

import copy

import pandas as pd
import pytest

import attnfaith as af
from attnfaith.evaluation.tests.base import tests
from attnfaith.evaluation.tests.erasure.test import Erasure
from tests.helpers.comparing import inputs_of
from tests.helpers.other_device import OtherDevice, is_there
from tests.helpers.removal_batches import LENGTHS, batch_of, model_of, ranked, slowly, table
from tests.helpers.small_runs import ROWS, computed, evaluator_of

RANKINGS = {
    "attention": ranked("attention/random", "attention/attention", "attention/gradient", "attention/lrp"),
    "input": ranked("input/random", "input/gradient_x_input", "input/occlusion", "input/omission"),
}


@pytest.mark.parametrize("name", tests)
def test_every_test_runs_there_and_says_the_same(name):
    """From texts on: the tokenizer makes tensors on the CPU."""
    more = {"rationale_column": "marks"} if name == "rationales" else {}
    evaluator, _ = evaluator_of("multiclass")
    model, tokenizer = evaluator.cut.model.double(), evaluator.encoder.tokenizer
    rows = [row | {"label": 0} for row in ROWS[:12] + ROWS[-2:]]
    here = computed(af.Evaluator(model, tokenizer), rows, name, **more)
    with OtherDevice() as device:
        moved = device.put(copy.deepcopy(model))
        there = computed(af.Evaluator(moved, tokenizer), rows, name, **more)
    assert len(here.tables) >= 2
    for table_name in here.tables:
        assert len(here.table(table_name)) > 5 or name == "information"
        pd.testing.assert_frame_equal(here.table(table_name), there.table(table_name), atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("kind", ["multiclass", "multilabel", "regression"])
@pytest.mark.parametrize("family", ["bert", *slowly("llama", "FLANconv")])
def test_a_transformer_is_erased_there_at_both_levels(family, kind):
    model = copy.deepcopy(model_of(family, kind))
    inputs = inputs_of(model, lengths=LENGTHS, seed=2)
    here = table(Erasure().run(batch_of(family, kind, inputs=inputs, rankings=RANKINGS)))
    with OtherDevice() as device:
        cut = af.cut(device.put(model))
        batch = batch_of(family, kind, cut=cut, inputs=device.put(inputs), rankings=RANKINGS)
        there = table(Erasure().run(batch))
        assert all(is_there(item) for item in batch.inputs.values())
        assert is_there(batch.logits)
    assert here.keys() == there.keys()
    assert {key[3] for key in here} == {"attention", "input"}
    for key, row in here.items():
        assert there[key] == {
            name: pytest.approx(value, abs=1e-9, nan_ok=True) if isinstance(value, float) else value
            for name, value in row.items()
        }
    assert any(row["removed"] for row in here.values())
