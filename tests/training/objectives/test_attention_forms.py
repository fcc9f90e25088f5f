"""Fixed attention, fixed representations and Gumbel-softmax: what is trained with them, and what is not."""

import pytest
import torch

import attnfaith as af
from attnfaith.adapters.attention_in_training import AttentionInTraining, ReplaceableAttention
from attnfaith.errors import InputError
from attnfaith.training import Diversity, FixedAttention, FixedRepresentations, GumbelSoftmax, Objective, fit
from tests.helpers.training_data import rows, small, weights
from tests.training.test_fitting import transformer

TRAIN, HELD_OUT = rows(48), rows(24, seed=1)
QUICK = {"learning_rate": 0.01, "epochs": 2, "batch_size": 16}


class Seen(Objective):
    """Notes the attention of every batch."""

    name, needs_attention, weight = "seen", True, 1.0

    def __init__(self):
        self.attentions = []

    def term(self, step):
        self.attentions.append((step.training, step.attention, step.inputs))

    def identity(self):
        return "seen"


def changed(before, model):
    return {name for name, value in weights(model).items() if not torch.equal(value, before[name])}


@pytest.mark.parametrize("kind", ["FLANrnn", "bert", "gpt2"])
def test_uniform_attention_is_uniform_over_what_is_there(kind):
    options = {"initializer_range": 0.3} | ({"bos_token_id": None, "eos_token_id": None} if kind == "gpt2" else {})
    model, tokenizer = small(kind) if kind == "FLANrnn" else transformer(kind, **options)
    before, seen = weights(model), Seen()
    fit(model, tokenizer, TRAIN, HELD_OUT, objectives=[FixedAttention(), seen], **QUICK)
    assert {training for training, *_ in seen.attentions} == {True, False}
    for _, attention, _ in seen.attentions:
        expected = attention.mask / attention.mask.sum(1, keepdim=True)
        torch.testing.assert_close(attention.weights, expected.unsqueeze(1).expand_as(attention.weights))
    parts = {name.split(".")[0] for name in changed(before, model)}
    if kind == "FLANrnn":
        assert parts == {"embeddings", "encoder", "classifier"}  # nothing of the attention is trained
    text = tokenizer(TRAIN[0]["text"], return_tensors="pt")
    own = model(**text).logits
    with FixedAttention().on(model):
        fixed = model(**text).logits
        if kind == "FLANrnn":
            weights_of_a_cut = af.cut(model).capture(**text).weights
            assert float(weights_of_a_cut.max() - weights_of_a_cut.min()) < 1e-6
    assert not torch.equal(own, fixed)
    assert torch.equal(model(**text).logits, own)


def test_an_evaluation_within_on_is_one_of_the_fixed_model():
    model, tokenizer = small("FLANrnn")
    fit(model, tokenizer, TRAIN, objectives=[FixedAttention()], **QUICK)
    with FixedAttention().on(model):
        results = af.Evaluator(model, tokenizer).compute(
            TRAIN[:6], rankings=["attention"], tests=["erasure"], quiet=True, n_resamples=10
        )
    table = results.table("erasure")
    shares = table["mass"] / table["fraction"]
    assert ((shares - 1).abs() < 1e-5)[~table["censored"]].all()


@pytest.mark.parametrize("source", ["model", "cut", "function"])
def test_the_weights_of_another_model(source):
    teacher, tokenizer = small("FLANrnn", seed=3)
    teacher.eval()
    with torch.no_grad():  # sharper than at the start, so that it is not nearly uniform
        teacher.attention.context.weight.mul_(300)
    cut = af.cut(teacher)
    forms = {"model": teacher, "cut": cut, "function": lambda inputs: cut.capture(**_only(inputs)).weights[:, 0]}
    model, _ = small("FLANnoenc")
    seen = Seen()
    fit(model, tokenizer, TRAIN, HELD_OUT, objectives=[FixedAttention(forms[source]), seen], **QUICK)
    for _, attention, inputs in seen.attentions:
        expected = cut.capture(**_only(inputs)).weights
        torch.testing.assert_close(attention.weights, expected)
        assert float(expected.amax()) > 0.3


def _only(inputs):
    return {"input_ids": inputs["input_ids"], "attention_mask": inputs["attention_mask"]}


def test_the_heads_of_another_transformer():
    teacher, tokenizer = transformer("bert", initializer_range=0.3)
    model, _ = transformer("bert")
    seen = Seen()
    fit(model, tokenizer, TRAIN, objectives=[FixedAttention(teacher), seen], **QUICK)
    cut = af.cut(teacher.eval())
    _, attention, inputs = seen.attentions[-1]
    given = {name: inputs[name] for name in ("input_ids", "attention_mask", "token_type_ids") if name in inputs}
    torch.testing.assert_close(attention.weights, cut.capture(**given).weights, rtol=0, atol=1e-6)


def test_weights_that_do_not_fit_are_refused():
    model, tokenizer = small()
    for weights_, message in (
        (lambda inputs: torch.ones(1, 2), "shape"),
        (lambda inputs: "uniform", "shape"),
        (lambda inputs: -torch.ones(inputs["input_ids"].shape), "not negative"),
    ):
        with pytest.raises(InputError, match=message):
            fit(model, tokenizer, TRAIN, objectives=[FixedAttention(weights_)], **(QUICK | {"batch_size": 1}))
    for weights_ in ("equal", 3, None):
        with pytest.raises(InputError, match="weights"):
            FixedAttention(weights_)


def test_fixed_representations_train_attention_and_classifier_alone():
    for kind, trained in (("FLANrnn", {"attention", "classifier"}), ("HANrnn", {"attention", "classifier"})):
        model, tokenizer = small(kind)
        before = weights(model)
        model.classifier.bias.requires_grad_(False)
        fit(model, tokenizer, TRAIN, HELD_OUT, objectives=[FixedRepresentations()], **QUICK)
        assert {name.split(".")[0] for name in changed(before, model)} == trained
        flags = {name: parameter.requires_grad for name, parameter in model.named_parameters()}
        assert [name for name, flag in flags.items() if not flag] == ["classifier.bias"]
    model, tokenizer = transformer("bert")
    before = weights(model)
    fit(model, tokenizer, TRAIN, HELD_OUT, objectives=[FixedRepresentations()], **QUICK)
    moved = changed(before, model)
    assert not any("embeddings" in name or "layer.0" in name or "self.value" in name for name in moved)
    assert any("layer.1.attention.self.query" in name for name in moved)
    assert "classifier.weight" in moved
    text = tokenizer(TRAIN[0]["text"], return_tensors="pt")
    after = af.cut(model).capture(**text).state.values
    model.load_state_dict(before)
    torch.testing.assert_close(after, af.cut(model).capture(**text).state.values)


def test_nothing_left_to_train_is_refused():
    model, tokenizer = small()
    model.attention.requires_grad_(False)
    model.classifier.requires_grad_(False)
    with pytest.raises(InputError, match="nothing to train"):
        fit(model, tokenizer, TRAIN, objectives=[FixedRepresentations()], **QUICK)


@pytest.mark.parametrize("kind", ["FLANrnn", "bert"])
def test_gumbel_softmax_draws_in_training_and_tempers_in_validation(kind):
    model, tokenizer = transformer(kind) if kind == "bert" else small(kind)
    objective = GumbelSoftmax(0.5)
    text = tokenizer([TRAIN[0]["text"]] * 4, return_tensors="pt")
    plain = af.cut(model).capture(**text).weights
    with AttentionInTraining(model).watching(objective.replacement(None)) as watched, torch.no_grad():
        model.eval()(**text)
        tempered = watched.latest(text["attention_mask"].bool()).weights
    torch.testing.assert_close(tempered, (plain.double().log() / 0.5).softmax(-1).to(plain.dtype))
    seen = Seen()
    fit(model, tokenizer, TRAIN, HELD_OUT, objectives=[objective, seen], **QUICK)
    peaks = {training: [] for training in (True, False)}
    for training, attention, _ in seen.attentions:
        peaks[training].append(float(attention.weights.detach().amax(-1).mean()))
    assert min(peaks[True]) > max(peaks[False])  # the noise chooses


def test_gumbel_frequencies():
    """Without a temperature to speak of, the chosen item is drawn from the softmax (the Gumbel-max trick)."""
    scores = torch.tensor([0.0, 1.0, 2.0, -torch.inf]).expand(20000, 1, 1, 4)
    attention = ReplaceableAttention(scores.softmax(-1), scores, scores > -torch.inf, {}, True)
    drawn = GumbelSoftmax(1e-3).replacement(None)(attention).mean(0)[0, 0]
    torch.testing.assert_close(drawn, scores[0, 0, 0].softmax(-1), rtol=0, atol=0.015)


def test_gumbel_is_refused_where_it_is_there_already():
    model, tokenizer = small("Wen-mlp-dot-gumbel")
    with pytest.raises(InputError, match="gumbel"):
        fit(model, tokenizer, TRAIN, objectives=[GumbelSoftmax()], **QUICK)
    with pytest.raises(InputError, match="temperature"):
        GumbelSoftmax(0)


def test_diversity_combines_with_fixed_attention():
    model, tokenizer = small()
    history = fit(model, tokenizer, TRAIN, HELD_OUT, objectives=[FixedAttention(), Diversity(1.0)], **QUICK)
    assert 0 < history.best["conicity"] <= 1
