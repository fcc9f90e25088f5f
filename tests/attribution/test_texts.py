# ruff: noqa: RUF001 (characters that look like others are the point here)
"""Encoding: every kind of tokenizer, and for each token its place in the text and its word."""

import json

import pytest
import torch
from tokenizers import Tokenizer, decoders, normalizers, pre_tokenizers, processors, trainers
from tokenizers import models as backends
from transformers import ByT5Tokenizer, CanineTokenizer, CTRLTokenizer, PreTrainedTokenizerFast
from transformers.models.bert.tokenization_bert_legacy import BertTokenizerLegacy

import attnfaith as af
from attnfaith.adapters.probe import position_limit
from attnfaith.attribution.alignment import align
from attnfaith.attribution.texts import Texts, special_ids_of
from attnfaith.errors import InputError
from attnfaith.families import model_types, tiny_model

TEXTS = {
    "english": "It was good, very good film!  Unforgettable?",
    "inner": "A well-made film can't cost 3.50.",
    "emoji": "Loved it 👍🏽 👩‍👩‍👧 truly ❤️",
    "chinese": "他说你好 他很好",
    "japanese": "とても良い映画",
    "thai": "ที่ดี",
    "hebrew": "שָׁלוֹם עולם, שָׁלוֹם",
    "arabic": "مرحبا بك في الفيلم",
    "hindi": "फिल्म अच्छी है",
    "decomposed": "Cafe\u0301 au lait, tre\u0300s bon",
    "compatible": "ﬁlm ½ of Ⅷ",
    "lines": "One line.\n\n  Another\tone ",
    "persian": "می\u200cخواهم بروم",
    "odd": "<b>&amp; a\u00adb ▁x Ġy ##z @@",
    "turkish": "İstanbul güzel",
}
CORPUS = tuple(TEXTS.values())
SHORT = ("a very good film", "not so very good")  # a vocabulary that the tiny families can hold
SPECIAL = {
    "bos_token": "[BOS]",
    "pad_token": "[PAD]",
    "eos_token": "[EOS]",
    "unk_token": "[UNK]",
    "mask_token": "[MASK]",
}
NAMES = list(SPECIAL.values())  # ids 0 to 4, as in attnfaith.families


class AnyModel(torch.nn.Module):
    """What `Texts` asks of a model, and no more."""

    config = None

    def forward(self, input_ids, attention_mask=None, token_type_ids=None): ...


def fast(backend, trainer, texts=CORPUS, wrapped=True, **more):
    backend.train_from_iterator(texts, trainer(special_tokens=NAMES, show_progress=False, **more))
    if wrapped:
        backend.post_processor = processors.TemplateProcessing(
            single="[BOS] $A [EOS]",
            pair="[BOS] $A [EOS] $B:1 [EOS]:1",
            special_tokens=[("[BOS]", 0), ("[EOS]", 2)],
        )
    names = ["input_ids", "token_type_ids", "attention_mask"]
    return PreTrainedTokenizerFast(tokenizer_object=backend, model_input_names=names, **SPECIAL)


def word_piece(texts=CORPUS, **more):
    backend = Tokenizer(backends.WordPiece(unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer()
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return fast(backend, trainers.WordPieceTrainer, texts, **more)


def byte_level(wrapped=False):
    backend = Tokenizer(backends.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    return fast(backend, trainers.BpeTrainer, ["good film very"], wrapped, initial_alphabet=alphabet, vocab_size=275)


def unigram():
    backend = Tokenizer(backends.Unigram())
    backend.normalizer = normalizers.NFKC()
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    return fast(backend, trainers.UnigramTrainer, unk_token="[UNK]", vocab_size=200)


def byte_fallback():
    """As Llama 2's: no pre-tokenizer, so the backend takes the whole text for one word."""
    vocabulary = [*NAMES, "▁", *"goodfilm", "▁film", *(f"<0x{number:02X}>" for number in range(256))]
    numbered = {name: place for place, name in enumerate(dict.fromkeys(vocabulary))}
    backend = Tokenizer(backends.BPE(numbered, [], unk_token="[UNK]", byte_fallback=True, fuse_unk=True))
    backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    return PreTrainedTokenizerFast(tokenizer_object=backend, **SPECIAL)


def slow_bert(tmp_path, like=None):
    words = (like or word_piece()).get_vocab()
    file = tmp_path / "vocab.txt"
    file.write_text("\n".join(sorted(words, key=words.get)))
    named = {"cls_token": "[BOS]", "sep_token": "[EOS]", "pad_token": "[PAD]", "unk_token": "[UNK]"}
    return BertTokenizerLegacy(str(file), mask_token="[MASK]", **named)


def slow_ctrl(tmp_path):
    """Byte-pair encoding whose tokens end in "@@" within a word; all it knows are letters, and a few pairs."""
    letters = sorted({character for text in TEXTS.values() for character in text if not character.isspace()})
    merges = ["g o", "o d</w>", "f i"]
    names = ["<unk>", *letters, *(f"{letter}@@" for letter in letters), "go@@", "od", "fi@@", "[PAD]"]
    (tmp_path / "vocab.json").write_text(json.dumps({name: place for place, name in enumerate(names)}))
    (tmp_path / "merges.txt").write_text("#version\n" + "\n".join(merges) + "\n")
    return CTRLTokenizer(str(tmp_path / "vocab.json"), str(tmp_path / "merges.txt"), pad_token="[PAD]")


KINDS = {
    "word_piece": lambda path: word_piece(),
    "byte_level": lambda path: byte_level(),
    "byte_level_wrapped": lambda path: byte_level(wrapped=True),
    "unigram": lambda path: unigram(),
    "byte_fallback": lambda path: byte_fallback(),
    "slow_bert": slow_bert,
    "slow_ctrl": slow_ctrl,
    "canine": lambda path: CanineTokenizer(),
    "byt5": lambda path: ByT5Tokenizer(),
    "words": lambda path: af.models.WordTokenizer.train(TEXTS.values(), min_count=1),
    "sentences": lambda path: af.models.WordTokenizer.train(TEXTS.values(), min_count=1, sentences=True),
}
SLOW = ["slow_bert", "slow_ctrl", "canine", "byt5"]


@pytest.fixture(scope="module", params=KINDS)
def kind(request, tmp_path_factory):
    return request.param, Texts(KINDS[request.param](tmp_path_factory.mktemp("vocabulary")), AnyModel())


def words_of(encoded, side=0):
    """The text of each word: from the first to the last character of its tokens."""
    text, found = (encoded.text, encoded.pair)[side], {}
    for own, word, span in zip(encoded.segments, encoded.words, encoded.offsets, strict=True):
        if own == side and span is not None:
            start, end = found.get(word, span)
            found[word] = (min(start, span[0]), max(end, span[1]))
    return [text[slice(*span)].strip() for span in found.values() if text[slice(*span)].strip()]


@pytest.mark.parametrize("name", TEXTS)
def test_offsets_lie_in_the_text_in_order_and_cover_it(kind, name):
    which, texts = kind
    text = TEXTS[name]
    (encoded,) = texts.encode([text])
    covered, last = set(), 0
    for token, span, own, word in zip(encoded.tokens, encoded.offsets, encoded.segments, encoded.words, strict=True):
        assert (own is None) == (word is None)
        if span is None:
            continue
        assert own == 0
        assert last <= span[0] < span[1] <= len(text)
        piece = text[slice(*span)]
        assert piece.strip() in ("", piece)
        assert token == piece or piece.isspace()
        covered |= set(range(*span))
        last = span[0]
    invisible = "\u00ad\u200d\ufe0f"
    left = {text[at] for at in range(len(text)) if at not in covered and text[at] not in invisible}
    found = all(span or own is None for span, own in zip(encoded.offsets, encoded.segments, strict=True))
    if found or which not in SLOW:
        assert not "".join(left).strip()
    if which in SLOW and name not in ("odd", "compatible"):
        assert encoded.notes == ()


@pytest.mark.parametrize("name", TEXTS)
def test_a_slow_tokenizer_is_aligned_as_its_fast_twin_says(tmp_path, name):
    tokenizer = word_piece()
    slow, quick = Texts(slow_bert(tmp_path, tokenizer), AnyModel()), Texts(tokenizer, AnyModel())
    found, expected = slow.encode([TEXTS[name]])[0], quick.encode([TEXTS[name]])[0]
    assert found.ids == expected.ids
    assert found.offsets == expected.offsets
    assert found.segments == expected.segments
    assert found.words == expected.words or name in ("inner", "odd")  # its own words part "can't", "3.50" and "&amp;"


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
        encoded = Texts(tokenizer, AnyModel()).encode([TEXTS["inner"]])[0]
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
    encoded = Texts(byte_level(), AnyModel()).encode(["a 👍🏽"])[0]
    thumbs = [place for place, span in enumerate(encoded.offsets) if span and span[0] >= 2]
    assert len(thumbs) == 8
    assert {encoded.offsets[place] for place in thumbs} == {(2, 3), (3, 4)}
    assert len({encoded.words[place] for place in thumbs}) == 1


def test_a_mixed_batch_is_each_alone(kind):
    _, texts = kind
    entries = [*TEXTS.values(), ("good film", "very good"), "film"]
    together = texts.encode(entries)
    assert together == [texts.encode([entry])[0] for entry in entries]


def test_batches_cover_every_index_once_and_collate_pads_where_the_tokenizer_does(kind):
    _, texts = kind
    encoded = texts.encode([*TEXTS.values(), "good", "film"])
    for side in ("right", "left"):
        texts.tokenizer.padding_side = side
        batches = list(texts.batches(encoded, 3))
        assert sorted(index for batch in batches for index in batch) == list(range(len(encoded)))
        assert max(map(len, batches)) == 3
        for batch in batches:
            inputs = texts.collate([encoded[index] for index in batch])
            width = max(len(encoded[index].ids) for index in batch)
            for row, index in enumerate(batch):
                ids = encoded[index].ids
                real = slice(0, len(ids)) if side == "right" else slice(width - len(ids), width)
                assert inputs["input_ids"][row, real].tolist() == list(ids)
                mask = torch.zeros(width, dtype=torch.int64)
                mask[real] = 1
                assert torch.equal(inputs["attention_mask"][row], mask)
                rest = inputs["input_ids"][row][mask == 0]
                assert (rest == texts.tokenizer.pad_token_id).all()
    texts.tokenizer.padding_side = "right"


def test_without_a_padding_token_only_equal_lengths_share_a_batch():
    tokenizer = byte_level()
    tokenizer.pad_token = None
    texts = Texts(tokenizer, AnyModel())
    encoded = texts.encode(["aa", "bbb", "cc", "d"])
    assert sorted(map(sorted, texts.batches(encoded, 8))) == [[0, 2], [1], [3]]
    with pytest.raises(InputError, match="padding token"):
        texts.collate(encoded)
    model = tiny_model("gpt2")
    model.config.pad_token_id = None
    model.resize_token_embeddings(300)
    assert [len(batch) for batch in Texts(tokenizer, model).batches(encoded, 8)] == [1, 1, 1, 1]


def test_left_padding_is_not_mixed_with_counted_positions():
    tokenizer = word_piece(SHORT)
    tokenizer.padding_side = "left"
    for family, mixed in (("gpt2", False), ("llama", True)):
        texts = Texts(tokenizer, tiny_model(family))
        encoded = [*texts.encode(["a", "a a"])]
        assert len(list(texts.batches(encoded, 8))) == (1 if mixed else 2)


@pytest.mark.parametrize("side", ["right", "left"])
def test_truncation_is_counted_and_said(kind, side):
    _, texts = kind
    tokenizer = texts.tokenizer
    entry, paired = TEXTS["english"], (TEXTS["english"], "good very good")
    tokenizer.truncation_side = side
    try:
        short = Texts(tokenizer, AnyModel(), max_length=7)
        for one in (entry, paired):
            whole, (cut,) = texts.encode([one])[0], short.encode([one])
            assert len(cut.ids) == 7
            assert cut.truncated == len(whole.ids) - 7
            assert f"{cut.truncated} tokens were cut off" in cut.notes[-1]
            for own in {0, 1} & set(cut.segments):
                spans = [[s for s, o in zip(e.offsets, e.segments, strict=True) if o == own] for e in (cut, whole)]
                n = len(spans[0])
                inside = spans[1][:n] if side == "right" else spans[1][len(spans[1]) - n :]
                assert spans[0][1:-1] == inside[1:-1]  # at the edge the marks' owner may have been cut off
    finally:
        tokenizer.truncation_side = "right"


def test_limits_of_models():
    assert position_limit(AnyModel()) is None
    limits = {family: position_limit(tiny_model(family)) for family in ("bert", "gpt2", "roberta", "t5", "xlnet")}
    assert limits == {"bert": 128, "gpt2": 128, "roberta": 126, "t5": None, "xlnet": None}
    assert position_limit(tiny_model("deberta-v2")) in (None, 128)
    texts = Texts(word_piece(SHORT), tiny_model("roberta"))
    assert texts.max_length == 126
    (encoded,) = texts.encode(["film " * 500])
    assert len(encoded.ids) == 126
    assert texts.model(**texts.collate([encoded])).logits.isfinite().all()
    texts.tokenizer.model_max_length = 20
    assert Texts(texts.tokenizer, texts.model).max_length == 20
    assert Texts(texts.tokenizer, texts.model, 50).max_length == 50
    with pytest.raises(InputError, match="126 tokens"):
        Texts(texts.tokenizer, texts.model, 127)


@pytest.mark.slow
@pytest.mark.parametrize("family", sorted({*model_types()} - {"layoutlmv2"}))  # needs a package not installed
def test_limits_are_within_what_the_configuration_says(family):
    limit = position_limit(tiny_model(family))
    assert limit is None or 0 < limit <= 128


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ([], "empty list"),
        (["good", None], "Entry 1 is of type NoneType"),
        (["good", ["film"], "bad"], "Entry 1 is of type list"),
        ([b"good"], "It is of type bytes"),
        (["good", ("a", 3)], "second text of entry 1 is of type int"),
        ([("a", "b", "c")], "tuple of 3"),
        (["good", ("a",)], "Entry 1 is a tuple of 1"),
        (["good", "bad \ud83d"], "Entry 1 holds half a character.*place 4"),
    ],
)
def test_bad_entries_are_named(kind, entries, said):
    with pytest.raises(InputError, match=said):
        kind[1].encode(entries)


BARE = dict.fromkeys(KINDS, (False, False)) | {
    "byte_level": (True, False),  # white space is a token there
    "byte_fallback": (True, False),
    "slow_ctrl": (True, True),
    "words": (True, True),
    "sentences": (True, True),
}


@pytest.mark.parametrize("empty", ["", " \n\t "])
def test_empty_text_is_explained_where_something_is_left_to_classify(kind, empty):
    which, texts = kind
    if not BARE[which][bool(empty)]:
        assert any("the text is empty" in note for note in texts.encode(["good", empty])[1].notes)
        return
    with pytest.raises(InputError, match=r"Entry 1 is empty or white space, and .* adds no special tokens"):
        texts.encode(["good", empty])


def test_an_empty_half_of_a_pair_is_said():
    assert Texts(word_piece(), AnyModel()).encode([("good", "")])[0].notes == ("the second text is empty",)


def test_room_and_settings():
    tokenizer = word_piece()
    for wrong in (0, -1, True, "7", 2.0):
        with pytest.raises(InputError, match="max_length to be a whole number"):
            Texts(tokenizer, AnyModel(), wrong)
    with pytest.raises(InputError, match=r"no room for a text.*at least 3"):
        Texts(tokenizer, AnyModel(), 2).encode(["good"])
    with pytest.raises(InputError, match=r"no room for a pair.*at least 5"):
        Texts(tokenizer, AnyModel(), 4).encode([("good", "film")])
    with pytest.raises(InputError, match="Transformers tokenizer, got str"):
        Texts("bert-base-uncased", AnyModel())
    with pytest.raises(InputError, match="batch_size"):
        list(Texts(tokenizer, AnyModel()).batches([], 0))


def test_a_model_that_does_not_fit_the_tokenizer():
    with pytest.raises(InputError, match="vocabulary has 99"):
        Texts(byte_level(), tiny_model("bert")).encode(["good film"])
    model = tiny_model("bert")
    model.config.type_vocab_size = 1
    tokenizer = word_piece(SHORT)
    with pytest.raises(InputError, match=r"Entry 1 is a pair.*does not take pairs"):
        Texts(tokenizer, model).encode(["film", ("film", "film")])
    words = af.models.WordTokenizer.train(["film"], min_count=1)
    query = af.models.from_preset("FLANrnn", num_labels=2, tokenizer=words, query=True)
    with pytest.raises(InputError, match="this model reads pairs"):
        Texts(words, query).encode(["film"])


def test_only_what_the_model_names_is_given():
    tokenizer = word_piece(SHORT)
    assert "token_type_ids" in Texts(tokenizer, tiny_model("bert")).encode(["film"])[0].inputs
    assert "token_type_ids" not in Texts(tokenizer, tiny_model("distilbert")).encode(["film"])[0].inputs


def test_special_tokens_written_in_a_text_are_no_words(kind):
    which, texts = kind
    if which in ("canine", "byt5", "slow_ctrl"):
        return
    name = texts.tokenizer.eos_token or texts.tokenizer.sep_token
    (encoded,) = texts.encode([f"good {name} film"])
    assert words_of(encoded) == ["good", "film"]
    assert any(name in note for note in encoded.notes)


def test_special_ids():
    assert special_ids_of(None, None) == frozenset()
    assert special_ids_of(None, word_piece()) == {0, 1, 2, 4}  # without the unknown token
    tokenizer = byte_level()
    tokenizer.unk_token = tokenizer.eos_token  # GPT-2: one token in all roles
    assert tokenizer.eos_token_id in special_ids_of(None, tokenizer)
    assert special_ids_of(tiny_model("xlm").config) >= {0, 1, 2}
    assert 3 not in special_ids_of(tiny_model("xlm").config)  # unk_index


def test_alignment_without_help():
    assert align(["[UNK]", "a", "##b"], "Zürich ab") == [(0, 6), (7, 8), (8, 9)]
    assert align(["x"], "abc") == [(0, 3)]
    assert align(["x", "y"], "abc") == [None, None]
    assert align(["▁", "▁film"], "film") == [None, (0, 4)]


def test_sentences_are_the_tokenizer_s_own():
    tokenizer = af.models.WordTokenizer.train(["It was good. I cried."], min_count=1, sentences=True)
    encoded = Texts(tokenizer, AnyModel()).encode([("It was. I cried.", "Good.")])[0]
    real = [number for number, own in zip(encoded.sentences, encoded.segments, strict=True) if own is not None]
    assert real == [0, 0, 0, 1, 1, 1, 2, 2]
    assert Texts(word_piece(), AnyModel()).encode(["It was. Good."])[0].sentences is None
