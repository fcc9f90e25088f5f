"""Texts that are too long: what a model can take, and how much was cut off."""

import pytest

from attnfaith.adapters.dummy_inputs import position_limit
from attnfaith.errors import InputError
from attnfaith.text.encoder import TextEncoder
from attnfaith.tiny_models import model_types, tiny_model
from tests.helpers.odd_texts import SHORT, TEXTS, AnyModel, word_piece


@pytest.mark.parametrize("side", ["right", "left"])
def test_truncation_is_counted_and_noted(kind, side):
    _, texts = kind
    tokenizer = texts.tokenizer
    entry, paired = TEXTS["english"], (TEXTS["english"], "good very good")
    tokenizer.truncation_side = side
    try:
        short = TextEncoder(tokenizer, AnyModel(), max_length=7)
        for item in (entry, paired):
            whole, (cut,) = texts.encode([item])[0], short.encode([item])
            assert len(cut.ids) == 7
            assert cut.truncated == len(whole.ids) - 7
            assert f"{cut.truncated} tokens were cut off" in cut.notes[-1]
            for segment in {0, 1} & set(cut.segments):
                spans = [[s for s, o in zip(e.offsets, e.segments, strict=True) if o == segment] for e in (cut, whole)]
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
    texts = TextEncoder(word_piece(SHORT), tiny_model("roberta"))
    assert texts.max_length == 126
    (encoded,) = texts.encode(["film " * 500])
    assert len(encoded.ids) == 126
    assert texts.model(**texts.collate([encoded])).logits.isfinite().all()
    texts.tokenizer.model_max_length = 20
    assert TextEncoder(texts.tokenizer, texts.model).max_length == 20
    assert TextEncoder(texts.tokenizer, texts.model, 50).max_length == 50
    with pytest.raises(InputError, match="126 tokens"):
        TextEncoder(texts.tokenizer, texts.model, 127)


@pytest.mark.families
@pytest.mark.parametrize("family", sorted({*model_types()} - {"layoutlmv2"}))  # needs a package not installed
def test_limits_are_within_what_the_configuration_says(family):
    limit = position_limit(tiny_model(family))
    assert limit is None or 0 < limit <= 128
