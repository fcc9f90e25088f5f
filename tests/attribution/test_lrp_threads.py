"""LRP changes what a model's activations do while it runs; gradients in another thread must not see that."""

import threading

import torch

import attnfaith as af
from attnfaith.attribution.lrp.rules import relevance_rules
from tests.helpers.comparing import inputs_of, model_of


def test_a_gradient_in_another_thread_does_not_see_the_rules():
    model = model_of("bert")
    inputs = inputs_of(model)
    cut = af.cut(model)
    gradient = af.Attributor(cut, method="gradient")
    relevance = af.Attributor(cut, method="lrp")
    expected, other = (
        item.attribute(inputs["input_ids"], 0, inputs["attention_mask"]) for item in (gradient, relevance)
    )
    assert not torch.allclose(expected, other, rtol=0.1)
    entered, ended, got = threading.Event(), threading.Event(), []

    def explain():
        entered.wait()
        got.append(gradient.attribute(inputs["input_ids"], 0, inputs["attention_mask"]))
        ended.set()

    thread = threading.Thread(target=explain)
    thread.start()
    with relevance_rules(cut.adapter.model, 1e-6, tuple(inputs["input_ids"].shape)):
        entered.set()
        assert not ended.wait(1)  # it waits for the model
    thread.join(60)
    assert torch.equal(got[0], expected)
