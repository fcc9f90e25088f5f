"""The final attention during training: it is the one that a cut captures, it has a gradient, and it can be replaced."""

import pytest
import torch
from torch import nn

import attnfaith as af
from attnfaith.adapters.attention_in_training import AttentionInTraining
from attnfaith.errors import UnsupportedModelError
from attnfaith.tiny_models import tiny_model

FAMILIES = ["bert", "gpt2", "roberta", "distilbert", "albert", "electra", "llama", "opt", "deberta-v2", "modernbert"]
IDS = torch.tensor([[7, 8, 9, 10, 11], [12, 13, 14, 0, 0]])
MASK = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])


def own(encoder="gru", **options):
    config = af.models.AttentionClassifierConfig(
        vocab_size=30, embedding_size=6, hidden_size=4, encoder=encoder, kernels=[(3, 5)], **options
    )
    return af.models.AttentionClassifier(config)


def inputs_for(model):
    pad = getattr(model.config, "pad_token_id", 0) or 0
    return {"input_ids": IDS.masked_fill(MASK == 0, pad), "attention_mask": MASK}


def check(model, inputs):
    """In evaluation mode, weights and values are those of a capture, and the logits have not moved."""
    model.eval()
    plain = model(**inputs).logits
    capture = af.cut(model).capture(**inputs)
    with AttentionInTraining(model).watching() as attention:
        output = model(**inputs)
        final = attention.latest(inputs["attention_mask"].bool())
    assert torch.equal(output.logits, plain)
    groups = torch.ones_like(final.groups) if capture.groups is None else capture.groups
    assert torch.equal(final.groups, groups)
    torch.testing.assert_close(final.weights, capture.weights, rtol=0, atol=1e-6)
    assert torch.equal(final.mask, capture.mask)
    assert final.weights.requires_grad
    return final


@pytest.mark.parametrize("name", FAMILIES[:4])
def test_the_weights_are_those_of_a_capture(name):
    model = tiny_model(name)
    check(model, inputs_for(model))


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES[4:])
def test_the_weights_of_more_families(name):
    model = tiny_model(name)
    check(model, inputs_for(model))


@pytest.mark.parametrize("options", [{}, {"encoder": "conv"}, {"normaliser": "sparsemax"}, {"by_sentences": True}])
def test_attnfaiths_own(options):
    model = own(**options)
    inputs = {"input_ids": IDS.clone(), "attention_mask": MASK}
    inputs["input_ids"][0, 2] = 3  # the end of a sentence
    final = check(model, inputs)
    total = final.token_weights.sum(-1)
    torch.testing.assert_close(total, torch.ones_like(total))
    assert bool((final.token_weights[inputs["attention_mask"].unsqueeze(1) == 0] == 0).all())
    if options.get("by_sentences"):
        assert final.positions is None
        assert final.token_weights[0, 0, :2].sum().item() == pytest.approx(final.weights[0, 0, 0].item())
    else:
        assert final.positions[1, :3].tolist() == [0, 1, 2]


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_the_gradient_is_that_of_the_weights_without_dropout(attention):
    """In training mode: difference quotients of one parameter of the last query layer, in float64."""
    model = tiny_model("bert").double()
    model.set_attn_implementation(attention)
    model.config.attention_probs_dropout_prob = 0.5
    for module in model.modules():
        if isinstance(module, nn.Dropout) and module.p:
            module.p = 0.0
    last = model.bert.encoder.layer[-1].attention.self
    last.dropout.p = 0.5
    model.train()
    inputs = inputs_for(model)

    def mass():
        with AttentionInTraining(model).watching() as watched:
            model(**inputs)
            return watched.latest(MASK.bool()).weights[..., 1].sum()

    value = mass()
    assert float(value.detach()) == pytest.approx(float(mass().detach()))  # dropout draws, the weights do not
    parameter = last.query.weight
    (gradient,) = torch.autograd.grad(value, [parameter])
    with torch.no_grad():
        row, column = divmod(int(gradient.abs().argmax()), gradient.shape[1])
        sides = []
        for shift in (1e-5, -2e-5):
            parameter[row, column] += shift
            sides.append(mass().item())
    assert float(gradient[row, column]) == pytest.approx((sides[0] - sides[1]) / 2e-5, rel=1e-4)
    assert abs(float(gradient[row, column])) > 1e-8


@pytest.mark.parametrize("name", ["bert", "gpt2", "roberta", "own"])
def test_a_replaced_attention_is_a_rerun_on_these_weights(name):
    model = own() if name == "own" else tiny_model(name)
    model.eval()
    inputs = inputs_for(model)
    cut = af.cut(model)
    capture = cut.capture(**inputs)

    def reversed_weights(attention):
        other = attention.weights.flip(-1) * attention.attended
        return other / other.sum(-1, keepdim=True).clamp_min(1e-9)

    with AttentionInTraining(model).watching(reversed_weights) as watched:
        logits = model(**inputs).logits
        final = watched.latest(MASK.bool())
    expected = cut.rerun(capture, weights=final.weights.detach().unsqueeze(1))[:, 0]
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-5 * float(expected.detach().abs().max()))
    assert (final.weights - capture.weights).abs().max().item() > 1e-3


def surroundings(model):
    return [(sorted(vars(module)), module.training, vars(module).get("forward")) for module in model.modules()]


@pytest.mark.parametrize("name", ["bert", "own"])
def test_nothing_is_left_behind(name):
    model = (own() if name == "own" else tiny_model(name)).train()
    before = surroundings(model)
    attention = AttentionInTraining(model)
    attention.of_example()
    with attention.watching():
        model(**inputs_for(model))

    def wrong(attention):
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"), attention.watching(wrong):
        model(**inputs_for(model))
    assert surroundings(model) == before
    assert all(parameter.grad is None and parameter.requires_grad for parameter in model.parameters())
    with pytest.raises(UnsupportedModelError, match="did not reach"):
        attention.latest(MASK.bool())


def test_what_cannot_be_had_within_the_graph_is_refused():
    model = tiny_model("bert")
    for module in model.modules():
        if hasattr(module, "gradient_checkpointing"):
            module.gradient_checkpointing = True
    with pytest.raises(UnsupportedModelError, match="gradient_checkpointing_disable"):
        AttentionInTraining(model)
    with pytest.raises(UnsupportedModelError, match="rows"):  # pools its items
        AttentionInTraining(tiny_model("funnel"))

    class Mine(nn.Module): ...

    @af.register_adapter(Mine)
    class MineAdapter(af.Adapter):
        def capture(self, **inputs): ...

        def rerun(self, capture, weights): ...

    with pytest.raises(UnsupportedModelError, match="MineAdapter"):
        AttentionInTraining(Mine())
