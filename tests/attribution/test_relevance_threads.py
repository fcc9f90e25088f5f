"""LRP changes what a model's activations do while it runs; gradients in another thread must not see that."""

import threading

import torch

import attnfaith as af
from attnfaith.attribution.rules import relevance_rules
from tests.comparing import inputs_of, model_of


def test_a_gradient_in_another_thread_does_not_see_the_rules():
    model = model_of("bert")
    inputs = inputs_of(model)
    cut = af.cut(model)
    gradient = af.Attributor(cut, method="gradient")
    relevance = af.Attributor(cut, method="lrp")
    expected, other = (one.attribute(inputs["input_ids"], target=0) for one in (gradient, relevance))
    assert not torch.allclose(expected, other, rtol=0.1)
    entered, ended, got = threading.Event(), threading.Event(), []

    def explain():
        entered.wait()
        got.append(gradient.attribute(inputs["input_ids"], target=0))
        ended.set()

    thread = threading.Thread(target=explain)
    thread.start()
    with relevance_rules(cut.adapter.model, 1e-6, tuple(inputs["input_ids"].shape)):
        entered.set()
        ended.wait(0.5)  # it waits for us; without a lock it is done by now
    thread.join()
    assert torch.equal(got[0], expected)
