"""How an Attributor explains: by which method, at which layer and head, with which settings."""

import pytest
import torch

import attnfaith as af
from attnfaith.attribution.attributor import Attributor
from attnfaith.attribution.method import method, methods
from attnfaith.tiny_models import tiny_model
from tests.helpers.comparing import inputs_of, model_of
from tests.helpers.labelled_models import TEXTS, made_model, named, word_piece
from tests.helpers.methods import FEW_STEPS
from tests.helpers.tokenizers import TEXT

pytestmark = FEW_STEPS


def test_methods_are_found_or_the_nearest_named():
    model = named()
    with pytest.raises(af.InputError, match=r"no input-level method 'integratd_gradients'.*'integrated_gradients'"):
        Attributor(model, method="integratd_gradients", level="input")
    with pytest.raises(af.InputError, match=r"'greedy' exists at level='attention' only.*there are: .*occlusion"):
        Attributor(model, method="greedy", level="input")
    with pytest.raises(af.InputError, match=r"'rollout' exists at level='input' only"):
        Attributor(model, method="rollout", level="attention")
    with pytest.raises(af.InputError, match=r"level.*attention.*input.*'tokens'"):
        Attributor(model, method="gradient", level="tokens")
    with pytest.raises(af.UnsupportedModelError, match=r"affine.*greedy"):
        Attributor(model, word_piece(), method="optimal")(TEXT)


def test_the_default_is_what_is_declared_for_the_kind_of_model():
    flan, tokenizer = made_model("FLANrnn")
    for settings, expected in (
        ({}, ("attention", "gradient_x_attention")),
        ({"level": "input"}, ("input", "lrp")),
        ({"method": "gradient"}, ("attention", "gradient")),
    ):
        method = Attributor(flan, tokenizer, **settings).method
        assert (method.level, method.name) == expected
    for settings, expected in (
        ({}, ("input", "lrp")),
        ({"level": "attention"}, ("attention", "gradient_x_attention")),
        ({"layer": 0}, ("attention", "gradient_x_attention")),
        ({"head": 0}, ("attention", "gradient_x_attention")),
        ({"method": "lrp"}, ("attention", "lrp")),
    ):
        method = Attributor(named(), word_piece(), **settings).method
        assert (method.level, method.name) == expected
    explanation = Attributor(named(), word_piece())(TEXT)
    assert "LRP (input level)" in repr(explanation)
    assert explanation.scores == Attributor(named(), word_piece(), method="lrp", level="input")(TEXT).scores


def test_one_default_is_declared_for_each_kind_of_model():
    declared = [entry.default_for for entry in methods.values() if entry.default_for]
    assert sorted(declared) == ["affine", "other"]


@pytest.mark.parametrize("method", ["attention", "gradient", "gradient_x_attention", "occlusion", "lrp"])
def test_layer_and_head_say_where_to_cut(method):
    model = model_of("bert")
    inputs = inputs_of(model)
    ids, mask = inputs["input_ids"], inputs["attention_mask"]
    for layer, head in ((0, None), (1, None), (-2, None), (0, 2), ("final", 3)):
        where = {} if layer == "final" else {"layer": layer}
        cut = af.cut(model, **where, **({} if head is None else {"heads": [head]}))
        expected = Attributor(cut, method=method).attribute(ids, None, mask)
        got = Attributor(model, method=method, layer=layer, head=head).attribute(ids, None, mask)
        assert torch.equal(got, expected)
    final = Attributor(model, method=method).attribute(ids, None, mask)
    assert torch.equal(Attributor(model, method=method, layer=-1).attribute(ids, None, mask), final)
    other = Attributor(model, method=method, layer=0).attribute(ids, None, mask)
    assert not torch.allclose(other, final)


def test_the_mean_over_layers():
    model = tiny_model("bert", attn_implementation="eager")
    inputs = inputs_of(model)
    with torch.no_grad():
        seen = model(**inputs, output_attentions=True).attentions
    expected = torch.stack([layer[:, :, 0].mean(1) for layer in seen]).mean(0)
    for level in ("attention", "input"):
        attributor = Attributor(model, method="attention", level=level, layer="mean")
        got = attributor.attribute(inputs["input_ids"], None, inputs["attention_mask"])
        torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"layer": "mean", "method": "gradient"}, "layer='mean' is for the method 'attention'"),
        ({"layer": "mean", "method": "attention", "head": 1}, "without head; every other method"),
        ({"layer": "last"}, "'final', 'mean' or a number, got 'last'"),
        ({"layer": 7}, "7|attention"),
        ({"head": 9}, "9|head"),
        ({"layer": 0, "level": "input", "method": "gradient"}, "level='attention' and a model that is not cut yet"),
        ({"head": 0, "level": "input", "method": "attention"}, "level='attention' and a model that is not cut yet"),
    ],
)
def test_a_layer_that_cannot_be_cut_is_refused(settings, message):
    with pytest.raises(af.AttnFaithError, match=message):
        Attributor(model_of("bert"), **settings)
    if "level" not in settings:
        with pytest.raises(af.AttnFaithError, match="not cut yet"):
            Attributor(af.cut(model_of("bert")), **settings)


@pytest.mark.parametrize("level", ["attention", "input"])
def test_a_method_registered_by_the_user(level):
    name = f"of_ones_own_at_{level}"
    try:

        @af.register_method(name, level=level, cost="nothing", signed=False)
        def first_first(*arguments):
            if level == "attention":
                capture, cut, target = arguments
                assert isinstance(cut, af.Cut)
                count, shape = capture.mask.cumsum(-1), capture.mask.shape
            else:
                model, inputs, target = arguments
                assert isinstance(model, torch.nn.Module)
                count, shape = inputs["attention_mask"].cumsum(-1), inputs["input_ids"].shape
            assert target.shape == shape[:1]
            return 100.0 - count

        assert any(row["name"] == name and row["level"] == level for row in af.methods())
        assert name in repr(af.methods())
        explanations = Attributor(named(), word_piece(), method=name, level=level)(TEXTS)
        for explanation in explanations:
            assert explanation.ranking() == tuple(range(len(explanation.scores)))
            assert not explanation.signed
        with pytest.raises(af.InputError, match="registered already"):
            af.register_method(name, level=level)(first_first)
        wrong = f"{name}_wrong"
        af.register_method(wrong, level=level)(lambda *arguments: torch.zeros(2, 3))
        with pytest.raises(af.InputError, match=r"shape \(2, 3\); expected one for each item"):
            Attributor(named(), word_piece(), method=wrong, level=level)(TEXTS)
    finally:
        for added in [key for key in methods if key[1].startswith("of_ones_own")]:
            del methods[added]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"steps": 0}, "steps to be a whole number"),
        ({"steps": True}, "steps to be a whole number"),
        ({"batch_size": 0}, "batch_size"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"baseline": "noise"}, "baseline"),
        ({"baseline": torch.zeros(3)}, r"baseline has shape \(3,\)"),
        ({"decision": "binary"}, "decision"),
    ],
)
def test_bad_settings_are_refused_by_the_constructor(settings, message):
    with pytest.raises(af.InputError, match=message):
        Attributor(named(), word_piece(), method="integrated_gradients", level="input", **settings)(TEXTS)


def test_only_texts_with_inexact_scores_have_a_note_about_them():
    @method("attention", "of_ones_own_inexact")
    def inexact(request):
        gap = torch.tensor([0.0, 0.5])
        return request.scores(request.capture.weights.mean(1), gap=gap, inexact=gap > 0.1, note="the path is too short")

    try:
        with pytest.warns(UserWarning, match=r"of ones own inexact are inexact on 1 of 2 texts .*up to 0.5"):
            exact, other = Attributor(named(), word_piece(), method="of_ones_own_inexact")(TEXTS[:2])
    finally:
        del methods["attention", "of_ones_own_inexact"]
    assert sorted([exact.note, other.note]) == ["", "the path is too short"]
