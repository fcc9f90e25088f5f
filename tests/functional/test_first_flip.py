"""First flips against a loop that removes one item at a time, from one text at a time."""

import itertools
import math
from dataclasses import dataclass, replace

import pytest
import torch

import attnfaith as af
from attnfaith.errors import NumericalError
from attnfaith.functional.decision import KINDS, Decision
from attnfaith.functional.first_flip import RemovalOrders, first_flips, from_prefixes, from_sets
from attnfaith.tiny_models import tiny_model
from tests.helpers.comparing import inputs_of

SIZES = {"multiclass": 3, "sigmoid": 1, "multilabel": 3, "regression": 1}


def decision_of_kind(kind, tolerance=1.0):
    return Decision(kind, tolerance=tolerance if kind == "regression" else None)


def flips_slow(kind, before, after, tolerance=1.0):
    """From the definitions, on lists."""
    if kind == "multiclass":
        return before.index(max(before)) != after.index(max(after))
    if kind == "regression":
        return abs(after[0] - before[0]) > tolerance
    return [value > 0 for value in before] != [value > 0 for value in after]


def distance_slow(kind, before, after, tolerance=1.0):
    """How near a tie, from the definitions."""
    if kind == "multiclass":
        chosen = before.index(max(before))
        return abs(after[chosen] - max(value for index, value in enumerate(after) if index != chosen))
    if kind == "regression":
        return abs(tolerance - abs(after[0] - before[0]))
    signed = [value if old > 0 else -value for old, value in zip(before, after, strict=True)]
    return abs(min(signed))


@dataclass(frozen=True)
class World:
    """Texts whose logits are drawn anew for every set of items that is left: no curve is monotone."""

    kind: str
    seed: int
    lanes: RemovalOrders

    def logits(self, text, left):
        key = 1 + sum((index + 1) * 7919**number for number, index in enumerate(sorted(left)))
        generator = torch.Generator().manual_seed((key * 1009 + text * 31 + self.seed) % 2**61)
        wild = torch.randint(-2, 3, (SIZES[self.kind],), generator=generator).double()  # ties on purpose
        if torch.rand((), generator=generator) < 0.7 and len(left) < int(self.lanes.items[text].sum()):
            return self.logits(text, self.whole(text))  # mostly nothing happens, or every flip were the first
        return wild

    def whole(self, text):
        return self.lanes.items[text].nonzero().flatten().tolist()

    @property
    def before(self):
        return torch.stack([self.logits(text, self.whole(text)) for text in range(len(self.lanes.counts))])

    def run(self, texts, keep):
        rows = zip(texts.tolist(), keep, strict=True)
        return torch.stack([self.logits(text, row.nonzero().flatten().tolist()) for text, row in rows])

    def left(self, lane, step):
        text = int(self.lanes.texts[lane])
        if step == int(self.lanes.counts[text]):
            return self.lanes.always_kept[text].nonzero().flatten().tolist()
        gone = self.lanes.orders[lane, :step].tolist()
        return [index for index in self.whole(text) if index not in gone]

    def slow(self, lane):
        """Flips, removed, logits, closest: one removal at a time."""
        text = int(self.lanes.texts[lane])
        before = self.before[text].tolist()
        result, closest = before, distance_slow(self.kind, before, before)
        for step in range(1, int(self.lanes.max_removed[text]) + 1):
            result = self.logits(text, self.left(lane, step)).tolist()
            closest = min(closest, distance_slow(self.kind, before, result))
            if flips_slow(self.kind, before, result):
                return True, step, result, closest
        return False, 0, result, closest


def world(kind, seed, *, width=9, texts=6, orders=3, floors=False):
    """Texts of unequal length on either side of the padding, in random orders; what stays comes after what goes."""
    generator = torch.Generator().manual_seed(seed)

    def drawn(low, high, *shape):
        return torch.randint(low, high, shape, generator=generator)

    lengths = drawn(1, width + 1, texts).tolist()
    everything = torch.zeros(texts, width, dtype=torch.bool)
    for text, length in enumerate(lengths):
        start = width - length if text % 2 else 0
        everything[text, start : start + length] = True
    stays = everything & (torch.rand(texts, width, generator=generator) < 0.2) & floors
    fixed = everything & (torch.rand(texts, width, generator=generator) < 0.2) & floors
    erasable = everything & ~stays
    rows = []
    for _ in range(orders):
        draws = torch.rand(texts, width, generator=generator)
        rows.append((draws + 2 * (~erasable).int() + 4 * (~everything).int()).argsort(-1))
    counts = erasable.sum(1)
    floor = stays | fixed
    last = counts - (~floor.any(1) & floors).long()
    names = torch.arange(texts).repeat(orders)
    return World(kind, seed, RemovalOrders(torch.cat(rows), names, counts, everything, floor, last))


def prefixes_of(item):
    """All steps at once, with rubbish past the last."""
    lanes = item.lanes
    result = torch.full((len(lanes.texts), lanes.orders.shape[1] + 1, SIZES[item.kind]), math.nan, dtype=torch.float64)
    for lane, text in enumerate(lanes.texts.tolist()):
        for step in range(int(lanes.max_removed[text]) + 1):
            result[lane, step] = item.logits(text, item.left(lane, step))
    return result


def check(item, result):
    flipped, at_the_end, late = 0, 0, 0
    for lane, text in enumerate(item.lanes.texts.tolist()):
        flips, removed, logits, closest = item.slow(lane)
        assert bool(result.flips[lane]) == flips
        assert int(result.removed[lane]) == removed
        assert result.logits[lane].tolist() == logits
        assert float(result.closest_margin[lane]) == closest
        flipped += flips
        at_the_end += flips and removed == int(item.lanes.counts[text])
        late += removed > 3
    return flipped, at_the_end, late


@pytest.mark.parametrize(
    ("first", "growth", "room"),
    [(1, 0.0, math.inf), (1, 0.5, math.inf), (1, 0.5, 20.5), (2, 1.0, 1.0), (8, 1.0, math.inf), (100, 1.0, math.inf)],
)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("floors", [False, True])
def test_equals_one_removal_at_a_time(kind, first, growth, room, floors):
    """However steps grow, none is skipped, and neither padding nor what is past the last step is looked at."""
    seen = [0, 0, 0]
    for seed in range(6):
        item = world(kind, seed, floors=floors)
        decision = decision_of_kind(kind)
        options = {"first": first, "growth": growth, "room": room}
        by_set = first_flips(item.lanes, item.before, decision, from_sets(item.lanes, item.run), **options)
        counted = check(item, by_set)
        by_prefix = first_flips(item.lanes, item.before, decision, from_prefixes(prefixes_of(item)), **options)
        check(item, by_prefix)
        seen = [a + b for a, b in zip(seen, counted, strict=True)]
    lanes = 6 * len(item.lanes.texts)
    assert lanes / 4 < seen[0] < lanes
    assert seen[1] > 0
    assert seen[2] > lanes / 20


@pytest.mark.parametrize(("first", "growth", "room"), [(1, 0.5, math.inf), (3, 1.0, math.inf), (1, 1.0, 16.0)])
def test_steps_are_evaluated_once_in_order_and_not_beyond_the_flip(first, growth, room):
    item = world("multiclass", 3, width=12, texts=8)
    asked = []

    def evaluate(going, steps):
        start, stop = int(steps[steps > 0].min()), int(steps.max()) + 1
        asked.append((start, stop, going.tolist()))
        return from_sets(item.lanes, item.run)(going, steps)

    result = first_flips(item.lanes, item.before, Decision(), evaluate, first=first, growth=growth, room=room)
    assert asked[0][0] == 1
    for start, stop, going in asked[1:]:
        assert stop - start < max(first, room / len(going)) + 1
    assert all(before[1] == after[0] for before, after in itertools.pairwise(asked))
    for start, stop, going in asked:
        assert stop > start
        for lane, text in enumerate(item.lanes.texts.tolist()):
            needed = int(result.removed[lane]) if result.flips[lane] else int(item.lanes.max_removed[text])
            assert (lane in going) == (start <= needed)


def test_a_set_that_many_orders_reach_is_run_once():
    """Different texts never share; within a text the sets of all orders are told apart."""
    torch.manual_seed(0)
    texts, width = 4, 7
    everything = torch.ones(texts, width, dtype=torch.bool)
    everything[1, 5:] = False
    counts = everything.sum(1)
    straight = torch.arange(width).expand(texts, -1)
    swapped = straight.clone()
    swapped[:, :2] = torch.tensor([1, 0])  # another first step, the same ones from then on
    orders = torch.cat((straight, straight, swapped))
    floor = torch.zeros_like(everything)
    lanes = RemovalOrders(orders, torch.arange(texts).repeat(3), counts, everything, floor, counts)
    runs = []

    def run(chosen, keep):
        runs.extend((text, tuple(row)) for text, row in zip(chosen.tolist(), keep.tolist(), strict=True))
        return torch.tensor([[1.0, 0.0]]).expand(len(chosen), -1)

    result = first_flips(
        lanes, torch.tensor([[1.0, 0.0]]).expand(texts, -1), Decision(), from_sets(lanes, run), first=100
    )
    assert not result.flips.any()
    assert len(runs) == len(set(runs)) == int(counts.sum()) + texts  # two first steps a text, one of each other
    expected = set()
    for lane, text in enumerate(lanes.texts.tolist()):
        for step in range(1, int(counts[text]) + 1):
            gone = orders[lane, :step].tolist()
            row = tuple(bool(everything[text, index]) and index not in gone for index in range(width))
            expected.add((text, row))
    assert set(runs) == expected


def test_a_flip_at_the_last_item_and_one_that_flips_back():
    everything = torch.ones(2, 3, dtype=torch.bool)
    counts = everything.sum(1)
    order = torch.arange(3).expand(2, -1)
    lanes = RemovalOrders(order, torch.arange(2), counts, everything, ~everything, counts)
    yes, no, tie = [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]
    prefixes = torch.tensor([[yes, yes, tie, no], [yes, no, yes, yes]])
    result = first_flips(lanes, prefixes[:, 0], Decision(), from_prefixes(prefixes))
    assert (result.flips.tolist(), result.removed.tolist()) == ([True, True], [3, 1])
    assert result.logits.tolist() == [no, no]
    assert result.closest_margin.tolist() == [0.0, 1.0]  # a tie that changed nothing is how near it came
    kept = first_flips(lanes, torch.tensor([no, no]), Decision(), from_prefixes(prefixes))
    assert kept.removed.tolist() == [1, 2]  # the tie, which belongs to the first class, is another decision here


def test_the_original_decision_counts_in_the_closest_margin():
    everything = torch.ones(1, 2, dtype=torch.bool)
    counts = everything.sum(1)
    lanes = RemovalOrders(torch.tensor([[0, 1]]), torch.tensor([0]), counts, everything, ~everything, counts)
    prefixes = torch.tensor([[[1e-9, 0.0], [1.0, 0.0], [0.0, 1.0]]])
    result = first_flips(lanes, prefixes[:, 0], Decision(), from_prefixes(prefixes))
    assert float(result.closest_margin) == pytest.approx(1e-9)


def test_logits_that_are_not_finite_are_refused_up_to_the_last_step():
    everything = torch.ones(1, 3, dtype=torch.bool)
    counts = everything.sum(1)
    lanes = RemovalOrders(torch.arange(3).unsqueeze(0), torch.tensor([0]), counts, everything, ~everything, counts - 1)
    prefixes = torch.tensor([[[1.0, 0.0]] * 3 + [[math.nan, 0.0]]])
    assert not first_flips(lanes, prefixes[:, 0], Decision(), from_prefixes(prefixes)).flips
    for wrong in (math.nan, math.inf):
        prefixes[0, 2, 0] = wrong
        with pytest.raises(NumericalError, match="not finite"):
            first_flips(lanes, prefixes[:, 0], Decision(), from_prefixes(prefixes))


def test_without_erasable_items_nothing_flips():
    everything = torch.ones(2, 1, dtype=torch.bool)
    none = torch.zeros(2, dtype=torch.long)
    lanes = RemovalOrders(torch.zeros(2, 1, dtype=torch.long), torch.arange(2), none, everything, everything, none)
    before = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    result = first_flips(lanes, before, Decision(), lambda *_: pytest.fail("nothing is to be run"))
    assert not result.flips.any()
    assert result.removed.tolist() == [0, 0]
    assert torch.equal(result.logits, before)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", ["bert", "llama", "FLANrnn", "HANrnn"])
def test_a_real_tail_one_removal_at_a_time(family, kind):
    """The engine's own evaluation, against ``Cut.rerun`` on one text and one set at a time."""
    if family.endswith("rnn"):
        sizes = {"embedding_size": 16, "hidden_size": 12, "num_labels": SIZES[kind]}
        model = af.models.from_preset(family, vocab_size=64, **sizes).double().eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.normal_(0, 2 * parameter.shape[-1] ** -0.5)
    else:
        model = tiny_model(family, num_labels=SIZES[kind], dtype=torch.float64)
    inputs = inputs_of(model, lengths=(18, 12, 15), seed=2)
    if family.endswith("rnn"):
        with torch.no_grad():  # decisions that hang on the text, and not on the bias
            model.classifier.bias -= model(**inputs).logits.mean(0)
    cut = af.cut(model)
    capture = cut.capture(**inputs)
    generator = torch.Generator().manual_seed(5)
    batch, width = capture.mask.shape
    count = 4
    orders = torch.cat(
        [(torch.rand(batch, width, generator=generator) + 2 * (~capture.mask).int()).argsort(-1) for _ in range(count)]
    )
    texts = torch.arange(batch).repeat(count)
    lanes = RemovalOrders(orders, texts, capture.lengths, capture.mask, torch.zeros_like(capture.mask), capture.lengths)
    tolerance = 0.3 * float(capture.logits.abs().mean())
    decision = decision_of_kind(kind, tolerance)
    ways = {
        "sets": from_sets(lanes, lambda chosen, keep: cut.rerun_sets(capture, chosen, keep)),
        "prefixes": from_prefixes(torch.cat([cut.prefixes(capture, order) for order in orders.split(batch)])),
    }
    expected = []
    for lane, text in enumerate(texts.tolist()):
        keep, first = capture.mask.clone(), None
        for step in range(int(capture.lengths[text])):
            keep[text, orders[lane, step]] = False
            after = cut.rerun(capture, keep=keep.unsqueeze(1))[text, 0].tolist()
            if flips_slow(kind, capture.logits[text].tolist(), after, tolerance):
                first = (step + 1, after)
                break
        expected.append(first)
    assert sum(first is not None for first in expected) >= 2
    for evaluate in ways.values():
        result = first_flips(lanes, capture.logits, decision, evaluate, first=2, growth=0.5)
        for lane, first in enumerate(expected):
            assert bool(result.flips[lane]) == (first is not None)
            if first is not None:
                assert int(result.removed[lane]) == first[0]
                assert result.logits[lane].tolist() == pytest.approx(first[1], rel=1e-6, abs=1e-9)


def schedule_for(item, seed, share=0.4):
    """Some steps of each text, the last always among them."""
    generator = torch.Generator().manual_seed(seed)
    lasts = item.lanes.max_removed.tolist()
    steps = [
        [step for step in range(1, last + 1) if step == last or torch.rand((), generator=generator) < share]
        for last in lasts
    ]
    width = max(1, *map(len, steps))
    return torch.tensor([line + [0] * (width - len(line)) for line in steps])


def scheduled_slow(item, lane, steps, tolerance=1.0):
    """From the definition: the first step of the schedule with a flip, then the first of those that it skipped."""
    text = int(item.lanes.texts[lane])
    before = item.before[text].tolist()
    looked = {0: before}

    def flips_at(step):
        looked[step] = item.logits(text, item.left(lane, step)).tolist()
        return flips_slow(item.kind, before, looked[step], tolerance)

    previous, found = 0, 0
    for step in steps:
        if flips_at(step):
            found = step
            for between in range(previous + 1, step):
                if flips_at(between):
                    found = between
                    break
            break
        previous = step
    end = found or previous
    closest = min(distance_slow(item.kind, before, after) for step, after in looked.items() if step <= end)
    last = int(item.lanes.max_removed[text])
    exact = all(step in looked for step in range(1, (found or last) + 1))
    return bool(found), found, looked[end], closest, exact


@pytest.mark.parametrize("kind", KINDS)
def test_a_schedule_equals_a_loop_over_its_steps(kind):
    """Whatever is evaluated at once, and whichever other orders there are."""
    late = inexact = 0
    for seed in range(5):
        item = world(kind, seed, width=14, floors=seed % 2 == 1)
        schedule = schedule_for(item, seed)
        expected = [
            scheduled_slow(item, lane, [step for step in schedule[text].tolist() if step])
            for lane, text in enumerate(item.lanes.texts.tolist())
        ]
        decision = decision_of_kind(kind)
        for first, growth in ((1, 0.5), (3, 1.0)):
            result = first_flips(
                item.lanes,
                item.before,
                decision,
                from_sets(item.lanes, item.run),
                schedule=schedule,
                first=first,
                growth=growth,
            )
            for lane, (flips, removed, logits, closest, exact) in enumerate(expected):
                assert bool(result.flips[lane]) == flips
                assert int(result.removed[lane]) == removed
                assert result.logits[lane].tolist() == logits
                assert float(result.closest_margin[lane]) == closest
                assert bool(result.exact[lane]) == exact
        late += sum(row[1] > 2 for row in expected)
        inexact += sum(not row[4] for row in expected)
    assert late > 5
    assert inexact > 5


@pytest.mark.parametrize("kind", KINDS)
def test_a_schedule_sees_no_flip_too_early_and_is_right_where_it_says_so(kind):
    later = 0
    for seed in range(5):
        item = world(kind, seed, width=14)
        decision, evaluate = decision_of_kind(kind), from_sets(item.lanes, item.run)
        exact = first_flips(item.lanes, item.before, decision, evaluate)
        seen = first_flips(item.lanes, item.before, decision, evaluate, schedule=schedule_for(item, seed))
        never = item.lanes.orders.shape[1] + 1
        by_step, by_schedule = (torch.where(one.flips, one.removed, never) for one in (exact, seen))
        assert bool(exact.exact.all())
        assert bool((by_schedule >= by_step).all())
        assert torch.equal(by_schedule[seen.exact], by_step[seen.exact])
        later += int((by_schedule > by_step).sum())
    assert later > 3


def planted(flipped):
    """One text whose decision is another after exactly these numbers of removals, of 12."""
    everything = torch.ones(1, 12, dtype=torch.bool)
    counts = everything.sum(1)
    lanes = RemovalOrders(torch.arange(12).unsqueeze(0), torch.tensor([0]), counts, everything, ~everything, counts)
    prefixes = torch.tensor([[[0.0, 1.0] if step in flipped else [1.0, 0.0] for step in range(13)]])
    return lanes, prefixes


@pytest.mark.parametrize(
    ("flipped", "removed", "exact"),
    [
        (range(5, 13), 5, False),  # one crossing, between two steps of the schedule: the step 2 is not looked at
        (range(1, 13), 1, True),
        ({3}, 3, True),  # on the schedule, and flips back at once; 2 is looked at too
        ({5, 6}, 0, False),  # between two steps of the schedule: never seen
        ({2, 5, 8}, 5, False),  # 2 is missed; the step 8 is seen first, and 5 lies in the part before it
        ({2, 12}, 12, False),
        ({4, 7, 8, 9}, 4, False),
        ({1, 4, 8}, 1, True),
        ((), 0, False),
    ],
)
def test_planted_curves(flipped, removed, exact):
    lanes, prefixes = planted(set(flipped))
    schedule = torch.tensor([[1, 3, 8, 12, 0]])
    result = first_flips(lanes, prefixes[:, 0], Decision(), from_prefixes(prefixes), schedule=schedule)
    assert (bool(result.flips), int(result.removed), bool(result.exact)) == (removed > 0, removed, exact)
    every = first_flips(
        lanes, prefixes[:, 0], Decision(), from_prefixes(prefixes), schedule=torch.arange(1, 13).unsqueeze(0)
    )
    assert int(every.removed) == min(flipped, default=0)
    assert bool(every.exact)


def test_the_earliest_flip_of_shared_orders_is_found_with_a_schedule():
    """The panel's smallest prefix is the same whether its orders are asked for or not."""
    for seed in range(8):
        item = world("multiclass", seed, width=14, orders=4)
        schedule = schedule_for(item, seed)
        evaluate = from_sets(item.lanes, item.run)
        alone = first_flips(item.lanes, item.before, Decision(), evaluate, schedule=schedule)
        member = torch.arange(4).repeat_interleave(len(item.lanes.counts))
        lanes = replace(item.lanes, shared=(member == 1) | (member == 3), triggers=member == 0)
        joint = first_flips(lanes, item.before, Decision(), evaluate, schedule=schedule)
        own = member % 2 == 0
        for name in ("flips", "removed", "logits", "closest_margin", "exact"):
            assert torch.equal(getattr(alone, name)[own], getattr(joint, name)[own])
        never = 99
        smallest = [
            torch.where(one.flips, one.removed, never).unflatten(0, (4, -1))[[0, 1, 3]].amin(0)
            for one in (alone, joint)
        ]
        assert torch.equal(*smallest)
