"""The presets: all of them exist, are built as in the papers, and can be trained."""

import pytest
import torch

import attnfaith.models as models
from attnfaith.errors import InputError


@pytest.mark.parametrize("name", models.presets())
@pytest.mark.parametrize("query", [False, True], ids=["text", "pair"])
def test_every_preset_learns_from_a_step(name, query):
    torch.manual_seed(0)
    model = models.from_preset(name, num_labels=5, vocab_size=30, query=query).train()
    ids = torch.randint(4, 30, (3, 14))
    ids[:, 4] = 3
    types = (torch.arange(14) > 9).long().expand_as(ids)
    output = model(input_ids=ids, token_type_ids=types, labels=torch.tensor([0, 4, 2]))
    assert output.logits.shape == (3, 5)
    output.loss.backward()
    for parameter_name, parameter in model.named_parameters():
        assert parameter.grad is not None, parameter_name
        assert parameter.grad.isfinite().all(), parameter_name
        assert parameter.grad.abs().sum() > 0, parameter_name


def test_all_models_of_the_papers_have_a_preset():
    names = models.presets()
    assert names[:6] == ["HANrnn", "HANconv", "HANnoenc", "FLANrnn", "FLANconv", "FLANnoenc"]
    assert len([name for name in names if name.startswith("JW-")]) == 3 * 2
    assert len([name for name in names if name.startswith("Wen-")]) == 3 * 3 * 2
    assert len(names) == 30


def test_sizes_equal_the_papers():
    han = models.from_preset("HANrnn", num_labels=10, vocab_size=30)
    assert han.embeddings.embedding_dim == 200
    assert (han.word_encoder.rnn.hidden_size, han.encoder.rnn.input_size) == (50, 100)
    assert han.attention.project.weight.shape == (100, 100)
    assert han.attention.context.bias is None
    assert han.classifier.weight.shape == (10, 100)
    conv = models.from_preset("FLANconv", vocab_size=30)
    assert [layer.weight.shape for layer in conv.encoder.convolutions] == [(50, 200, 3), (50, 200, 5)]
    assert models.from_preset("FLANnoenc", vocab_size=30).classifier.in_features == 200
    assert models.from_preset("JW-lstm-additive", vocab_size=30).classifier.in_features == 256
    assert models.from_preset("JW-conv-dot", vocab_size=30).classifier.in_features == 128
    assert models.from_preset("JW-average-dot", vocab_size=30).embeddings.embedding_dim == 300
    wen = models.from_preset("Wen-conv-deep-gumbel", vocab_size=30)
    assert [layer.kernel_size[0] for layer in wen.encoder.convolutions] == [1, 3, 5, 7, 15]
    assert wen.classifier.in_features == 128
    assert (wen.normaliser.kind, wen.normaliser.temperature) == ("gumbel", 0.8)
    assert models.from_preset("Wen-mlp-dot-softmax", vocab_size=30).attention.scale == 1
    assert models.from_preset("Wen-mlp-dot-softmax", vocab_size=30, query=True).attention.scale == pytest.approx(
        128**-0.5
    )
    assert models.from_preset("JW-average-dot", vocab_size=30).attention.scale == pytest.approx(128**-0.5)


def test_training_settings_equal_the_papers():
    yelp = models.preset("HANnoenc", dataset="yelp")
    assert yelp.config["input_dropout"] == 0.7
    assert yelp.config["sentence_dropout"] == 0.1
    assert yelp.config["classifier_dropout"] == 0.7
    assert yelp.training == {
        "optimizer": "adam", "max_grad_norm": 10.0, "patience": 10, "min_count": 5, "learning_rate": 1e-4,
    }  # fmt: skip
    assert models.preset("FLANrnn", dataset="yahoo").config["classifier_dropout"] == 0.4457
    assert models.preset("FLANrnn", dataset="yahoo").training["patience"] == 5
    model = models.from_preset("HANrnn", dataset="amazon", vocab_size=30)
    assert (model.input_dropout.p, model.sentence_dropout.p, model.classifier_dropout.p) == (0.6, 0.2, 0.4)
    assert models.preset("JW-lstm-dot").training["amsgrad"]


def test_special_ids_of_another_tokenizer_are_used():
    tokenizer = models.WordTokenizer.train(["a b c"], min_count=1)
    tokenizer.add_special_tokens({"cls_token": "[CLS]"})
    config = models.from_preset("FLANrnn", tokenizer=tokenizer).config
    assert config.vocab_size == len(tokenizer) == 8
    assert config.structural_token_ids == [tokenizer.cls_token_id]


def test_bad_input_is_refused():
    with pytest.raises(InputError, match=r"Did you mean 'HANrnn'.* attnfaith\.models\.presets\(\) lists all"):
        models.from_preset("HANrn", vocab_size=30)
    with pytest.raises(InputError, match="either vocab_size"):
        models.from_preset("HANrnn")
    with pytest.raises(InputError, match="'imdb', 'yelp'"):
        models.from_preset("HANrnn", vocab_size=30, dataset="sst")
    with pytest.raises(InputError, match="no dropout"):
        models.from_preset("HANrnn", vocab_size=30, dropout=0.5)
    with pytest.raises(InputError, match=r"problem_type to be one of .*'regression'; got 'regresion'"):
        models.from_preset("FLANrnn", vocab_size=20, problem_type="regresion")
