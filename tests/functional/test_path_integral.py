"""Adaptive integrals along paths: exact where the rule is, as exact as promised elsewhere, costly only where needed."""

import math

import pytest
import torch

from attnfaith.functional.path_integral import FEWEST_POINTS, integrate_paths

TOLERANCE = 0.02


def made_of(*functions):
    """An `evaluate` of texts that each have a function from a point to its number and parts; and what it was asked."""
    asked = []

    def evaluate(texts, points):
        asked.extend(zip(texts.tolist(), points.tolist(), strict=True))
        found = [functions[text](point) for text, point in zip(texts.tolist(), points.tolist(), strict=True)]
        return (
            torch.tensor([number for number, _ in found], dtype=torch.float64),
            torch.tensor([parts for _, parts in found], dtype=torch.float64),
        )

    return evaluate, asked


def steep(height, at, width, other=0.0):
    """A rise of a sigmoid in the first part, and a smooth second part."""

    def function(point):
        step = (1 + math.tanh((point - at) / width / 2)) / 2  # which does not overflow
        return height * step + other * point**2, [height * step * (1 - step) / width, 2 * other * point]

    return function


def integrated(*functions, **options):
    evaluate, asked = made_of(*functions)
    options = {"tolerance": TOLERANCE, "least_change": 1e-2, "most_points": 129} | options
    return integrate_paths(evaluate, len(functions), **options), asked


SHAPES = {
    "smooth": steep(1.0, 0.5, 0.3, 0.7),
    "steep": steep(1.0, 0.37, 0.01, 0.2),
    "very steep": steep(-2.0, 0.9, 0.001, 0.5),
    "at the start": steep(1.0, 0.0, 0.004),
    "hardly anything": steep(1e-5, 0.3, 0.1, 1e-5),
}


def test_a_planted_polynomial_is_exact_with_the_fewest_points():
    def quartic(point):
        return point**4 - 2 * point**2 + 3 * point, [4 * point**3, 3 - 4 * point]

    done, asked = integrated(quartic, lambda point: (5 * point, [5.0, 0.0]))
    torch.testing.assert_close(done.values, torch.tensor([[1, 1], [5, 0]], dtype=torch.float64), rtol=0, atol=1e-12)
    assert done.points.tolist() == [FEWEST_POINTS] * 2
    assert len(asked) == 2 * FEWEST_POINTS


@pytest.mark.parametrize("name", SHAPES)
def test_integrals_are_those_of_a_dense_rule(name):
    function, count = SHAPES[name], 20000
    dense = [0.0, 0.0]
    for index in range(count):
        parts = function((index + 0.5) / count)[1]
        dense = [total + part / count for total, part in zip(dense, parts, strict=True)]
    done, _ = integrated(function)
    change = function(1)[0] - function(0)[0]
    assert done.change.item() == pytest.approx(change, abs=1e-14)
    allowed = TOLERANCE * max(abs(change), 1e-2)
    assert (done.values[0] - torch.tensor(dense, dtype=torch.float64)).abs().max() <= allowed
    assert abs(done.values.sum().item() - change) <= allowed
    fixed = [sum(function(index / 8)[1]) * (1, 4, 2, 4, 2, 4, 2, 4, 1)[index] / 24 for index in range(9)]
    assert (abs(sum(fixed) - change) <= allowed) == (done.points.item() == FEWEST_POINTS)


def test_a_hard_path_gets_more_points_and_only_the_hard_path():
    easy, hard, harder = integrated(SHAPES["smooth"], SHAPES["steep"], SHAPES["very steep"])[0].points.tolist()
    assert easy == FEWEST_POINTS < hard < harder < 60


def test_every_point_is_evaluated_once_and_counted():
    done, asked = integrated(*SHAPES.values())
    assert len(asked) == len(set(asked)) == int(done.points.sum())
    for text in range(len(SHAPES)):
        assert sum(of == text for of, _ in asked) == done.points[text]


def test_a_text_does_not_depend_on_the_others():
    together, _ = integrated(*SHAPES.values())
    turned, _ = integrated(*reversed(SHAPES.values()))
    for text, function in enumerate(SHAPES.values()):
        alone, _ = integrated(function)
        assert torch.equal(together.values[text], alone.values[0])
        assert torch.equal(turned.values[-1 - text], alone.values[0])
        assert together.points[text] == alone.points[0]


@pytest.mark.parametrize("most", [9, 12, 25])
def test_there_are_never_more_points_than_allowed(most):
    done, _ = integrated(SHAPES["very steep"], SHAPES["smooth"], most_points=most)
    assert done.points[0] <= most
    assert done.points[1] == FEWEST_POINTS
    assert abs(done.values[0].sum() - done.change[0]) > TOLERANCE * done.change[0].abs()


def test_errors_that_cancel_between_pieces_are_seen():
    """A rise and an equal fall: both ends are the same, and each rule's errors could cancel."""

    def bump(point):
        up, down = steep(1.0, 0.26, 0.004)(point), steep(1.0, 0.74, 0.004)(point)
        return up[0] - down[0], [up[1][0], -down[1][0]]

    done, _ = integrated(bump)
    assert (done.values[0] - torch.tensor([1.0, -1.0], dtype=torch.float64)).abs().max() < TOLERANCE


def test_a_start_without_a_derivative_is_approached():
    done, asked = integrated(lambda point: (math.sqrt(point), [0.5 / math.sqrt(point) if point else math.inf]))
    assert done.values.item() == pytest.approx(1, abs=TOLERANCE)
    assert 0 < min(point for _, point in asked if point) < 1e-3


def test_what_is_not_finite_elsewhere_stays_visible():
    done, _ = integrated(lambda point: (point, [math.nan if point == 0.5 else 1.0] * 2), SHAPES["smooth"])
    assert done.values[0].isnan().all()
    assert done.values[1].isfinite().all()


def test_rounding_of_half_precision_is_no_reason_for_more_points():
    def evaluate(texts, points):
        return (100 + points.exp()).to(torch.bfloat16), points.exp().unsqueeze(-1).to(torch.bfloat16)

    done = integrate_paths(evaluate, 1, tolerance=TOLERANCE, least_change=1e-2, most_points=129)
    assert done.points.item() == FEWEST_POINTS
