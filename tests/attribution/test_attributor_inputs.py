"""What an Attributor takes: models, paths, pipelines and cuts; texts, pairs and ids; and what it refuses."""

import threading

import pytest
import torch
from transformers import pipeline

import attnfaith as af
from attnfaith.adapters.adapter import adapters
from attnfaith.attribution.attributor import Attributor
from tests.helpers.comparing import model_of
from tests.helpers.labelled_models import TEXTS, made_model, named, same, scores, word_piece
from tests.helpers.methods import FEW_STEPS
from tests.helpers.tokenizers import PAIR, TEXT, byte_level

pytestmark = FEW_STEPS


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_a_model_a_path_a_pipeline_or_a_cut(family, tmp_path):
    model, tokenizer = named(family), word_piece()
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    pipe = pipeline("text-classification", model=model, tokenizer=tokenizer, device="cpu")
    for settings in ({"method": "gradient_x_attention"}, {"method": "lrp", "level": "input"}):
        expected = Attributor(model, tokenizer, **settings)(TEXTS)
        given = [(af.cut(model), tokenizer), (str(tmp_path),), (tmp_path,), (pipe,), (pipe, tokenizer)]
        for arguments in given:
            got = Attributor(*arguments, **settings)(TEXTS)
            same(scores(got), scores(expected))
            assert [item.prediction for item in got] == [item.prediction for item in expected]
    for entry, message in zip(Attributor(pipe)(TEXTS), pipe(TEXTS), strict=True):
        assert entry.prediction == message["label"]
        assert entry.probability == pytest.approx(message["score"], rel=1e-4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_read_into_single_from_a_path_and_warned_of_elsewhere(dtype, tmp_path):
    model, tokenizer = named("bert").to(dtype), word_piece()
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    result = Attributor(tmp_path)
    assert {weight.dtype for weight in result.cut.model.parameters()} == {torch.float32}
    same(scores(result(TEXTS)), scores(Attributor(named("bert").to(dtype).float(), tokenizer)(TEXTS)))
    pipe = pipeline("text-classification", model=model, tokenizer=tokenizer, device="cpu")
    for given in (model, af.cut(model), pipe):
        with pytest.warns(UserWarning, match=r"half precision.*dtype=torch.float32"):
            kept = Attributor(given, tokenizer)
        assert {weight.dtype for weight in kept.cut.model.parameters()} == {dtype}
    double = tmp_path / "double"
    named("bert").double().save_pretrained(double)
    tokenizer.save_pretrained(double)
    assert Attributor(double).cut.model.dtype == torch.float64


def test_a_path_may_begin_at_home(tmp_path, monkeypatch):
    named("bert").save_pretrained(tmp_path / "mine")
    word_piece().save_pretrained(tmp_path / "mine")
    monkeypatch.setenv("HOME", str(tmp_path))
    same(scores(Attributor("~/mine")(TEXTS)), scores(Attributor(tmp_path / "mine")(TEXTS)))
    with pytest.raises(af.InputError, match="there is no such folder"):
        Attributor("~/yours")


def test_what_is_no_model_is_refused(tmp_path):
    for wrong in (tmp_path, str(tmp_path / "none")):
        with pytest.raises(af.InputError, match="could be loaded from"):
            Attributor(wrong)
    for wrong in (3, None, [model_of("bert")]):
        with pytest.raises(af.InputError, match="Expected a model, a path, or a text-classification pipeline"):
            Attributor(wrong)
    with pytest.raises(af.InputError, match="without a tokenizer"):
        Attributor(model_of("bert"))("a film")
    assert not adapters.get(int)


@pytest.mark.parametrize(
    "ids", [[[1, 2]], torch.zeros(2, 3), torch.zeros(3, dtype=torch.long), torch.zeros(1, 0).long()]
)
def test_what_are_no_ids_is_refused(ids):
    with pytest.raises(af.InputError, match="input_ids"):
        Attributor(model_of("bert")).attribute(ids)


def test_pairs_are_one_text_each():
    attributor = Attributor(named().double(), word_piece())  # the relevance divides by sums that may be near 0
    single, listed = attributor(PAIR), attributor([PAIR, TEXT])
    same(scores([single]), scores(listed[:1]), 1e-10)
    assert single.text == PAIR
    assert set(single.encoded.segments) == {None, 0, 1}


def test_longer_texts_are_truncated_with_a_note():
    long = "thin plot " * 200
    explanation = Attributor(named(), word_piece())(long)
    assert len(explanation.scores) == 128
    assert explanation.truncated > 0
    assert any("cut off" in note for note in explanation.notes)
    short = Attributor(named(), word_piece(), max_length=6)
    assert len(short([long, "see it"])[0].scores) == 6
    with pytest.raises(af.InputError, match="128 tokens"):
        Attributor(named(), word_piece(), max_length=129)


def test_a_model_without_a_padding_token():
    """GPT-2 takes texts of one length together then; many texts are explained as each would be alone."""
    model = named("gpt2")
    expected = scores(Attributor(model, byte_level(), method="occlusion", level="input")(TEXTS))
    model.config.pad_token_id = None
    without = Attributor(model, byte_level(), method="occlusion", level="input")
    same(scores(without(TEXTS)), expected)
    model.config.pad_token_id = 1
    tokenizer = byte_level()
    tokenizer.pad_token = None
    attributor = Attributor(model, tokenizer, method="occlusion", level="input")
    same(scores(attributor(TEXTS)), scores([attributor(text) for text in TEXTS]))
    words_only, tokenizer = made_model("FLANrnn")
    with pytest.raises(af.InputError, match=r"no \[MASK\] token"):
        Attributor(words_only, tokenizer, method="occlusion", level="input", baseline="mask")(TEXT)


@pytest.mark.parametrize("method", ["gradient", "lrp", "integrated_gradients", "random", "attention", "occlusion"])
def test_a_han_at_both_levels(method):
    model, tokenizer = made_model("HANrnn", sentences=True)
    text = "A thin plot. A superb cast. I would see it again!"
    upper = Attributor(model, tokenizer, method=method)(text)
    lower = Attributor(model, tokenizer, method=method, level="input")(text)
    assert upper.unit == "sentence"
    assert list(upper.tokens) == ["A thin plot.", "A superb cast.", "I would see it again!"]
    assert lower.unit == "token"
    assert len(lower.scores) == len(lower.tokens) > 12
    ids = torch.tensor([lower.encoded.ids])
    assert Attributor(model, method=method).attribute(ids).shape == (1, 3)
    assert Attributor(model, method=method, level="input").attribute(ids).shape == ids.shape


def test_random_does_not_mind_the_size_of_the_batch():
    item, many = (Attributor(named(), word_piece(), method="random", batch_size=size)(TEXTS * 3) for size in (1, 5))
    same(scores(item), scores(many), 0)
    assert not torch.equal(*(torch.tensor(item[index].scores) for index in (0, 4)))


def test_two_attributors_on_two_models_in_two_threads():
    first, second = named("bert", seed=0), named("gpt2", seed=1)
    third = named("bert", seed=2)
    third.config = first.config  # two models, one configuration
    makers = [
        lambda: Attributor(first, word_piece(), method="lrp", level="input", epsilon=0.1),
        lambda: Attributor(second, word_piece(), method="integrated_gradients", level="input", steps=7),
        lambda: Attributor(third, word_piece(), method="gradient_x_input", level="input"),
        lambda: Attributor(first, word_piece(), method="gradient", level="input"),
    ]
    alone = [scores(make()(TEXTS)) for make in makers]
    outcome, errors = [[] for _ in makers], []

    def work(index):
        try:
            attributor = makers[index]()
            outcome[index].extend(scores(attributor(TEXTS)) for _ in range(4))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(len(makers))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    for results, expected in zip(outcome, alone, strict=True):
        for result in results:
            same(result, expected)
