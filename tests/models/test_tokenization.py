# ruff: noqa: RUF001 (characters that look like others are the point here)
"""The tokenizer: what a word is, where it stands in the text as given, and where sentences end."""

import random

import pytest
import torch
from transformers import AutoTokenizer

import attnfaith.models as models
from attnfaith.errors import InputError

REVIEW = 'Dr. Lee paid $3.50, i.e. too much.  He said: "It isn\'t good." \n\n I cried... Really? Yes!'
TRICKY = {
    "english": REVIEW,
    "emoji": "Loved it 😀👍🏽! The 👩‍👩‍👧 too ❤️. Me 🇫🇷.",
    "chinese": "他说你好。我很好！真的吗？",
    "japanese": "とても良い。映画です。",
    "thai": "สวัสดี ครับ",
    "hebrew": "שָׁלוֹם עולם. מה שלומך?",
    "arabic": "مرحبا بك. كيف حالك؟",
    "persian": "می‌خواهم بروم.",
    "decomposed": "Cafe\u0301 au lait. Tre\u0300s bon.",
    "invisible": "so\u00adft\u200b word. \u200b\u200b. Next\ufeff one.",
    "turkish": "İstanbul güzel. Çok güzel.",
    "control": "a\x00b. c\td.",
    "empty": "",
    "blank": " \n\t ",
}


@pytest.fixture(scope="module", params=[False, True], ids=["flat", "sentences"])
def tokenizer(request):
    return models.WordTokenizer.train(list(TRICKY.values()), min_count=1, sentences=request.param)


@pytest.fixture(scope="module")
def by_sentences():
    return models.WordTokenizer.train(list(TRICKY.values()), min_count=1, sentences=True)


def words(encoded, text):
    return [text[a:b] for a, b in encoded["offset_mapping"] if a < b]


def test_what_a_word_is(tokenizer):
    text = "I don't think it's J.K.'s 2nd, 3.50 or 1,000 well-made U.S. films... \"Wow!\" can’t I'LL o'clock a_b"
    expected = "I do n't think it 's J.K. 's 2nd , 3.50 or 1,000 well - made U.S. films".split()
    expected += "... \" Wow ! \" ca n’t I 'LL o ' clock a_b".split()
    assert words(tokenizer(text, return_offsets_mapping=True), text) == expected


def test_words_of_other_scripts(tokenizer):
    cases = {
        "emoji": "Loved it 😀 👍🏽 ! The 👩‍👩‍👧 too ❤️ . Me 🇫🇷 .",
        "chinese": "他 说 你 好 。 我 很 好 ！ 真 的 吗 ？",
        "hebrew": "שָׁלוֹם עולם . מה שלומך ?",
        "persian": "می‌خواهم بروم .",
        "decomposed": "Cafe\u0301 au lait . Tre\u0300s bon .",
        "thai": "ส วั ส ดี ค รั บ",
    }
    for name, expected in cases.items():
        assert words(tokenizer(TRICKY[name], return_offsets_mapping=True), TRICKY[name]) == expected.split(), name


@pytest.mark.parametrize("name", TRICKY)
def test_offsets_and_words_refer_to_the_original_text(tokenizer, name):
    text = TRICKY[name]
    encoded = tokenizer(text, return_offsets_mapping=True, return_special_tokens_mask=True)
    assert tokenizer.is_fast
    assert encoded.is_fast
    ids, special = encoded["input_ids"], encoded["special_tokens_mask"]
    assert [token == tokenizer.sentence_token_id for token in ids] == [bool(flag) for flag in special]
    numbers = [number for number in encoded.word_ids() if number is not None]
    assert numbers == list(range(len(numbers)))
    assert [number is None for number in encoded.word_ids()] == [bool(flag) for flag in special]
    end = 0
    for position, (start, stop) in enumerate(encoded["offset_mapping"]):
        assert start >= end  # in order, without overlap
        end = stop
        if special[position]:
            assert start == stop
            continue
        word = text[start:stop]
        assert word.strip() == word != ""
        assert encoded.char_to_token(start) == position
        assert encoded.word_to_chars(encoded.word_ids()[position]) == (start, stop)
        known = tokenizer.convert_ids_to_tokens(ids[position])
        assert known == word.translate({0xAD: None, 0x200B: None, 0xFEFF: None}).lower().replace("’", "'")
    covered = {i for start, stop in encoded["offset_mapping"] for i in range(start, stop)}
    left = "".join(character for i, character in enumerate(text) if i not in covered)
    assert left.strip(" \n\t\u200b\ufeff") == ""  # nothing visible got lost


def test_sentences_change_no_word():
    flat, marked = (models.WordTokenizer.train(TRICKY.values(), min_count=1, sentences=s) for s in (False, True))
    for text in TRICKY.values():
        ids = [token for token in marked(text)["input_ids"] if token != marked.sentence_token_id]
        assert ids == flat(text)["input_ids"]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        (REVIEW, ["Dr. Lee paid $3.50, i.e. too much.", 'He said: "It isn\'t good."', "I cried...", "Really?", "Yes!"]),
        ("Mr. and Mrs. A. B. Smith went. At 8 p.m. on Jan. 5th it cost 1.5 vs. 2.5.", None),
        ("no sentence mark at all", ["no sentence mark at all"]),
        ("他说你好。我很好！", ["他说你好。", "我很好！"]),
        ("Good 😀. Bad.\n\n\n\n \u200b \n\nEnd", ["Good 😀.", "Bad.", "End"]),
        ("“I hate it.” She smiled. ‘Fine.’", ["“I hate it.”", "She smiled.", "‘Fine.’"]),
        ("", []),
        ("  \n ", []),
    ],
)
def test_sentence_boundaries(by_sentences, text, sentences):
    if sentences is None:
        sentences = ["Mr. and Mrs. A. B. Smith went.", "At 8 p.m. on Jan. 5th it cost 1.5 vs. 2.5."]
    assert sentences_of(by_sentences, text) == sentences


def test_a_text_that_the_splitter_fails_on_keeps_its_words(by_sentences):
    text = "By D\u3000. Lee. It ended."  # sentencex 1.0.32 raises an error, 1.0.15 ends a sentence at "D"
    sentences = sentences_of(by_sentences, text)
    assert sentences[-1] == "It ended."
    assert " ".join(sentences) == text


def sentences_of(tokenizer, text):
    """The stretches of the text between the sentence marks of its encoding, none of them empty."""
    encoded = tokenizer(text, return_offsets_mapping=True)
    runs = [[]]
    for token, span in zip(encoded["input_ids"], encoded["offset_mapping"], strict=True):
        if token == tokenizer.sentence_token_id:
            runs.append([])
        else:
            runs[-1].append(span)
    assert all(runs) or runs == [[]]
    return [text[run[0][0] : run[-1][1]] for run in runs if run]


def test_min_count_is_inclusive_and_unknown_words_keep_their_text():
    texts = ["five five five five five four four four four"]
    tokenizer = models.WordTokenizer.train(texts, min_count=5)
    text = "Five four zebra"
    encoded = tokenizer(text, return_offsets_mapping=True)
    assert encoded.tokens() == ["five", "[UNK]", "[UNK]"]
    assert words(encoded, text) == ["Five", "four", "zebra"]
    assert len(models.WordTokenizer.train(texts, min_count=1, max_words=1)) == 5
    assert len(models.WordTokenizer.train(["Aa aa"], min_count=1, lowercase=False)) == 6


def test_special_ids_are_those_the_configuration_expects(tokenizer):
    config = models.AttentionClassifierConfig()
    assert tokenizer.pad_token_id == config.pad_token_id
    assert tokenizer.sep_token_id == config.sep_token_id
    assert tokenizer.sentence_token_id == config.sentence_token_id
    assert tokenizer.unk_token_id == 1


def test_pairs(tokenizer):
    first, second = "He left. I cried.", "Why? Nobody knows."
    encoded = tokenizer(first, second, return_offsets_mapping=True)
    middle = encoded["input_ids"].index(tokenizer.sep_token_id)
    assert encoded["token_type_ids"] == [0] * (middle + 1) + [1] * (len(encoded["input_ids"]) - middle - 1)
    assert [first[a:b] for a, b in encoded["offset_mapping"][:middle] if a < b] == "He left . I cried .".split()
    assert [second[a:b] for a, b in encoded["offset_mapping"][middle + 1 :] if a < b] == "Why ? Nobody knows .".split()
    assert [n for n in encoded.word_ids() if n is not None] == [*range(6), *range(5)]
    boundaries = encoded["input_ids"].count(tokenizer.sentence_token_id)
    assert boundaries == (2 if tokenizer.sentences else 0)
    together = tokenizer([first, "a"], [second, "b"])
    assert together["input_ids"][0] == encoded["input_ids"]
    assert tokenizer([(first, second), ("a", "b")])["input_ids"] == together["input_ids"]


@pytest.mark.parametrize("side", ["right", "left"])
def test_batches_padding_and_truncation(tokenizer, side):
    texts = [REVIEW, "", "Yes! He cried. Really?"]
    encoded = tokenizer(texts, padding=True, truncation=True, max_length=9, return_tensors="pt", padding_side=side)
    assert encoded["input_ids"].shape == encoded["attention_mask"].shape == (3, 9)
    assert encoded["input_ids"].dtype == torch.long
    for row, text in enumerate(texts):
        alone = tokenizer(text)["input_ids"][:9]
        assert encoded["input_ids"][row][encoded["attention_mask"][row].bool()].tolist() == alone
        for position, (number, (start, stop)) in enumerate(
            zip(encoded.word_ids(row), encoded.encodings[row].offsets, strict=True)
        ):
            if number is not None:
                assert encoded.char_to_token(row, start) == position
                assert start < stop <= len(text)


def test_windows_over_a_long_text(tokenizer):
    whole = tokenizer(REVIEW, return_offsets_mapping=True)
    windows = tokenizer(
        REVIEW, truncation=True, max_length=6, stride=2, return_overflowing_tokens=True, return_offsets_mapping=True
    )
    step = 4
    for i, (ids, offsets) in enumerate(zip(windows["input_ids"], windows["offset_mapping"], strict=True)):
        index = slice(i * step, i * step + len(ids))
        assert ids == whole["input_ids"][index]
        assert offsets == whole["offset_mapping"][index]
        assert windows.word_ids(i) == whole.word_ids()[index]
    assert windows["overflow_to_sample_mapping"] == [0] * len(windows["input_ids"])


def test_left_truncation_keeps_the_numbers_of_words(by_sentences):
    by_sentences.truncation_side = "left"
    try:
        whole = by_sentences(REVIEW, return_offsets_mapping=True)
        cut = by_sentences(REVIEW, truncation=True, max_length=7, return_offsets_mapping=True)
        assert cut["input_ids"] == whole["input_ids"][-7:]
        assert cut["offset_mapping"] == whole["offset_mapping"][-7:]
        assert cut.word_ids() == whole.word_ids()[-7:]
    finally:
        by_sentences.truncation_side = "right"


def test_pretokenized_words(tokenizer):
    given = ["He", "left.", "Dr.", "Lee", "isn't", "good", "."]
    encoded = tokenizer(given, is_split_into_words=True, return_offsets_mapping=True)
    pieces = [
        given[n][a:b] for n, (a, b) in zip(encoded.word_ids(), encoded["offset_mapping"], strict=True) if n is not None
    ]
    assert pieces == "He left . Dr . Lee is n't good .".split()
    assert [n for n in encoded.word_ids() if n is not None] == [0, 1, 1, 2, 2, 3, 4, 4, 5, 6]
    boundary = [i for i, token in enumerate(encoded["input_ids"]) if token == tokenizer.sentence_token_id]
    assert boundary == ([3] if tokenizer.sentences else [])
    several = tokenizer([given, ["Yes", "!"], []], is_split_into_words=True)
    assert several["input_ids"][0] == encoded["input_ids"]
    assert len(several["input_ids"][1]) == 2


def test_saving_and_loading(tokenizer, tmp_path):
    tokenizer.save_pretrained(tmp_path)
    for loaded in (AutoTokenizer.from_pretrained(tmp_path), models.WordTokenizer.from_pretrained(tmp_path)):
        assert type(loaded) is models.WordTokenizer
        assert loaded.sentences == tokenizer.sentences
        assert loaded.get_vocab() == tokenizer.get_vocab()
        assert loaded.sentence_token_id == tokenizer.sentence_token_id
        for text in TRICKY.values():
            left, right = loaded(text, return_offsets_mapping=True), tokenizer(text, return_offsets_mapping=True)
            assert dict(left) == dict(right)
            assert left.word_ids() == right.word_ids()


def test_training_is_deterministic():
    first, second = (models.WordTokenizer.train(iter(TRICKY.values()), min_count=1) for _ in range(2))
    assert first.get_vocab() == second.get_vocab()


def test_bad_input_is_refused(by_sentences):
    with pytest.raises(InputError, match="one string"):
        models.WordTokenizer.train("a text", min_count=1)
    with pytest.raises(InputError, match="smaller min_count"):
        models.WordTokenizer.train(["one two"], min_count=5)
    with pytest.raises(InputError, match="as many texts"):
        by_sentences(["a", "b"], ["c"])
    with pytest.raises(InputError, match="split_special_tokens"):
        by_sentences("a. b.", split_special_tokens=True)


def test_any_mixture_of_characters():
    """Whatever a text holds, both kinds see the same words, in order, with nothing visible lost."""
    rng = random.Random(0)
    pieces = [
        *"abC .!?…\"'”()-\n\t 01",
        "Dr. ",
        "U.S. ",
        "他",
        "。",
        "ש",
        "ָ",
        "😀",
        "👍🏽",
        "👩‍👩‍👧",
        "\u0301",
        "n't",
        "İ",
        "\x00",
        "ส",
        "\ue000",
    ]
    texts = ["".join(rng.choice(pieces) for _ in range(rng.randint(0, 60))) for _ in range(500)]
    flat, marked = (models.WordTokenizer.train(texts, min_count=1, sentences=s) for s in (False, True))
    plain, cut = flat(texts, return_offsets_mapping=True), marked(texts, return_offsets_mapping=True)
    for i, text in enumerate(texts):
        kept = [n is not None for n in cut.word_ids(i)]
        assert [n for n in cut.word_ids(i) if n is not None] == plain.word_ids(i) == list(range(sum(kept)))
        assert [span for span, word in zip(cut["offset_mapping"][i], kept, strict=True) if word] == plain[
            "offset_mapping"
        ][i]
        assert [token for token, word in zip(cut["input_ids"][i], kept, strict=True) if word] == plain["input_ids"][i]
        spans = plain["offset_mapping"][i]
        gaps = zip([0, *(end for _, end in spans)], [*(start for start, _ in spans), len(text)], strict=True)
        assert all(not text[start:end].strip() for start, end in gaps)
        assert all(kept[p] or kept[p + 1] for p in range(len(kept) - 1))
