"""Attention implementations: functions of the owner are kept, kernels are replaced only after a proof."""

import copy
from contextlib import contextmanager

import pytest
import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import eager_mask

import attnfaith as af
from attnfaith.tiny_models import model_types, tiny_model
from tests.helpers.comparing import QUICK, REFUSED, assert_close, assert_same, inputs_of, keeps_of
from tests.helpers.installed_families import and_others, need_interface

OWN = "sharp"
NOT_OWN = {"bloom", "mpnet", "deberta-v2", "xlnet"}
"""Quick families that compute their attention by themselves, whatever the configuration names."""


class Sharp:
    """Softmax at a quarter of the temperature; on request, the last call of a forward pass loses items."""

    def __init__(self):
        self.calls, self.last, self.keep = 0, None, None

    def __call__(self, module, query, key, value, attention_mask, scaling=None, dropout=0.0, **kwargs):
        self.calls += 1
        heads = query.shape[1]
        key, value = (part.repeat_interleave(heads // part.shape[1], dim=1) for part in (key, value))
        scores = 4 * (query @ key.transpose(2, 3)) * (query.shape[-1] ** -0.5 if scaling is None else scaling)
        if attention_mask is not None:
            scores = scores + attention_mask[..., : key.shape[-2]]
        weights = scores.softmax(-1)
        if self.keep is not None and self.calls == self.last:
            gone = ~self.keep[:, None, None] | (scores < -1e30)  # by scores: kept weights may have been rounded to zero
            weights = scores.masked_fill(gone, -torch.inf).softmax(-1).nan_to_num(0.0)
        return (weights @ value).transpose(1, 2).contiguous(), weights


@contextmanager
def registered(function, mask, name=OWN):
    AttentionInterface.register(name, function)
    AttentionMaskInterface.register(name, mask)
    try:
        yield function
    finally:
        del AttentionInterface._global_mapping[name]
        del AttentionMaskInterface._global_mapping[name]


@pytest.fixture
def sharp():
    with registered(Sharp(), eager_mask) as function:
        yield function


def name_attention(model, name):
    for module in model.modules():
        if hasattr(module, "config") and hasattr(module.config, "_attn_implementation_internal"):
            module.config._attn_implementation_internal = name
    return model


def families():
    quick = [name for name in QUICK if name not in NOT_OWN]
    return and_others(quick, [name for name in model_types() if name not in (*QUICK, *REFUSED)])


@pytest.mark.parametrize("family", families())
def test_an_attention_function_of_the_owner(family, sharp):
    model = tiny_model(family)
    need_interface(model)
    inputs = inputs_of(model)
    with torch.no_grad():
        plain = model(**inputs).logits
        name_attention(model, OWN)
        model_logits = model(**inputs).logits
        sharp.last, sharp.calls = sharp.calls, 0
    if not sharp.last:
        assert family not in QUICK
        pytest.skip("this family does not use the attention interface")
    assert (model_logits - plain).abs().max() > 1e-2 * plain.abs().max(), "the owner's attention changes nothing"
    capture = (cut := af.cut(model)).capture(**inputs)
    assert_close(capture.logits, model_logits, 1e-6)
    if "last" not in cut.decides and capture.shape[2] != inputs["input_ids"].shape[1]:
        return  # items that are not the tokens: nothing here says which key is which
    keep = keeps_of(capture)
    expected = []
    for index in range(keep.shape[1]):
        sharp.calls, sharp.keep = 0, keep[:, index]
        with torch.no_grad():
            expected.append(model(**inputs).logits)
    sharp.keep = None
    assert_same(cut.rerun(capture, keep=keep), torch.stack(expected, 1), model_logits, 1e-4)


@pytest.mark.parametrize("training", [False, True])
def test_an_unknown_attention_name_is_left_alone(training, sharp):
    model = name_attention(tiny_model("bert"), OWN).train(training)
    cut = af.cut(model)
    assert cut.adapter.model.config._attn_implementation == OWN
    inputs = inputs_of(model)
    with torch.no_grad():
        model_logits = copy.deepcopy(model).eval()(**inputs).logits
    assert_close(cut.capture(**inputs).logits, model_logits, 1e-6)


def hidden(gain):
    """Attention that no function mode sees, as in a compiled kernel."""

    def kernel(module, query, key, value, attention_mask, scaling=None, softcap=None, **kwargs):
        with torch._C.DisableTorchFunction():
            heads = query.shape[1]
            key, value = (part.repeat_interleave(heads // part.shape[1], dim=1) for part in (key, value))
            scores = gain * (query @ key.transpose(2, 3)) * (query.shape[-1] ** -0.5 if scaling is None else scaling)
            scores = scores if softcap is None else softcap * torch.tanh(scores / softcap)
            scores = scores if attention_mask is None else scores + attention_mask[..., : key.shape[-2]]
            return (scores.softmax(-1) @ value).transpose(1, 2).contiguous(), None

    return kernel


def as_kernel(function):
    function.__module__ = "transformers.integrations.flash_attention"
    return function


@pytest.mark.parametrize("family", ["bert", "llama", "bart", "modernbert", "gemma2"])
def test_a_kernel_is_replaced_if_the_replacement_is_proved_equal(family):
    plain = tiny_model(family, attn_implementation="eager")
    need_interface(plain)
    inputs = inputs_of(plain)
    model = tiny_model(family, attn_implementation="eager")
    with registered(as_kernel(hidden(1.0)), eager_mask, "kernel"):
        name_attention(model, "kernel")
        with torch.no_grad():
            model_logits = model(**inputs).logits
        cut = af.cut(model)
        capture = cut.capture(**inputs)
        assert model.config._attn_implementation == "kernel"
        assert cut.adapter.model.config._attn_implementation in ("sdpa", "eager")
        assert_close(capture.logits, model_logits, 1e-5)
        expected = af.cut(plain).capture(**inputs)
        assert_close(capture.weights, expected.weights, 1e-5)


@pytest.mark.parametrize("family", ["bert", "llama"])
@pytest.mark.parametrize("scale", [None, 0.02])
def test_a_kernel_that_computes_something_else_is_refused(family, scale):
    """Also in a model whose attention hardly matters: at a small scale it moves the logits by less than a tolerance."""
    model = tiny_model(family, attn_implementation="sdpa", scale=scale, dtype=torch.float64)
    with registered(as_kernel(hidden(0.25)), eager_mask, "kernel"), pytest.raises(af.UnsupportedModelError) as refusal:
        af.cut(name_attention(model, "kernel"))
    assert "sdpa: " in str(refusal.value)
    assert "eager: " in str(refusal.value)


def test_a_function_that_hides_its_weights_is_refused_and_not_replaced():
    with registered(hidden(0.25), eager_mask), pytest.raises(af.UnsupportedModelError, match="No attention was seen"):
        af.cut(name_attention(tiny_model("bert"), OWN))


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("family", ["bert", "gemma2"])
def test_flex_attention(family):
    """The kernel compiles unless told not to; sdpa has no soft cap, so for Gemma 2 eager attention takes its place."""
    model = name_attention(tiny_model(family, attn_implementation="eager"), "flex_attention")
    inputs = inputs_of(model)
    with torch.compiler.set_stance("force_eager"):
        with torch.no_grad():
            model_logits = model(**inputs).logits
        cut = af.cut(model)
        assert_close(cut.capture(**inputs).logits, model_logits, 1e-5)
    assert model.config._attn_implementation == "flex_attention"
