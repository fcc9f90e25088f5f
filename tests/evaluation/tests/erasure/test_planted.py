"""Erasure of models made by hand, whose answer is known beforehand: a decisive word, an underflow, a tie."""

import itertools
import math
from dataclasses import replace

import pytest
import torch

import attnfaith as af
from attnfaith.evaluation.rankings import Ranking
from attnfaith.evaluation.tests.erasure.test import Erasure
from tests.helpers.comparing import inputs_of
from tests.helpers.removal_batches import batch_of, ranked, table


def planted(pushes, *, bias, dtype=torch.float64):
    """A cut FLAN without encoder: each word pushes for class 1 by so much, the bias for class 0; all weigh alike."""
    model = af.models.from_preset("FLANnoenc", num_labels=2, vocab_size=64, embedding_size=4).to(dtype).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        for word, push in pushes.items():
            model.get_input_embeddings().weight[word, 0] = push
        model.classifier.weight[1, 0] = 1.0
        model.classifier.bias[0] = bias
    return af.cut(model, check=False)


def random_order(batch, text):
    scores = batch.scores(Ranking("random", "attention"), "attention")[text].tolist()
    return sorted(range(len(scores)), key=lambda item: -scores[item])


@pytest.mark.parametrize("length", [4, 7, 11])
def test_one_decisive_word_is_the_right_answer_in_closed_form(length):
    """Uniform weights: the word gives class 1 ``push / N``. Only without it class 0 wins."""
    cut = planted({5: 2.0 * length}, bias=1.0)
    ids = torch.full((2, length), 9)
    ids[0, 2] = ids[1, length - 1] = 5
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    names = ("gradient_x_attention", "occlusion", "optimal", "greedy", "attention", "gradient", "random")
    rankings = {"attention": ranked(*(f"attention/{name}" for name in names))}
    batch = batch_of("FLANnoenc", cut=cut, inputs=inputs, rankings=rankings)
    assert batch.capture.weights.allclose(torch.tensor(1 / length, dtype=torch.float64))
    rows = table(Erasure().run(batch))
    for text, index in ((0, 2), (1, length - 1)):
        for name in ("gradient_x_attention", "occlusion", "optimal", "greedy", "gradient"):
            row = rows[text, "attention", name, "attention"]
            assert (row["removed"], row["fraction"], row["new_label"]) == (1, 1 / length, 0), name
            assert row["mass"] == pytest.approx(1 / length)
        ties = rows[text, "attention", "attention", "attention"]  # all alike: by position
        assert (ties["removed"], ties["ties"]) == (index + 1, length - 1)
        order = random_order(batch, text)
        assert rows[text, "attention", "random", "attention"]["removed"] == order.index(index) + 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("spread", [0.0, 50.0, 200.0, 900.0])
def test_scores_spread_so_far_that_their_weights_underflow(spread, dtype):
    """The first word drowns all others; once it is gone, they are weighed among themselves, by their scores."""
    scores = [spread + 1.0, 1.0, 2.0, 0.0, -spread]
    pushes = [4.0, 1.0, 3.0, -2.0, 5.0]
    bias = 2.0
    ids = torch.arange(5, 10).unsqueeze(0)
    cut = planted(dict(zip(range(5, 10), pushes, strict=True)), bias=bias, dtype=dtype)
    capture = cut.capture(input_ids=ids, attention_mask=torch.ones_like(ids))
    logs = torch.tensor([[scores]], dtype=torch.float64).log_softmax(-1)
    capture = replace(capture, weights=logs.exp().to(dtype), log_weights=logs)
    capture = replace(capture, logits=cut.rerun(capture, weights=capture.weights.unsqueeze(1))[:, 0])
    for order in itertools.permutations(range(5)):
        got = cut.prefixes(capture, torch.tensor([order]))[0]
        sets = torch.ones(1, 6, 5, dtype=torch.bool)
        for step in range(1, 6):
            sets[0, step, list(order[:step])] = False
        also = cut.rerun(capture, keep=sets)[0]
        for step in range(6):
            kept = order[step:]
            top = max((scores[item] for item in kept), default=0.0)
            shares = [math.exp(scores[item] - top) for item in kept]
            value = sum(s * pushes[item] for s, item in zip(shares, kept, strict=True)) / sum(shares) if kept else 0.0
            for result in (got[step], also[step]):
                assert result.tolist() == pytest.approx([bias, value], abs=1e-5 if dtype == torch.float32 else 1e-12)


def test_a_decision_near_a_tie_is_marginal():
    """A bias moved until one step is a tie: that text is marginal under the rankings that come through it."""
    cut = af.cut(af.models.from_preset("FLANnoenc", num_labels=2, vocab_size=64, embedding_size=16).double().eval())
    with torch.no_grad():
        for parameter in cut.model.parameters():
            parameter.normal_(0, 2 * parameter.shape[-1] ** -0.5)
    inputs = inputs_of(cut.model, lengths=(6, 6, 6), seed=2)
    rankings = {"attention": ranked("attention/attention")}
    for near, expected in ((1e-13, True), (1e-6, False)):
        capture = cut.capture(**inputs)
        order = capture.weights[0, 0].argsort(descending=True)
        keep = torch.ones(3, 1, 6, dtype=torch.bool)
        keep[0, 0, order[0]] = False
        logits = cut.rerun(capture, keep=keep)[0, 0]
        with torch.no_grad():  # after the first removal, the two classes differ by next to nothing
            cut.model.classifier.bias[1] += logits[0] - logits[1] + near
        rows = table(Erasure().run(batch_of("FLANnoenc", cut=cut, inputs=inputs, rankings=rankings)))
        assert rows[0, "attention", "attention", "attention"]["marginal"] == expected
        assert not any(row["marginal"] for key, row in rows.items() if key[0] > 0)
