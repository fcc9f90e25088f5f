"""Agreement of score vectors: against scipy and loops over pairs of items, and by the laws of a correlation."""

import itertools
import math
import warnings

import numpy as np
import pytest
import torch
from scipy import stats

from attnfaith.functional import agreement as module
from attnfaith.functional.agreement import kendall, overlap, spearman


def vectors(draw, count, length):
    """Score vectors of many kinds: smooth, with a few and with many ties, almost constant, nearly in order, NaN."""
    kinds = [
        lambda: draw.normal(size=length),
        lambda: draw.integers(0, max(2, length // 2), length).astype(float),
        lambda: draw.integers(0, 2, length).astype(float),
        lambda: np.eye(length)[draw.integers(length)],
        lambda: np.arange(length) + 0.4 * draw.normal(size=length),
        lambda: -np.arange(length) + 0.2 * draw.normal(size=length),
        lambda: np.full(length, 0.25),
        lambda: np.where(draw.random(length) < 0.2, np.nan, draw.integers(0, 5, length)),
    ]
    return np.stack([kinds[draw.integers(len(kinds))]() for _ in range(count)])


def padded(listed):
    """Score vectors [R, n] of texts of several lengths as one batch, with rubbish at padding."""
    longest = max(item.shape[1] for item in listed)
    scores = np.stack([np.pad(item, ((0, 0), (0, longest - item.shape[1])), constant_values=7.5) for item in listed])
    mask = torch.arange(longest) < torch.tensor([item.shape[1] for item in listed]).unsqueeze(1)
    return torch.from_numpy(scores), mask


def quiet(function, left, right):
    """What scipy says on the items that both score; NaN where it has nothing to say."""
    both = ~np.isnan(left) & ~np.isnan(right)
    if both.sum() < 2:
        return math.nan, math.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of constant input
        result = function(left[both], right[both])
    return float(result.statistic), float(result.pvalue)


@pytest.mark.parametrize("longest", [5, 20, 60, 200])
def test_tau_p_and_rho_equal_scipys(longest):
    draw = np.random.default_rng(longest)
    texts = [vectors(draw, 8, draw.integers(1, longest + 1)) for _ in range(40)]
    scores, mask = padded(texts)
    result, rho = kendall(scores, mask), spearman(scores, mask)
    compared = exact = 0
    for text, first, second in itertools.product(range(len(texts)), range(8), range(8)):
        left, right = texts[text][first], texts[text][second]
        tau, p = quiet(stats.kendalltau, left, right)
        assert float(result.tau[text, first, second]) == pytest.approx(tau, abs=1e-14, nan_ok=True)
        assert float(result.p[text, first, second]) == pytest.approx(p, rel=1e-10, abs=1e-300, nan_ok=True)
        expected = quiet(stats.spearmanr, left, right)[0]
        assert float(rho[text, first, second]) == pytest.approx(expected, abs=1e-12, nan_ok=True)
        assert int(result.items[text, first, second]) == (~np.isnan(left + right)).sum()
        compared += not math.isnan(tau)
        exact += not math.isnan(tau) and len(set(left)) == len(left) == len(set(right)) <= 33
    assert compared > 1000
    assert exact > 40 or longest == 200


@pytest.mark.parametrize("length", [2, 3, 4, 32, 33, 34, 35, 60, 169, 172, 180])
def test_p_values_of_nearly_equal_orders(length):
    """Where scipy goes over from exact to asymptotic, and where factorials overflow."""
    straight = np.arange(length, dtype=float)
    lines = [straight, -straight]
    for moved in ([1, 0], [1, 2, 0]):
        if len(moved) <= length:
            line = straight.copy()
            line[: len(moved)] = moved
            lines += [line, -line]
    result = kendall(torch.from_numpy(np.stack(lines))[None], torch.ones(1, length, dtype=torch.bool))
    for (first, left), (second, right) in itertools.product(enumerate(lines), repeat=2):
        tau, p = quiet(stats.kendalltau, left, right)
        assert float(result.tau[0, first, second]) == pytest.approx(tau, abs=1e-14)
        assert float(result.p[0, first, second]) == pytest.approx(p, rel=1e-9, abs=1e-290)


def test_a_long_text():
    draw = np.random.default_rng(0)
    lines = np.stack([draw.normal(size=4096), draw.integers(0, 40, 4096).astype(float), np.arange(4096.0)])
    lines[1] += 10 * (lines[0] > 0)
    scores, mask = torch.from_numpy(lines)[None], torch.ones(1, 4096, dtype=torch.bool)
    result, rho = kendall(scores, mask), spearman(scores, mask)
    for first, second in itertools.product(range(3), repeat=2):
        tau, p = quiet(stats.kendalltau, lines[first], lines[second])
        assert float(result.tau[0, first, second]) == pytest.approx(tau, abs=1e-14)
        assert float(result.p[0, first, second]) == pytest.approx(p, rel=1e-8, abs=1e-300)
        assert float(rho[0, first, second]) == pytest.approx(
            quiet(stats.spearmanr, lines[first], lines[second])[0], abs=1e-12
        )


def slow_tau(left, right):
    """tau-b from its definition: every pair of items, one after the other."""
    pairs = [(a, b) for a, b in zip(left, right, strict=True) if not math.isnan(a) and not math.isnan(b)]
    excess = item = two = 0
    for (a, b), (c, d) in itertools.combinations(pairs, 2):
        first, second = (a > c) - (a < c), (b > d) - (b < d)
        excess, item, two = excess + first * second, item + first**2, two + second**2
    return excess / math.sqrt(item * two) if item and two else math.nan


def slow_overlap(left, right, top):
    """The first k of each, by sorting; the earlier of two that tie is first."""
    items = [index for index in range(len(left)) if not math.isnan(left[index]) and not math.isnan(right[index])]
    if not items:
        return math.nan
    count = min(top, len(items)) if top >= 1 else max(1, math.ceil(round(top * len(items), 9)))
    first, second = (set(sorted(items, key=lambda index: (-line[index], index))[:count]) for line in (left, right))
    return len(first & second) / count


@pytest.mark.parametrize("top", [1, 3, 100, 0.1, 0.2, 0.5, 0.99])
def test_equals_loops(top):
    draw = np.random.default_rng(3)
    texts = [vectors(draw, 6, length) for length in (1, 2, 5, 10, 20, 25)]
    scores, mask = padded(texts)
    tau, common = kendall(scores, mask).tau, overlap(scores, mask, top)
    for text, first, second in itertools.product(range(len(texts)), range(6), range(6)):
        left, right = texts[text][first].tolist(), texts[text][second].tolist()
        assert float(tau[text, first, second]) == pytest.approx(slow_tau(left, right), abs=1e-14, nan_ok=True)
        assert float(common[text, first, second]) == pytest.approx(slow_overlap(left, right, top), nan_ok=True)


def test_laws():
    draw = np.random.default_rng(5)
    lines = draw.integers(0, 9, (4, 24)).astype(float)
    scores, mask = torch.from_numpy(np.concatenate((lines, -lines)))[None], torch.ones(1, 24, dtype=torch.bool)
    for result in (kendall(scores, mask).tau[0], spearman(scores, mask)[0]):
        torch.testing.assert_close(result.diagonal(), torch.ones(8, dtype=torch.float64), rtol=0, atol=1e-12)
        torch.testing.assert_close(result[:4, 4:].diagonal(), -torch.ones(4, dtype=torch.float64), rtol=0, atol=1e-12)
        torch.testing.assert_close(result, result.mT, rtol=0, atol=1e-12)
        torch.testing.assert_close(result[:4, 4:], -result[:4, :4], rtol=0, atol=1e-12)
    assert torch.equal(overlap(scores, mask, 5)[0].diagonal(), torch.ones(8, dtype=torch.float64))
    shuffled = scores[..., torch.randperm(24)]
    squashed = torch.exp(3 * scores) - 2
    for other in (shuffled, squashed):
        for first, second in zip(kendall(scores, mask), kendall(other, mask), strict=True):
            torch.testing.assert_close(first, second, rtol=0, atol=1e-12)
        torch.testing.assert_close(spearman(other, mask), spearman(scores, mask), rtol=0, atol=1e-12)
    assert torch.equal(overlap(squashed, mask, 5), overlap(scores, mask, 5))


@pytest.mark.parametrize("cells", [1, 300, 2**21])
def test_padding_batches_and_chunks_change_nothing(cells, monkeypatch):
    monkeypatch.setattr(module, "_CELLS", cells)
    draw = np.random.default_rng(7)
    texts = [vectors(draw, 7, length) for length in (9, 4, 17, 2)]
    scores, mask = padded(texts)
    left = scores.flip(-1), mask.flip(-1)
    whole = (*kendall(scores, mask), spearman(scores, mask))
    for text, entries in enumerate(texts):
        single = torch.from_numpy(entries)[None], torch.ones(1, entries.shape[1], dtype=torch.bool)
        for together, alone in zip(whole, (*kendall(*single), spearman(*single)), strict=True):
            torch.testing.assert_close(together[text], alone[0], rtol=0, atol=0, equal_nan=True)
        ours = overlap(scores, mask, 0.3)[text]
        torch.testing.assert_close(ours, overlap(*single, 0.3)[0], rtol=0, atol=0, equal_nan=True)
    for first, second in zip(whole, (*kendall(*left), spearman(*left)), strict=True):
        torch.testing.assert_close(first, second, rtol=0, atol=1e-12, equal_nan=True)


def test_constant_and_missing_scores_are_undefined():
    nan = math.nan
    lines = [[1.0, 2.0, 3.0], [0.5, 0.5, 0.5], [nan, nan, nan], [nan, 2.0, 1.0], [nan, 1.0, 1.0], [nan, nan, 1.0]]
    scores, mask = torch.tensor([lines]), torch.ones(1, 3, dtype=torch.bool)
    result = kendall(scores, mask)
    assert result.tau[0, 0].tolist() == pytest.approx([1.0, nan, nan, -1.0, nan, nan], nan_ok=True)
    assert result.p[0].isnan().equal(result.tau[0].isnan())
    assert spearman(scores, mask)[0].isnan().equal(result.tau[0].isnan())
    assert result.items[0, 0].tolist() == [3, 3, 0, 2, 2, 1]
    assert overlap(scores, mask, 1)[0, 0].tolist() == pytest.approx([1.0, 0.0, nan, 0.0, 0.0, 1.0], nan_ok=True)


def test_infinite_scores_rank_highest_and_lowest():
    line = torch.tensor([math.inf, 3.0, -math.inf, 0.0])
    scores = torch.stack((line, torch.tensor([4.0, 3.0, 1.0, 2.0])))[None]
    for near in (0.0, 1e-6):
        assert kendall(scores, torch.ones(1, 4, dtype=torch.bool), near=near).tau[0, 0, 1] == 1


def test_scores_that_differ_by_rounding_are_tied():
    line = torch.tensor([0.1, 0.1 * (1 + 1e-9), 1e-12, 2e-12, 5.0, 5.0 * (1 - 1e-9)], dtype=torch.float64)
    tied = torch.tensor([2.0, 2.0, 0.0, 1.0, 3.0, 3.0], dtype=torch.float64)
    other = torch.arange(6, dtype=torch.float64)
    scores, mask = torch.stack((line, tied, other))[None], torch.ones(1, 6, dtype=torch.bool)
    for function in (lambda near: kendall(scores, mask, near=near).tau, lambda near: spearman(scores, mask, near=near)):
        result = function(1e-6)[0]
        assert result[0].tolist() == result[1].tolist()
        assert function(0.0)[0, 0, 2] != result[0, 2]
