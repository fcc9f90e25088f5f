"""Tiny models whose classes have names, their tokenizer and texts, and the comparison of two explanations' scores."""

import functools

import torch

import attnfaith as af
from attnfaith.tiny_models import tiny_model
from tests.helpers import tokenizers
from tests.helpers.tokenizers import TEXT, words

TEXTS = [TEXT, "a thin cast", "Nobody plays. It is quiet.", "see it"]
NAMES = {0: "bad", 1: "fair", 2: "good"}
word_piece = functools.cache(tokenizers.word_piece)


def named(family="bert", **settings):
    model = tiny_model(family, **settings)
    model.config.id2label, model.config.label2id = NAMES, {name: index for index, name in NAMES.items()}
    return model


def made_model(preset, labels=2, sentences=False, **config):
    tokenizer = words(sentences)
    torch.manual_seed(0)
    model = af.models.from_preset(preset, num_labels=labels, tokenizer=tokenizer, **config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 1.5 * parameter.shape[-1] ** -0.5)
    return model.eval(), tokenizer


def flipping_model(preset, words, *, seed=1, dtype=torch.float64, **config):
    """A preset with weights so large that decisions flip, of three classes unless told, and its tokenizer."""
    torch.manual_seed(seed)
    tokenizer = af.models.WordTokenizer.train([" ".join(words)], min_count=1)
    model = af.models.from_preset(preset, tokenizer=tokenizer, **{"num_labels": 3, **config}).to(dtype)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter *= 4
    return model.eval(), tokenizer


def scores(explanations):
    return [torch.tensor(explanation.scores) for explanation in explanations]


def same(got, expected, tolerance=1e-5):
    for first, other in zip(got, expected, strict=True):
        torch.testing.assert_close(first, other, rtol=tolerance, atol=tolerance * float(other.abs().max()))
