"""Erasing at the input of long texts: against a loop over the schedule, and what it costs."""

import math
from collections import Counter
from dataclasses import replace

import pytest

import attnfaith as af
from attnfaith.adapters.pass_count import count_passes
from attnfaith.errors import InputError
from attnfaith.evaluation.batch import Batch
from attnfaith.evaluation.tests.erasure.flipping_sets import PANEL, PRUNED, SINGLES
from attnfaith.evaluation.tests.erasure.test import Erasure
from attnfaith.evaluation.tests.rationales.test import Rationales
from attnfaith.evaluation.token_hiding import Hiding
from attnfaith.functional.decision import Decision
from attnfaith.functional.schedule import FIRST, LATER, LONG, schedule_of
from tests.helpers.comparing import inputs_of
from tests.helpers.removal_batches import batch_of, cut_of, one_of, ranked, table
from tests.helpers.slow_erasure import RANKINGS, Slow, flipped

LENGTHS = (110, 90, LONG, LONG + 1)


def long_batch(**changes):
    return batch_of("bert", **{"rankings": {"input": RANKINGS["input"]}, "lengths": LENGTHS, **changes})


def looked_at(batch, text):
    """The schedule of a text, from its rule."""
    last = int(batch.inputs["attention_mask"][text].sum())
    if last <= LONG:
        return list(range(1, last + 1))
    rest = (FIRST + max(1, round((last - FIRST) * (number / LATER) ** 1.5)) for number in range(1, LATER + 1))
    return sorted({*range(1, FIRST + 1), *rest})


def test_long_texts_equal_a_loop_over_the_schedule():
    batch = long_batch()
    rows, slow = table(Erasure().run(batch)), Slow(batch, "input")
    seen = Counter()
    for text, row in enumerate(batch.rows):
        before = batch.logits[text].tolist()
        for ranking in batch.config.rankings["input"]:
            (order,) = slow.orders(ranking, text)
            steps, previous, removed = looked_at(batch, text), 0, None
            for step in steps:
                if flipped("multiclass", before, slow.logits(text, order[:step]), None):
                    inside = range(previous + 1, step + 1)
                    removed = next(
                        size for size in inside if flipped("multiclass", before, slow.logits(text, order[:size]), None)
                    )
                    break
                previous = step
            result = rows[row.number, ranking.level, ranking.name, "input"]
            assert (result["removed"], result["censored"]) == (removed, removed is None)
            dense = previous == sum(step <= previous for step in steps)
            whole = dense if removed is not None else len(steps) == result["items"]
            assert result["resolution"] == ("exact" if whole else "schedule")
            seen[result["resolution"], removed is None] += 1
    assert seen["exact", False] > 2
    assert seen["schedule", False] + seen["schedule", True] > 2


def test_every_step_on_request_is_never_later():
    batch = long_batch()
    coarse, fine = (table(Erasure(resolution=name).run(batch)) for name in ("schedule", "exact"))
    assert {row["resolution"] for row in fine.values()} == {"exact"}
    slow = Slow(batch, "input")
    for key, row in fine.items():
        ranking = next(one for one in batch.config.rankings["input"] if (one.level, one.name) == key[1:3])
        assert row["removed"] == slow.row(ranking, key[0])["removed"]
        assert (row["removed"] or math.inf) <= (coarse[key]["removed"] or math.inf)
        if coarse[key]["resolution"] == "exact":
            assert coarse[key]["removed"] == row["removed"]
    with pytest.raises(InputError, match="'schedule' or 'exact', got 'fine'"):
        af.tests.Erasure(resolution="fine")


def test_neither_the_other_texts_nor_the_other_rankings_matter():
    batch = long_batch()
    together = table(Erasure().run(batch))
    for text in range(len(LENGTHS)):
        alone = long_batch(inputs=one_of(batch.inputs, text), numbers=[text])
        for key, row in table(Erasure().run(alone)).items():
            expected = together[key]
            for name in ("removed", "new_label", "resolution", "minimum_low", "minimum_high", "flippable"):
                assert row[name] == expected[name]
    few = table(Erasure().run(long_batch(rankings={"input": RANKINGS["input"][:1]})))
    assert few
    for key, row in few.items():
        for name in ("removed", "resolution", "minimum_low", "minimum_high", "flippable"):
            assert row[name] == together[key][name]


def test_no_set_is_run_twice_whoever_asks_for_it(monkeypatch):
    batch, sets, run = long_batch(), [], Hiding.run

    def counted(self, inputs, deciding, texts, keep, **options):
        if inputs is batch.inputs:
            sets.extend(zip(texts.tolist(), map(tuple, keep.tolist()), strict=True))
        return run(self, inputs, deciding, texts, keep, **options)

    monkeypatch.setattr(Hiding, "proved", lambda self, inputs, deciding: self)  # a proof runs sets by itself
    monkeypatch.setattr(Hiding, "run", counted)
    Erasure().run(batch)
    once = len(sets)
    Erasure().run(batch)
    Rationales().run(batch)
    assert once > 100
    assert once <= len(sets) < once + 4 * 3 * 11
    assert max(Counter(sets).values()) == 1


def never_flipping(length):
    """One text of a model of which nothing is a flip."""
    cut = cut_of("bert", "regression")
    inputs = inputs_of(cut.model, lengths=(length,), seed=2)
    batch = batch_of("bert", "regression", rankings={"input": RANKINGS["input"]}, inputs=inputs)
    return Batch(replace(batch.config, decision=Decision("regression", tolerance=1e9)), batch.rows, [], batch.inputs)


def test_the_cost_does_not_grow_with_the_length():
    rows = []
    for length in (LONG + 6, 120):
        batch = never_flipping(length)
        with count_passes() as count:
            columns = Erasure().run(batch)
        assert all(columns["censored"])
        rows.append(count.rows)
    orders = 2 * len({*PANEL["input"], *RANKINGS["input"]}) + 1  # a regression can move up or down
    most = orders * (FIRST + LATER) + SINGLES + 20  # gradients, and the proof of hiding
    assert LONG < rows[1] <= most
    assert rows[1] <= rows[0] + orders
    with count_passes() as count:
        Erasure(resolution="exact").run(never_flipping(120))
    assert count.rows > 3 * rows[1]
    assert PRUNED <= LONG


def test_the_attention_level_has_no_schedule():
    names = ranked("attention/random", "attention/attention")
    rows = table(Erasure().run(batch_of("bert", rankings={"attention": names}, lengths=LENGTHS)))
    assert {row["resolution"] for row in rows.values()} == {"exact"}


def test_the_rule_is_the_one_that_is_used():
    batch = long_batch()
    mask = batch.inputs["attention_mask"].sum(1)
    steps = schedule_of(mask, mask > LONG)
    for text in range(len(LENGTHS)):
        assert [step for step in steps[text].tolist() if step] == looked_at(batch, text)
