"""Options of a cut: gradients, earlier layers, some heads, other precisions; and a model with a planted truth."""

import itertools

import pytest
import torch
from torch import nn
from transformers import BertConfig, BertForSequenceClassification

import attnfaith as af
from attnfaith.functional.erasure import erase
from tests.helpers.comparing import (
    assert_close,
    assert_same,
    gap,
    inputs_of,
    keeps_of,
    model_of,
    orders_of,
    prepared,
    weights_of,
)
from tests.helpers.installed_families import need_interface


@pytest.mark.parametrize(
    ("family", "path"),
    [*itertools.product(["bert", "llama", "bart"], ["its own", "last block", "full forward"]), ("FLANrnn", "its own")],
)
def test_gradients_with_respect_to_the_weights(family, path):
    model = model_of(family, torch.float64)
    if family == "llama":  # its norms go through float32, too coarse for finite differences: compute them in float64
        model = with_exact_norms(model)
    inputs = inputs_of(model, lengths=(5, 4))
    cut = af.cut(model)
    if path != "its own":
        cut = af.Cut(cut.adapter.with_tail(path), None, "", cut.memory)
    capture = cut.capture(**inputs)
    mask = capture.mask[:, None, None].double()

    def logits(free):
        return cut.rerun(capture, weights=free * mask)

    assert torch.autograd.gradcheck(logits, weights_of(capture, count=2).requires_grad_(), eps=1e-6, atol=1e-6)
    assert all(parameter.grad is None for parameter in model.parameters())


def with_exact_norms(model):
    for module in model.modules():
        if type(module).__name__ == "LlamaRMSNorm":
            weight, eps = module.weight, module.variance_epsilon
            module.forward = lambda x, w=weight, e=eps: w * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + e)
    return model


@pytest.mark.parametrize("family", ["bert", "llama", "eurobert", "HANrnn"])
def test_backward_reaches_the_weights_and_no_parameter(family):
    done = prepared(family, torch.float32)
    weights = done.capture.weights.unsqueeze(1).clone().requires_grad_()
    done.cut.rerun(done.capture, weights=weights)[..., 0].sum().backward()
    assert weights.grad.abs().sum() > 0
    assert all(parameter.grad is None and parameter.requires_grad for parameter in done.model.parameters())


def test_no_graph_is_built_without_gradients():
    done = prepared("bert", torch.float32)
    weights = done.capture.weights.unsqueeze(1).clone()
    assert not done.cut.rerun(done.capture, weights=weights).requires_grad
    assert not done.cut.rerun(done.capture, keep=keeps_of(done.capture)).requires_grad
    assert not done.cut.prefixes(done.capture, orders_of(done.capture)).requires_grad
    with torch.no_grad():
        assert not done.cut.rerun(done.capture, weights=weights.requires_grad_()).requires_grad


@pytest.mark.parametrize("family", ["bert", "eurobert", "gpt2"])
def test_a_subset_of_heads_leaves_the_others_alone(family):
    done = prepared(family, torch.float64)
    few = af.cut(done.model, heads=[1, 3])
    capture, whole = few.capture(**done.inputs), done.capture
    rows = whole.shape[1] // 4
    assert capture.shape[1] == 2 * rows
    chosen = torch.tensor([head * rows + row for head in (1, 3) for row in range(rows)])
    assert_close(capture.weights, whole.weights[:, chosen], 1e-6)
    weights = weights_of(capture)
    full = whole.weights.unsqueeze(1).repeat(1, weights.shape[1], 1, 1)
    full[:, :, chosen] = weights
    assert_same(few.rerun(capture, weights=weights), done.cut.rerun(whole, weights=full), whole.logits, done.tolerance)
    keep = keeps_of(capture)
    logits = few.rerun(capture, keep=keep)
    full = whole.weights.unsqueeze(1).repeat(1, keep.shape[1], 1, 1)
    full[:, :, chosen] = erase(whole.weights.unsqueeze(1), keep, whole.log_weights.unsqueeze(1))[:, :, chosen]
    assert_same(logits, done.cut.rerun(whole, weights=full), whole.logits, done.tolerance)
    order = orders_of(capture)
    assert_close(few.prefixes(capture, order)[:, 0], whole.logits, done.tolerance)


def test_heads_from_the_end_and_in_another_order():
    done = prepared("bert", torch.float64)
    capture = af.cut(done.model, heads=[-1, 0]).capture(**done.inputs)
    assert_close(capture.weights, done.capture.weights[:, [3, 0]], 1e-12)


@pytest.mark.parametrize("heads", [None, [1, 3]])
@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_an_earlier_layer(family, heads):
    """The first of two layers: every row of it is read, and the rest of the model runs on the edit."""
    model = model_of(family, torch.float64)
    inputs = inputs_of(model)
    cut = af.cut(model, layer=0, heads=heads)
    assert repr(cut) != repr(af.cut(model))
    capture = cut.capture(**inputs)
    with torch.no_grad():
        assert_close(capture.logits, model(**inputs).logits, 1e-10)
    assert capture.shape[1] > 4 or heads is not None
    slow = af.Cut(cut.adapter.with_tail("full forward"), None, "", cut.memory)
    seen = slow.capture(**inputs)
    for edit in ({"keep": keeps_of(capture)}, {"weights": weights_of(capture)}):
        assert_same(cut.rerun(capture, **edit), slow.rerun(seen, **edit), capture.logits, 1e-10)
    same = cut.rerun(capture, weights=capture.weights.unsqueeze(1))
    assert_close(same[:, 0], capture.logits, 1e-10)


def test_layers_are_counted_from_the_end_too():
    done = prepared("bert", torch.float64)
    last = af.cut(done.model, layer=-1).capture(**done.inputs)
    assert torch.equal(last.weights, done.capture.weights)
    first, also = (af.cut(done.model, layer=layer).capture(**done.inputs) for layer in (0, -2))
    assert torch.equal(first.weights, also.weights)
    assert not torch.equal(first.weights[:, :4], last.weights)


def test_two_attentions_that_could_be_final_need_a_choice():
    model = model_of("diffllama", torch.float32)
    need_interface(model)  # without it, DiffLlama makes both attentions in one call, and there is nothing to choose
    with pytest.raises(af.UnsupportedModelError, match="layer="):
        af.cut(model)
    cut = af.cut(model, layer=3)
    inputs = inputs_of(model)
    capture = cut.capture(**inputs)
    slow = af.Cut(cut.adapter.with_tail("full forward"), None, "", cut.memory)
    keep = keeps_of(capture)
    assert_same(
        cut.rerun(capture, keep=keep), slow.rerun(slow.capture(**inputs), keep=keep), capture.logits, 1e-5, least=1e-3
    )


# bfloat16 has 8 bits and float16 has 11: a rounding is 4e-3 or 5e-4, of logits of which the edit moves a third or so
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.bfloat16, 0.1), (torch.float16, 0.02)])
@pytest.mark.parametrize("family", ["bert", "llama", "gpt2", "bart", "modernbert", "deberta-v2", "FLANrnn"])
def test_half_precision(family, dtype, tolerance):
    model = model_of(family, dtype)
    inputs = inputs_of(model)
    cut = af.cut(model)
    capture = cut.capture(**inputs)
    assert capture.logits.dtype == dtype
    with torch.no_grad():
        assert_close(capture.logits, model(**inputs).logits, 1e-3)
    keep, order = keeps_of(capture), orders_of(capture)
    got = cut.rerun(capture, keep=keep)
    assert got.dtype == dtype
    assert_close(cut.rerun(capture, weights=capture.weights.unsqueeze(1))[:, 0], capture.logits, tolerance)
    assert_close(cut.prefixes(capture, order)[:, 0], capture.logits, tolerance)
    exact = model_of(family, dtype).float()
    other = af.cut(exact)
    reference = other.capture(**inputs)
    assert gap(got, other.rerun(reference, keep=keep), reference.logits) < 5 * tolerance


@pytest.mark.parametrize("position", [1, 2, 4])
def test_a_planted_truth_is_found(position):
    """A BERT that classifies by one position's value alone: nothing but removing that position moves the logits."""
    model = planted(position)
    ids = torch.tensor([[5, 6, 7, 8, 9, 4], [9, 8, 7, 6, 5, 3]])
    cut = af.cut(model)
    capture = cut.capture(input_ids=ids)
    items = torch.arange(6)
    assert (capture.weights[:, :, position] > 0.99).all()
    without = cut.rerun(capture, keep=(items != items.unsqueeze(1)).expand(2, -1, -1))
    moved = (without - capture.logits.unsqueeze(1)).abs().amax(-1)
    assert (moved.argmax(-1) == position).all()
    assert (moved[:, position] > 0.1).all()
    assert (moved[:, items != position] < 1e-3).all()
    order = torch.cat((items[items != position], torch.tensor([position]))).expand(2, -1)
    steps = cut.prefixes(capture, order)
    assert (steps[:, :6] - capture.logits.unsqueeze(1)).abs().max() < 1e-3


def planted(position):
    """One layer whose first row attends the given position with all its weight, and a head that reads it."""
    config = BertConfig(
        vocab_size=16, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8, num_labels=2
    )
    model = BertForSequenceClassification(config).eval()
    attention = model.bert.encoder.layer[0].attention
    with torch.no_grad():
        model.bert.embeddings.position_embeddings.weight.zero_()
        model.bert.embeddings.token_type_embeddings.weight.zero_()
        model.bert.embeddings.word_embeddings.weight.normal_(0, 1)
        model.bert.embeddings.word_embeddings.weight[:, 0] = 0
        model.bert.embeddings.position_embeddings.weight[position, 0] = 20.0
        for part in (attention.self.query, attention.self.key):
            nn.init.zeros_(part.weight)
        attention.self.query.bias.zero_()[0] = 30.0
        attention.self.key.weight[0, 0] = 5.0
        nn.init.eye_(attention.self.value.weight)
        nn.init.eye_(attention.output.dense.weight)
        attention.output.dense.weight.mul_(10)
        model.classifier.weight.normal_(0, 1)
        model.bert.pooler.dense.weight.normal_(0, 0.5)
    return model
