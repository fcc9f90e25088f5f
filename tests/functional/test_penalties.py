"""The terms of training objectives against loops over the papers' formulas, and where they are undefined."""

import math

import pytest
import torch

from attnfaith.functional.penalties import conicity, deception_penalty, impermissible_mass, squared_distance


def drawn(generator, *shape):
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("over_heads", ["mean", "max"])
def test_deception_is_the_mean_or_the_worst_of_the_heads(over_heads, generator):
    scores = drawn(generator, 5, 3, 7)
    lengths = [7, 4, 1, 6, 7]
    marked = torch.rand(5, 7, generator=generator) < 0.4
    marked[2], marked[4] = False, True
    for text, length in enumerate(lengths):
        scores[text, :, length:] = -torch.inf
    weights = scores.softmax(-1)
    groups = torch.tensor([[True, True, True], [True, True, False], *[[True] * 3] * 3])
    items = weights[:, 0] > 0
    result = deception_penalty(weights, marked, items, groups, over_heads=over_heads)
    for text, length in enumerate(lengths):
        penalties = []
        for head in range(3):
            if groups[text, head]:
                mass = sum(float(weights[text, head, item]) for item in range(length) if marked[text, item])
                penalties.append(-math.log(1 - mass) if mass < 1 - 1e-12 else math.nan)
        expected = max(penalties) if over_heads == "max" else sum(penalties) / len(penalties)
        assert result[text] == pytest.approx(expected, nan_ok=True)
    assert result.isnan().tolist() == [False, False, False, False, True]


def test_deception_where_nearly_all_attention_is_impermissible():
    """1 - m would be 0 in float32; the penalty is the log-odds of the scores, with a gradient."""
    scores = torch.tensor([[[40.0, 0.0]]], requires_grad=True)
    head, marked = torch.ones(1, 1, dtype=torch.bool), torch.tensor([[True, False]])
    penalty = deception_penalty(scores.softmax(-1), marked, head.expand(1, 2), head)
    assert float(penalty.detach()) == pytest.approx(40)
    penalty.sum().backward()
    torch.testing.assert_close(scores.grad, torch.tensor([[[1.0, -1.0]]]))
    sparse = torch.tensor([[[1.0, 0.0]]], requires_grad=True)  # no finite penalty, but a number
    penalty = deception_penalty(sparse, marked, head.expand(1, 2), head)
    assert bool(penalty.isfinite().all())


def test_mass():
    weights = torch.tensor([[0.2, 0.3, 0.5], [0.0, 0.0, 0.0]])
    result = impermissible_mass(weights, torch.tensor([[True, False, True], [True, True, True]]))
    torch.testing.assert_close(result, torch.tensor([0.7, math.nan]), equal_nan=True)


def test_conicity_is_the_mean_cosine_with_the_mean(generator):
    vectors = drawn(generator, 3, 2, 5, 4)
    mask = torch.tensor([[True] * 5, [True] * 3 + [False] * 2, [False] * 5]).unsqueeze(1).expand(3, 2, 5)
    result = conicity(vectors, mask)
    for text, head, count in [(0, 0, 5), (0, 1, 5), (1, 0, 3), (1, 1, 3)]:
        items = vectors[text, head, :count].tolist()
        mean = [sum(item[d] for item in items) / count for d in range(4)]
        cosines = [
            sum(a * b for a, b in zip(item, mean, strict=True)) / math.hypot(*item) / math.hypot(*mean)
            for item in items
        ]
        assert float(result[text, head]) == pytest.approx(sum(cosines) / count)
    assert bool(result[2].isnan().all())
    same = torch.ones(1, 4, 3)
    assert float(conicity(same, torch.ones(1, 4, dtype=torch.bool))) == pytest.approx(1)
    opposite = torch.tensor([[[1.0, 0.0], [-1.0, 0.0]]])
    assert float(conicity(opposite, torch.ones(1, 2, dtype=torch.bool))) == 0


def test_distance_from_words(generator):
    vectors, words = drawn(generator, 2, 4, 3), drawn(generator, 2, 4, 3)
    mask = torch.tensor([[True, True, False, False], [False] * 4])
    total = sum(float(vectors[0, item, d] - words[0, item, d]) ** 2 for item in range(2) for d in range(3))
    result = squared_distance(vectors, words, mask)
    assert float(result[0]) == pytest.approx(total / 2)
    assert bool(result[1].isnan())


def test_gradients_are_finite_where_values_are_undefined():
    vectors = torch.zeros(2, 3, 2, requires_grad=True)  # of length zero, and in the second text none at all
    mask = torch.tensor([[True] * 3, [False] * 3])
    for values in (conicity(vectors, mask), squared_distance(vectors, torch.ones(2, 3, 2), mask)):
        vectors.grad = None
        values[~values.isnan()].sum().backward()
        assert bool(vectors.grad.isfinite().all())
