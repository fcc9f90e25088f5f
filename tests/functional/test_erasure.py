"""Erasing: its laws, and its slow twin."""

import math

import pytest
import torch

from attnfaith.functional.erasure import erase, log_weights_of, prefix_keeps, prefix_sums, sums_without_each
from attnfaith.functional.ranking import ranks_of
from tests.helpers.full_forward import erase_slow, prefix_slow, softmax_slow
from tests.helpers.other_device import OtherDevice

B, G, N = 3, 4, 11


@pytest.fixture
def weights(generator):
    """Distributions [B, G, N] of very different shapes, float64."""
    scores = torch.randn(B, G, N, generator=generator, dtype=torch.float64) * torch.tensor([0.1, 1, 4, 8]).view(1, G, 1)
    return scores.softmax(-1)


@pytest.fixture
def keep(generator):
    return torch.rand(B, N, generator=generator) < 0.5


def loop(weights, keep):
    rows = [[erase_slow(w.tolist(), k.tolist()) for w in text] for text, k in zip(weights, keep, strict=True)]
    return torch.tensor(rows, dtype=torch.float64)


def test_equals_its_slow_twin(weights, keep):
    torch.testing.assert_close(erase(weights, keep), loop(weights, keep), rtol=1e-12, atol=1e-12)


def test_equals_its_slow_twin_when_the_mass_is_not_one(weights, keep, generator):
    scaled = weights * (0.1 + 3 * torch.rand(B, G, 1, generator=generator, dtype=torch.float64))
    torch.testing.assert_close(erase(scaled, keep), loop(scaled, keep), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(erase(scaled, keep).sum(-1), scaled.sum(-1), rtol=1e-12, atol=0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_erasing_nothing_is_bit_exact(weights, dtype):
    weights = (weights * torch.rand(B, G, 1)).to(dtype)
    result = erase(weights, torch.ones(B, N, dtype=torch.bool))
    assert result.dtype == dtype
    assert torch.equal(result, weights)


def test_erasing_nothing_is_bit_exact_with_log_weights_and_padding(weights):
    mask = torch.arange(N) < torch.tensor([[N], [5], [1]])
    weights = (weights * mask.unsqueeze(1)).float()
    assert torch.equal(erase(weights, mask, log_weights_of(weights)), weights)


def test_erasing_items_of_no_weight_is_bit_exact(weights):
    weights[:, :, 3] = 0
    keep = torch.ones(B, N, dtype=torch.bool)
    keep[:, 3] = False
    assert torch.equal(erase(weights, keep), weights)


def test_distributions_are_erased_independently(weights, keep):
    together = erase(weights, keep)
    for group in range(G):
        assert torch.equal(together[:, group : group + 1], erase(weights[:, group : group + 1], keep))


def test_a_distribution_without_kept_items_is_zero_and_others_are_not(weights):
    weights[0, 1] = 0
    weights[0, 1, 2] = 1  # all of this one's weight is on the item that goes
    keep = torch.ones(B, N, dtype=torch.bool)
    keep[0, 2] = False
    result = erase(weights, keep)
    assert result[0, 1].eq(0).all()
    torch.testing.assert_close(result[0, [0, 2, 3]].sum(-1), torch.ones(3, dtype=torch.float64))
    assert erase(weights, torch.zeros(B, N, dtype=torch.bool)).eq(0).all()


def test_erasing_in_two_steps_equals_one_step(weights, keep, generator):
    other = torch.rand(B, N, generator=generator) < 0.7
    torch.testing.assert_close(erase(erase(weights, keep), other), erase(weights, keep & other), rtol=1e-12, atol=1e-14)


def test_permuting_items_or_heads_permutes_the_result(weights, keep, generator):
    items, heads = torch.randperm(N, generator=generator), torch.randperm(G, generator=generator)
    result = erase(weights, keep)
    torch.testing.assert_close(erase(weights[..., items], keep[:, items]), result[..., items], rtol=1e-13, atol=0)
    assert torch.equal(erase(weights[:, heads], keep), result[:, heads])


def test_candidates_broadcast(weights, generator):
    keeps = torch.rand(B, 5, N, generator=generator) < 0.5
    together = erase(weights.unsqueeze(1), keeps)
    assert together.shape == (B, 5, G, N)
    for candidate in range(5):
        assert torch.equal(together[:, candidate], erase(weights, keeps[:, candidate]))


@pytest.mark.parametrize("spread", [200.0, 5000.0])
@pytest.mark.parametrize("mass", [1.0, 0.3])
def test_underflow_leaves_the_softmax_of_the_kept_scores(spread, mass):
    scores = torch.tensor([0.0, -spread, -spread - 1, -spread - 3, -2 * spread], dtype=torch.float64)
    weights = (mass * scores.softmax(-1)).float().unsqueeze(0)
    keep = torch.tensor([False, True, True, False, True])
    assert weights[0, keep].eq(0).all()  # all that is kept was rounded to nothing
    result = erase(weights, keep, scores.log_softmax(-1).unsqueeze(0))
    expected = softmax_slow(scores.tolist(), keep.tolist(), float(weights.double().sum()))
    torch.testing.assert_close(result[0], torch.tensor(expected).float(), rtol=1e-6, atol=0)
    assert result.sum().item() == pytest.approx(mass, rel=1e-6)


def test_log_weights_of_zero_are_minus_infinity():
    assert log_weights_of(torch.tensor([0.0, -1.0, 1.0])).tolist() == [-math.inf, -math.inf, 0.0]


def order_of(mask, generator):
    return torch.rand(mask.shape, generator=generator).masked_fill(~mask, 2).argsort(-1)


def test_ranks_invert_an_order(generator):
    order = order_of(torch.ones(B, N, dtype=torch.bool), generator)
    for row, indices in zip(order.tolist(), ranks_of(order).tolist(), strict=True):
        assert [indices[item] for item in row] == list(range(N))


def test_prefix_keeps_remove_one_item_at_a_time(generator):
    mask = torch.arange(N) < torch.tensor([[N], [5], [1]])
    order = order_of(mask, generator)
    keeps = prefix_keeps(order, mask, 2, N + 1)
    assert keeps.shape == (B, N - 1, N)
    for text in range(B):
        for index, removed in enumerate(range(2, N + 1)):
            gone = set(order[text, :removed].tolist())
            expected = [bool(mask[text, item]) and item not in gone for item in range(N)]
            assert keeps[text, index].tolist() == expected


def test_prefix_sums_equal_erasing_in_a_loop(weights, generator):
    mask = torch.arange(N) < torch.tensor([[N], [5], [1]])
    logs = (weights[:, 2].log()).masked_fill(~mask, -torch.inf)
    mass = torch.tensor([1.0, 0.4, 2.0], dtype=torch.float64)
    logs = logs.log_softmax(-1)
    values = torch.randn(B, N, 3, generator=generator, dtype=torch.float64)
    order = order_of(mask, generator)
    sums = prefix_sums(logs, mass, values, order)
    assert sums.shape == (B, N + 1, 3)
    for text in range(B):
        final = (logs[text].exp() * mass[text]).tolist()
        expected = prefix_slow(final, values[text].tolist(), order[text].tolist(), int(mask[text].sum()))
        torch.testing.assert_close(sums[text], torch.tensor(expected, dtype=torch.float64), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("spread", [200.0, 599.0, 650.0, 5000.0])
def test_prefix_sums_survive_underflow(spread, generator):
    scores = torch.linspace(0, -spread, N, dtype=torch.float64).repeat(2, 1)
    scores[1] = torch.randn(N, generator=generator, dtype=torch.float64)  # a text beside it without such a spread
    values = torch.randn(2, N, 3, generator=generator, dtype=torch.float64)
    order = torch.arange(N).repeat(2, 1)  # the largest first: what stays is ever smaller
    sums = prefix_sums(scores.log_softmax(-1), torch.ones(2), values, order)
    for text in range(2):
        for removed in range(N):
            keep = [item >= removed for item in range(N)]
            weights = torch.tensor(softmax_slow(scores[text].tolist(), keep), dtype=torch.float64)
            torch.testing.assert_close(sums[text, removed], weights @ values[text], rtol=1e-10, atol=1e-10)
    assert sums[:, N].eq(0).all()


def test_prefix_sums_of_items_that_cannot_be_attended(generator):
    logs = torch.tensor([[-torch.inf, -torch.inf, -torch.inf], [0.0, -torch.inf, -torch.inf]], dtype=torch.float64)
    values = torch.randn(2, 3, 2, generator=generator, dtype=torch.float64)
    sums = prefix_sums(logs, torch.tensor([0.0, 1.0]), values, torch.tensor([[0, 1, 2], [0, 1, 2]]))
    assert sums[0].eq(0).all()
    torch.testing.assert_close(sums[1, 0], values[1, 0])
    assert sums[1, 1:].eq(0).all()


@pytest.mark.parametrize("spread", [10.0, 900.0])
def test_each_item_can_be_left_out_on_another_device(spread, generator):
    """The text whose weights underflow takes a path of its own."""
    logs = torch.tensor([[0.0, -spread, -spread - 2.0], [-1.0, -2.0, -torch.inf]], dtype=torch.float64)
    mass, values = torch.ones(2), torch.randn(2, 3, 4, generator=generator, dtype=torch.float64)
    expected = [sums_without_each(logs, mass, values), prefix_sums(logs, mass, values, torch.arange(3).expand(2, 3))]
    assert (
        expected[0][0, 0] - values[0, 1] / (1 + math.exp(-2)) - values[0, 2] / (1 + math.exp(2))
    ).abs().max() < 1e-12
    with OtherDevice() as device:
        parts = [device.put(item) for item in (logs, mass, values)]
        order = device.put(torch.arange(3).expand(2, 3))
        result = [sums_without_each(*parts), prefix_sums(*parts, order)]
        assert all(item.device.type == "cuda" for item in result)
        assert [item.tolist() for item in result] == [item.tolist() for item in expected]
