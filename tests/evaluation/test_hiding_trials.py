"""The way of hiding that the trials choose for models that treat a mask in their own way."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

import attnfaith as af
from attnfaith.adapters.adapter import adapters
from attnfaith.errors import UnsupportedModelError
from attnfaith.evaluation.token_hiding import hiding_for
from attnfaith.tiny_models import tiny_model
from tests.helpers.comparing import inputs_of
from tests.helpers.hiding_by_hand import TEXTS, prepared, sets_of
from tests.helpers.removal_batches import MASK_ID, cut_of, model_of, one_of


@pytest.mark.parametrize("family", ["FLANrnn", "FLANconv", "HANrnn"])
def test_models_that_drop_what_the_mask_hides_are_given_fewer_tokens(family):
    """Both ways are one there: the default keeps its plainer name, and who asks for the mask gets it."""
    cut, model = cut_of(family), model_of(family)
    inputs = inputs_of(model, lengths=TEXTS, seed=2)
    single = one_of(inputs, 0)
    options = {"mask_id": MASK_ID, "left": False}
    default = hiding_for(cut, single, hide=None, **options)
    masked = hiding_for(cut, single, hide="attention_mask", **options)
    assert (default.hide, default.notes) == ("delete", ())
    assert masked.hide == "attention_mask"
    texts, keep = sets_of(inputs, None)
    stops = [number for number in (model.config.sentence_token_id, model.config.sep_token_id) if number is not None]
    keep |= torch.isin(inputs["input_ids"][texts], torch.tensor(stops)) & inputs["attention_mask"].bool()[texts]
    result, expected = (item.run(inputs, None, texts, keep) for item in (masked, default))
    assert torch.allclose(result, expected, rtol=0, atol=1e-10)


class Reader(nn.Module):
    """A user's model: a GRU reads every position, masked or not; the mask is for the attention on top alone."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(64, 8)
        self.reader = nn.GRU(8, 8, batch_first=True)
        self.score, self.head = nn.Linear(8, 1), nn.Linear(8, 3)
        self.config = SimpleNamespace(pad_token_id=0)

    def get_input_embeddings(self):
        return self.words

    def forward(self, input_ids, attention_mask=None):
        states, _ = self.reader(self.words(input_ids))
        scores = self.score(states).squeeze(-1)
        if attention_mask is not None:
            scores = scores.masked_fill(attention_mask == 0, -torch.inf)
        context = (scores.softmax(-1).unsqueeze(1) @ states).squeeze(1)
        return SimpleNamespace(logits=self.head(context))


def test_a_users_recurrent_model_is_recognised_by_trying():
    torch.manual_seed(0)
    model = Reader().double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 1.0)
    ids = torch.randint(1, 64, (2, 9), generator=torch.Generator().manual_seed(1))
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    cut = af.cut(model, example=inputs)
    single = one_of(inputs, 0)
    options = {"mask_id": None, "left": False}
    hiding = hiding_for(cut, single, hide=None, **options)
    assert hiding.hide == "delete"
    assert "still changes the logits" in hiding.notes[0]
    with pytest.raises(UnsupportedModelError, match=r"does not hide.*hide='delete' or hide='zero'"):
        hiding_for(cut, single, hide="attention_mask", **options)
    keep = torch.tensor([[True, False, True, True, False, True, True, False, False]])
    got = hiding.proved(inputs, None).run(inputs, None, torch.tensor([1]), keep)
    with torch.no_grad():
        assert torch.allclose(got[0], model(ids[1:, keep[0]]).logits[0], atol=1e-12)


def test_a_mask_under_which_logits_are_not_finite_hides_nothing():
    cut = af.cut(tiny_model("opt", dtype=torch.float64, attn_implementation="eager"))
    hiding = hiding_for(cut, inputs_of(cut.model, lengths=(9,)), hide=None, mask_id=MASK_ID, left=False)
    assert (hiding.hide, hiding.protects) == ("delete", True)
    assert "not finite" in " ".join(hiding.notes)


@pytest.mark.parametrize("counts", [True, False])
def test_a_mask_that_positions_are_counted_along_is_deletion(counts):
    """Without positions hiding by the mask is equal to deletion too, but nothing moves up."""
    model = tiny_model("bloom")
    if not counts:
        model.transformer.build_alibi_tensor = lambda mask, heads, dtype: torch.zeros(
            len(mask) * heads, 1, mask.shape[1], dtype=dtype
        )
    cut, inputs = af.cut(model), inputs_of(model, lengths=TEXTS, seed=2)
    single = one_of(inputs, 0)
    options = {"mask_id": MASK_ID, "left": False}
    default, masked = (hiding_for(cut, single, hide=hide, **options) for hide in (None, "attention_mask"))
    deleted = hiding_for(cut, single, hide="delete", **options)
    if counts:
        assert (default.hide, default.protects) == ("delete", True)
        assert [note.split()[0] for note in default.notes] == ["This", "Where"]
        assert "moves up" in default.notes[0]
        assert (masked.hide, masked.protects, masked.notes) == ("attention_mask", False, default.notes[:1])
    else:
        assert default == masked
        assert (default.hide, default.protects, default.notes) == ("attention_mask", False, ())
    deciding = cut.adapter.deciding_tokens(cut.capture(**inputs))
    texts, keep = sets_of(inputs, deciding)
    keep[torch.arange(len(texts)), deciding[texts]] = True
    results = [item.run(inputs, deciding, texts, keep) for item in (masked, deleted)]
    assert torch.allclose(*results, rtol=0, atol=1e-4)


def test_positions_that_restart_with_token_types_are_not_counted_along_the_mask():
    """TAPAS counts positions within a cell; in a made-up text nearly every token has a cell of its own."""
    _, _, _, hiding = prepared("tapas")
    assert (hiding.hide, hiding.protects, hiding.notes) == ("attention_mask", False, ())


class Described(nn.Module):
    """A user's model with a head of its own on a BERT, cut by an adapter of the user's."""

    def __init__(self):
        super().__init__()
        self.inner = tiny_model("bert", dtype=torch.float64)
        self.config = self.inner.config

    def forward(self, input_ids, attention_mask=None, position_ids=None):
        return self.inner(input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids)


def test_a_user_adapter_is_tried_and_not_treated_as_a_recurrent_network():
    model = Described()

    @af.register_adapter(Described)
    class Adapter(af.Adapter):
        def __init__(self, model):
            super().__init__(model)
            self.other = af.cut(model.inner).adapter

        def capture(self, **inputs):
            return self.other.capture(**inputs)

        def rerun(self, capture, weights):
            return self.other.rerun(capture, weights)

    try:
        cut = af.cut(model)
        inputs = inputs_of(model, lengths=TEXTS, seed=2)
        hiding = hiding_for(cut, one_of(inputs, 0), hide="attention_mask", mask_id=MASK_ID, left=False)
        assert hiding_for(cut, one_of(inputs, 0), hide=None, mask_id=MASK_ID, left=False) == hiding
        texts, keep = sets_of(inputs, None)
        keep[:, 0] = True  # nobody says which token decides
        expected = hiding_for(cut_of("bert"), one_of(inputs, 0), hide=None, mask_id=MASK_ID, left=False)
        deciding = torch.zeros(len(TEXTS), dtype=torch.long)
        assert torch.allclose(
            hiding.run(inputs, None, texts, keep), expected.run(inputs, deciding, texts, keep), atol=1e-9
        )
    finally:
        del adapters[Described]
