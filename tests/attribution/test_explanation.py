"""What a user sees: words and sentences that lose nothing, HTML that is safe, and the way there from a text."""

import dataclasses
import json
import math
import re
from html import unescape
from html.parser import HTMLParser

import pytest
import torch
from tokenizers import Tokenizer, normalizers, pre_tokenizers, processors, trainers
from tokenizers import models as backends
from transformers import PreTrainedTokenizerFast

import attnfaith as af
from attnfaith.attribution.attributor import Attributor
from attnfaith.attribution.explanation import Explanation
from attnfaith.attribution.texts import Texts
from attnfaith.errors import InputError
from attnfaith.families import tiny_model

TEXT = "A thin plot, a <b>superb</b> cast. I would & will see it again!"
PAIR = ("A man plays guitar.", "Nobody plays. It is quiet.")
CORPUS = [TEXT, *PAIR]
NAMES = ["[BOS]", "[PAD]", "[EOS]", "[UNK]", "[MASK]"]  # ids as in attnfaith.families
ROLES = dict(zip("bos_token pad_token eos_token unk_token mask_token".split(), NAMES, strict=True))


def word_piece():
    backend = Tokenizer(backends.WordPiece(unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer()
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=80, special_tokens=NAMES, show_progress=False)
    backend.train_from_iterator(CORPUS, trainer)
    special = [("[BOS]", 0), ("[EOS]", 2)]
    backend.post_processor = processors.TemplateProcessing(
        single="[BOS] $A [EOS]", pair="[BOS] $A [EOS] $B:1 [EOS]:1", special_tokens=special
    )
    names = ["input_ids", "token_type_ids", "attention_mask"]
    return PreTrainedTokenizerFast(tokenizer_object=backend, model_input_names=names, **ROLES)


def byte_level():
    """As GPT-2's, but with the bytes of these few texts only, to fit the tiny families."""
    backend = Tokenizer(backends.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(vocab_size=90, special_tokens=NAMES, show_progress=False)
    backend.train_from_iterator([*CORPUS, "👍🏽"], trainer)
    return PreTrainedTokenizerFast(tokenizer_object=backend, **ROLES)


def words(sentences=False):
    return af.models.WordTokenizer.train(CORPUS, min_count=1, sentences=sentences)


def explain(text=TEXT, tokenizer=None, scores=None, max_length=None, **facts):
    """An explanation with scores made up: of random size, half of them negative."""
    (encoded,) = Texts(tokenizer or word_piece(), torch.nn.Identity(), max_length).encode([text])
    if scores is None:
        draws = torch.randn(len(encoded.ids), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        scores = draws.tolist()
    known = {"unit": "token", "method": "lrp", "level": "input", "signed": True, "output": "log_odds"}
    known |= {"prediction": "good", "target": "good", "probability": 0.75}
    spans = tuple((place, place + 1) for place in range(len(encoded.ids)))
    return Explanation(encoded=encoded, spans=spans, scores=tuple(scores), **(known | facts))


@pytest.mark.parametrize("text", [TEXT, PAIR], ids=["text", "pair"])
@pytest.mark.parametrize("make", [word_piece, byte_level, words])
def test_merging_by_words_and_by_sentences_loses_nothing(make, text):
    explanation = explain(text, make())
    segments = explanation.encoded.segments
    total = sum(score for score, own in zip(explanation.scores, segments, strict=True) if own is not None)
    for pieces in (explanation.words(), explanation.sentences()):
        assert math.fsum(piece.score for piece in pieces) == pytest.approx(total, abs=1e-12)
        texts = (text,) if isinstance(text, str) else text
        assert all(texts[piece.segment][piece.start : piece.end] == piece.text for piece in pieces)
    everything = explanation.words(special=True)
    assert math.fsum(piece.score for piece in everything) == pytest.approx(math.fsum(explanation.scores), abs=1e-12)
    assert [piece.segment for piece in everything].count(None) == segments.count(None)


def test_words_are_merged_as_asked():
    explanation = explain("aab aab", scores=None)
    numbers = explanation.encoded.words
    for merge, function in {"sum": sum, "max": max, "mean": lambda some: sum(some) / len(some)}.items():
        groups = [[s for s, own in zip(explanation.scores, numbers, strict=True) if own == word] for word in (0, 1)]
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


def test_as_json_undefined_is_null_and_said():
    explanation = explain(
        "a man plays", words(), scores=[math.nan, -math.inf, 1.0], note="all weights are 0", gap=math.nan
    )
    data = json.loads(json.dumps(explanation.to_dict(), allow_nan=False))
    assert data["scores"] == [None, None, 1.0]
    assert data["gap"] is None
    assert data["notes"] == ["2 scores are undefined: all weights are 0"]
    assert data["tokens"] == ["a", "man", "plays"]
    assert math.isnan(explanation.words()[0].score)
    assert math.isnan(explanation.words("max")[0].score)


class Reader(HTMLParser):
    """The text of each block that holds an original, and whether every tag was closed."""

    def __init__(self, html):
        super().__init__()
        self.open, self.blocks, self.tags = [], [], set()
        self.feed(html)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        if tag != "br":
            self.open.append((tag, dict(attributes).get("dir")))
            if self.open[-1][1] == "auto":
                self.blocks.append("")

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        if any(direction == "auto" for _, direction in self.open):
            self.blocks[-1] += data


@pytest.mark.parametrize(
    "text", [TEXT, PAIR, "שלום עולם", "x</div><script>alert(1)</script>", "a\n\n  b 👍🏽", '" onload="x']
)
@pytest.mark.parametrize("make", [word_piece, lambda: af.models.WordTokenizer.train(["a x"], min_count=1)])
@pytest.mark.parametrize("max_length", [None, 6])
def test_html_holds_the_original_text_and_nothing_of_it_as_markup(text, make, max_length):
    hostile = '<img src=x onerror="y">'
    explanation = explain(text, make(), max_length=max_length, prediction=hostile, method=hostile, note=hostile)
    reader = Reader(explanation._repr_html_())
    assert reader.blocks == ([text] if isinstance(text, str) else list(text))
    assert reader.tags <= {"div", "span", "b", "br", "s"}


def test_html_says_what_is_explained():
    html = explain(PAIR, max_length=12, target="bad", gap=0.01)._repr_html_()
    plain = unescape(re.sub(r"<[^>]*>", " ", html))
    said = "predicted good , explained bad (probability 0.75)|lrp (input level)|log-odds of bad|First text|Second text"
    said += "|[BOS]|against bad|for bad|sub-words: sum|tokens were cut off: max_length is 12|completeness gap +0.01"
    for part in said.split("|"):
        assert part in re.sub(r"\s+", " ", plain), part
    assert 'title="not read"' in html
    assert 'title="not read"' not in explain(PAIR)._repr_html_()


def test_colours_follow_the_sign_and_the_size():
    html = explain("a man plays it", words(), scores=[1.0, -1.0, 0.5, math.nan])._repr_html_()
    shown = dict(re.findall(r'<span title="([^"]*)" style="([^"]*)">\w', html))
    assert "rgba(230,97,1,0.720)" in shown["+1"]
    assert "rgba(33,113,240,0.720)" in shown["-1"]
    assert "box-shadow" in shown["-1"]  # told without colour, too
    assert "rgba(230,97,1,0.360)" in shown["+0.5"]
    assert "dotted" in shown["undefined"]
    zeros = explain("a man", words(), scores=[0.0, 0.0])._repr_html_()
    assert "nan" not in zeros


def test_in_a_terminal_it_is_one_short_line():
    shown = repr(explain(TEXT + " And so on." * 50))
    assert "\n" not in shown
    assert len(shown) < 250
    assert "predicted good (probability 0.75)" in shown
    regression = repr(explain("a man", words(), probability=None))
    assert "predicted good;" in regression


def test_a_figure():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    explanation = explain(TEXT, words())
    axis = explanation.plot()
    assert [label.get_text() for label in axis.get_yticklabels()] == [piece.text for piece in explanation.words()]
    assert [bar.get_width() for bar in axis.patches] == [piece.score for piece in explanation.words()]
    few = explanation.plot(axis.figure.add_subplot(), top=3)
    largest = sorted((piece.score for piece in explanation.words()), key=abs)[-3:]
    assert {bar.get_width() for bar in few.patches} == set(largest)
    assert "3 largest" in few.get_xlabel()


def test_captum_can_draw_it():
    record = explain("<b> man", words(), scores=[1.0, -2.0, 0.5, math.nan], gap=0.1).visualization_record()
    from captum.attr import visualization

    html = visualization.format_word_importances(record.raw_input_ids, record.word_attributions)
    assert "&lt;" in html
    assert record.word_attributions.tolist() == [0.5, -1.0, 0.25, 0.0]
    assert (record.pred_class, record.pred_prob, record.convergence_score) == ("good", 0.75, 0.1)


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
    for text, found in zip(texts, together, strict=True):
        alone = attributor(text)
        assert (found.tokens, found.prediction) == (alone.tokens, alone.prediction)
        assert found.scores == pytest.approx(alone.scores, rel=1e-3, abs=1e-6)
        assert found.text == text
        json.dumps(found.to_dict(), allow_nan=False)
        assert Reader(found._repr_html_()).blocks == ([text] if isinstance(text, str) else list(text))
        by_sentence = family == "HANrnn" and level == "attention"
        assert found.unit == ("sentence" if by_sentence else "token")
        if by_sentence:
            assert [piece.text for piece in found.sentences()] == list(found.tokens)
            with pytest.raises(InputError, match="level='input'"):
                found.words()
        elif isinstance(text, str):
            assert [piece.text for piece in found.words() if piece.text == "superb"] == ["superb"] * text.count(
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
    for one, other in zip(left, right, strict=True):
        assert one.tokens == other.tokens
        assert one.scores == pytest.approx(other.scores, abs=1e-6)
    with pytest.raises(InputError, match="nothing to classify"):
        Attributor(model, tokenizer)("")
    bert = Attributor(tiny_model("bert"), word_piece(), method="attention")(" ")
    assert bert.tokens == ("[BOS]", "[EOS]")
    assert bert.words() == []
    assert bert.notes == ("the text is empty (white space only)",)
    assert "the text is empty" in bert._repr_html_()
