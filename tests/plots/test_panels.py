"""Reading tables: missing values of every kind, levels in order, counts in words, and what is refused."""

import numpy as np
import pandas as pd
import pytest

from attnfaith.errors import InputError
from attnfaith.estimates.pivot import numbers
from attnfaith.plots.panels import all_texts_rows, counted, keys_of, levels_of, of_level, require_columns


@pytest.mark.parametrize(
    "values",
    [
        pd.Series([1, None, 0], dtype="Int64"),
        pd.Series([True, None, False], dtype="boolean"),
        pd.Series([True, None, False], dtype=object),
        pd.Series([1.0, np.nan, 0.0]),
        pd.Series(["1", "?", "0"]),
    ],
)
def test_missing_values_are_nan(values):
    np.testing.assert_array_equal(numbers(values), [1.0, np.nan, 0.0])


def test_levels_are_in_order_and_rows_without_one_are_no_level():
    table = pd.DataFrame({"erase_level": ["input", "", None, "attention", "input", "deeper"]})
    assert levels_of(table) == ["attention", "input", "deeper"]
    assert levels_of(table[:0]) == []


def test_one_level_need_not_be_named_several_must():
    table = pd.DataFrame({"erase_level": ["input", "attention", "input"], "value": [1, 2, 3]})
    rows, level = of_level(table, "input", figure="f")
    assert (list(rows.value), level) == ([1, 3], "input")
    assert of_level(table[table.value != 2], None, figure="f")[1] == "input"
    with pytest.raises(
        InputError, match=r"2 erase levels, and f draws one.* erase_level=, one of \['attention', 'input'\]"
    ):
        of_level(table, None, figure="f")
    with pytest.raises(InputError, match=r"erase_level is 'inputs'; the table holds \['attention', 'input'\]"):
        of_level(table, "inputs", figure="f")


def test_rows_of_no_ranking_are_no_ranking():
    table = pd.DataFrame({"ranking_level": ["", "input", "attention", "input"], "ranking": ["", "lrp", "lrp", "lrp"]})
    assert keys_of(table) == [("input", "lrp"), ("attention", "lrp")]


def test_only_rows_of_all_texts():
    table = pd.DataFrame({"test": ["erasure", "erasure", "single_weight"], "slice": ["all", "class=1", "all"]})
    assert list(all_texts_rows(table, "erasure").index) == [0]


def test_a_missing_column_is_named_with_what_there_is():
    with pytest.raises(InputError, match=r"'survival' .* columns a, b, c. This one has no b, c; its columns are: a, d"):
        require_columns(pd.DataFrame(columns=["a", "d"]), ("a", "b", "c"), figure="survival")
    with pytest.raises(InputError, match=r"its columns are: none"):
        require_columns(pd.DataFrame(), ("a",), figure="survival")


@pytest.mark.parametrize(
    ("texts", "words"),
    [([0], "0 texts"), ([1], "1 text"), ([1500.0, 1500.0], "1,500 texts"), ([np.nan, 7, 3], "3 to 7 texts"), ([], "")],
)
def test_counts(texts, words):
    assert counted(texts) == words
