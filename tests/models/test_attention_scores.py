"""Sparsemax against its definition and the laws of a projection on the simplex."""

import pytest
import torch

from attnfaith.models import sparsemax
from tests.helpers.slow_classifier import simplex_projection


@pytest.mark.parametrize("size", [1, 2, 5, 40])
@pytest.mark.parametrize("spread", [0.1, 1.0, 200.0])
def test_sparsemax_equals_its_definition(size, spread):
    scores = torch.randn(20, size, dtype=torch.double, generator=torch.Generator().manual_seed(size)) * spread
    expected = torch.tensor([simplex_projection(row.tolist()) for row in scores], dtype=torch.double)
    torch.testing.assert_close(sparsemax(scores), expected, rtol=0, atol=1e-12)


def test_sparsemax_projects_on_the_simplex():
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(50, 6, dtype=torch.double, generator=generator)
    weights = sparsemax(scores)
    torch.testing.assert_close(weights.sum(-1), torch.ones(50).double())
    assert (weights >= 0).all()
    assert (weights == 0).any()
    torch.testing.assert_close(sparsemax(weights), weights)  # a point of the simplex stays where it is
    torch.testing.assert_close(sparsemax(scores + 7), weights)
    others = torch.distributions.Dirichlet(torch.ones(6).double()).sample((200,))
    nearest = (scores - weights).norm(dim=-1, keepdim=True)
    assert (torch.cdist(scores, others) >= nearest - 1e-12).all()


def test_sparsemax_ignores_padding_and_halves_ties():
    scores = torch.tensor([[2.0, 2.0, -torch.inf], [-torch.inf, 0.5, -torch.inf]])
    assert sparsemax(scores).tolist() == [[0.5, 0.5, 0.0], [0.0, 1.0, 0.0]]


def test_sparsemax_gradient():
    scores = torch.tensor([[0.3, 0.1, -2.0, 0.25]], dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(sparsemax, scores)
