"""Laws of dummy inputs, for every family that can be built here."""

import random
import types

import numpy as np
import pytest
import torch
from torch import nn

from attnfaith.adapters.dummy_inputs import make_dummy_inputs
from attnfaith.errors import AttnFaithError, InputError
from attnfaith.tiny_models import model_types, tiny_model

PAD, EOS = 1, 2
BUT_WIDTH = {"mra"}  # only takes multiples of 32


@pytest.fixture(scope="module")
def models():
    """Every family's tiny model, made when first asked for."""
    made = {}

    def get(model_type):
        if model_type not in made:
            try:
                made[model_type] = tiny_model(model_type)
            except AttnFaithError as error:
                made[model_type] = error
        if isinstance(made[model_type], AttnFaithError):
            pytest.skip(str(made[model_type]).splitlines()[0])
        return made[model_type]

    return get


def logits(model, inputs):
    with torch.no_grad():
        return model(**inputs).logits


@pytest.mark.parametrize("model_type", model_types())
@pytest.mark.parametrize("side", ["right", "left"])
def test_every_family_accepts_its_inputs(models, model_type, side):
    model = models(model_type)
    inputs = make_dummy_inputs(model, padding_side=side)
    result = logits(model, inputs)
    assert result.shape == (2, 3)
    assert result.isfinite().all()


@pytest.mark.parametrize("model_type", model_types())
@pytest.mark.parametrize("side", ["right", "left"])
def test_shape_padding_and_special_tokens(models, model_type, side):
    model = models(model_type)
    lengths = (9, 6, 3)
    inputs = make_dummy_inputs(model, lengths, side)
    ids, mask = inputs["input_ids"], inputs["attention_mask"]
    assert ids.dtype == mask.dtype == torch.int64
    assert mask.sum(1).tolist() == list(lengths)
    assert all(tensor.shape[:2] == ids.shape for tensor in inputs.values())
    if model_type not in BUT_WIDTH:
        assert ids.shape == (3, 9)
    ordinary_from = {"canine": ord("a"), "perceiver": 1}.get(model_type, 3)  # Perceiver's configuration names no ids
    pad = 0 if model_type == "perceiver" else PAD
    for row, real, length in zip(ids, mask.bool(), lengths, strict=True):
        where = real.nonzero().flatten().tolist()
        first = 0 if side == "right" else len(row) - length
        assert where == list(range(first, first + length))
        text = row[real]
        assert (text[1:-1] >= ordinary_from).all()
        assert (text != pad).all()
        assert (row[~real] == pad).all()
        if model.config.is_encoder_decoder:
            assert (text == EOS).nonzero().flatten().tolist() == [length - 1]


def test_no_special_id_of_the_configuration_is_drawn(models):
    config = models("gemma3").config  # image tokens too, and the text's own ids in a sub-configuration
    special = {config.image_token_index, config.boi_token_index, config.eoi_token_index}
    special |= {config.text_config.pad_token_id, config.text_config.bos_token_id, config.text_config.eos_token_id}
    assert len(special) == 6
    assert not special & set(make_dummy_inputs(models("gemma3"), (120,))["input_ids"][0, 1:].tolist())


def test_padding_with_id_0_by_convention_is_not_drawn(models):
    assert not hasattr(models("perceiver").config, "pad_token_id")
    assert (make_dummy_inputs(models("perceiver"), (120, 120, 120))["input_ids"] != 0).all()


def test_several_end_tokens_are_all_special(models):
    config = models("glm").config
    ends, config.eos_token_id = config.eos_token_id, [2, 50, 51]
    try:
        ids = make_dummy_inputs(models("glm"), (120,))["input_ids"]
    finally:
        config.eos_token_id = ends
    assert not {2, 50, 51} & set(ids.flatten().tolist())


def test_draws_are_keyed_by_seed_and_row(models):
    model = models("bert")
    both = make_dummy_inputs(model, (9, 6), seed=3)["input_ids"]
    other_order_of_lengths = make_dummy_inputs(model, (12, 6), seed=3)["input_ids"]
    assert torch.equal(both, make_dummy_inputs(model, (9, 6), seed=3)["input_ids"])
    assert torch.equal(both[1, :6], other_order_of_lengths[1, :6])
    assert torch.equal(both[1, :6], make_dummy_inputs(model, (9, 6), "left", seed=3)["input_ids"][1, 3:])
    assert not torch.equal(both, make_dummy_inputs(model, (9, 6), seed=4)["input_ids"])
    assert not torch.equal(both[0, :6], both[1, :6])


@pytest.mark.parametrize("model_type", ["bert", "layoutlm", "tapas", "markuplm", "roc_bert", "qwen3_next"])
def test_global_random_state_is_untouched(model_type):
    def state():
        return torch.get_rng_state().tolist(), np.random.get_state()[1].tolist(), random.getstate()  # noqa: NPY002

    before = state()
    make_dummy_inputs(tiny_model(model_type))
    assert state() == before


def test_layout_boxes_have_ordered_corners(models):
    boxes = make_dummy_inputs(models("layoutlm"))["bbox"]
    assert (boxes[..., 2:] >= boxes[..., :2]).all()
    assert (boxes < models("layoutlm").config.max_2d_position_embeddings).all()
    assert (boxes[1, 6:] == 0).all()


def test_table_columns(models):
    columns = make_dummy_inputs(models("tapas"))["token_type_ids"]
    assert columns.shape == (2, 9, 7)
    assert (columns < torch.tensor(models("tapas").config.type_vocab_sizes)).all()


def test_a_language_is_passed_only_if_the_configuration_has_none(models):
    model = models("xmod")
    assert "lang_ids" not in make_dummy_inputs(model)
    model.config.default_language = None
    try:
        inputs = make_dummy_inputs(model)
        assert logits(model, inputs).isfinite().all()
    finally:
        model.config.default_language = "en_XX"
    assert inputs["lang_ids"].tolist() == [0, 0]


def test_without_padding_token_a_single_row(models):
    for pad in (None, -1):
        model = tiny_model("llama")
        model.config.pad_token_id = pad
        inputs = make_dummy_inputs(model, (6, 9, 4))
        assert inputs["input_ids"].shape == (1, 9)
        assert inputs["attention_mask"].all()
        assert logits(model, inputs).isfinite().all()


def test_padding_that_is_the_end_token(models):
    model = tiny_model("gpt2")  # as GPT-2 is mostly used: one token is start, end and padding
    model.config.pad_token_id = model.config.eos_token_id = model.config.bos_token_id = 98
    inputs = make_dummy_inputs(model)
    assert torch.equal(inputs["input_ids"] != 98, inputs["attention_mask"].bool())


def test_vocabulary_from_the_embeddings(models):
    model = tiny_model("esm")
    model.config.vocab_size = None
    ids = make_dummy_inputs(model, (100,))["input_ids"]
    assert 50 < ids.max() < 99


def test_position_limits(models):
    roberta = models("roberta")
    limit = roberta.config.max_position_embeddings - PAD - 1
    assert logits(roberta, make_dummy_inputs(roberta, (limit,))).isfinite().all()
    with pytest.raises(InputError, match=f"at most {limit} tokens"):
        make_dummy_inputs(roberta, (limit + 1,))
    with pytest.raises(InputError, match="at most 128 tokens"):
        make_dummy_inputs(models("gpt2"), (129,))


def test_families_that_accept_one_width_only(models):
    model = tiny_model("nystromformer")
    model.config.num_landmarks, model.config.segment_means_seq_len = 4, 16
    inputs = make_dummy_inputs(model)
    assert inputs["input_ids"].shape == (2, 16)
    assert inputs["attention_mask"].sum(1).tolist() == [9, 6]


def test_model_on_the_meta_device(models):
    assert make_dummy_inputs(tiny_model("bert").to("meta"))["input_ids"].device.type == "cpu"


def test_the_model_is_left_as_it_was(models):
    model = models("t5")
    before, keys = model.config.to_dict(), sorted(model.__dict__)
    make_dummy_inputs(model)
    assert model.config.to_dict() == before
    assert sorted(model.__dict__) == keys


def test_refusals(models):
    with pytest.raises(InputError, match="example="):
        make_dummy_inputs(nn.Linear(2, 2))
    with_odd_config = nn.Linear(2, 2)
    with_odd_config.config = types.SimpleNamespace(vocab_size=5)
    with pytest.raises(InputError, match="Linear"):
        make_dummy_inputs(with_odd_config)
    with pytest.raises(InputError, match="'middle'"):
        make_dummy_inputs(models("bert"), padding_side="middle")
    for lengths in ((), (9, 2)):
        with pytest.raises(InputError, match="at least 3"):
            make_dummy_inputs(models("bert"), lengths)
    sparse = tiny_model("big_bird")
    sparse.config.attention_type = "block_sparse"
    with pytest.raises(InputError, match="original_full"):
        make_dummy_inputs(sparse)
    nothing_left = tiny_model("bert")
    nothing_left.config.vocab_size = 2
    with pytest.raises(InputError, match="no ordinary token"):
        make_dummy_inputs(nothing_left)
