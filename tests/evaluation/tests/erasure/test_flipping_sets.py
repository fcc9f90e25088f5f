"""The size of the smallest flipping set: against all subsets, and the search against a version with loops."""

import copy
import itertools
from dataclasses import replace

import pytest
import torch

import attnfaith as af
from attnfaith.attribution.method import methods
from attnfaith.evaluation.tests.erasure import flipping_sets
from attnfaith.evaluation.tests.erasure.flipping_sets import PANEL, SINGLES, TRIPLES
from attnfaith.evaluation.tests.erasure.test import Erasure
from attnfaith.functional.schedule import LONG
from tests.helpers.removal_batches import RANDOM, SIZES, TOLERANCE, Sizes, batch_of, cut_of, model_of, ranked, table
from tests.helpers.slow_erasure import Slow, flipped

SHORT = (8, 7, 5, 4, 3, 6, 8, 7)
MANY = {
    "attention": ranked("attention/occlusion", "attention/greedy", "attention/random", "attention/lrp"),
    "input": ranked("input/lrp", "attention/gradient_x_attention", "input/random", "input/gradient"),
}


def least_of(batch, level="attention"):
    """The size of each text's smallest flipping set, over every subset; None without one."""
    slow, result = Slow(batch, level), []
    for text in range(len(batch.rows)):
        items, before, least = slow.erasable(text), batch.logits[text].tolist(), None
        sets = [entry for size in range(1, slow.last(text) + 1) for entry in itertools.combinations(items, size)]
        for removed in sets:
            after = slow.logits(text, removed)
            if flipped(batch.config.decision.kind, before, after, TOLERANCE):
                least = len(removed)
                break
        result.append(least)
    return result


def margin(kind, before, after):
    """How far ``after`` is from another decision than that of ``before``."""
    if kind == "regression":
        return TOLERANCE - abs(after[0] - before[0])
    if kind == "multilabel":
        return min(new if old > 0 else -new for old, new in zip(before, after, strict=True))
    before, after = ([0.0, row[0]] if kind == "sigmoid" else row for row in (before, after))
    original = before.index(max(before))
    return after[original] - max(value for index, value in enumerate(after) if index != original)


def searched(batch, level):
    """The sizes that the search finds, one set at a time; None where it finds none."""
    slow, kind, result = Slow(batch, level), batch.config.decision.kind, []
    for text in range(len(batch.rows)):
        items, before = slow.erasable(text), batch.logits[text].tolist()

        def flips(removed, text=text, before=before):
            return flipped(kind, before, slow.logits(text, removed), TOLERANCE)

        def shortest(order, text=text, flips=flips):
            return next((order[:step] for step in range(1, slow.last(text) + 1) if flips(order[:step])), None)

        def pruned(removed, flips=flips):
            again = True
            while again:
                again = False
                for item in reversed(removed):
                    smaller = [entry for entry in removed if entry != item]
                    if smaller and flips(smaller):
                        removed, again = smaller, True
            return removed

        orders = [order for ranking in PANEL[level] for order in slow.orders(ranking, text)]
        sets = [shortest(order) for order in orders]
        sets = [removed for removed in sets if removed is not None]
        sizes = [len(pruned(min(sets, key=len)))] if sets else []
        if sizes != [1] and len(items) >= 2:
            informed = [
                order for ranking in PANEL[level] if ranking.name != "random" for order in slow.orders(ranking, text)
            ]
            best = sorted(items, key=lambda item: (min(order.index(item) for order in informed), item))
            singles = best[: len(items) if level == "attention" else flipping_sets.SINGLES]
            singly = {item: slow.logits(text, [item]) for item in singles}
            if any(flips([item]) for item in singles):
                sizes.append(1)
            elif level == "input":
                start = min(orders, key=lambda order: len(shortest(order) or [*items, None]))
                order = sorted(singles, key=lambda item: (margin(kind, before, singly[item]), item))
                order += [item for item in start if item not in singles]
                sizes += [len(pruned(entry)) for entry in [shortest(order)] if entry is not None]
        result.append(min(sizes, default=None))
    return result


@pytest.mark.parametrize("kind", list(SIZES))
@pytest.mark.parametrize(
    ("family", "level"),
    [
        ("bert", "attention"),
        ("bert", "input"),
        ("llama", "attention"),
        pytest.param("llama", "input", marks=pytest.mark.slow),
        pytest.param("gpt2", "input", marks=pytest.mark.slow),
        pytest.param("t5", "attention", marks=pytest.mark.slow),
    ],
)
def test_the_search_equals_the_one_with_loops(family, level, kind):
    batch = batch_of(family, kind, rankings={level: RANDOM[level]})
    expected, got = searched(batch, level), Sizes(batch, level)
    assert got.high == expected
    panel_alone = [size for size in expected if size is not None and size > 1]
    assert any(size is not None for size in expected)
    assert panel_alone or kind != "multiclass"  # else pruning was not needed


@pytest.mark.parametrize("kind", ["multiclass", "sigmoid"])
def test_it_tries_as_many_single_items_as_it_may_at_the_input(kind, monkeypatch):
    everything = Sizes(batch_of("bert", kind, rankings={"input": RANDOM["input"]}), "input")
    assert any(size != 1 for size in everything.high)
    for singles in (1, 2, 3):
        monkeypatch.setattr(flipping_sets, "SINGLES", singles)
        batch = batch_of("bert", kind, rankings={"input": RANDOM["input"]})
        got = Sizes(batch, "input")
        assert got.high == searched(batch, "input")
        for size, low, known in zip(got.high, got.low, everything.low, strict=True):
            assert low == (1 if size != 1 else known)


@pytest.mark.parametrize(("family", "level"), [("bert", "attention"), ("bert", "input"), ("HANrnn", "input")])
def test_other_options_do_not_change_the_search(family, level):
    many = MANY[level] if family == "bert" else ranked("input/occlusion", "input/lrp", "input/random")
    few = Sizes(batch_of(family, rankings={level: RANDOM[level]}), level)
    more = Sizes(batch_of(family, rankings={level: many}), level)
    assert (few.low, few.high, few.flippable) == (more.low, more.high, more.flippable)
    assert any(few.flippable)


@pytest.mark.parametrize("bounds", [False, True])
@pytest.mark.parametrize(("family", "level"), [("bert", "attention"), ("bert", "input"), ("FLANrnn", "attention")])
def test_the_set_that_is_stored_has_the_size_that_is_told_and_flips(family, level, bounds):
    seen = 0
    for kind in SIZES:
        for seed in range(3):
            cut, rankings = cut_of(family, kind, seed), {level: RANDOM[level]}
            batch = batch_of(family, kind, rankings=rankings, cut=cut, stored=range(8))
            rows = table(Erasure(bounds=bounds).run(batch))
            told = {key[0]: row["minimum_high"] for key, row in rows.items()}
            slow, smallest = Slow(batch, level), batch.stored_steps[level][1].to_pylist()
            assert {row["text_id"] for row in smallest} == {text for text, size in told.items() if size is not None}
            for row in smallest:
                text = row["text_id"]
                removed = [slow.items[text][item] for item in row["removed"]]
                assert len(removed) == told[text]
                assert flipped(kind, batch.logits[text].tolist(), slow.logits(text, removed), TOLERANCE)
            seen += len(smallest)
    assert seen > 20


def test_attention_and_the_random_order_never_beat_the_search():
    for level in ("attention", "input"):
        names = ranked(f"{level}/attention", f"{level}/random")
        rows = table(Erasure().run(batch_of("bert", rankings={level: names})))
        for row in rows.values():
            assert row["censored"] or row["minimum_high"] <= row["removed"]
        assert {item.name for item in PANEL[level]} >= {"attention", "random"}


def test_with_bounds_all_single_items_are_tried_in_texts_that_are_not_long():
    lengths = (LONG + 1, LONG + 5, LONG + 9, LONG + 13, LONG, LONG - 4, LONG - 8, SINGLES, SINGLES - 1)
    for bounds, certain in ((False, 7), (True, 4)):
        batch = batch_of("FLANnoenc", rankings={"input": RANDOM["input"]}, lengths=lengths)
        got = Sizes(batch, "input", bounds=bounds)
        several = [size != 1 for size in got.high]
        assert any(several[:certain])
        assert any(several[certain:]) or not bounds
        assert got.low[:certain] == [1] * certain
        assert got.low[certain:] == [1 + more for more in several[certain:]]


@pytest.mark.parametrize("kind", list(SIZES))
@pytest.mark.parametrize("family", ["bert", "llama", pytest.param("gpt2", marks=pytest.mark.slow)])
def test_the_smallest_set_lies_between_them(family, kind):
    batch = batch_of(family, kind, lengths=SHORT)
    least = least_of(batch)
    assert any(size is not None for size in least)
    for bounds in (False, True):
        got = Sizes(batch, bounds=bounds)
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
                assert low == 2


def test_without_bounds_only_single_items_are_tried():
    batch = batch_of("llama", lengths=(26, 25, 8))
    free, paid = Sizes(batch), Sizes(batch, bounds=True)
    for text, length in enumerate((26, 25, 8)):
        assert free.low[text] in (1, 2)
        assert free.low[text] <= paid.low[text] <= (4 if length <= TRIPLES else 3)


def test_triples_are_tried_up_to_24_items_and_no_further():
    assert TRIPLES == 24
    lengths = (24, 25)
    batch = batch_of("gpt2", lengths=lengths)
    got = Sizes(batch, bounds=True)
    exact = [low == high for low, high in zip(got.low, got.high, strict=True)]
    for low, certain, length in zip(got.low, exact, lengths, strict=True):
        assert certain or low == (4 if length <= TRIPLES else 3)


def test_where_they_meet_they_are_certified_and_the_set_exists():
    """The upper bound is the size of a set that flips; equal bounds are the truth."""
    batch = batch_of("bert", lengths=SHORT)
    names = [f"attention/{name}" for name in ("attention", "gradient", "gradient_x_attention", "occlusion", "random")]
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
def test_options_do_not_change_the_minimum(family, bounds):
    few, many = ranked("attention/random"), ranked("attention/random", "attention/greedy", "attention/occlusion")
    first, second = (
        table(Erasure(bounds=bounds).run(batch_of(family, rankings={"attention": rankings})))
        for rankings in (few, many)
    )
    for key, row in first.items():
        for name in ("minimum_low", "minimum_high", "flippable", "items", "removed"):
            assert row[name] == second[key][name]
    assert {(item.level, item.name) for panel in PANEL.values() for item in panel} <= set(methods)


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_protected_items_are_in_no_set(family):
    batch = batch_of(family, lengths=SHORT, special_tokens="protect")
    assert batch.special_items.any()
    least, got = least_of(batch), Sizes(batch, bounds=True)
    whole = Sizes(batch_of(family, lengths=SHORT), bounds=True)
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
            got = Sizes(batch, bounds=bounds)
            for text, size in enumerate(least_of(batch)):
                if int(batch.capture.lengths[text]) >= 2:
                    assert got.low[text] == got.high[text] == size
                    assert got.flippable[text] == (size is not None)


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

        original = label(())
        sets = [entry for size in range(1, count + 1) for entry in itertools.combinations(range(count), size)]
        least = min((len(entry) for entry in sets if label(entry) != original), default=None)
        got = Sizes(batch)
        assert got.low[0] == got.high[0] == least
        flips += least is not None
    assert flips >= 4
