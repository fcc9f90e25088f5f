"""Where minima and flags are easily wrong: underflow, two directions, texts of three items, ties to begin with."""

import itertools
from dataclasses import replace

import pytest
import torch

import attnfaith as af
from attnfaith.evaluation.batch import Batch
from attnfaith.evaluation.tests.erasure.flipping_sets import PANEL
from attnfaith.evaluation.tests.erasure.test import Erasure
from attnfaith.evaluation.tests.single_weight.test import SingleWeight
from attnfaith.functional.decision import Decision
from tests.helpers.removal_batches import Sizes, batch_of, cut_of, ranked, table

OTHERS = ranked("attention/greedy", "attention/integrated_gradients", "attention/lrp")


def drawn(generator, spread, dtype):
    """A text of five words: scores that lie far apart, and what each word says, both planted in the capture."""
    model = af.models.from_preset("FLANnoenc", num_labels=2, vocab_size=64, embedding_size=4).to(dtype).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.get_input_embeddings().weight[5:10, 0] = 3 * torch.randn(5, generator=generator).to(dtype)
        model.classifier.weight[1, 0] = 1.0
        model.classifier.bias[0] = float(torch.randn((), generator=generator))
    cut = af.cut(model, check=False)
    ids = torch.arange(5, 10).unsqueeze(0)
    rankings = {"attention": ranked("attention/optimal", "attention/random", "attention/attention")}
    batch = batch_of("FLANnoenc", cut=cut, inputs={"input_ids": ids, "attention_mask": ids > 0}, rankings=rankings)
    logs = (spread * torch.rand(1, 1, 5, generator=generator)).double().log_softmax(-1)
    made = replace(batch.capture, weights=logs.exp().to(dtype), log_weights=logs)
    batch.capture = replace(made, logits=cut.rerun(made, weights=made.weights.unsqueeze(1))[:, 0])
    return batch


@pytest.mark.parametrize(("dtype", "spread"), [(torch.float32, 250.0), (torch.float64, 250.0), (torch.float32, 5.0)])
def test_the_optimum_counts_what_underflowed(dtype, spread, generator):
    """A weight of e^-200 is no weight in float32, and decides all the same once what outweighs it is gone."""
    underflowed, sizes = 0, []
    for _ in range(60):
        batch = drawn(generator, spread, dtype)
        capture, cut = batch.capture, batch.config.cut
        underflowed += bool((capture.weights == 0).any())
        least = None
        for gone in itertools.chain.from_iterable(itertools.combinations(range(5), size) for size in range(1, 6)):
            keep = torch.ones(1, 1, 5, dtype=torch.bool)
            keep[0, 0, list(gone)] = False
            if least is None and int(cut.rerun(capture, keep=keep).argmax()) != int(capture.logits.argmax()):
                least = len(gone)
        sizes.append(least)
        rows = table(Erasure().run(batch))
        best = rows[0, "attention", "optimal", "attention"]
        assert (best["minimum_low"], best["minimum_high"], best["removed"]) == (least,) * 3
        assert best["flippable"] == (least is not None)
        assert all(row["censored"] or row["removed"] >= least for row in rows.values())
    assert {None, 1, 2} < set(sizes)
    assert (underflowed > 30) == (dtype == torch.float32 and spread > 100)


@pytest.mark.parametrize("kind", ["regression", "multilabel"])
@pytest.mark.parametrize("family", ["bert", "llama"])
def test_no_ranking_of_the_panel_is_better_than_the_upper_bound(family, kind):
    """Nor is any ranking better than the lower one; of two directions the better one counts."""
    flips = 0
    for seed, tolerance in ((0, 0.5), (1, 1.0)):
        batch = batch_of(
            family,
            kind,
            lengths=(8, 12, 10, 9, 11, 13),
            rankings={"attention": (*PANEL["attention"], *OTHERS)},
            cut=cut_of(family, kind, seed),
        )
        if kind == "regression":
            config = replace(batch.config, decision=Decision("regression", tolerance=tolerance))
            batch = Batch(config, batch.rows, batch.encoded, batch.inputs)
        for row in table(Erasure(bounds=True).run(batch)).values():
            if not row["censored"]:
                flips += row["removed"] > 3
                assert row["minimum_low"] <= row["removed"]
                if row["ranking"] in {item.name for item in PANEL["attention"]}:
                    assert row["flippable"] is True
                    assert row["minimum_low"] <= row["minimum_high"] <= row["removed"]
    assert flips > 5 or kind == "multilabel"


def test_a_short_text_of_which_every_set_was_tried_cannot_be_flipped():
    """Without bounds nothing of the kind is known; with them, all sets of three items have been tried."""
    certain = unknown = 0
    for family, seed in itertools.product(("bert", "llama"), range(3)):
        batch = batch_of(family, lengths=(3, 4, 3, 8), cut=cut_of(family, "multiclass", seed))
        paid, free = (Sizes(batch, bounds=bounds) for bounds in (True, False))
        for text, count in enumerate((3, 4, 3, 8)):
            indices = range(count)
            sets = [item for size in range(1, count + 1) for item in itertools.combinations(indices, size)]
            keep = batch.capture.mask[text].repeat(len(sets), 1)
            for row, gone in enumerate(sets):
                keep[row, list(gone)] = False
            logits = batch.config.cut.rerun_sets(batch.capture, torch.full((len(sets),), text), keep)
            never = bool((logits.argmax(-1) == batch.logits[text].argmax()).all())
            assert (paid.flippable[text] is False) == (never and count <= 3)
            assert free.flippable[text] is not False
            assert not never or paid.high[text] is None
            assert (paid.low[text] is None) == (paid.flippable[text] is False)
            certain += paid.flippable[text] is False
            unknown += paid.flippable[text] is None
    assert certain
    assert unknown


def test_a_decision_near_a_tie_is_marginal_in_both_tests():
    """The words say so little that both classes are equal but for rounding; taking any of them away is clear."""
    model = af.models.from_preset("FLANnoenc", num_labels=2, vocab_size=64, embedding_size=4).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.get_input_embeddings().weight[5:9, 0] = torch.tensor([3.5, -1.0, -1.0 + 3e-9, 1.0], dtype=torch.float64)
        model.classifier.weight[0, 0] = 1.0
        model.classifier.bias[:2] = torch.tensor([5.0, 5.5])
    ids = torch.tensor([[5, 6, 7], [5, 6, 8]])
    rankings = {"attention": ranked("attention/random", "attention/attention")}
    cut = af.cut(model, check=False)
    batch = batch_of("FLANnoenc", cut=cut, inputs={"input_ids": ids, "attention_mask": ids > 0}, rankings=rankings)
    assert 0 < abs(float(batch.logits[0, 0] - batch.logits[0, 1])) < 1e-8
    for key, row in table(Erasure().run(batch)).items():
        assert row["marginal"] == (key[0] == 0)
    columns = SingleWeight().run(batch)
    assert columns["marginal"] == [number == 0 for number in columns["text_id"]]
