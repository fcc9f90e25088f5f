"""The probe finds planted truth: it is right where its weights are, and learns weights where they are needed."""

import numpy as np
import pytest
import torch

from attnfaith.diagnostics.probe.mlp import Guided, ProbeModel, predict, train_probe
from attnfaith.randomness import keyed_generator

WORDS, LENGTH, CLASSES = 12, 8, 2


def planted(count, seed):
    """Words of both classes; only the word at a random place counts, and nothing in the text says which."""
    draw = np.random.default_rng(seed)
    words = draw.integers(WORDS, size=(count, LENGTH))
    places = draw.integers(LENGTH, size=count)
    labels = words[np.arange(count), places] % CLASSES
    truth = np.eye(LENGTH)[places]
    return list(words), list(truth), labels


def guided(words, weights, labels):
    return Guided(words, weights, np.asarray(labels, dtype=np.int64))


@pytest.fixture(scope="module")
def accuracies():
    sets = [planted(200, 0), planted(100, 1), planted(200, 2)]
    embeddings = torch.randn(WORDS, 8, generator=keyed_generator("words"))
    result = {}
    for guide in ("truth", "uniform", "learned"):
        texts = [
            guided(words, truth if guide == "truth" else [np.full(LENGTH, 1 / LENGTH)] * len(words), labels)
            for words, truth, labels in sets
        ]
        probe = train_probe(embeddings, *texts[:2], CLASSES, learned=guide == "learned")
        result[guide] = float((predict(probe, texts[2]).argmax(1) == texts[2].labels).mean())
    return result


def test_weights_on_the_deciding_word_are_worth_everything(accuracies):
    assert accuracies["truth"] > 0.98
    assert accuracies["uniform"] < 0.75
    assert accuracies["learned"] < 0.75  # nothing tells it where to look


def test_logits_are_those_of_the_definition():
    torch.manual_seed(0)
    model = ProbeModel(torch.randn(5, 3), 2, hidden=4).double()
    words, weights = torch.tensor([[1, 2, 0]]), torch.tensor([[0.25, 0.75, 0.0]], dtype=torch.float64)
    context = torch.zeros(4, dtype=torch.float64)
    for word, weight in zip(words[0].tolist(), weights[0].tolist(), strict=True):
        hidden = model.hidden.bias.clone()
        for index in range(3):
            hidden = hidden + model.hidden.weight[:, index] * model.embeddings.weight[word, index]
        context = context + weight * torch.tanh(hidden)
    expected = model.output.weight @ context + model.output.bias
    logits = model(words, weights, torch.ones(1, 3, dtype=torch.bool))[0]
    assert torch.allclose(logits, expected, atol=1e-12)


def test_padding_and_batches_change_nothing():
    words, _, labels = planted(20, 3)
    short = [row[: 3 + index % 5] for index, row in enumerate(words)]
    even = [np.full(len(row), 1 / len(row)) for row in short]
    torch.manual_seed(0)
    model = ProbeModel(torch.randn(WORDS, 4), CLASSES, learned=True).double()
    together = predict(model.float(), guided(short, even, labels))
    single = [predict(model, guided([a], [b], [c]))[0] for a, b, c in zip(short, even, labels, strict=True)]
    assert np.allclose(together, single, atol=1e-6)
