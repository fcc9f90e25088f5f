"""Rationales against loops over sets and spans, and against scikit-learn."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score, f1_score

from attnfaith.functional.rationale import (
    agreement,
    average_precision,
    count_matches,
    f1,
    marked_runs,
    only_top,
    run_unique_sets,
    top_count,
    without_top,
)

NAN = math.nan


@pytest.mark.parametrize("percent", [1, 5, 7, 10, 14, 20, 29, 50, 55, 70, 100])
def test_a_share_is_rounded_up_as_exact_fractions_are(percent):
    for items in range(1, 600):
        assert top_count(percent / 100, items) == max(1, math.ceil(Fraction(percent, 100) * items))


def test_sets_equal_loops(generator):
    orders = torch.stack([torch.stack([torch.randperm(6, generator=generator) for _ in range(4)]) for _ in range(3)])
    everything = torch.ones(4, 6, dtype=torch.bool)
    everything[1, 4:] = False
    everything[2, :2] = False
    erasable = everything.clone()
    erasable[0, 3] = erasable[2, 2] = False
    floor = everything & ~erasable
    floor[3, 5] = True  # a deciding row: erased as the others are, and left at the end
    # what stays, then padding, comes last
    rank = (~erasable).long() + (~everything).long()
    orders = orders.gather(-1, rank.expand(3, 4, 6).gather(-1, orders).argsort(dim=-1, stable=True))
    counts = erasable.sum(1)
    top = torch.tensor([[1, 3, 5], [1, 2, 4], [1, 2, 3], [2, 4, 6]])
    gone = without_top(orders, counts, everything, floor, top)
    alone = only_top(orders, everything, erasable, top)
    assert gone.shape == alone.shape == (3, 4, 3, 6)
    for order, text, step, item in itertools.product(range(3), range(4), range(3), range(6)):
        removed = orders[order, text].tolist()[: int(top[text, step])]
        there, may = bool(everything[text, item]), bool(erasable[text, item])
        kept = there and item not in removed
        if int(top[text, step]) == int(counts[text]):
            kept = bool(floor[text, item])
        assert bool(gone[order, text, step, item]) == kept
        assert bool(alone[order, text, step, item]) == (there and (not may or item in removed))


def test_equal_sets_of_one_text_are_run_once(generator):
    texts = torch.randint(5, (400,), generator=generator)
    keep = torch.rand(400, 3, generator=generator) < 0.5
    seen = []

    def run(some, sets):
        seen.extend(zip(some.tolist(), map(tuple, sets.tolist()), strict=True))
        return torch.stack((some.double(), (sets * torch.tensor([1.0, 2.0, 4.0])).sum(1)), 1)

    result = run_unique_sets(texts, keep, run)
    assert len(seen) == len(set(seen)) <= 5 * 8
    assert set(seen) == set(zip(texts.tolist(), map(tuple, keep.tolist()), strict=True))
    assert torch.equal(result, torch.stack((texts.double(), (keep * torch.tensor([1.0, 2.0, 4.0])).sum(1)), 1))


def test_sets_of_many_items_and_texts_are_distinguished():
    """More items than bits in a byte, and more texts than a byte counts."""
    keep = torch.eye(20, dtype=torch.bool).repeat(2, 1)
    texts = torch.tensor([3] * 20 + [3 + 256] * 20)
    result = run_unique_sets(texts, keep, lambda some, sets: torch.stack((some, sets.long().argmax(1)), 1))
    assert result.tolist() == [[text, item] for text in (3, 259) for item in range(20)]


@pytest.mark.parametrize("levels", [2, 3, 1000])
def test_average_precision_equals_scikit_learns(generator, levels):
    """With few levels nearly all scores tie."""
    scores = torch.randint(levels, (200, 12), generator=generator).double() - levels // 2
    relevant = torch.rand(200, 12, generator=generator) < torch.rand(200, 1, generator=generator)
    lengths = torch.randint(2, 13, (200,), generator=generator)
    mask = torch.arange(12) < lengths.unsqueeze(1)
    result, undefined = average_precision(scores, relevant, mask), 0
    for row in range(200):
        inside = mask[row]
        truth, row_scores = relevant[row, inside], scores[row, inside]
        if truth.all() or not truth.any():
            undefined += 1
            assert math.isnan(result[row])
            continue
        assert float(result[row]) == pytest.approx(
            average_precision_score(truth.numpy(), row_scores.numpy()), abs=1e-12
        )
    assert 0 < undefined < 150


def test_padding_and_the_order_of_positions_change_no_average_precision(generator):
    scores = torch.randint(4, (50, 9), generator=generator).double()
    relevant = torch.rand(50, 9, generator=generator) < 0.4
    plain = average_precision(scores, relevant, torch.ones_like(relevant))
    order = torch.randperm(9, generator=generator)
    moved = average_precision(scores[:, order], relevant[:, order], torch.ones_like(relevant))
    padded = [torch.nn.functional.pad(item, (2, 3), value=value) for item, value in ((scores, 9.0), (relevant, True))]
    mask = torch.nn.functional.pad(torch.ones_like(relevant), (2, 3))
    for result in (moved, average_precision(*padded, mask)):
        torch.testing.assert_close(result, plain, rtol=0, atol=1e-12, equal_nan=True)


def test_items_without_a_score_enter_last_and_together():
    relevant = torch.tensor([[True, False, True, True, False]])
    scores = torch.tensor([[0.5, NAN, NAN, -math.inf, 0.1]])
    mask = torch.ones_like(relevant)
    below = torch.tensor([[0.5, -9.0, -9.0, -8.0, 0.1]])
    assert float(average_precision(scores, relevant, mask)) == float(average_precision(below, relevant, mask))


def test_average_precision_of_a_perfect_and_a_constant_ranking():
    relevant = torch.tensor([[True, False, True, False, False]])
    mask = torch.ones_like(relevant)
    assert float(average_precision(relevant.double(), relevant, mask)) == 1
    assert float(average_precision(torch.zeros(1, 5), relevant, mask)) == pytest.approx(0.4)


def slow_iou(first, other):
    a, b = set(range(*first)), set(range(*other))
    return len(a & b) / len(a | b)


def test_runs_and_matches_equal_loops(generator):
    for _ in range(300):
        size = int(torch.randint(1, 15, (), generator=generator))
        first, second = (torch.rand(2, size, generator=generator) < 0.5).tolist()
        spans = marked_runs(first)
        assert [index for span in spans for index in range(*span)] == [p for p in range(size) if first[p]]
        assert all(a[1] < b[0] for a, b in itertools.pairwise(spans))
        gold = marked_runs(second)
        for threshold in (0.3, 0.5, 1.0):
            slow = sum(any(slow_iou(span, other) >= threshold for other in gold) for span in spans)
            assert count_matches(spans, gold, threshold) == slow


def test_spans_match_from_half_in_common_and_count_once():
    assert count_matches([(0, 4)], [(0, 2)]) == 1
    assert count_matches([(0, 5)], [(0, 2)]) == 0
    assert count_matches([(0, 4)], [(0, 2), (2, 4)]) == 1  # each shares half with it
    assert count_matches([], [(0, 2)]) == count_matches([(0, 2)], []) == 0
    assert count_matches([(0, 2)], [(5, 7)], 0.0) == 0  # nothing in common is no match


def test_agreement_equals_scikit_learn_and_loops(generator):
    for _ in range(200):
        size = int(torch.randint(2, 15, (), generator=generator))
        truth = torch.rand(size, generator=generator) < 0.4
        chosen = torch.randperm(size, generator=generator)[: int(torch.randint(1, size + 1, (), generator=generator))]
        if not truth.any():
            continue
        inside = np.zeros(size, dtype=bool)
        inside[chosen] = True
        gold, predicted = marked_runs(truth.tolist()), marked_runs(inside)
        token_f1, precision, recall = agreement(chosen.numpy(), truth.nonzero().flatten().tolist(), gold)
        assert token_f1 == pytest.approx(f1_score(truth.numpy(), inside))
        hits = sum(any(slow_iou(span, other) >= 0.5 for other in gold) for span in predicted)
        assert (precision, recall) == (hits / len(predicted), hits / len(gold))


def test_f1_of_zeros_is_zero():
    result = f1([0.0, 0.5, 1.0, NAN, 0.0], [0.0, 0.5, 0.5, 1.0, 1.0])
    assert result[:3].tolist() == [0.0, 0.5, pytest.approx(2 / 3)]
    assert math.isnan(result[3])
    assert result[4] == 0
