# ruff: noqa: RUF001 (characters that look like others are the point here)
"""Each token's place in the text, and its word and sentence, with every kind of tokenizer."""

import pytest
from transformers import CanineTokenizer

import attnfaith as af
from attnfaith.text.encoder import TextEncoder
from attnfaith.text.offsets import align
from tests.helpers import tokenizers
from tests.helpers.odd_texts import SLOW, TEXTS, AnyModel, byte_fallback, byte_level, slow_bert, unigram, word_piece


def words_of(encoded, side=0):
    """The text of each word: from the first to the last character of its tokens."""
    text, result = (encoded.text, encoded.pair)[side], {}
    for number, word, span in zip(encoded.segments, encoded.words, encoded.offsets, strict=True):
        if number == side and span is not None:
            start, end = result.get(word, span)
            result[word] = (min(start, span[0]), max(end, span[1]))
    return [text[slice(*span)].strip() for span in result.values() if text[slice(*span)].strip()]


@pytest.mark.parametrize("name", TEXTS)
def test_offsets_lie_in_the_text_in_order_and_cover_it(kind, name):
    which, texts = kind
    text = TEXTS[name]
    (encoded,) = texts.encode([text])
    covered, last = set(), 0
    for token, span, number, word in zip(encoded.tokens, encoded.offsets, encoded.segments, encoded.words, strict=True):
        assert (number is None) == (word is None)
        if span is None:
            continue
        assert number == 0
        assert last <= span[0] < span[1] <= len(text)
        piece = text[slice(*span)]
        assert piece.strip() in ("", piece)
        assert token == piece or piece.isspace()
        covered |= set(range(*span))
        last = span[0]
    invisible = "\u00ad\u200d\ufe0f"
    left = {text[at] for at in range(len(text)) if at not in covered and text[at] not in invisible}
    result = all(span or segment is None for span, segment in zip(encoded.offsets, encoded.segments, strict=True))
    if result or which not in SLOW:
        assert not "".join(left).strip()
    if which in SLOW and name not in ("odd", "compatible"):
        assert encoded.notes == ()


@pytest.mark.parametrize("name", TEXTS)
def test_a_slow_tokenizer_is_aligned_as_its_fast_twin_says(tmp_path, name):
    tokenizer = word_piece()
    slow, quick = TextEncoder(slow_bert(tmp_path, tokenizer), AnyModel()), TextEncoder(tokenizer, AnyModel())
    result, expected = slow.encode([TEXTS[name]])[0], quick.encode([TEXTS[name]])[0]
    assert result.ids == expected.ids
    assert result.offsets == expected.offsets
    assert result.segments == expected.segments
    assert result.words == expected.words or name in ("inner", "odd")  # its own words part "can't", "3.50" and "&amp;"


def test_words_are_those_a_reader_sees(kind):
    _, texts = kind
    expected = {
        "english": "It was good , very good film ! Unforgettable ?",
        "emoji": "Loved it 👍🏽 👩‍👩‍👧 truly ❤️",
        "hebrew": "שָׁלוֹם עולם , שָׁלוֹם",
        "arabic": "مرحبا بك في الفيلم",
        "hindi": "फिल्म अच्छी है",
        "decomposed": "Cafe\u0301 au lait , tre\u0300s bon",
        "lines": "One line . Another one",
        "persian": "می\u200cخواهم بروم",
        "turkish": "İstanbul güzel",
    }
    for name, words in expected.items():
        assert words_of(texts.encode([TEXTS[name]])[0]) == words.split(), name


def test_words_without_spaces_are_the_tokens(kind):
    which, texts = kind
    for name in ("chinese", "japanese"):
        (encoded,) = texts.encode([TEXTS[name]])
        words = words_of(encoded)
        assert "".join(words) == TEXTS[name].replace(" ", "")
        assert len(words) == len({span for span in encoded.offsets if span and TEXTS[name][slice(*span)].strip()}) or (
            which == "byte_level"
        )
        assert len(words) > 2 or which in ("unigram", "slow_bert", "word_piece")


def test_inner_punctuation_stays_in_the_word(tmp_path):
    for tokenizer in (unigram(), byte_fallback(), CanineTokenizer()):
        encoded = TextEncoder(tokenizer, AnyModel()).encode([TEXTS["inner"]])[0]
        assert words_of(encoded) == "A well-made film can't cost 3.50 .".split()


def test_repeated_words_stay_separate_and_numbers_run_on_over_the_pair(kind):
    _, texts = kind
    encoded = texts.encode([("good good", "good film good")])[0]
    assert words_of(encoded, 0) == ["good", "good"]
    assert words_of(encoded, 1) == ["good", "film", "good"]
    numbers = [word for word in encoded.words if word is not None]
    assert numbers == sorted(numbers)
    assert set(numbers) == set(range(5))
    by_side = [{w for w, s in zip(encoded.words, encoded.segments, strict=True) if s == side} for side in (0, 1)]
    assert by_side == [{0, 1}, {2, 3, 4}]


def test_split_characters_have_one_span_and_one_word():
    encoded = TextEncoder(byte_level(), AnyModel()).encode(["a 👍🏽"])[0]
    thumbs = [index for index, span in enumerate(encoded.offsets) if span and span[0] >= 2]
    assert len(thumbs) == 8
    assert {encoded.offsets[index] for index in thumbs} == {(2, 3), (3, 4)}
    assert len({encoded.words[index] for index in thumbs}) == 1


def test_special_tokens_written_in_a_text_are_no_words(kind):
    which, texts = kind
    if which in ("canine", "byt5", "slow_ctrl"):
        return
    name = texts.tokenizer.eos_token or texts.tokenizer.sep_token
    (encoded,) = texts.encode([f"good {name} film"])
    assert words_of(encoded) == ["good", "film"]
    assert any(name in note for note in encoded.notes)


def test_alignment_without_help():
    assert align(["[UNK]", "a", "##b"], "Zürich ab") == [(0, 6), (7, 8), (8, 9)]
    assert align(["x"], "abc") == [(0, 3)]
    assert align(["x", "y"], "abc") == [None, None]
    assert align(["▁", "▁film"], "film") == [None, (0, 4)]


def test_sentences_are_the_tokenizer_s_own():
    tokenizer = af.models.WordTokenizer.train(["It was good. I cried."], min_count=1, sentences=True)
    encoded = TextEncoder(tokenizer, AnyModel()).encode([("It was. I cried.", "Good.")])[0]
    real = [number for number, segment in zip(encoded.sentences, encoded.segments, strict=True) if segment is not None]
    assert real == [0, 0, 0, 1, 1, 1, 2, 2]
    assert TextEncoder(word_piece(), AnyModel()).encode(["It was. Good."])[0].sentences is None


@pytest.mark.parametrize(
    "text", ["good   film", "  good\n\n\tfilm  ", "good\u3000\u3000film\n", "\tgood \x85 \u2028film"]
)
def test_runs_of_white_space_are_no_words(kind, text):
    """They belong to a word beside them, so that nothing of a sum is lost."""
    _, texts = kind
    explanation = tokenizers.explain(text, texts.tokenizer)
    words = explanation.words()
    assert [piece.text for piece in words] == ["good", "film"]
    assert [text[piece.start : piece.end] for piece in words] == ["good", "film"]
    total = sum(explanation.scores)
    assert sum(piece.score for piece in explanation.words(special=True)) == pytest.approx(total)
    assert sum(piece.score for piece in explanation.sentences(special=True)) == pytest.approx(total)


def test_a_text_of_white_space_has_no_words():
    explanation = tokenizers.explain(" \n ", byte_level(wrapped=True))
    assert explanation.words() == []
    assert len(explanation.scores) > 2
