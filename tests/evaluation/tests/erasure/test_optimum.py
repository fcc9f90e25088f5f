"""The smallest set whose erasure flips a decision, against all subsets of a text."""

import itertools

import pytest

from attnfaith.evaluation.tests.erasure.test import Erasure
from tests.helpers.comparing import inputs_of
from tests.helpers.removal_batches import LENGTHS, TOLERANCE, batch_of, model_of, ranked, table
from tests.helpers.slow_erasure import RANKINGS, Slow, check, flipped


@pytest.mark.parametrize("kind", ["multiclass", "sigmoid", "multilabel", "regression"])
@pytest.mark.parametrize("family", ["FLANrnn", "HANrnn", "FLANnoenc"])
def test_the_optimum_is_the_least_of_all_sets(family, kind):
    """Every subset of each text, through the tail; and no ranking flips with fewer."""
    names = ("attention/optimal", "attention/random", "attention/greedy", "attention/occlusion", "attention/gradient")
    batch = batch_of(family, kind, rankings={"attention": ranked(*names)}, lengths=(8, 7, 8, 4, 5, 6, 8, 6))
    rows = table(Erasure().run(batch))
    slow = Slow(batch, "attention")
    result = 0
    for text in range(8):
        items, before = slow.erasable(text), batch.logits[text].tolist()
        if len(items) < 2:
            continue
        sizes = []
        for size in range(1, len(items) + 1):
            for removed in itertools.combinations(items, size):
                after = slow.logits(text, removed)
                sizes += [size] if flipped(kind, before, after, TOLERANCE) else []
            if sizes:
                break
        least = min(sizes, default=None)
        best = rows[text, "attention", "optimal", "attention"]
        assert best["removed"] == best["minimum_low"] == best["minimum_high"] == least
        assert best["censored"] == (least is None)
        assert best["ties"] == 0
        for (number, *_), row in rows.items():
            if number == text:
                assert (row["minimum_low"], row["minimum_high"]) == (least, least)
                assert row["flippable"] == (least is not None)
                assert row["censored"] or row["removed"] >= least
        result += least is not None
    assert result >= 2


def test_the_optimum_with_special_tokens_that_stay():
    """Erased by its own order it flips at its own size, also where some items may not go."""
    rankings = {"attention": ranked("attention/optimal", "attention/random")}
    inputs = inputs_of(model_of("FLANrnn"), lengths=LENGTHS, seed=2)
    options = {"inputs": inputs, "special_tokens": "protect", "special_ids": frozenset(range(0, 64, 3))}
    batch = batch_of("FLANrnn", rankings=rankings, **options)
    assert batch.special_items.any(1).sum() >= 6
    rows = table(Erasure().run(batch))
    flips = 0
    for (_, _, name, _), row in rows.items():
        if name == "optimal":
            assert row["removed"] == row["minimum_low"] == row["minimum_high"]
            flips += not row["censored"]
        else:
            assert row["censored"] or row["removed"] >= row["minimum_low"]
    assert flips >= 3
    check(batch_of("FLANrnn", rankings={"attention": RANKINGS["attention"]}, **options), "attention")
