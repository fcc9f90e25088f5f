"""Hand-written torch models without a configuration, with an example or with a registered adapter."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import attnfaith as af
from attnfaith.adapters.adapter import adapters
from tests.helpers.comparing import assert_same, keeps_of, orders_of
from tests.helpers.own_models import CLASSES, PAD, VOCABULARY, WIDTH, batch, check_against, drawn


class Pooling(nn.Module):
    """Embeddings, a score for each token, an average, a head; how the average is written is up to the subclass."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH, padding_idx=PAD)
        self.score = nn.Linear(WIDTH, 1, bias=False)
        self.head = nn.Sequential(nn.Linear(WIDTH, 16), nn.Tanh(), nn.Linear(16, CLASSES))

    def scores(self, states, attention_mask):
        return self.score(torch.tanh(states)).squeeze(-1).masked_fill(attention_mask == 0, -torch.inf)

    def normalise(self, scores):
        return torch.softmax(scores, dim=-1)

    def average(self, weights, states):
        return torch.bmm(weights.unsqueeze(1), states).squeeze(1)

    def forward(self, input_ids, attention_mask):
        states = self.embed(input_ids)
        return self.head(self.average(self.normalise(self.scores(states, attention_mask)), states))

    def literal(self, weights, input_ids):
        """The logits for weights [B, K, G, N], in loops."""
        states = self.embed(input_ids)
        rows = [
            torch.stack([self.head(sum(w * s for w, s in zip(edit[0], state, strict=True))) for edit in text])
            for text, state in zip(weights, states, strict=True)
        ]
        return torch.stack(rows)


class Multiplied(Pooling):
    def average(self, weights, states):
        return (weights.unsqueeze(-1) * states).sum(dim=1)


class MultipliedTheOtherWay(Pooling):
    def average(self, weights, states):
        return torch.sum(states * weights.unsqueeze(-1), 1)


class SummedOverTheLastButOne(Pooling):
    def average(self, weights, states):
        return (states * weights[:, :, None]).sum(-2)


class Matmul(Pooling):
    def average(self, weights, states):
        return (weights[:, None, :] @ states)[:, 0]


class Einsum(Pooling):
    def average(self, weights, states):
        return torch.einsum("bn,bnd->bd", weights, states)


class ValuesFirst(Pooling):
    def average(self, weights, states):
        return torch.bmm(states.transpose(1, 2), weights.unsqueeze(2)).squeeze(2)


class SoftmaxOverTheFirst(Pooling):
    def scores(self, states, attention_mask):
        return super().scores(states, attention_mask).unsqueeze(-1)

    def normalise(self, scores):
        return F.softmax(scores, dim=1)

    def average(self, weights, states):
        return (weights * states).sum(1)


class Sparse(Pooling):
    """Sparsemax-like: what is above a threshold, in shares."""

    def scores(self, states, attention_mask):
        return self.score(torch.tanh(states)).squeeze(-1).masked_fill(attention_mask == 0, -1e4)

    def normalise(self, scores):
        above = (scores - scores.amax(-1, keepdim=True) + 1.0).clamp_min(0)
        return above / above.sum(-1, keepdim=True)


class SparseMultiplied(Sparse):
    average = Multiplied.average


class Returned(Pooling):
    """With a module that returns the context and the weights."""

    class Attention(nn.Module):
        def forward(self, scores, states):
            weights = scores.softmax(-1)
            return torch.matmul(weights.unsqueeze(1), states).squeeze(1), weights

    def __init__(self):
        super().__init__()
        self.attention = self.Attention()

    def forward(self, input_ids, attention_mask):
        states = self.embed(input_ids)
        context, _ = self.attention(self.scores(states, attention_mask), states)
        return self.head(context)


class Recurrent(Pooling):
    """A bidirectional GRU below, run on the padded batch; texts are padded on the right and masked."""

    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(WIDTH, WIDTH // 2, batch_first=True, bidirectional=True)

    def states(self, input_ids, attention_mask):
        packed = nn.utils.rnn.pack_padded_sequence(
            self.embed(input_ids), attention_mask.sum(-1).cpu(), batch_first=True, enforce_sorted=False
        )
        total = input_ids.shape[1]
        return nn.utils.rnn.pad_packed_sequence(self.rnn(packed)[0], batch_first=True, total_length=total)[0]

    def forward(self, input_ids, attention_mask):
        states = self.states(input_ids, attention_mask)
        return self.head(self.average(self.normalise(self.scores(states, attention_mask)), states))

    def literal(self, weights, input_ids):
        states = self.states(input_ids, (input_ids != PAD).long())
        return self.head(torch.einsum("bkgn,bnd->bkd", weights, states))


POOLING = [Pooling, Multiplied, MultipliedTheOtherWay, SummedOverTheLastButOne, Matmul, Einsum, SoftmaxOverTheFirst]
OTHERS = [Sparse, SparseMultiplied, Returned, Recurrent]


@pytest.mark.parametrize("kind", POOLING + OTHERS)
def test_attention_pooling(kind):
    model = drawn(kind)
    cut, capture = check_against(model, lambda weights: model.literal(weights, batch()["input_ids"]))
    assert capture.shape == (2, 1, 7)
    assert "watched" in str(cut)


def test_products_with_the_values_first_are_cut_or_refused():
    model = drawn(ValuesFirst)
    try:
        check_against(model, lambda weights: model.literal(weights, batch()["input_ids"]))
    except af.UnsupportedModelError as error:
        assert "register_adapter" in str(error)  # noqa: PT017 (both outcomes are right, a wrong number is not)


@pytest.mark.parametrize("kind", [Pooling, Sparse])
def test_texts_may_be_longer_than_the_example(kind):
    model = drawn(kind)
    example = {"input_ids": torch.tensor([[4, 5, 6, 7, 8]])}
    check_against(model, lambda weights: model.literal(weights, batch()["input_ids"]), example)


def test_a_missing_example_is_requested():
    with pytest.raises(af.InputError, match="example="):
        af.cut(drawn(Pooling))


class Mine(Pooling):
    """The model of the documented example."""


@pytest.fixture
def registered():
    """About the shortest adapter there can be, registered for the duration of a test."""

    @af.register_adapter(Mine)
    class MyAdapter(af.Adapter):
        """Cut my model: attention weights out, attention weights in."""

        def capture(self, input_ids, attention_mask):
            states = self.model.embed(input_ids)
            scores = self.model.scores(states, attention_mask)
            weights = self.model.normalise(scores)
            logits = self.model.head(self.model.average(weights, states))
            return af.Capture(
                weights=weights.unsqueeze(1),
                mask=attention_mask.bool(),
                logits=logits,
                items=af.Items.tokens(attention_mask.bool()),
                log_weights=scores.double().log_softmax(-1).unsqueeze(1),
                state=states,
            )

        def rerun(self, capture, weights):
            return self.model.head((weights @ capture.state.unsqueeze(1)).squeeze(2))

    yield MyAdapter
    del adapters[Mine]


def test_a_registered_adapter(registered):
    model = drawn(Mine)
    cut, capture = check_against(model, lambda weights: model.literal(weights, batch()["input_ids"]))
    assert isinstance(cut.adapter, registered)
    assert "yours" in str(cut)
    watched = af.cut(drawn(Pooling), example=batch())
    seen = watched.capture(**batch())
    keep = keeps_of(capture)
    assert_same(cut.rerun(capture, keep=keep), watched.rerun(seen, keep=keep), capture.logits, 1e-10)
    order = orders_of(capture)
    assert_same(cut.prefixes(capture, order), watched.prefixes(seen, order), capture.logits, 1e-10)


def test_a_subclass_is_cut_by_its_nearest_ancestors_adapter(registered):
    class Ours(Mine):
        pass

    assert isinstance(af.cut(drawn(Ours), example=batch()).adapter, registered)
    with pytest.raises(af.InputError, match="registered already"):
        af.register_adapter(Mine)(registered)
    with pytest.raises(af.InputError, match="layer"):
        af.cut(drawn(Mine), example=batch(), layer=0)


@pytest.mark.parametrize("fault", ["ignores the weights", "wrong tail", "mask of another shape", "padding attended"])
def test_an_adapter_that_is_wrong_is_refused(registered, fault, monkeypatch):
    honest_rerun, honest_capture = registered.rerun, registered.capture

    def rerun(self, capture, weights):
        if fault == "ignores the weights":
            return capture.logits.unsqueeze(1).expand(-1, weights.shape[1], -1)
        return honest_rerun(self, capture, weights) + (0.1 if fault == "wrong tail" else 0)

    def capture(self, **inputs):
        seen = honest_capture(self, **inputs)
        if fault == "mask of another shape":
            object.__setattr__(seen, "mask", seen.mask[:, :-1])
        if fault == "padding attended":
            object.__setattr__(seen, "weights", seen.weights + 0.1)
        return seen

    monkeypatch.setattr(registered, "rerun", rerun)
    monkeypatch.setattr(registered, "capture", capture)
    with pytest.raises(af.UnsupportedModelError):
        af.cut(drawn(Mine), example=batch())
