"""Bad input is refused where it enters: the right error, with what was passed and what to do."""

import pytest
import torch
from torch import nn

import attnfaith as af
from attnfaith.tiny_models import tiny_model
from tests.helpers.comparing import inputs_of, keeps_of, model_of, orders_of, prepared


@pytest.fixture
def bert():
    return prepared("bert", torch.float32)


# ---- models


@pytest.mark.parametrize("model", [None, "bert-base-uncased", {"a": 1}, nn.Linear])
def test_an_object_that_is_no_module(model):
    with pytest.raises(af.InputError, match=rf"got {type(model).__name__}"):
        af.cut(model)


@pytest.mark.parametrize("family", ["fnet", "yoso", "mra", "reformer"])
def test_a_model_without_recognisable_attention(family):
    with pytest.raises(af.UnsupportedModelError, match=r"No attention was seen.*register_adapter"):
        af.cut(tiny_model(family))


@pytest.mark.parametrize("family", ["funnel", "nystromformer", "canine", "convbert"])
def test_a_model_that_does_not_honour_its_mask(family):
    with pytest.raises(af.UnsupportedModelError, match=r"padding"):
        af.cut(tiny_model(family))


class NoAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(20, 6), nn.Linear(6, 2)

    def states(self, input_ids):
        return self.embed(input_ids)

    def forward(self, input_ids, attention_mask):
        real = attention_mask.unsqueeze(-1).float()
        return self.head((self.states(input_ids) * real).sum(1) / real.sum(1))


class UnreadAttention(NoAttention):
    """Computes attention, and throws it away."""

    def states(self, input_ids):
        states = self.embed(input_ids)
        _ = torch.softmax(states @ states.transpose(1, 2), -1) @ states
        return states


class ConstantHead(NoAttention):
    """The attention goes into the head, which multiplies it with zero."""

    def states(self, input_ids):
        states = self.embed(input_ids)
        return states + 0 * (torch.softmax(states @ states.transpose(1, 2), -1) @ states)


EXAMPLE = {"input_ids": torch.tensor([[3, 4, 5, 6, 7]])}


def test_a_hand_written_model_without_attention():
    with pytest.raises(af.UnsupportedModelError, match=r"No attention was seen.*register_adapter"):
        af.cut(NoAttention(), example=EXAMPLE)


@pytest.mark.parametrize("kind", [UnreadAttention, ConstantHead])
@pytest.mark.parametrize("layer", [None, 0])
def test_a_head_that_does_not_depend_on_the_attention(kind, layer):
    with pytest.raises(af.UnsupportedModelError, match=r"(?i)no logit.*depends"):
        af.cut(kind(), example=EXAMPLE, layer=layer)


def test_a_hand_written_model_without_an_example():
    with pytest.raises(af.InputError, match=r"UnreadAttention.*example="):
        af.cut(UnreadAttention())


def test_a_model_that_returns_no_logits():
    class Odd(UnreadAttention):
        def forward(self, input_ids, attention_mask):
            return {"scores": super().forward(input_ids, attention_mask)}

    with pytest.raises(af.UnsupportedModelError, match=r"logits"):
        af.cut(Odd(), example=EXAMPLE)


def test_the_meta_device():
    with torch.device("meta"):
        model = NoAttention()
    with pytest.raises(af.UnsupportedModelError, match=r"meta device.*real weights"):
        af.cut(model, example=EXAMPLE)
    with pytest.raises(af.UnsupportedModelError, match=r"meta device.*real weights"):
        af.cut(model_of("bert").to("meta"))


@pytest.mark.parametrize("value", [float("nan")])
def test_nan_in_the_models_weights(value):
    model = model_of("bert")
    with torch.no_grad():
        model.bert.encoder.layer[1].output.dense.weight[0, 0] = value
    with pytest.raises(af.NumericalError, match=r"NaN.*encoder\.layer\.1\.output\.dense"):
        af.cut(model)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_nan_or_infinity_in_the_logits(value):
    model = model_of("bert")
    cut = af.cut(model)
    inputs = inputs_of(model)
    with torch.no_grad():
        model.bert.embeddings.word_embeddings.weight[inputs["input_ids"][1, 2]] = value
    with pytest.raises(af.NumericalError, match=r"texts \[1\]"):
        cut.capture(**inputs)


def test_infinity_in_the_models_weights():
    model = model_of("bert")
    with torch.no_grad():
        model.classifier.weight[0, 0] = float("inf")
    with pytest.raises(af.AttnFaithError, match=r"(?i)inf"):
        af.cut(model)


@pytest.mark.parametrize("layer", [2, 99, -3])
def test_a_layer_out_of_range(bert, layer):
    with pytest.raises(af.InputError, match=rf"layer={layer}.*2 attentions"):
        af.cut(bert.model, layer=layer)


@pytest.mark.parametrize("heads", [[], [4], [-5], [1, 1], [0, -4], [0, 1, 2, 3, 0]])
def test_heads_out_of_range_or_repeated(bert, heads):
    with pytest.raises(af.InputError, match=r"heads=.*0\.\.3"):
        af.cut(bert.model, heads=heads)


@pytest.mark.parametrize("option", [{"layer": 0}, {"heads": [0]}])
def test_layer_and_heads_of_a_model_with_one_attention(option):
    with pytest.raises(af.InputError, match=r"layer= and heads="):
        af.cut(model_of("FLANnoenc"), **option)


# ---- batches


BATCHES = {
    "no ids": ({"attention_mask": torch.ones(1, 4)}, r"input_ids.*got NoneType"),
    "ids as a list": ({"input_ids": [[5, 6, 7]]}, r"input_ids.*got list"),
    "ids of one dimension": ({"input_ids": torch.tensor([5, 6, 7])}, r"\[batch, length\].*\(3,\)"),
    "ids of three dimensions": ({"input_ids": torch.ones(1, 2, 3).long()}, r"\[batch, length\].*\(1, 2, 3\)"),
    "ids as floats": ({"input_ids": torch.tensor([[5.0, 6.0, 7.0]])}, r"token ids.*float32"),
    "no text": ({"input_ids": torch.zeros(0, 4).long()}, r"empty.*at least one text"),
    "no token": ({"input_ids": torch.zeros(2, 0).long()}, r"empty.*at least one text"),
    "padding without a mask": ({"input_ids": torch.tensor([[5, 6, 7], [5, 6, 1]])}, r"no attention_mask.*tokenizer"),
    "a mask of another shape": (
        {"input_ids": torch.tensor([[5, 6, 7]]), "attention_mask": torch.ones(1, 2)},
        r"\(1, 3\).*got \(1, 2\)",
    ),
    "a mask of another kind": (
        {"input_ids": torch.tensor([[5, 6, 7]]), "attention_mask": [[1, 1, 1]]},
        r"attention_mask.*got list",
    ),
    "an empty row": (
        {"input_ids": torch.tensor([[5, 6, 7], [5, 6, 7]]), "attention_mask": torch.tensor([[1, 1, 1], [0, 0, 0]])},
        r"texts \[1\].*nothing to attend",
    ),
}


@pytest.mark.parametrize("name", BATCHES)
@pytest.mark.parametrize("family", ["bert", "FLANnoenc"])
def test_a_batch(family, name):
    inputs, message = BATCHES[name]
    done = prepared(family, torch.float32)
    if name == "padding without a mask":
        inputs = {
            "input_ids": inputs["input_ids"].masked_fill(inputs["input_ids"] == 1, done.model.config.pad_token_id)
        }
    with pytest.raises(af.InputError, match=message):
        done.cut.capture(**inputs)


@pytest.mark.parametrize("name", [name for name in BATCHES if name not in ("padding without a mask",)])
def test_an_example(bert, name):
    inputs, message = BATCHES[name]
    with pytest.raises(af.InputError, match=message):
        af.cut(bert.model, example=inputs)


def test_labels_are_left_out(bert):
    with_labels = bert.cut.capture(**bert.inputs, labels=torch.tensor([0, 1]))
    assert torch.equal(with_labels.logits, bert.capture.logits)


def test_a_mask_may_be_omitted_without_padding(bert):
    ids = torch.tensor([[5, 6, 7], [7, 8, 9]])
    first, other = bert.cut.capture(input_ids=ids), bert.cut.capture(input_ids=ids, attention_mask=torch.ones_like(ids))
    assert torch.equal(first.logits, other.logits)


# ---- edits


def edits(capture):
    """Wrong edits of a capture [2, 4, 9] whose second text has 6 items: (what, argument, message)."""
    keep, weights = keeps_of(capture), capture.weights.unsqueeze(1)
    padded, nan, loose, infinite = keep.clone(), weights.clone(), weights.clone(), weights.clone()
    padded[1, 0, 7] = True
    nan[0, 0, 1, 2] = float("nan")
    infinite[0, 0, 1, 2] = float("inf")
    loose[1, 0, 0, 8] = 0.1
    return {
        "keep without K": ({"keep": keep[:, 0]}, r"\[2, K, 9\], got \(2, 9\)"),
        "keep of other items": ({"keep": keep[..., :-1]}, r"\[2, K, 9\], got \(2, 3, 8\)"),
        "keep of another batch": ({"keep": keep[:1]}, r"\[2, K, 9\], got \(1, 3, 9\)"),
        "keep as numbers": ({"keep": keep.int()}, r"bool.*int32.*keep\.bool\(\)"),
        "keep as a list": ({"keep": keep.tolist()}, r"got list"),
        "keep with padding": ({"keep": padded}, r"padding in texts \[1\].*capture\.mask"),
        "weights without K": ({"weights": weights[:, 0]}, r"\[2, K, 4, 9\], got \(2, 4, 9\)"),
        "weights of other heads": ({"weights": weights[:, :, :3]}, r"\[2, K, 4, 9\], got \(2, 1, 3, 9\)"),
        "weights of other items": ({"weights": weights[..., :8]}, r"\[2, K, 4, 9\], got \(2, 1, 4, 8\)"),
        "weights as a list": ({"weights": weights.tolist()}, r"got list"),
        "weights with NaN": ({"weights": nan}, r"NaN or infinity.*finite"),
        "weights with infinity": ({"weights": infinite}, r"NaN or infinity.*finite"),
        "weights on padding": ({"weights": loose}, r"padding.*capture\.mask"),
        "both": ({"keep": keep, "weights": weights}, r"either keep=.*or weights="),
        "neither": ({}, r"either keep=.*or weights="),
    }


@pytest.mark.parametrize("name", edits(prepared("bert", torch.float32).capture))
def test_an_edit(bert, name):
    arguments, message = edits(bert.capture)[name]
    with pytest.raises(af.InputError, match=message):
        bert.cut.rerun(bert.capture, **arguments)


def test_weights_as_integers_are_refused_or_taken_as_numbers(bert):
    whole = torch.zeros(2, 1, 4, 9, dtype=torch.int64)
    whole[..., 0] = 1
    try:
        got = bert.cut.rerun(bert.capture, weights=whole)
    except af.InputError as error:
        assert "int64" in str(error)  # noqa: PT017 (either is right)
        return
    torch.testing.assert_close(got, bert.cut.rerun(bert.capture, weights=whole.float()))


def orders(capture):
    order = orders_of(capture)
    twice, first = order.clone(), order.flip(-1)
    twice[0, 0] = twice[0, 1]
    return {
        "of another shape": (order[:, :-1], r"\[2, 9\], got .*\(2, 8\)"),
        "as floats": (order.float(), r"positions.*float32"),
        "as a list": (order.tolist(), r"got list"),
        "with a position twice": (twice, r"every position 0\.\.8 once"),
        "with a position that is not there": (order + 1, r"every position 0\.\.8 once"),
        "with padding first": (first, r"padding last.*-inf"),
    }


@pytest.mark.parametrize("name", orders(prepared("bert", torch.float32).capture))
def test_an_order(bert, name):
    order, message = orders(bert.capture)[name]
    with pytest.raises(af.InputError, match=message):
        bert.cut.prefixes(bert.capture, order)


def test_a_capture_of_another_model(bert):
    """A capture is no use to another cut, and must not give numbers that look right."""
    other = af.cut(tiny_model("bert", seed=5))
    with pytest.raises(af.AttnFaithError):
        other.prefixes(bert.capture, orders_of(bert.capture))


def test_errors_are_also_subclasses_of_pythons_errors():
    assert issubclass(af.InputError, ValueError)
    assert issubclass(af.NumericalError, ArithmeticError)
    for kind in (af.InputError, af.NumericalError, af.UnsupportedModelError):
        assert issubclass(kind, af.AttnFaithError)


# ---- values that a model takes in silence


@pytest.mark.parametrize("wrong", [-1, 10**6, 2**62])
def test_ids_outside_the_vocabulary(bert, wrong):
    ids = torch.tensor([[5, 6, 7], [5, wrong, 7]])
    with pytest.raises(af.InputError, match=rf"the id {wrong}, but the model's vocabulary has \d+ entries"):
        bert.cut.capture(input_ids=ids)
    with pytest.raises(af.InputError, match=rf"the id {wrong}"):
        af.Attributor(bert.model).attribute(ids)


@pytest.mark.parametrize("wrong", [float("nan"), 2.0, -1.0, 0.5, float("-inf")])
def test_a_mask_of_other_numbers(bert, wrong):
    with pytest.raises(af.InputError, match=r"attention_mask of 1 .* and 0 .*got"):
        bert.cut.capture(input_ids=torch.tensor([[5, 6, 7]]), attention_mask=torch.tensor([[1.0, wrong, 1.0]]))


@pytest.mark.parametrize("kind", [torch.bool, torch.int32, torch.float32])
def test_a_mask_of_any_type(bert, kind):
    inputs = {"input_ids": torch.tensor([[5, 6, 7]])}
    expected = bert.cut.capture(**inputs, attention_mask=torch.tensor([[1, 1, 0]])).logits
    result = bert.cut.capture(**inputs, attention_mask=torch.tensor([[1, 1, 0]]).to(kind)).logits
    assert torch.equal(result, expected)


@pytest.mark.parametrize("family", ["bert", "FLANnoenc"])
def test_weights_that_overflow(family):
    """Refused, where NaN or infinity would come back in silence; negative and large weights that do not are taken."""
    cut = prepared(family, torch.float32).cut
    capture = cut.capture(**inputs_of(cut.model))
    shape = (capture.shape[0], 1, *capture.shape[1:])
    real = capture.mask[:, None, None].expand(shape)
    for size in (-1.0, 1e3, -1e3):
        assert bool(cut.rerun(capture, weights=torch.where(real, size, 0.0)).isfinite().all())
    for size in (1e20, 1e38, -1e38, 3e38):
        try:
            assert bool(cut.rerun(capture, weights=torch.where(real, size, 0.0)).isfinite().all())
        except af.NumericalError as error:
            assert "weights" in str(error)  # noqa: PT017 (either is right)
    with pytest.raises(af.InputError, match=r"beyond 3\.4e\+38"):
        cut.rerun(capture, weights=real.double() * 1e39)
    with pytest.raises(af.InputError, match=r"weights as floating-point"):
        cut.rerun(capture, weights=real.long())


def test_weights_that_overflow_give_an_error_that_names_the_texts(bert):
    capture = bert.cut.capture(input_ids=torch.tensor([[5, 6, 7]]))
    with pytest.raises(af.NumericalError, match=r"logits of texts \[0\] are NaN or infinite.*1e\+20"):
        bert.cut.rerun(capture, weights=torch.full((1, 2, *capture.shape[1:]), 1e20))


def test_weights_that_overflow_in_half_precision():
    model = model_of("bert").half()
    cut = af.cut(model, check=False)
    capture = cut.capture(input_ids=torch.tensor([[5, 6, 7]]))
    with pytest.raises((af.InputError, af.NumericalError)):
        cut.rerun(capture, weights=torch.full((1, 1, *capture.shape[1:]), 1e5))


@pytest.mark.parametrize("capture", [None, 3, "capture", {}])
def test_an_object_that_is_no_capture(bert, capture):
    for call in (
        lambda: bert.cut.rerun(capture, keep=torch.ones(1, 1, 3, dtype=torch.bool)),
        lambda: bert.cut.rerun(capture, weights=torch.ones(1, 1, 4, 3)),
        lambda: bert.cut.prefixes(capture, torch.tensor([[0, 1, 2]])),
    ):
        with pytest.raises(af.InputError, match="Expected a Capture"):
            call()


def test_ids_outside_the_vocabulary_of_a_hand_written_model():
    class Own(NoAttention):
        def forward(self, input_ids, attention_mask):
            states = self.embed(input_ids)
            scores = (states @ states.transpose(1, 2)).masked_fill(attention_mask[:, None] == 0, -1e9)
            return self.head((torch.softmax(scores, -1) @ states)[:, 0])

    cut = af.cut(Own(), example=EXAMPLE)
    with pytest.raises(af.InputError, match="no vector for one of the numbers"):
        cut.capture(input_ids=torch.tensor([[3, 20, 5]]))


TYPES = [5, "abc", [[0, 0, 0]], torch.zeros(1, 2).long(), torch.full((1, 3), 9), torch.zeros(1, 3)]


@pytest.mark.parametrize("wrong", TYPES, ids=range(len(TYPES)))
def test_token_types_out_of_range(bert, wrong):
    with pytest.raises(af.InputError, match="token_type_ids"):
        bert.cut.capture(input_ids=torch.tensor([[5, 6, 7]]), token_type_ids=wrong)
