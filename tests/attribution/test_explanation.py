"""What a user sees: words and sentences that lose nothing, what was decided, and the way there from a text."""

import dataclasses
import json
import math

import pytest
import torch

import attnfaith as af
from attnfaith.attribution.attributor import Attributor
from attnfaith.errors import InputError
from attnfaith.text.encoder import TextEncoder
from attnfaith.tiny_models import tiny_model
from tests.helpers.tokenizers import PAIR, TEXT, Reader, byte_level, explain, word_piece, words


@pytest.mark.parametrize("text", [TEXT, PAIR], ids=["text", "pair"])
@pytest.mark.parametrize("make", [word_piece, byte_level, words])
def test_merging_by_words_and_by_sentences_loses_nothing(make, text):
    explanation = explain(text, make())
    segments = explanation.encoded.segments
    total = sum(score for score, segment in zip(explanation.scores, segments, strict=True) if segment is not None)
    for pieces in (explanation.words(), explanation.sentences()):
        assert math.fsum(piece.score for piece in pieces) == pytest.approx(total, abs=1e-12)
        texts = (text,) if isinstance(text, str) else text
        assert all(texts[piece.segment][piece.start : piece.end] == piece.text for piece in pieces)
    everything = explanation.words(special=True)
    assert math.fsum(piece.score for piece in everything) == pytest.approx(math.fsum(explanation.scores), abs=1e-12)
    assert [piece.segment for piece in everything].count(None) == segments.count(None)


def test_words_are_merged_by_the_chosen_function():
    explanation = explain("aab aab", scores=None)
    numbers = explanation.encoded.words
    for merge, function in {"sum": sum, "max": max, "mean": lambda some: sum(some) / len(some)}.items():
        groups = [
            [s for s, number in zip(explanation.scores, numbers, strict=True) if number == word] for word in (0, 1)
        ]
        assert [piece.score for piece in explanation.words(merge)] == pytest.approx(
            [function(group) for group in groups]
        )
    assert explanation.words() == explanation.words("sum")
    unsigned = dataclasses.replace(explanation, signed=False)
    assert unsigned.words() == explanation.words("max")
    assert [piece.text for piece in explanation.words()] == ["aab", "aab"]
    with pytest.raises(InputError, match="one of sum, mean, max, got 'median'"):
        explanation.words("median")


@pytest.mark.parametrize("make", [word_piece, byte_level, words, lambda: words(sentences=True)])
def test_sentences(make):
    pieces = explain(PAIR, make()).sentences()
    assert [(piece.text, piece.segment) for piece in pieces] == [
        ("A man plays guitar.", 0),
        ("Nobody plays.", 1),
        ("It is quiet.", 1),
    ]


def test_ranking_puts_ties_in_order_and_undefined_last():
    explanation = explain("a man", words(), scores=[math.nan, 1.0])
    assert explanation.ranking() == (1, 0)
    assert explain("a man plays", words(), scores=[0.5, 0.5, 0.5]).ranking() == (0, 1, 2)
    assert dataclasses.replace(explanation, spans=(), scores=()).ranking() == ()
    with pytest.raises(InputError, match="2 items and 1 scores"):
        dataclasses.replace(explanation, scores=(1.0,))


def test_as_json_undefined_is_null_and_noted():
    explanation = explain(
        "a man plays", words(), scores=[math.nan, -math.inf, 1.0], note="all weights are 0", gap=math.nan
    )
    data = json.loads(json.dumps(explanation.to_dict(), allow_nan=False))
    assert data["scores"] == [None, None, 1.0]
    assert data["gap"] is None
    assert (data["probability"], data["target_probability"]) == (0.75, 0.75)
    assert data["notes"] == ["2 scores are undefined: all weights are 0"]
    assert data["tokens"] == ["a", "man", "plays"]
    assert math.isnan(explanation.words()[0].score)
    assert math.isnan(explanation.words("max")[0].score)


METHODS = [("attention", "attention"), ("attention", "gradient_x_attention"), ("input", "gradient_x_input")]


def families():
    yield "bert", word_piece
    yield "gpt2", byte_level
    yield "llama", byte_level
    yield "FLANrnn", words
    yield "HANrnn", lambda: words(sentences=True)


@pytest.mark.parametrize(("level", "method"), METHODS, ids="-".join)
@pytest.mark.parametrize("family", [name for name, _ in families()])
def test_from_texts_to_explanations(family, level, method):
    tokenizer = dict(families())[family]()
    if family.startswith(("FLAN", "HAN")):
        model = af.models.from_preset(family, num_labels=3, tokenizer=tokenizer)
    else:
        model = tiny_model(family)
    attributor = Attributor(model, tokenizer, method=method, level=level, batch_size=2)
    texts = [TEXT, "superb", "I would see it again! " * 3, *([PAIR] if family == "bert" else [])]
    together = attributor(texts)
    for text, result in zip(texts, together, strict=True):
        alone = attributor(text)
        assert (result.tokens, result.prediction) == (alone.tokens, alone.prediction)
        assert result.scores == pytest.approx(alone.scores, rel=1e-3, abs=1e-6)
        assert result.text == text
        json.dumps(result.to_dict(), allow_nan=False)
        assert Reader(result._repr_html_()).blocks == ([text] if isinstance(text, str) else list(text))
        by_sentence = family == "HANrnn" and level == "attention"
        assert result.unit == ("sentence" if by_sentence else "token")
        if by_sentence:
            assert [piece.text for piece in result.sentences()] == list(result.tokens)
            with pytest.raises(InputError, match="level='input'"):
                result.words()
        elif isinstance(text, str):
            assert [piece.text for piece in result.words() if piece.text == "superb"] == ["superb"] * text.count(
                "superb"
            )
    if by_sentence:
        assert together[0].tokens == ("A thin plot, a <b>superb</b> cast.", "I would & will see it again!")
        assert len(together[2].tokens) == 3


def test_a_han_on_left_padding_and_the_empty_text():
    tokenizer = words(sentences=True)
    model = af.models.from_preset("HANrnn", num_labels=2, tokenizer=tokenizer)
    right = Attributor(model, tokenizer, method="attention")([TEXT, "superb"])
    tokenizer.padding_side = "left"
    left = Attributor(model, tokenizer, method="attention")([TEXT, "superb"])
    for first, other in zip(left, right, strict=True):
        assert first.tokens == other.tokens
        assert first.scores == pytest.approx(other.scores, abs=1e-6)
    with pytest.raises(InputError, match="nothing to classify"):
        Attributor(model, tokenizer)("")
    bert = Attributor(tiny_model("bert"), word_piece(), method="attention")(" ")
    assert bert.tokens == ("[BOS]", "[EOS]")
    assert bert.words() == []
    assert bert.notes == ("the text is empty (white space only)",)
    assert "the text is empty" in bert._repr_html_()


def decided(logits, kind, target="predicted", **names):
    """The explanation of a text that BERT's bias brings to these logits; and its JSON."""
    model, tokenizer = tiny_model("bert", num_labels=len(logits)), word_piece()
    model.config.problem_type = kind
    if names:
        model.config.id2label = dict(enumerate(names["labels"]))
        model.config.label2id = {name: number for number, name in enumerate(names["labels"])}
    texts = TextEncoder(tokenizer, model)
    with torch.no_grad():
        result = model(**texts.collate(texts.encode([TEXT]))).logits[0]
        model.classifier.bias += torch.tensor(logits) - result
    attributor = Attributor(model, tokenizer, method="attention", target=target, output="logit")
    result = attributor(TEXT)
    return result, result.to_dict()


@pytest.mark.parametrize(
    ("kind", "logits", "target", "prediction", "probability", "target_probability"),
    [
        (None, [0.0, math.log(3), 0.0], "predicted", "LABEL_1", 0.6, 0.6),
        (None, [0.0, math.log(3), 0.0], 2, "LABEL_1", 0.6, 0.2),
        ("multi_label_classification", [math.log(3), -math.log(4)], 1, "LABEL_0", 0.75, 0.2),
        ("single_label_classification", [math.log(4)], 0, "1", 0.8, 0.2),
        ("single_label_classification", [-math.log(4)], 1, "LABEL_0", 0.8, 0.2),
    ],
)
def test_probabilities_are_of_what_is_predicted_and_of_the_target(
    kind, logits, target, prediction, probability, target_probability
):
    result, data = decided(logits, kind, target)
    assert result.prediction == prediction
    assert result.probability == pytest.approx(probability, abs=1e-6)
    assert result.target_probability == pytest.approx(target_probability, abs=1e-6)
    assert data["probability"] == result.probability
    assert data["target_probability"] == result.target_probability


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (2.370691, "2.371"),
        (1.0, "1"),
        (-12345.6, "-12346"),
        (999.96, "1000"),
    ],
)
def test_a_regression_predicts_its_value(value, shown):
    result, data = decided([value], "regression", labels=["stars"])
    assert (result.prediction, result.target) == (shown, "stars")
    assert (result.probability, result.target_probability) == (None, None)
    assert (data["prediction"], data["probability"], data["target_probability"]) == (shown, None, None)


def test_a_regression_of_several_values_shows_the_one_explained():
    result, _ = decided([1.5, -2.25], "regression", "plot", labels=["cast", "plot"])
    assert (result.prediction, result.target) == ("-2.25", "plot")
