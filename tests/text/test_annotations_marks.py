"""Rationales: the form of cells and of columns, and whether they fit their texts."""

import json
import math
import re

import numpy as np
import pytest
import torch

from attnfaith.errors import InputError
from attnfaith.text.annotations import Rationale, RationaleReader, parse_rationale


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
    assert parse_rationale(cell, 0, "mine") == Rationale(values, form)


@pytest.mark.parametrize("cell", [None, math.nan])
def test_a_cell_with_nothing_in_it(cell):
    assert parse_rationale(cell, 0, "mine") is None


NUMBERS = [[0.5, 0], [-1], [math.nan], [None, 1], ["a"], ["1"], [3, 3], [0, 0, 2]]
PAIRS = [[[1]], [[1, 2, 3]], [[4, 2]], [[1, 2], 3], [3, [1, 2]], [[-1, 2]], [[0.5, 2]], [[["a"]]]]


@pytest.mark.parametrize("cell", [3, "a fine film", "", '["thin"]', {"start": 1}, *NUMBERS, *PAIRS])
def test_a_cell_that_is_no_rationale_is_named(cell):
    with refuse("Row 7", "'mine'", "0 or 1 for each word"):
        parse_rationale(cell, 7, "mine")


TEXT = "so good it hurts, really"


def test_a_column_tells_the_form_that_a_cell_does_not():
    reader = RationaleReader("mine", enumerate([None, [0, 1], [1], [], [4, 0], [0]]))
    assert reader.form == "words"
    assert reader([0, 1], 1, TEXT) == Rationale((0, 1), "words")
    assert reader(None, 0, TEXT) is None


def test_a_column_that_could_be_two_forms_is_refused_unless_the_user_names_one():
    cells = [[0, 1], [1], []]
    with refuse(
        "Row 0 (counted from 0) of the column 'mine'", "[0, 1]", "a mask or the numbers of words", "form='mask'"
    ):
        RationaleReader("mine", enumerate(cells))([0, 1], 0, "so good")
    assert RationaleReader("mine", enumerate(cells), "words")([0, 1], 0, TEXT) == Rationale((0, 1), "words")
    assert RationaleReader("mine", enumerate(cells), "mask")([0, 1], 0, "so good") == Rationale((0, 1), "mask")


@pytest.mark.parametrize(
    ("form", "cell"),
    [("words", [[0, 4]]), ("words", [0, 0]), ("spans", [0, 4]), ("mask", [0, 2]), ("mask", [[0, 1]])],
)
def test_a_cell_that_is_not_of_the_form_that_the_user_names_is_refused(form, cell):
    with refuse("Row 3", "'mine'", f"not of the form {form!r}"):
        RationaleReader("mine", [(3, cell)], form)


@pytest.mark.parametrize("form", ["tokens", "sentences", "word_spans", "list"])
def test_other_forms_are_unknown(form):
    with refuse("Expected form to be one of", "'mask', 'spans', 'words'"):
        RationaleReader("mine", [], form)


def test_a_column_of_two_forms_is_refused_with_the_rows():
    with refuse("'mine' mixes forms", "mask in row 1", "words in row 3"):
        RationaleReader("mine", enumerate([[1], [0, 0], [0], [4]]))
    reader = RationaleReader("mine", [(0, [0, 0])])  # only the first rows of a stream are read before the run
    with refuse("mask in row 0", "spans in row 2000"):
        reader([[0, 3]], 2000, TEXT)


@pytest.mark.parametrize(
    ("cell", "text", "pair", "words"),
    [
        ([0, 1, 1], TEXT, None, ["a mask of 3 entries for a text of 5 words"]),
        ([0, 1, 1], "so good", "it hurts", ["a mask of 3 entries for a text of 4 words"]),
        ([0, 5], TEXT, None, ["marks the word 5 (counted from 0)", "has 5 words"]),
        ([[0, 50]], TEXT, None, ["ends at character 50", "has 24"]),
        ([[0, 2]], "so good", "it hurts", ["For a pair of texts they are ambiguous"]),
        ([3, 4, 5, 6, 10, 11], TEXT, None, ["positions of single characters", "ranges", "[[3, 7], [10, 12]]"]),
    ],
)
def test_a_rationale_that_does_not_fit_its_text_is_refused(cell, text, pair, words):
    with refuse("Row 7 (counted from 0) of the column 'mine'", *words):
        RationaleReader("mine", [(7, cell)])(cell, 7, text, pair)


def test_positions_of_characters_are_suggested_only_if_the_text_has_that_many():
    with pytest.raises(InputError) as refused:
        RationaleReader("mine", [(0, [0, 99])])([0, 99], 0, TEXT)
    assert "characters" not in str(refused.value)


def test_a_cell_of_json_is_as_the_list():
    for cell in ([0, 0, 1], [[0, 4], [6, 9]], [1, 4, 8]):
        assert parse_rationale(json.dumps(cell), 0, "mine") == parse_rationale(cell, 0, "mine")
