"""The expected work of texts: every pass once, and padding where the capture pads."""

import pytest

from attnfaith.evaluation.tests.base import resolve_tests
from attnfaith.evaluation.text_cost import TextCost
from tests.helpers.removal_batches import batch_of, ranked


def test_a_batch_is_its_texts_and_the_padding_of_the_capture():
    config = batch_of("bert", rankings={"input": ranked("input/integrated_gradients", "input/random")}).config
    cost = TextCost.of(config, resolve_tests(["erasure"]))
    for length in (20, 30):
        assert cost.work([length]) == pytest.approx(cost.forward(length) * sum(cost.passes(length).values()))
    padding = cost.forward(30) - cost.forward(20)
    assert cost.work([20, 30]) == pytest.approx(cost.work([20]) + cost.work([30]) + padding)
