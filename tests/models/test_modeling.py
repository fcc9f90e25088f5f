"""The classifier: it equals its slow twin, and nothing but the text changes its output."""

import pytest
import torch

import attnfaith.models as models
from attnfaith.errors import InputError
from tests.helpers import slow_classifier

SENTENCE, SEPARATOR = 3, 2
TEXTS = [[7, 9, 11, 4, 30, 6, 8], [5], [], [12, 7, 7, 19, 33, 21, 8, 4, 10, 16, 35, 22], [10, 4]]
DOCUMENTS = [
    [7, 9, SENTENCE, 11, 4, 30, 6, SENTENCE, 8],
    [5],
    [],
    [SENTENCE, SENTENCE, 12, 7, 7, SENTENCE, SENTENCE, 19, 33, 21, 8, 4, SEPARATOR, 10, 16, 35, 22, SENTENCE],
    [SENTENCE],
]
EXTRA = {
    "FLAN-sparsemax": ("FLANnoenc", {"normaliser": "sparsemax"}),
    "HAN-sparsemax": ("HANconv", {"normaliser": "sparsemax"}),
    "HAN-mlp-deep": ("HANnoenc", {"encoder": "mlp", "attention": "deep", "deep_layers": 3}),
    "HAN-lstm-dot": ("HANrnn", {"encoder": "lstm", "attention": "dot"}),
    "even-kernels": ("FLANconv", {"kernels": [(2, 5), (4, 3), (1, 2)]}),
}
CASES = {name: (name, {}) for name in models.presets()} | EXTRA
QUERIES = [
    "FLANrnn",
    "FLANnoenc",
    "HANconv",
    "JW-lstm-dot",
    "JW-conv-additive",
    "Wen-mlp-deep-gumbel",
    "Wen-lstm-dot-softmax",
]


def build(name, **overrides):
    torch.manual_seed(0)
    preset, changes = CASES[name]
    options = {"num_labels": 3, "vocab_size": 40, "embedding_size": 12, "initializer_range": 2.0} | changes | overrides
    model = models.from_preset(preset, **options).double().eval()
    with torch.no_grad():  # at the usual initialisation weights are so even that a wrong one would hide
        for module in (model.attention, model.classifier):
            for parameter in module.parameters():
                parameter.mul_(10)
    return model


def texts_for(model):
    return DOCUMENTS if model.config.by_sentences else TEXTS


def batch(texts, *, side="right", width=None):
    width = width or max(map(len, texts))
    ids = torch.zeros(len(texts), width, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for row, text in enumerate(texts):
        index = slice(0, len(text)) if side == "right" else slice(width - len(text), width)
        ids[row, index] = torch.tensor(text, dtype=torch.long)
        mask[row, index] = 1
    return {"input_ids": ids, "attention_mask": mask}


@pytest.mark.parametrize("name", CASES)
def test_equals_its_slow_twin(name):
    model = build(name)
    texts = texts_for(model)
    attended = model.attend(**batch(texts))
    logits = model(**batch(texts)).logits
    assert logits.std(0).max() > 0.1  # there is something to compare
    for row, ids in enumerate(texts):
        expected, weights, _ = slow_classifier.classify(model, ids)
        torch.testing.assert_close(logits[row], expected, rtol=0, atol=1e-10)
        count = len(weights)
        assert attended.mask[row].tolist() == [True] * count + [False] * (attended.mask.shape[1] - count)
        torch.testing.assert_close(
            attended.weights[row, :count], torch.tensor(weights, dtype=torch.double), rtol=0, atol=1e-10
        )
        assert (attended.weights[row, count:] == 0).all()
        assert (attended.scores[row, count:] == -torch.inf).all()
        assert (attended.log_weights[row, count:] == -torch.inf).all()
        assert (attended.values[row, count:] == 0).all()


@pytest.mark.parametrize("name", QUERIES)
def test_query_equals_its_slow_twin(name):
    model = build(name, query=True)
    texts, queries = texts_for(model), [[9, 4, 5], [], [8, 9], [31], [5, 5, 7, 9]]
    rows = [[*text, SEPARATOR, *query] for text, query in zip(texts, queries, strict=True)]
    inputs = batch(rows)
    inputs["token_type_ids"] = torch.zeros_like(inputs["input_ids"])
    for row, text in enumerate(texts):
        inputs["token_type_ids"][row, len(text) + 1 : len(rows[row])] = 1
    logits = model(**inputs).logits
    for row in range(len(texts)):
        expected, _, _ = slow_classifier.classify(model, texts[row], queries[row])
        torch.testing.assert_close(logits[row], expected, rtol=0, atol=1e-10)
    inputs["token_type_ids"] = 1 - inputs["token_type_ids"]
    model.config.query_segment = 0
    torch.testing.assert_close(model(**inputs).logits, logits, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_padding_and_other_texts_of_the_batch_change_nothing(name):
    model = build(name)
    texts = texts_for(model)
    right = model(**batch(texts)).logits
    alone = torch.cat([model(**batch([text], width=len(text) or 1)).logits for text in texts])
    order = [3, 0, 4, 2, 1]
    shuffled = model(**batch([texts[i] for i in order], side="left", width=25)).logits
    without_mask = model(input_ids=batch(texts)["input_ids"]).logits
    torch.testing.assert_close(alone, right, rtol=0, atol=1e-10)
    torch.testing.assert_close(shuffled, right[order], rtol=0, atol=1e-10)
    torch.testing.assert_close(without_mask, right, rtol=0, atol=0)


@pytest.mark.parametrize("name", ["FLANrnn", "FLANconv", "HANrnn"])
def test_float32_batches_agree_too(name):
    model = build(name).float()
    texts = texts_for(model)
    alone = torch.cat([model(**batch([text], width=30, side="left")).logits for text in texts])
    torch.testing.assert_close(alone, model(**batch(texts)).logits, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["FLANrnn", "FLANconv", "HANconv", "FLANnoenc"])
def test_a_masked_word_is_ignored(name):
    model = build(name)
    inputs = batch([DOCUMENTS[0] if model.config.by_sentences else TEXTS[0]])
    inputs["attention_mask"][0, 4] = 0
    kept = [0, 1, 2, 3, *range(5, inputs["input_ids"].shape[1])]
    expected = model(input_ids=inputs["input_ids"][:, kept]).logits
    torch.testing.assert_close(model(**inputs).logits, expected, rtol=0, atol=1e-12)


def test_a_pad_token_inside_the_mask_is_a_word():
    """Gradient baselines replace words by [PAD] and leave the mask alone."""
    model = build("FLANnoenc")
    inputs = {"input_ids": torch.tensor([[7, 0, 9]]), "attention_mask": torch.ones(1, 3, dtype=torch.long)}
    assert model.attend(**inputs).mask.tolist() == [[True] * 3]
    assert model.attend(input_ids=inputs["input_ids"]).mask.tolist() == [[True] * 2]


@pytest.mark.parametrize("name", ["FLANrnn", "HANnoenc"])
def test_spans_and_word_weights_are_by_position(name):
    model = build(name)
    texts = texts_for(model)
    inputs = batch(texts, side="left", width=20)
    attended = model.attend(**inputs)
    for row, ids in enumerate(texts):
        shift = 20 - len(ids)
        _, _, runs = slow_classifier.classify(model, ids)
        if model.config.by_sentences:
            expected = [[run[0] + shift, run[-1] + 1 + shift] for run in runs]
            for run in runs:
                total = attended.word_weights[row, [position + shift for position in run]].sum()
                torch.testing.assert_close(total, torch.tensor(1.0).double())
            assert (attended.word_weights[row] > 0).sum() == sum(map(len, runs))
        else:
            expected = [[position + shift, position + shift + 1] for position in runs[0]] if runs else []
            assert attended.word_weights is None
        assert attended.spans[row][attended.mask[row]].tolist() == expected
        assert (attended.spans[row][~attended.mask[row]] == 0).all()


def test_structural_tokens_are_not_words():
    model = build("FLANrnn", structural_token_ids=[38, 39])
    with_them = model(input_ids=torch.tensor([[38, 7, 9, 39, 11, SENTENCE, 5, SEPARATOR]])).logits
    torch.testing.assert_close(with_them, model(input_ids=torch.tensor([[7, 9, 11, 5]])).logits, rtol=0, atol=0)


@pytest.mark.parametrize("name", ["FLANrnn", "HANconv", "Wen-lstm-dot-gumbel"])
def test_forward_is_attend_then_decide(name):
    model = build(name, query=True)
    inputs = batch(texts_for(model))
    inputs["token_type_ids"] = (torch.arange(inputs["input_ids"].shape[1]) > 5).long().expand_as(inputs["input_ids"])
    attended = model.attend(**inputs)
    logits = model.decide(attended.context, attended.offset)
    torch.testing.assert_close(model(**inputs).logits, logits, rtol=0, atol=0)
    weight, bias = model.head_weight_bias()
    torch.testing.assert_close(attended.context @ weight.T + bias + attended.offset, logits, rtol=0, atol=1e-12)
    many = torch.stack([attended.context, attended.context * 2, attended.context * 0], dim=1)  # [B, K, D]
    decided = model.decide(many, attended.offset)
    torch.testing.assert_close(decided[:, 0], logits, rtol=0, atol=1e-12)
    torch.testing.assert_close(decided[:, 2], bias + attended.offset, rtol=0, atol=1e-12)
    torch.testing.assert_close(decided[:, 1] - decided[:, 0], decided[:, 0] - decided[:, 2], rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_log_weights_are_the_logarithm_even_where_weights_underflow(name):
    model = build(name)
    attended = model.attend(**batch(texts_for(model)))
    torch.testing.assert_close(attended.log_weights.exp(), attended.weights, rtol=1e-9, atol=1e-12)
    if model.config.normaliser != "sparsemax":
        model.attention.context and model.attention.context.weight.data.mul_(1e4)
        spread = model.attend(**batch(texts_for(model)))
        assert spread.log_weights[spread.mask].isfinite().all()
        assert spread.log_weights[spread.mask].min() < -200


@pytest.mark.parametrize("name", ["FLANrnn", "FLANconv", "HANnoenc", "HANrnn"])
def test_input_embeddings_have_gradients(name):
    model = build(name)
    inputs = batch(texts_for(model))
    embeds = model.get_input_embeddings()(inputs["input_ids"]).detach().requires_grad_()
    logits = model(**inputs, inputs_embeds=embeds).logits
    torch.testing.assert_close(logits, model(**inputs).logits, rtol=0, atol=0)
    logits[:, 0].sum().backward()
    moved = embeds.grad.abs().sum(-1) > 0
    structural = (inputs["input_ids"] == SENTENCE) | (inputs["input_ids"] == SEPARATOR)
    assert (moved == (inputs["attention_mask"].bool() & ~structural)).all()


def test_flat_model_reads_embeddings_alone():
    model = build("FLANrnn")
    inputs = batch(TEXTS)
    embeds = model.get_input_embeddings()(inputs["input_ids"])
    alone = model(inputs_embeds=embeds, attention_mask=inputs["attention_mask"]).logits
    torch.testing.assert_close(alone, model(**inputs).logits, rtol=0, atol=0)


@pytest.mark.parametrize("name", ["FLANrnn", "HANrnn", "FLANconv", "HANnoenc"])
@pytest.mark.parametrize("side", [0, 1])
def test_a_batch_without_any_word(name, side):
    model = build(name)
    for ids in (torch.zeros(2, 4, dtype=torch.long), torch.zeros(2, 0, dtype=torch.long), torch.tensor([[]] * 2)):
        output = model(input_ids=ids, labels=torch.tensor([side, 2]))
        torch.testing.assert_close(output.logits, model.classifier.bias.expand(2, -1), rtol=0, atol=0)
        assert output.loss.isfinite()
        assert model.attend(input_ids=ids).weights.shape[1] == 0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["FLANrnn", "FLANconv", "HANrnn", "FLAN-sparsemax", "Wen-lstm-additive-gumbel"])
def test_half_precision(name, dtype):
    model = build(name, initializer_range=0.5)
    exact = model(**batch(texts_for(model))).logits
    logits = model.to(dtype)(**batch(texts_for(model))).logits
    assert logits.dtype == dtype
    torch.testing.assert_close(logits.double(), exact, rtol=0.05, atol=0.05)


def test_gumbel_noise_in_training_only():
    model = build("Wen-mlp-additive-gumbel")
    inputs = batch(TEXTS)
    assert model.attend(**inputs).weights.equal(model.attend(**inputs).weights)
    model.train()
    first, second = model.attend(**inputs).weights, model.attend(**inputs).weights
    assert not first.equal(second)
    torch.testing.assert_close(first.sum(1), torch.tensor([1, 1, 0, 1, 1.0]).double())


def test_gradients_pass_gradcheck():
    for name in ("FLANrnn", "HANconv", "FLAN-sparsemax"):
        model = build(name, initializer_range=0.5)
        inputs = batch(texts_for(model)[:3])
        embeds = model.get_input_embeddings()(inputs["input_ids"]).detach().requires_grad_()
        assert torch.autograd.gradcheck(lambda e, m=model, i=inputs: m(**i, inputs_embeds=e).logits, embeds, atol=1e-5)


def test_losses():
    inputs = batch(TEXTS)
    logits = build("FLANnoenc")(**inputs).logits
    labels = torch.tensor([0, 1, 2, 0, 1])
    loss = build("FLANnoenc")(**inputs, labels=labels).loss
    torch.testing.assert_close(loss, torch.nn.functional.cross_entropy(logits, labels))
    single = build("FLANnoenc", num_labels=1, problem_type="single_label_classification")
    labels = torch.tensor([0, 1, 1, 0, 1])
    z = single(**inputs).logits[:, 0]
    p = torch.sigmoid(z)
    expected = -(labels * p.log() + (1 - labels) * (1 - p).log()).mean()
    torch.testing.assert_close(single(**inputs, labels=labels).loss, expected)
    torch.testing.assert_close(single(**inputs, labels=labels.float().unsqueeze(1)).loss, expected)
    single.config.problem_type = "multi_label_classification"
    torch.testing.assert_close(single(**inputs, labels=labels).loss, expected)
    regression = build("FLANnoenc", num_labels=1, problem_type="regression")
    labels = torch.tensor([0.5, 1, -1, 0, 1])
    z = regression(**inputs).logits[:, 0]
    torch.testing.assert_close(regression(**inputs, labels=labels).loss, ((z - labels) ** 2).mean())
    several = build("FLANnoenc", problem_type="multi_label_classification")
    labels = torch.randint(0, 2, (5, 3)).float()
    z = several(**inputs).logits
    expected = torch.nn.functional.binary_cross_entropy_with_logits(z, labels.double())
    torch.testing.assert_close(several(**inputs, labels=labels).loss, expected)


def test_outputs_follow_transformers():
    model = build("HANrnn")
    inputs = batch(DOCUMENTS)
    output = model(**inputs, output_attentions=True, output_hidden_states=True)
    attended = model.attend(**inputs)
    assert output.attentions[0].equal(attended.word_weights)
    assert output.attentions[-1].equal(attended.weights)
    assert output.hidden_states[0].equal(attended.values)
    assert model(**inputs).attentions is None
    plain = model(**inputs, return_dict=False)
    assert isinstance(plain, tuple)
    assert plain[0].equal(output.logits)
    model.config.output_attentions = True
    assert model(**inputs).attentions is not None


@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        ({}, "neither input_ids nor inputs_embeds"),
        ({"input_ids": torch.tensor([7, 8])}, "expected \\[texts, tokens\\]"),
        ({"input_ids": torch.tensor([[7, 40]])}, "from 0 to 39"),
        ({"input_ids": torch.tensor([[7, -1]])}, "from 0 to 39"),
        ({"input_ids": torch.tensor([[7.0, 8.0]])}, "whole numbers"),
        ({"input_ids": torch.tensor([[7, 8]]), "attention_mask": torch.ones(1, 3)}, "attention_mask has shape"),
        ({"input_ids": torch.tensor([[7, 8]]), "token_type_ids": torch.zeros(2)}, "token_type_ids has shape"),
        ({"inputs_embeds": torch.zeros(1, 2, 5)}, "inputs_embeds has shape"),
    ],
)
def test_bad_input_is_refused(inputs, says):
    with pytest.raises(InputError, match=says):
        build("FLANnoenc")(**inputs)


def test_bad_input_by_kind_of_model():
    with pytest.raises(InputError, match="beside inputs_embeds"):
        build("HANnoenc")(inputs_embeds=torch.zeros(1, 2, 12))
    with pytest.raises(InputError, match="token_type_ids"):
        build("FLANnoenc", query=True)(input_ids=torch.tensor([[7, 8]]))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"encoder": "transformer"}, "'gru', 'lstm', 'conv'"),
        ({"attention": "multi-head"}, "'additive', 'dot', 'deep'"),
        ({"normaliser": "entmax"}, "'softmax', 'gumbel', 'sparsemax'"),
        ({"temperature": 0}, "above 0"),
        ({"hidden_size": 0}, "at least 1"),
        ({"kernels": [3, 5]}, "pairs"),
        ({"kernels": [(3, 0)]}, "pairs"),
        ({"kernels": []}, "pairs"),
        ({"query_segment": 2}, "0, 1"),
    ],
)
def test_bad_configuration_is_refused(options, says):
    with pytest.raises(InputError, match=says):
        models.AttentionClassifierConfig(**options)
