"""Orders: their laws, and sorting in Python."""

import math

import pytest
import torch

from attnfaith.functional.ranking import count_ties, order_of, ranks_of, stable_order

NAN = math.nan


def slow(scores, mask):
    """Items by (undefined?, minus score, place)."""
    items = [index for index in range(len(scores)) if mask[index]]

    def key(index):
        undefined = math.isnan(scores[index])
        return (undefined, 0 if undefined else -scores[index], index)

    return sorted(items, key=key)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.int64])
def test_equals_a_sort_in_python(dtype, generator):
    scores = torch.randint(-3, 4, (60, 9), generator=generator).to(dtype)  # many ties
    mask = torch.rand(60, 9, generator=generator) < 0.7
    if dtype.is_floating_point:
        odd = torch.rand(60, 9, generator=generator)
        scores[odd < 0.15], scores[(odd > 0.15) & (odd < 0.2)], scores[odd > 0.95] = NAN, math.inf, -math.inf
    order = order_of(scores, mask)
    for row, kept, got in zip(scores.tolist(), mask.tolist(), order.tolist(), strict=True):
        assert got[: sum(kept)] == slow(row, kept)  # padding comes after, in whatever order
    assert torch.equal(order.sort(-1).values, torch.arange(9).expand(60, -1))


def test_ties_keep_the_order_of_the_text_and_long_texts_too():
    scores = torch.zeros(1, 5000)
    scores[0, 4000] = 1
    order = order_of(scores, torch.ones(1, 5000, dtype=torch.bool))[0].tolist()
    assert order == [4000, *range(4000), *range(4001, 5000)]


def test_minus_zero_ties_with_zero():
    scores = torch.tensor([[0.0, -0.0, 0.0]])
    assert order_of(scores, torch.ones(1, 3, dtype=torch.bool)).tolist() == [[0, 1, 2]]


def test_undefined_scores_come_last_and_padding_after_them():
    mask = torch.tensor([[True, True, False, True, True, False]])
    scores = torch.tensor([[NAN, -5.0, 9.0, NAN, -math.inf, NAN]])
    assert order_of(scores, mask).tolist() == [[1, 4, 0, 3, 2, 5]]
    assert order_of(torch.full((1, 3), NAN), torch.ones(1, 3, dtype=torch.bool)).tolist() == [[0, 1, 2]]


def test_scores_at_padding_do_not_matter(generator):
    scores, mask = torch.randn(8, 7, generator=generator), torch.rand(8, 7, generator=generator) < 0.6
    expected = order_of(scores, mask)
    for fill in (NAN, math.inf, -math.inf, 0.0, 100.0):
        got = order_of(scores.masked_fill(~mask, fill), mask)
        items = torch.arange(7) < mask.sum(-1, keepdim=True)
        assert torch.equal(got[items], expected[items])


def test_nearly_equal_doubles_are_distinguished():
    scores = torch.tensor([[1.0, 1.0 + 1e-15, 1.0]], dtype=torch.float64)
    assert order_of(scores, torch.ones(1, 3, dtype=torch.bool)).tolist() == [[1, 0, 2]]


def test_whole_numbers_beyond_single_precision_are_distinguished():
    scores = torch.tensor([[2**24, 2**24 + 1, 2**24]])
    assert order_of(scores, torch.ones(1, 3, dtype=torch.bool)).tolist() == [[1, 0, 2]]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e200])
def test_groups_and_values_too_close_for_single_precision(dtype, scale, generator):
    """As in a sort in Python, also where all values round to the same number in single precision, or to infinity."""
    values = torch.randn(40, 30, generator=generator, dtype=torch.float64) * scale
    values = ((1 + values if scale < 1 else values).round(decimals=10)).to(dtype).nan_to_num()
    values[:, ::5] = values[:, 1:2]  # ties
    groups = torch.randint(0, 4, (40, 30), generator=generator)
    for line, group, order in zip(values.tolist(), groups.tolist(), stable_order(values, groups).tolist(), strict=True):
        keys = [(of, -value, index) for index, (of, value) in enumerate(zip(group, line, strict=True))]
        assert order == [index for _, _, index in sorted(keys)]


def test_ranks_and_orders_are_each_other_s_inverse(generator):
    order = torch.rand(5, 11, generator=generator).argsort(-1)
    assert torch.equal(ranks_of(ranks_of(order)), order)
    assert torch.equal(order.gather(-1, ranks_of(order)), torch.arange(11).expand(5, -1))


def test_ties_are_counted_like_a_set(generator):
    scores = torch.randint(0, 4, (40, 8), generator=generator).double()
    mask = torch.rand(40, 8, generator=generator) < 0.7
    expected = []
    for row, kept in zip(scores.tolist(), mask.tolist(), strict=True):
        items = [score for score, real in zip(row, kept, strict=True) if real]
        expected.append(len(items) - len(set(items)))
    assert count_ties(scores, mask).tolist() == expected
    assert count_ties(torch.full((1, 3), NAN), torch.ones(1, 3, dtype=torch.bool)).tolist() == [
        0
    ]  # undefined ties nothing
