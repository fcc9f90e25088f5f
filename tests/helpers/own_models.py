"""Shared by the tests of hand-written models: a batch, random weights, comparison with a literal computation."""

import torch

import attnfaith as af
from attnfaith.functional.erasure import erase
from tests.helpers.comparing import assert_close, assert_same, keeps_of, orders_of, weights_of

VOCABULARY, WIDTH, CLASSES = 30, 12, 3
PAD = 0


def batch():
    ids = torch.tensor([[5, 6, 7, 8, 9, 10, 11], [9, 3, 4, 20, 21, PAD, PAD]])
    return {"input_ids": ids, "attention_mask": (ids != PAD).long()}


def drawn(kind):
    torch.manual_seed(0)
    model = kind().double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 1 if parameter.dim() < 2 else 1.5 * parameter.shape[-1] ** -0.5)
    return model


def check_against(model, literal, example=None):
    """The cut against a literal computation on edited weights [B, K, G, N]."""
    cut = af.cut(model, example=example or batch())
    capture = cut.capture(**batch())
    with torch.no_grad():
        assert_close(capture.logits, model(**batch()), 1e-12)
        assert capture.mask.equal(batch()["attention_mask"].bool())
        keep, weights = keeps_of(capture), weights_of(capture)
        erased = erase(capture.weights.unsqueeze(1), keep, capture.log_weights.unsqueeze(1))
        assert_same(cut.rerun(capture, weights=weights), literal(weights), capture.logits, 1e-10)
        assert_same(cut.rerun(capture, keep=keep), literal(erased), capture.logits, 1e-10)
        assert_close(cut.prefixes(capture, orders_of(capture))[:, 0], capture.logits, 1e-10)
    return cut, capture
