"""What a model is given: texts in batches, padded where its tokenizer pads, with the inputs it names."""

import pytest
import torch

from attnfaith.errors import InputError
from attnfaith.text.encoder import TextEncoder, special_ids_of
from attnfaith.tiny_models import tiny_model
from tests.helpers.odd_texts import SHORT, TEXTS, AnyModel, byte_level, word_piece


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
    texts = TextEncoder(tokenizer, AnyModel())
    encoded = texts.encode(["aa", "bbb", "cc", "d"])
    assert sorted(map(sorted, texts.batches(encoded, 8))) == [[0, 2], [1], [3]]
    with pytest.raises(InputError, match="padding token"):
        texts.collate(encoded)
    model = tiny_model("gpt2")
    model.config.pad_token_id = None
    model.resize_token_embeddings(300)
    assert [len(batch) for batch in TextEncoder(tokenizer, model).batches(encoded, 8)] == [1, 1, 1, 1]


def test_left_padding_is_not_mixed_with_counted_positions():
    tokenizer = word_piece(SHORT)
    tokenizer.padding_side = "left"
    for family, mixed in (("gpt2", False), ("llama", True)):
        texts = TextEncoder(tokenizer, tiny_model(family))
        encoded = [*texts.encode(["a", "a a"])]
        assert len(list(texts.batches(encoded, 8))) == (1 if mixed else 2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("family", "mixed"), [("axk2", False), ("llama", True)])
def test_lengths_are_not_mixed_where_padding_decides_between_equal_keys(family, mixed, dtype):
    """The index of AXK2 scores all keys 0 for a query that is the zero vector, and `topk` takes others in other widths.

    It is no matter of precision: the logits move by their scale.
    """
    tokenizer = word_piece(SHORT)
    tokenizer.padding_side = "left"
    assert TextEncoder(tokenizer, tiny_model(family, dtype=dtype)).mixes_lengths is mixed


def test_only_what_the_model_names_is_given():
    tokenizer = word_piece(SHORT)
    assert "token_type_ids" in TextEncoder(tokenizer, tiny_model("bert")).encode(["film"])[0].inputs
    assert "token_type_ids" not in TextEncoder(tokenizer, tiny_model("distilbert")).encode(["film"])[0].inputs


def test_special_ids():
    assert special_ids_of(None, None) == frozenset()
    assert special_ids_of(None, word_piece()) == {0, 1, 2, 4}  # without the unknown token
    tokenizer = byte_level()
    tokenizer.unk_token = tokenizer.eos_token  # GPT-2: one token in all roles
    assert tokenizer.eos_token_id in special_ids_of(None, tokenizer)
    assert special_ids_of(tiny_model("xlm").config) >= {0, 1, 2}
    assert 3 not in special_ids_of(tiny_model("xlm").config)  # unk_index
