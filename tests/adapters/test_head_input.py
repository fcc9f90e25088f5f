"""The input of the last layer: found on every kind of model, the layer makes the logits of it, and no hook is left."""

import pytest
import torch
from torch import nn

import attnfaith as af
from attnfaith.adapters.head_input import reading_head_input
from attnfaith.adapters.inference_state import inference_state
from attnfaith.evaluation.removal import ERASERS
from attnfaith.evaluation.tests.in_distribution.states import states_of
from tests.helpers.comparing import inputs_of
from tests.helpers.removal_batches import RANDOM, batch_of, cut_of, slowly

HEADS = {
    **dict.fromkeys(["FLANrnn", "HANrnn", "bert", "distilbert"], "classifier"),
    **dict.fromkeys(["gpt2", "llama"], "score"),
    "roberta": "classifier.out_proj",
    "t5": "classification_head.out_proj",
}


def hooks_of(model):
    return sum(len(module._forward_hooks) for module in model.modules())


@pytest.mark.parametrize(
    "family", ["FLANrnn", "bert", "gpt2", *slowly("roberta", "llama", "HANrnn", "distilbert", "t5")]
)
def test_the_layer_makes_the_logits_of_it_whatever_is_erased(family):
    levels = ["attention", "input"]
    batch = batch_of(family, rankings={level: RANDOM[level] for level in levels})
    head = batch.config.cut.model.get_submodule(HEADS[family])
    generator = torch.Generator().manual_seed(3)
    for level in levels:
        eraser = ERASERS[level](batch)
        texts = torch.arange(len(batch.rows)).repeat(3)
        removed = (torch.rand(len(texts), eraser.items.shape[1], generator=generator) < 0.4) & eraser.erasable[texts]
        removed[: len(batch.rows)] = False
        states = states_of(eraser, texts, removed)
        expected = eraser.logits_without(texts, removed)
        assert states.shape == (len(texts), head.in_features)
        assert (expected[len(batch.rows) :] - expected[: len(batch.rows)].repeat(2, 1)).abs().max() > 1e-3
        with torch.no_grad():
            torch.testing.assert_close(head(states), expected, atol=1e-8, rtol=1e-8)
    assert hooks_of(batch.config.cut.adapter.model) == 0


class Scaled(nn.Module):
    """A classifier whose logits are no layer's output."""

    def __init__(self):
        super().__init__()
        self.model = cut_of("bert").model

    def forward(self, **inputs):
        return 0.5 * self.model(**inputs).logits


def test_a_model_whose_logits_are_no_layers_output_is_read_at_its_logits():
    inputs = inputs_of(cut_of("bert").model, lengths=(5, 9), seed=2)
    cut = af.cut(Scaled(), example=inputs)
    with inference_state(cut.adapter.model, gradients=False):
        assert reading_head_input(cut.adapter, inputs) is None
    batch = batch_of("", cut=cut, inputs=inputs, rankings=RANDOM, special_ids=frozenset())
    texts, nothing = torch.arange(2), torch.zeros_like(batch.request.tokens)
    for level in RANDOM:
        torch.testing.assert_close(states_of(ERASERS[level](batch), texts, nothing), batch.logits)


def test_nothing_is_left_behind_when_the_model_raises():
    cut = cut_of("bert")
    inputs = inputs_of(cut.model, lengths=(5, 9), seed=2)
    with inference_state(cut.adapter.model, gradients=False):
        reading = reading_head_input(cut.adapter, inputs)
        for adapter in (reading.forward, lambda wrong: reading_head_input(cut.adapter, wrong)):
            with pytest.raises(IndexError):
                adapter({**inputs, "input_ids": inputs["input_ids"] + 10**6})
            assert hooks_of(cut.adapter.model) == 0
        assert cut.adapter.forward(inputs).shape[-1] == 3  # the adapter itself is unchanged
