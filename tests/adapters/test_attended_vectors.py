"""`Adapter.attended` against the models' own value projections; adapters without it are refused."""

import pytest
import torch
from torch import nn

import attnfaith as af
from attnfaith.errors import UnsupportedModelError
from tests.helpers.comparing import inputs_of, model_of, prepared


def heads_of(tensor, heads):
    """``[B, N, H * D]`` to ``[B, H, N, D]``."""
    return tensor.unflatten(-1, (heads, -1)).transpose(1, 2)


@pytest.mark.parametrize("family", ["FLANrnn", "HANrnn", "FLANnoenc"])
def test_the_average_of_the_values_is_what_is_classified(family):
    result = prepared(family, torch.float64)
    attended = result.cut.adapter.attended(result.capture)
    assert attended.shape[:3] == (*result.capture.shape[:2], result.capture.shape[2])
    context = (result.capture.weights.unsqueeze(-1) * attended).sum(2)[:, 0]
    weight, bias = result.model.head_weight_bias()
    torch.testing.assert_close(context @ weight.T + bias, result.capture.logits, rtol=1e-12, atol=1e-12)


def test_attended_vectors_of_bert_are_its_last_value_layer():
    model = model_of("bert", torch.float64)
    inputs = inputs_of(model)
    cut = af.cut(model)
    with torch.no_grad():
        before = model(**inputs, output_hidden_states=True).hidden_states[-2]
        expected = heads_of(model.bert.encoder.layer[-1].attention.self.value(before), model.config.num_attention_heads)
    torch.testing.assert_close(cut.adapter.attended(cut.capture(**inputs)), expected, rtol=1e-10, atol=1e-12)


def test_grouped_heads_of_llama_are_repeated_for_each_query_head():
    model = model_of("llama", torch.float64)
    config, inputs = model.config, inputs_of(model)
    repeated = config.num_attention_heads // config.num_key_value_heads
    cut, layer, seen = af.cut(model), model.model.layers[-1], []
    hook = layer.self_attn.v_proj.register_forward_hook(lambda module, given, out: seen.append(out.detach()))
    capture = cut.capture(**inputs)
    hook.remove()
    expected = heads_of(seen[-1], config.num_key_value_heads).repeat_interleave(repeated, dim=1)
    torch.testing.assert_close(cut.adapter.attended(capture), expected, rtol=1e-12, atol=1e-12)


def test_heads_that_were_not_cut_are_left_out():
    model = model_of("bert", torch.float64)
    inputs = inputs_of(model)
    whole, part = af.cut(model), af.cut(model, heads=[2, 0])
    everything = whole.adapter.attended(whole.capture(**inputs))
    torch.testing.assert_close(part.adapter.attended(part.capture(**inputs)), everything[:, [2, 0]])
    assert (whole.adapter.heads, list(part.adapter.heads)) == (None, [2, 0])


def test_an_adapter_without_attended_is_refused():
    class Mine(af.Adapter):
        def capture(self, **inputs): ...
        def rerun(self, capture, weights): ...

    with pytest.raises(UnsupportedModelError, match=r"Mine does not return .* define attended\(capture\)"):
        Mine(nn.Linear(1, 1)).attended(None)
