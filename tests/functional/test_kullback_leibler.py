"""Kullback-Leibler divergence against its definition, where weights are 0 too."""

import math

import pytest
import torch

from attnfaith.functional.decision import kullback_leibler


def slow(left, right, floor):
    """From the definition, with loops."""
    total = 0.0
    for first, second in zip(left.tolist(), right.tolist(), strict=True):
        if first > 0:
            total += first * (math.log(max(first, floor)) - math.log(max(second, floor)))
    return total


@pytest.mark.parametrize("floor", [1e-12, 1e-4])
def test_equals_the_definition(generator, floor):
    weights = torch.rand(2, 50, 7, generator=generator, dtype=torch.float64)
    weights = weights * (torch.rand(weights.shape, generator=generator) > 0.3)
    left, right = weights / weights.sum(-1, keepdim=True).clamp_min(1e-300)
    expected = torch.tensor([slow(*pair, floor) for pair in zip(left, right, strict=True)], dtype=torch.float64)
    result = kullback_leibler(left, right, floor=floor)
    assert torch.allclose(result, expected, atol=1e-12)
    assert result.max() > 1  # weights of 0 on the right took part


def test_is_finite_with_its_gradient_where_weights_are_0():
    left = torch.tensor([[0.0, 1.0], [1.0, 0.0], [0.5, 0.5]], dtype=torch.float64, requires_grad=True)
    right = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 0.0]], dtype=torch.float64, requires_grad=True)
    result = kullback_leibler(left, right)
    result.sum().backward()
    assert result.isfinite().all()
    assert left.grad.isfinite().all()
    assert right.grad.isfinite().all()
    assert result[0].item() == pytest.approx(12 * math.log(10))
    assert result[1].item() == 0
