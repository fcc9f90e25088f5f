"""Entries, settings and models with which no text can be encoded; and empty texts, which sometimes can."""

import pytest

import attnfaith as af
from attnfaith.errors import InputError
from attnfaith.text.encoder import TextEncoder
from attnfaith.tiny_models import tiny_model
from tests.helpers.odd_texts import KINDS, SHORT, AnyModel, byte_level, word_piece

BARE = dict.fromkeys(KINDS, (False, False)) | {
    "byte_level": (True, False),  # white space is a token there
    "byte_fallback": (True, False),
    "slow_ctrl": (True, True),
    "words": (True, True),
    "sentences": (True, True),
}


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([], "empty list"),
        (["good", None], "Entry 1 is of type NoneType"),
        (["good", ["film"], "bad"], "Entry 1 is of type list"),
        ([b"good"], "It is of type bytes"),
        (["good", ("a", 3)], "second text of entry 1 is of type int"),
        ([("a", "b", "c")], "tuple of 3"),
        (["good", ("a",)], "Entry 1 is a tuple of 1"),
        (["good", "bad \ud83d"], "Entry 1 holds half a character.*position 4"),
    ],
)
def test_bad_entries_are_named(kind, entries, message):
    with pytest.raises(InputError, match=message):
        kind[1].encode(entries)


@pytest.mark.parametrize("empty", ["", " \n\t "])
def test_empty_text_is_explained_where_something_is_left_to_classify(kind, empty):
    which, texts = kind
    if not BARE[which][bool(empty)]:
        assert any("the text is empty" in note for note in texts.encode(["good", empty])[1].notes)
        return
    with pytest.raises(InputError, match=r"Entry 1 is empty or white space, and .* adds no special tokens"):
        texts.encode(["good", empty])


def test_an_empty_half_of_a_pair_is_reported():
    assert TextEncoder(word_piece(), AnyModel()).encode([("good", "")])[0].notes == ("the second text is empty",)


def test_room_and_settings():
    tokenizer = word_piece()
    for wrong in (0, -1, True, "7", 2.0):
        with pytest.raises(InputError, match="max_length to be a whole number"):
            TextEncoder(tokenizer, AnyModel(), wrong)
    with pytest.raises(InputError, match=r"no room for a text.*at least 3"):
        TextEncoder(tokenizer, AnyModel(), 2).encode(["good"])
    with pytest.raises(InputError, match=r"no room for a pair.*at least 5"):
        TextEncoder(tokenizer, AnyModel(), 4).encode([("good", "film")])
    with pytest.raises(InputError, match="Transformers tokenizer, got str"):
        TextEncoder("bert-base-uncased", AnyModel())
    with pytest.raises(InputError, match="batch_size"):
        list(TextEncoder(tokenizer, AnyModel()).batches([], 0))


def test_a_model_that_does_not_fit_the_tokenizer():
    with pytest.raises(InputError, match="vocabulary has 99"):
        TextEncoder(byte_level(), tiny_model("bert")).encode(["good film"])
    model = tiny_model("bert")
    model.config.type_vocab_size = 1
    tokenizer = word_piece(SHORT)
    with pytest.raises(InputError, match=r"Entry 1 is a pair.*does not take pairs"):
        TextEncoder(tokenizer, model).encode(["film", ("film", "film")])
    words = af.models.WordTokenizer.train(["film"], min_count=1)
    query = af.models.from_preset("FLANrnn", num_labels=2, tokenizer=words, query=True)
    with pytest.raises(InputError, match="this model reads pairs"):
        TextEncoder(words, query).encode(["film"])
