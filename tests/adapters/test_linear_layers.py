"""Linear layers by oneDNN equal those of torch but for rounding, and so do derivatives; others are left alone."""

import copy
from contextlib import contextmanager
from functools import partial

import pandas as pd
import pytest
import torch
from torch import nn
from transformers import BertConfig, BertForSequenceClassification
from transformers.pytorch_utils import Conv1D

import attnfaith as af
from attnfaith.adapters import linear_layers
from attnfaith.adapters.inference_state import inference_state
from tests.helpers import commands
from tests.helpers.difference_quotients import close

pytestmark = pytest.mark.skipif(
    linear_layers._ONEDNN is None or not linear_layers._IS_X86,
    reason="torch has no oneDNN for this machine",
)
WIDTH = 128


@pytest.fixture
def products(monkeypatch):
    """Counts the products that oneDNN computes."""
    counted, original = [], linear_layers._product
    monkeypatch.setattr(linear_layers, "_product", lambda *given: counted.append(1) or original(*given))
    return counted


@contextmanager
def using_onednn(enabled):
    before = torch.backends.mkldnn.enabled
    torch.backends.mkldnn.enabled = enabled
    yield
    torch.backends.mkldnn.enabled = before


def layer_of(width=WIDTH, *, bias=True, dtype=torch.float32):
    torch.manual_seed(0)
    layer = nn.Linear(width, width, bias=bias, dtype=dtype).requires_grad_(False)
    linear_layers.speed_up(layer)
    return layer


def conv1d():
    torch.manual_seed(0)
    layer = Conv1D(2 * WIDTH, WIDTH).requires_grad_(False)
    nn.init.normal_(layer.bias)
    linear_layers.speed_up(layer)
    return layer


def bert(**changes):
    torch.manual_seed(0)
    sizes = {"hidden_size": WIDTH, "intermediate_size": 2 * WIDTH, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = BertConfig(**{**sizes, "vocab_size": 99, "num_labels": 3, "initializer_range": 0.2, **changes})
    return BertForSequenceClassification(config).eval()


def batch(texts=16, length=24):
    ids = torch.randint(5, 99, (texts, length), generator=torch.Generator().manual_seed(1))
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


@pytest.mark.parametrize("of", [layer_of, partial(layer_of, bias=False), conv1d], ids=["linear", "no bias", "GPT-2's"])
@pytest.mark.parametrize("strided", [True, False])
def test_equal_to_float64(products, of, strided):
    layer = of()
    inputs = torch.randn(8, 64, WIDTH)[:, ::2] if strided else torch.randn(8, 32, WIDTH)
    exact = copy.copy(layer)
    del exact.forward
    close(layer(inputs).double(), copy.deepcopy(exact).double()(inputs.double()), 1e-5)
    assert len(products) == 1


@pytest.mark.parametrize("of", [layer_of, conv1d])
def test_derivatives_of_every_order(products, of):
    """Of a function that is not linear in the layer's result; a sum gives the layer a gradient without strides."""
    layer = of()
    plain = copy.deepcopy(layer)
    del plain.forward
    found = []
    for module, dtype in ((layer, torch.float32), (plain.double(), torch.float64)):
        inputs = torch.linspace(-1, 1, 200 * WIDTH).view(200, WIDTH).to(dtype).requires_grad_()
        (first,) = torch.autograd.grad((module(inputs) ** 3).sum(), inputs, create_graph=True)
        (second,) = torch.autograd.grad(first.pow(2).sum(), inputs)
        (of_sum,) = torch.autograd.grad(module(inputs).sum(), inputs)
        found.append([first.detach().double(), second.double(), of_sum.double()])
    for value, exact in zip(*found, strict=True):
        close(value / exact.abs().max(), exact / exact.abs().max(), 1e-5)
    assert len(products) > 4


@pytest.mark.parametrize("case", ["few rows", "float64", "trained", "autocast", "switched off", "a subclass", "small"])
def test_left_alone(products, case):
    layer, inputs = layer_of(8 if case == "small" else WIDTH), torch.randn(4096, 8 if case == "small" else WIDTH)
    if case == "few rows":
        inputs = inputs[:2]
    elif case == "float64":
        layer, inputs = layer_of(dtype=torch.float64), inputs.double()
    elif case == "trained":
        layer.requires_grad_(True)
    elif case == "a subclass":
        inputs = nn.Parameter(inputs, requires_grad=False)
    plain = nn.Linear(*layer.weight.shape, dtype=layer.weight.dtype)
    plain.load_state_dict(layer.state_dict())
    with using_onednn(case != "switched off"), torch.autocast("cpu", enabled=case == "autocast"), torch.no_grad():
        assert torch.equal(layer(inputs), plain(inputs))
    assert not products


def test_the_copy_of_a_model(products):
    """Its layers are sped up, those of the owner are not; weights that change later count, in a deep copy its own."""
    model, inputs = bert(), batch()
    with torch.no_grad():
        before = model(**inputs).logits
        assert not products
        with inference_state(model, gradients=False) as lent:
            close(lent(**inputs).logits, before, 1e-5)
            deep = copy.deepcopy(lent)
        assert products
        assert not any("forward" in vars(module) for module in model.modules())
        for parameter in model.parameters():
            parameter.mul_(1.3)
        after = model(**inputs).logits
        assert (after - before).abs().max() > 1e-2
        with inference_state(model, gradients=False) as lent:
            close(lent(**inputs).logits, after, 1e-5)
        close(deep(**inputs).logits, before, 1e-5)
        products.clear()
        exact = model.double()(**inputs).logits
        with inference_state(model, gradients=False) as lent:
            assert torch.equal(lent(**inputs).logits, exact)
        assert not products


@pytest.mark.filterwarnings("ignore:The scores of integrated gradients are inexact")
def test_scores_are_the_same(products):
    """With gradients and without. LRP divides by small sums, so rounding shows: in torch's own layers just as much."""
    model, ids = bert(), batch()["input_ids"]
    for name in ("gradient_x_input", "integrated_gradients", "lrp", "occlusion"):
        attributor = af.Attributor(model, method=name, level="input", steps=8)
        fast = attributor.attribute(ids)
        assert products
        with using_onednn(False):
            products.clear()
            slow = attributor.attribute(ids)
        assert not products
        close(fast, slow, 5e-3 if name == "lrp" else 1e-4)


def test_erasing_is_the_same(products):
    tokenizer = af.models.WordTokenizer.train([" ".join(commands.WORDS)], min_count=1)
    model = bert(vocab_size=len(tokenizer))
    data, columns = commands.texts(24), ["ranking", "removed", "minimum_high", "new_label"]
    fast, slow = (removed(af.Evaluator(model, tokenizer), data, enabled)[columns] for enabled in (True, False))
    assert products
    assert fast["removed"].notna().mean() > 0.1
    pd.testing.assert_frame_equal(fast, slow)


def removed(evaluator, data, enabled):
    """The rows of erasing at the input."""
    with using_onednn(enabled):
        table = evaluator.compute(data, tests=["erasure"], quiet=True, n_resamples=9).table("erasure")
    return table[table["erase_level"] == "input"]
