"""Outputs of models: the model's own, whatever the batch, and distances from their definitions."""

import math

import numpy as np
import pytest
import torch

import attnfaith as af
from attnfaith.diagnostics.outputs import (
    Outputs,
    attention_distances,
    output_distances,
    outputs_of,
    uniform_like,
)
from attnfaith.functional.decision import Decision
from attnfaith.text.encoder import TextEncoder
from attnfaith.tiny_models import tiny_model
from tests.helpers import tokenizers
from tests.helpers.training_data import rows, small

TEXTS = [row["text"] for row in rows(9)]


def model_named(name):
    if name == "bert":
        return tiny_model("bert").eval(), tokenizers.word_piece()
    model, tokenizer = small(name)
    return model.eval(), tokenizer


@pytest.mark.parametrize("name", ["FLANrnn", "HANnoenc", "bert"])
def test_outputs_are_those_of_the_model_in_any_batch(name):
    model, tokenizer = model_named(name)
    encoder = TextEncoder(tokenizer, model)
    encoded = encoder.encode(TEXTS)
    cut = af.cut(model)
    together = outputs_of(cut, encoder, encoded, Decision())
    single = outputs_of(cut, encoder, encoded, Decision(), batch_size=1)
    for first, second in zip(together.items + together.tokens, single.items + single.tokens, strict=True):
        assert np.allclose(first, second, atol=1e-5)
        assert first.sum() == pytest.approx(1)
    for index, text in enumerate(encoded):
        with torch.no_grad():
            logits = model(**encoder.collate([text])).logits[0].double()
        assert np.allclose(together.probabilities[index], torch.softmax(logits, -1), atol=1e-5)
        assert len(together.tokens[index]) == len(text.ids)
    again = Outputs.from_table(together.table())
    assert np.array_equal(again.probabilities, together.probabilities)
    assert all(np.array_equal(*pair) for pair in zip(again.tokens, together.tokens, strict=True))


def test_distances_follow_their_definitions():
    draw = np.random.default_rng(0)

    def made():
        weights = draw.dirichlet(np.ones(5) * 0.2, size=20) * (draw.random((20, 5)) > 0.3)
        weights[weights.sum(1) == 0, 0] = 1
        return Outputs(draw.dirichlet(np.ones(3), size=20), tuple(weights / weights.sum(1, keepdims=True)), None)

    def entropy(weights):
        return -sum(weight * math.log(weight) for weight in weights if weight > 0)

    one, other = made(), made()
    jsd = attention_distances(one, other)
    tvd = output_distances(one, other)
    for index in range(20):
        a, b = one.items[index], other.items[index]
        assert jsd[index] == pytest.approx(entropy((a + b) / 2) - (entropy(a) + entropy(b)) / 2, abs=1e-12)
        expected = sum(abs(x - y) for x, y in zip(one.probabilities[index], other.probabilities[index], strict=True))
        assert tvd[index] == pytest.approx(expected / 2)
    assert jsd.max() > 0.3
    assert np.allclose([weights.max() for weights in uniform_like(one).items], 0.2)
