"""The random order of rows that is computed row by row: a permutation, keyed by the seed, without a pattern."""

from collections import Counter

import numpy as np
import pytest

from attnfaith.functional.keyed_order import rows_at


@pytest.mark.parametrize("rows", [1, 2, 3, 17, 64, 65, 872, 5000])
@pytest.mark.parametrize("seed", [0, 2**64 - 1])
def test_every_row_once(rows, seed):
    assert sorted(rows_at(range(rows), rows, seed).tolist()) == list(range(rows))


def test_a_part_is_that_part_of_the_whole_and_the_seed_decides():
    whole = rows_at(range(872), 872, 5)
    assert rows_at(range(300, 310), 872, 5).tolist() == whole[300:310].tolist()
    assert (whole != rows_at(range(872), 872, 6)).mean() > 0.9
    assert rows_at(range(10**12, 10**12 + 3), 10**14, 0).max() < 10**14  # nothing is stored


def test_each_row_comes_anywhere_and_neighbours_do_not_stay_neighbours():
    """Chi-square over 8 parts of the data, for the first three positions under 600 seeds: 7 degrees of freedom."""
    drawn = np.array([rows_at(range(3), 872, seed) for seed in range(600)])
    for counted in (Counter((column // 109).tolist()) for column in drawn.T):
        assert sum((counted[part] - 75) ** 2 / 75 for part in range(8)) < 24.3  # exceeded once in a thousand times
    order = rows_at(range(5000), 5000, 0)
    assert abs(np.corrcoef(order[:-1], order[1:])[0, 1]) < 4 / np.sqrt(5000)
    assert abs(np.corrcoef(order, np.arange(5000))[0, 1]) < 4 / np.sqrt(5000)


def test_a_position_that_is_none_is_refused():
    with pytest.raises(ValueError, match="before 5"):
        rows_at([5], 5, 0)
