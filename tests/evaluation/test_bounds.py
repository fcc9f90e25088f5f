"""Bounds on the smallest flipping set, against all subsets."""

import copy
import itertools
from dataclasses import replace

import pytest
import torch

import attnfaith as af
from attnfaith.attribution.methods import methods
from attnfaith.evaluation.bounds import BUILT_IN, TRIPLES, smallest_sets
from attnfaith.evaluation.erasers import AttentionEraser
from attnfaith.evaluation.erasure import Erasure
from tests.evaluation.batches import SIZES, TOLERANCE, batch_of, model_of, ranked, table
from tests.evaluation.slow_erasure import Slow, flipped

SHORT = (8, 7, 5, 4, 3, 6, 8, 7)


def least_of(batch):
    """The size of each text's smallest flipping set, over every subset; None without one."""
    slow, found = Slow(batch, "attention"), []
    for text in range(len(batch.rows)):
        items, before, least = slow.erasable(text), batch.logits[text].tolist(), None
        sets = [one for size in range(1, len(items) + 1) for one in itertools.combinations(items, size)]
        keep = batch.capture.mask[text].repeat(len(sets), 1)
        for row, removed in enumerate(sets):
            keep[row, list(removed)] = False
        chosen = torch.full((len(sets),), text)
        logits = batch.setup.cut.rerun_sets(batch.capture, chosen, keep).tolist()
        for removed, after in zip(sets, logits, strict=True):
            if flipped(batch.setup.decision.kind, before, after, TOLERANCE):
                least = len(removed)
                break
        found.append(least)
    return found


@pytest.mark.parametrize("kind", list(SIZES))
@pytest.mark.parametrize("family", ["bert", "llama", pytest.param("gpt2", marks=pytest.mark.slow)])
def test_the_smallest_set_lies_between_them(family, kind):
    batch = batch_of(family, kind, lengths=SHORT)
    least = least_of(batch)
    eraser = AttentionEraser(batch)
    assert any(size is not None for size in least)
    for bounds in (False, True):
        got = smallest_sets(eraser, bounds=bounds)
        assert got.order is None
        for text, size in enumerate(least):
            low, high, flippable = got.low[text], got.high[text], got.flippable[text]
            if size is None:  # nothing is claimed that is not so
                assert high is None
                tried = bounds and SHORT[text] <= 3  # every set
                assert flippable is (False if tried else None)
                assert low is None or 2 <= low <= SHORT[text]
                continue
            assert 1 <= low <= SHORT[text]
            assert low <= size
            assert high is None or size <= high
            assert flippable in (True, None)
            assert (high is not None) == (flippable is True)
            if size == 1 or (bounds and size <= 3):  # tried exhaustively
                assert low == high == size
            elif bounds:
                assert low == 4
            else:
                assert (low, high) == (2, None)


def test_without_bounds_only_single_items_are_tried():
    batch = batch_of("llama", lengths=(26, 25, 8))
    eraser = AttentionEraser(batch)
    free, paid = smallest_sets(eraser, bounds=False), smallest_sets(eraser, bounds=True)
    for text, length in enumerate((26, 25, 8)):
        assert free.low[text] in (1, 2)
        assert free.high[text] in (1, None)
        assert free.low[text] <= paid.low[text] <= (4 if length <= TRIPLES else 3)


def test_triples_are_tried_up_to_24_items_and_no_further():
    assert TRIPLES == 24
    lengths = (24, 25)
    batch = batch_of("gpt2", lengths=lengths)
    got = smallest_sets(AttentionEraser(batch), bounds=True)
    exact = [low == high for low, high in zip(got.low, got.high, strict=True)]
    for low, certain, length in zip(got.low, exact, lengths, strict=True):
        assert certain or low == (4 if length <= TRIPLES else 3)


def test_where_they_meet_they_are_certified_and_the_set_exists():
    """The upper bound is a set that flips: the built-in rankings' best; equal bounds are the truth."""
    batch = batch_of("bert", lengths=SHORT)
    names = tuple(f"attention/{name}" for name in BUILT_IN)
    rows = table(Erasure(bounds=True).run(batch_of("bert", lengths=SHORT, rankings={"attention": ranked(*names)})))
    least = least_of(batch)
    certified = 0
    for text, size in enumerate(least):
        mine = [row for key, row in rows.items() if key[0] == text]
        low, high = mine[0]["minimum_low"], mine[0]["minimum_high"]
        assert all((row["minimum_low"], row["minimum_high"]) == (low, high) for row in mine)
        removed = [row["removed"] for row in mine if not row["censored"]]
        assert high is None or low <= high <= min(removed, default=high)
        if low == high:
            certified += 1
            assert size == low
    assert certified >= 3


@pytest.mark.parametrize("bounds", [False, True])
@pytest.mark.parametrize("family", ["bert", "FLANrnn"])
def test_what_is_asked_for_changes_nobodys_minimum(family, bounds):
    few, many = ranked("attention/random"), ranked("attention/random", "attention/greedy", "attention/occlusion")
    first, second = (
        table(Erasure(bounds=bounds).run(batch_of(family, rankings={"attention": rankings})))
        for rankings in (few, many)
    )
    for key, row in first.items():
        for name in ("minimum_low", "minimum_high", "flippable", "items", "removed"):
            assert row[name] == second[key][name]
    assert set(BUILT_IN) <= {name for level, name in methods if level == "attention"}


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_protected_items_are_in_no_set(family):
    batch = batch_of(family, lengths=SHORT, special_tokens="protect")
    assert batch.special_items.any()
    least, got = least_of(batch), smallest_sets(AttentionEraser(batch), bounds=True)
    whole = smallest_sets(AttentionEraser(batch_of(family, lengths=SHORT)), bounds=True)
    for size, low, high in zip(least, got.low, got.high, strict=True):
        if size is None:
            assert high is None
        else:
            assert low <= size
            assert high is None or size <= high
            assert size > 3 or low == high == size
    assert (got.low, got.high) != (whole.low, whole.high)


def test_the_optimum_of_an_affine_tail_is_exact_with_or_without_bounds():
    for family in ("FLANrnn", "HANrnn"):
        batch = batch_of(family, lengths=SHORT)
        for bounds in (False, True):
            got = smallest_sets(AttentionEraser(batch), bounds=bounds)
            for text, size in enumerate(least_of(batch)):
                if int(batch.capture.lengths[text]) >= 2:
                    assert got.low[text] == got.high[text] == size
                    assert got.flippable[text] == (size is not None)


def test_the_input_level_claims_nothing():
    rows = table(Erasure(bounds=True).run(batch_of("bert", rankings={"input": ranked("input/random")})))
    assert {(row["minimum_low"], row["minimum_high"], row["flippable"]) for row in rows.values()} == {(None,) * 3}


@pytest.mark.parametrize("spread", [50.0, 200.0])
def test_the_optimum_weighs_what_underflowed_by_its_scores(spread, generator):
    """In float32 nothing but the largest weight is left; once that is gone the others decide, and some sets flip."""
    model = copy.deepcopy(model_of("FLANnoenc")).float()
    cut, flips = af.cut(model), 0
    for _ in range(8):
        batch = batch_of("FLANnoenc", cut=cut, lengths=(5,), seed=0)
        count = int(batch.capture.lengths[0])
        scores = spread * torch.rand(count, generator=generator, dtype=torch.float64)
        logs = scores.log_softmax(-1)[None, None]
        made = replace(batch.capture, weights=logs.exp().float(), log_weights=logs)
        batch.capture = replace(made, logits=cut.rerun(made, weights=made.weights.unsqueeze(1))[:, 0])
        push = cut.adapter.affine(made).contributions[0].double()
        bias = cut.adapter.affine(made).bias[0].double()

        def label(removed, scores=scores, push=push, bias=bias, count=count):
            kept = [item for item in range(count) if item not in removed]
            return int((bias + (scores[kept].softmax(-1) @ push[kept] if kept else 0)).argmax())

        own = label(())
        sets = [one for size in range(1, count + 1) for one in itertools.combinations(range(count), size)]
        least = min((len(one) for one in sets if label(one) != own), default=None)
        got = smallest_sets(AttentionEraser(batch), bounds=False)
        assert got.low[0] == got.high[0] == least
        flips += least is not None
    assert flips >= 4
