"""Integrated gradients with as many points as each text needs, on models; the fixed rule has its own tests."""

import warnings

import pytest
import torch
from torch import nn

import attnfaith as af
from attnfaith.adapters.pass_count import count_passes
from attnfaith.attribution.attributor import Attributor
from attnfaith.attribution.embedding_gradients import derivatives_on_path
from attnfaith.attribution.integrated_gradients import (
    LARGE_GAP,
    LEAST_DIFFERENCE,
    MOST_POINTS,
    TOLERANCE,
    TOLERANCE_AT_INPUT,
)
from attnfaith.attribution.method import methods
from attnfaith.functional.path_integral import FEWEST_POINTS
from tests.helpers.methods import alone, assert_scores, families, in_double, items, tolerance_for

LEVELS = ("attention", "input")
TOLERANCES = {"attention": TOLERANCE, "input": TOLERANCE_AT_INPUT}
pytestmark = pytest.mark.filterwarnings("ignore:The scores of integrated gradients are inexact")


def as_needed(model, inputs, level, **options):
    """The scores by the default rule; a model whose vectors cannot be replaced skips the test."""
    try:
        return Attributor(model, method="integrated_gradients", level=level, **options).score(inputs)[1]
    except af.UnsupportedModelError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("family", families())
def test_scores_are_complete_unless_reported_and_a_batch_is_its_texts(family, level):
    done = in_double(family)
    together = as_needed(done.cut, done.inputs, level)
    whole = (together.values.sum(-1) + together.gap).abs().clamp_min(LEAST_DIFFERENCE)
    finished = together.passes < MOST_POINTS / 2
    assert ((together.gap.abs() <= TOLERANCES[level] * whole * (1 + 1e-6)) | ~finished).all()
    assert torch.equal(together.inexact, together.gap.abs() > LARGE_GAP * whole)
    assert ((together.passes >= FEWEST_POINTS) & (together.passes <= MOST_POINTS)).all()
    for text in range(len(done.inputs["input_ids"])):
        single = as_needed(done.cut, alone(done.inputs, text), level)
        assert_scores(items(together, text), items(single, 0), tolerance_for(done))
        assert single.passes[0] == together.passes[text]


class Gate(nn.Module):
    """A classifier by the mean of the attended words; word 5 says so much that its probability jumps on the path."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(40, 6)
        self.head = nn.Linear(6, 2)
        with torch.no_grad():
            self.embed.weight.normal_(0, 0.3)
            self.head.weight.normal_()
            margin = self.head.weight[1] - self.head.weight[0]
            self.embed.weight[5] = 400 * margin / margin.square().sum()
            self.head.bias.copy_(torch.tensor([40.0, 0.0]))

    def get_input_embeddings(self):
        return self.embed

    def forward(self, input_ids, attention_mask):
        states = self.embed(input_ids)
        scores = torch.tanh(states[..., :1]).transpose(1, 2).expand(-1, states.shape[1], -1)
        weights = torch.softmax(scores.masked_fill(attention_mask[:, None, :] == 0, -torch.inf), dim=-1)
        return self.head(torch.bmm(weights, states)[:, 0])


IDS = torch.tensor([[7, 8, 9, 10, 11], [7, 5, 9, 10, 12], [5, 8, 9, 30, 0]])
INPUTS = {"input_ids": IDS, "attention_mask": (IDS != 0).long()}


@pytest.fixture
def gate():
    torch.manual_seed(1)
    return af.cut(Gate().double().eval(), example=INPUTS)


@pytest.mark.parametrize("level", LEVELS)
def test_a_text_with_a_jump_on_its_path_gets_more_points(gate, level):
    scores = as_needed(gate, INPUTS, level, target=1)
    assert scores.passes[0] == FEWEST_POINTS
    assert (scores.passes[1:] > 1.5 * FEWEST_POINTS).all()
    assert not scores.inexact.any()
    fixed = as_needed(gate, INPUTS, level, target=1, steps=12)
    assert fixed.inexact[1:].any()
    assert fixed.passes is None


def test_a_text_is_the_integral_of_a_dense_rule(gate):
    """The slow twin: the definition with 40,000 midpoints, each token's share of the slope by the model's gradient."""
    ours, model = as_needed(gate, INPUTS, "input", target=1).values, gate.model
    for text in range(len(IDS)):
        single = alone(INPUTS, text)
        vectors = model.embed(single["input_ids"])[0].detach()
        total, count = torch.zeros(len(vectors), dtype=torch.float64), 40000
        for block in ((torch.arange(count, dtype=torch.float64) + 0.5) / count).split(1000):
            path = (block[:, None, None] * vectors).requires_grad_()
            scores = torch.tanh(path[..., :1]).transpose(1, 2).softmax(-1)
            logits = model.head(torch.bmm(scores, path)[:, 0])
            (gradient,) = torch.autograd.grad(logits.softmax(-1)[:, 1].sum(), path)
            total += (gradient * vectors).sum(-1).sum(0) / count
        off = (ours[text, : len(total)] - total).abs().sum()
        assert off <= 2 * TOLERANCE_AT_INPUT * total.sum().abs().clamp_min(LEAST_DIFFERENCE)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("chunk", [1, 5, 1000])
def test_how_many_run_together_changes_nothing(gate, level, chunk):
    expected = as_needed(gate, INPUTS, level, target=1)
    got = Attributor(gate, method="integrated_gradients", level=level, target=1).score(INPUTS, chunk=chunk)[1]
    torch.testing.assert_close(got.values, expected.values, rtol=1e-9, atol=1e-12)
    assert torch.equal(got.passes, expected.passes)


def test_the_model_runs_as_often_as_is_said(gate, monkeypatch):
    attributor = Attributor(gate, method="integrated_gradients", level="input", target=1)
    rows, forward = [], gate.adapter.logits_on

    def counted(deciding, inputs, vectors):
        rows.append(len(vectors))
        return forward(deciding, inputs, vectors)

    monkeypatch.setattr(gate.adapter, "logits_on", counted)
    scores = attributor.score(INPUTS)[1]
    assert sum(rows) == int(scores.passes.sum()) - 3  # the texts themselves, whose gradient other rankings need as well
    assert rows[0] == 3 * 8  # the first points of all texts go together


def test_memory_does_not_grow_with_the_number_of_points(gate, monkeypatch):
    attributor, asked = Attributor(gate, method="integrated_gradients", level="input", target=1, steps=25), []
    expected = attributor.score(INPUTS)[1].values

    def counted(request, vectors, difference, texts, points):
        asked.append(len(points))
        return derivatives_on_path(request, vectors, difference, texts, points)

    monkeypatch.setattr("attnfaith.attribution.integrated_gradients.derivatives_on_path", counted)
    monkeypatch.setattr("attnfaith.attribution.integrated_gradients.POINTS", 7)
    torch.testing.assert_close(attributor.score(INPUTS)[1].values, expected)
    assert asked == [len(INPUTS["input_ids"]) * points for points in (7, 7, 7, 4)]


@pytest.mark.parametrize("family", ["bert", "gpt2", "llama"])
def test_the_tail_on_the_deciding_token_has_the_gradient_of_the_whole_model(family, monkeypatch):
    done = in_double(family)
    fast = as_needed(done.cut, done.inputs, "input")
    assert done.cut.adapter._same_gradient
    monkeypatch.setattr(done.cut.adapter, "_same_gradient", False)
    slow = as_needed(done.cut, done.inputs, "input")
    assert torch.equal(fast.passes, slow.passes)
    assert float(slow.values.abs().max()) > 1e-4
    torch.testing.assert_close(fast.values, slow.values, rtol=1e-8, atol=1e-8 * float(slow.values.abs().max()))


def test_a_tail_with_another_gradient_is_not_used(monkeypatch):
    done = in_double("bert")
    adapter = done.cut.adapter
    expected = as_needed(done.cut, done.inputs, "input")

    def wrong(rows, inputs, vectors):
        return adapter.forward_on(2 * vectors - vectors.detach(), inputs)  # the same logits, twice the gradient

    monkeypatch.setattr(adapter, "_from_attention", wrong)
    for known in (None, True):
        monkeypatch.setattr(adapter, "_same_gradient", known)
        equal = torch.allclose(as_needed(done.cut, done.inputs, "input").values, expected.values, rtol=1e-8)
        assert equal == (known is None)


def test_points_of_short_texts_are_not_padded_to_the_longest():
    done = in_double("bert")
    attributor = Attributor(done.cut, method="integrated_gradients", level="input")
    lengths = done.inputs["attention_mask"].sum(1)
    assert len(lengths.unique()) > 1
    attributor.score(done.inputs, chunk=1)  # with it the tail is tried
    with count_passes() as count:
        scores = attributor.score(done.inputs, chunk=1)[1]
    capture, at_the_texts = done.inputs["input_ids"].numel(), int(lengths.sum())
    assert count.positions == int(((scores.passes - 1) * lengths).sum()) + capture + at_the_texts


@pytest.mark.parametrize("level", LEVELS)
def test_the_registered_cost_is_the_least_and_the_most(level):
    method = methods[level, "integrated_gradients"]
    assert (method.passes, method.most_passes) == (FEWEST_POINTS, MOST_POINTS)
    unit = "passes after attention" if level == "attention" else "passes"
    assert method.cost == f"{FEWEST_POINTS} to {MOST_POINTS} {unit}, as needed, forward and backward"


def test_no_more_than_the_most_points_and_a_warning_that_counts(gate, monkeypatch):
    monkeypatch.setattr("attnfaith.attribution.integrated_gradients.MOST_POINTS", FEWEST_POINTS)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        scores = as_needed(gate, INPUTS, "input", target=1)
    assert scores.passes.tolist() == [FEWEST_POINTS] * 3
    assert scores.inexact.tolist() == [False, True, True]
    (said,) = [str(one.message) for one in caught]
    assert "inexact on 2 of 3 texts" in said
    assert f"{scores.gap.abs().max():.2g}" in said
