"""Closed forms, completeness, and a planted truth that every method must find."""

import pytest
import torch
from torch import nn

import attnfaith as af
from attnfaith.attribution.attributor import Attributor
from attnfaith.attribution.method import methods
from attnfaith.functional.ranking import order_of
from tests.helpers.comparing import inputs_of
from tests.helpers.methods import FEW_STEPS, METHODS, ask, in_double

pytestmark = FEW_STEPS
AFFINE = ["FLANrnn", "HANrnn", "FLANconv", "FLANnoenc"]


def two_classes(family):
    model = af.models.from_preset(family, num_labels=2, vocab_size=64)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 1.5 * parameter.shape[-1] ** -0.5)
    return model.double().eval()


@pytest.mark.parametrize("family", AFFINE)
def test_the_gradient_of_an_affine_tail(family):
    """p_t (W_t h_i - sum_k p_k W_k h_i)."""
    done = in_double(family)
    with torch.no_grad():
        seen = done.model.attend(**done.inputs)
        p = done.capture.logits.softmax(-1)
        pushes = seen.values @ done.model.classifier.weight.T
    for target in range(3):
        got = ask(done.cut, "attention", "gradient", done.inputs, target=target)[1].values
        product = ask(done.cut, "attention", "gradient_x_attention", done.inputs, target=target)[1].values
        for text, count in enumerate(seen.mask.sum(-1).tolist()):
            for i in range(count):
                mean = sum(p[text, k] * pushes[text, i, k] for k in range(3))
                expected = float(p[text, target] * (pushes[text, i, target] - mean))
                assert float(got[text, i]) == pytest.approx(expected, rel=1e-9, abs=1e-13)
                weighed = expected * float(seen.weights[text, i])
                assert float(product[text, i]) == pytest.approx(weighed, rel=1e-9, abs=1e-13)


@pytest.mark.parametrize("family", AFFINE)
def test_with_two_classes_integrated_gradients_order_as_gradient_x_attention(family):
    model = two_classes(family)
    cut, inputs = af.cut(model), inputs_of(model, lengths=(20, 14, 9))
    for output in ("probability", "log_odds"):
        integrated, product = (
            ask(cut, "attention", name, inputs, output=output)[1].values
            for name in ("integrated_gradients", "gradient_x_attention")
        )
        for text in range(3):  # the one is a positive multiple of the other; repeated words tie, up to rounding
            factor = float(integrated[text].abs().max() / product[text].abs().max())
            torch.testing.assert_close(integrated[text], factor * product[text], rtol=1e-9, atol=1e-12)
            assert product[text].unique().numel() > 2


@pytest.mark.parametrize("output", ["probability", "logit", "log_odds"])
@pytest.mark.parametrize("level", ["attention", "input"])
@pytest.mark.parametrize("family", ["bert", "gpt2", "FLANrnn", "HANrnn"])
def test_integrated_gradients_are_complete(family, level, output):
    done = in_double(family)

    def number(logits):
        values = logits.double()
        if output == "probability":
            values = values.softmax(-1)
        others = values.clone()
        others[:, 1] = -torch.inf
        return values[:, 1] - (others.amax(-1) if output == "log_odds" else 0)

    if level == "attention":
        nothing = done.cut.rerun(done.capture, weights=torch.zeros_like(done.capture.weights).unsqueeze(1))[:, 0]
    else:
        zeros = torch.zeros(*done.inputs["input_ids"].shape, done.model.get_input_embeddings().weight.shape[1])
        padding = done.model.get_input_embeddings().weight[done.inputs["input_ids"]].double()
        zeros = torch.where(done.inputs["attention_mask"].bool().unsqueeze(-1), zeros.double(), padding)
        nothing = done.cut.adapter.forward_on(zeros, done.inputs).detach()
    difference = number(done.capture.logits) - number(nothing)
    gaps = []
    for steps in (2, 12, 100):
        scores = ask(done.cut, level, "integrated_gradients", done.inputs, target=1, output=output, steps=steps)[1]
        torch.testing.assert_close(scores.values.sum(-1) + scores.gap, difference, rtol=1e-9, atol=1e-9)
        gaps.append(scores.gap.abs().max().item())
    scale = difference.abs().max().item()
    assert gaps[2] < (0.08 if output == "log_odds" else 0.03) * scale  # where another class overtakes there is a kink
    assert gaps[2] < 0.2 * gaps[0] or gaps[0] < 1e-9 * scale
    assert gaps[2] <= gaps[1] or gaps[1] < 1e-6 * scale


def test_an_affine_logit_is_complete_in_one_step():
    done = in_double("FLANrnn")
    scores = ask(done.cut, "attention", "integrated_gradients", done.inputs, output="logit", steps=1)[1]
    assert scores.gap.abs().max() < 1e-12


SIGNAL = 5


class Planted(nn.Module):
    """Two layers of attention from tokens to tokens; what is attended, and what decides, is one word's, and no other's.

    Direction 0 of a word's vector is how much it is attended, direction 1 what it says for class 1.
    """

    def __init__(self, width=8):
        super().__init__()
        self.embed = nn.Embedding(40, width)
        self.head = nn.Linear(width, 2, bias=False)
        with torch.no_grad():
            self.embed.weight.normal_(0, 0.02)
            self.embed.weight[SIGNAL, 0] = self.embed.weight[SIGNAL, 1] = 1.0
            self.head.weight.zero_()
            self.head.weight[0, 2], self.head.weight[1, 1] = 1.0, 2.0

    def get_input_embeddings(self):
        return self.embed

    def forward(self, input_ids, attention_mask):
        states = self.embed(input_ids)
        hidden = attention_mask[:, None, :] == 0
        for _ in range(2):
            scores = (3 * states[..., :1]).transpose(1, 2).expand(-1, states.shape[1], -1)
            weights = torch.softmax(scores.masked_fill(hidden, -torch.inf), dim=-1)
            states = states + torch.bmm(weights, states)
        return self.head(torch.tanh(0.2 * states[:, 0] + 0.1))


def planted(kind):
    torch.manual_seed(0)
    if kind == "own":
        return Planted().double().eval()
    model = af.models.from_preset(kind, num_labels=2, vocab_size=40, embedding_size=8, attention_size=4).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.embeddings.weight.normal_(0, 0.02)
        model.embeddings.weight[SIGNAL, 0] = model.embeddings.weight[SIGNAL, 1] = 1.0
        attentions = [model.attention] + ([model.word_attention] if kind.startswith("HAN") else [])
        for attention in attentions:
            attention.project.weight[0, 0], attention.context.weight[0, 0] = 1.0, 2.0
        model.classifier.weight[1, 1], model.classifier.weight[0, 2] = 2.0, 1.0
        model.classifier.bias[0] = 0.3
    return model


def planted_inputs(model, index):
    generator = torch.Generator().manual_seed(index)
    ids = torch.randint(8, 40, (2, 9), generator=generator)
    if getattr(getattr(model, "config", None), "by_sentences", False):
        ids[:, [2, 5]] = model.config.sentence_token_id
    ids[0, index], ids[1, (index + 4) % 8] = SIGNAL, SIGNAL
    mask = torch.ones_like(ids)
    mask[1, 8:] = 0
    return {"input_ids": ids, "attention_mask": mask}, [index, (index + 4) % 8]


@pytest.mark.parametrize(("level", "name"), METHODS)
@pytest.mark.parametrize("kind", ["own", "FLANnoenc", "HANnoenc"])
def test_a_planted_truth_is_found(kind, level, name):
    model = planted(kind)
    inputs, _ = planted_inputs(model, 1)
    cut = af.cut(model, example=inputs)
    for index in (0, 1, 3, 4, 7):  # whole sentences of a HAN are 0-1, 3-4, 6-8
        inputs, truth = planted_inputs(model, index)
        try:
            request, scores = ask(cut, level, name, inputs, target=1)
        except af.UnsupportedModelError as error:
            pytest.skip(str(error))
        assert request.capture.logits.argmax(-1).tolist() == [1, 1]
        first = order_of(scores.values, scores.mask)[:, 0].tolist()
        if methods[level, name].seeded:
            assert scores.values.ne(0).any()
            continue
        if level == "attention" and kind == "HANnoenc":
            truth = [{0: 0, 1: 0, 3: 1, 4: 1, 5: 1, 7: 2}[item] for item in truth]
        assert first == truth, f"{level}-{name} finds {first} instead of {truth}"
        if methods[level, name].signed:
            assert (scores.values.gather(1, torch.tensor(truth)[:, None]) > 0).all()


def test_random_does_not_find_it():
    model = planted("FLANnoenc")
    result = []
    for text in range(40):
        inputs, truth = planted_inputs(model, text % 8)
        scores = Attributor(model, method="random", level="input").score(inputs, text_ids=(2 * text, 2 * text + 1))[1]
        result += [a == b for a, b in zip(order_of(scores.values, scores.mask)[:, 0].tolist(), truth, strict=True)]
    assert 0 < sum(result) < 25  # of 80, one in nine


def test_a_large_completeness_gap_is_warned_of():
    done = in_double("gpt2")
    with pytest.warns(UserWarning, match=r"completeness gap .* more steps than 1"):
        Attributor(done.cut, method="integrated_gradients", level="input", steps=1).score(done.inputs)
