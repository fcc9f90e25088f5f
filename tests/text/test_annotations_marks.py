"""What people marked: the form of cells, and of columns."""

import json
import math
import re

import numpy as np
import pytest
import torch

from attnfaith.errors import InputError
from attnfaith.text.annotations import Rationale, RationaleReader, marks_of


def refuse(*words):
    return pytest.raises(InputError, match="(?s)" + ".*".join(map(re.escape, words)))


@pytest.mark.parametrize(
    ("cell", "values", "form"),
    [
        ([0, 0, 1], (0, 0, 1), "mask"),
        ([1.0, 1.0], (1, 1), "mask"),
        ([True, False], (1, 0), "mask"),
        (np.array([0, 1, 1]), (0, 1, 1), "mask"),
        (torch.tensor([0, 1, 1]), (0, 1, 1), "mask"),
        ("[0, 1, 1]", (0, 1, 1), "mask"),
        ([0, 1], (0, 1), None),
        ([1], (1,), None),
        ([], (), None),
        ([2], (2,), "words"),
        ([5, 0, 3], (5, 0, 3), "words"),
        ([[0, 4], [6, 9]], ((0, 4), (6, 9)), "spans"),
        ([(0, 4)], ((0, 4),), "spans"),
        (np.array([[0, 4], [6, 9]]), ((0, 4), (6, 9)), "spans"),
        (np.array([np.array([0, 4]), np.array([6, 9])], dtype=object), ((0, 4), (6, 9)), "spans"),
        ("[[3, 3]]", ((3, 3),), "spans"),
    ],
)
def test_the_form_of_a_cell(cell, values, form):
    assert marks_of(cell, 0, "mine") == Rationale(values, form)


@pytest.mark.parametrize("cell", [None, math.nan])
def test_a_cell_with_nothing_in_it(cell):
    assert marks_of(cell, 0, "mine") is None


NUMBERS = [[0.5, 0], [-1], [math.nan], [None, 1], ["a"], ["1"], [3, 3], [0, 0, 2]]
PAIRS = [[[1]], [[1, 2, 3]], [[4, 2]], [[1, 2], 3], [3, [1, 2]], [[-1, 2]], [[0.5, 2]], [[["a"]]]]


@pytest.mark.parametrize("cell", [3, "a fine film", "", '["thin"]', {"start": 1}, *NUMBERS, *PAIRS])
def test_a_cell_that_is_no_rationale_is_named(cell):
    with refuse("Row 7", "'mine'", "0 or 1 for each word"):
        marks_of(cell, 7, "mine")


def test_a_column_tells_what_a_cell_does_not():
    column = RationaleReader("mine", enumerate([None, [0, 1], [1], [], [4, 0], [0]]))
    assert column.form == "words"
    assert column([0, 1], 1) == Rationale((0, 1), "words")
    assert column(None, 0) is None
    assert RationaleReader("mine", enumerate([[0, 1], [1], []]))([1], 1) == Rationale((1,), None)


def test_a_column_of_two_forms_is_refused_with_the_rows():
    with refuse("'mine' mixes forms", "mask in row 1", "words in row 3"):
        RationaleReader("mine", enumerate([[1], [0, 0], [0], [4]]))
    column = RationaleReader("mine", [(0, [0, 0])])  # of a stream, only the first rows are looked at
    with refuse("mask in row 0", "spans in row 2000"):
        column([[0, 3]], 2000)


def test_a_cell_of_json_is_as_the_list():
    for cell in ([0, 0, 1], [[0, 4], [6, 9]], [1, 4, 8]):
        assert marks_of(json.dumps(cell), 0, "mine") == marks_of(cell, 0, "mine")
