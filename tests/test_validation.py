"""The checks of single values; `tests/contracts/test_validation.py` tries every public parameter with odd ones."""

import math

import pytest

from attnfaith.errors import InputError
from attnfaith.validation import did_you_mean, is_number, is_share, number, share, short_repr, whole_number


@pytest.mark.parametrize(
    ("value", "is_one"), [(1, True), (0.5, True), (True, False), (math.inf, False), (10**400, False), ("1", False)]
)
def test_a_number_is_finite_and_no_truth_value(value, is_one):
    assert is_number(value) == is_one


@pytest.mark.parametrize(("zero", "one"), [(False, False), (True, False), (False, True), (True, True)])
def test_the_ends_of_a_share_are_taken_where_they_are_allowed(zero, one):
    assert [is_share(value, zero=zero, one=one) for value in (-0.1, 0, 0.5, 1.0, 1.1)] == [
        False,
        zero,
        True,
        one,
        False,
    ]
    words = {(False, False): "between 0 and 1", (True, False): "at least 0 and below 1"}
    words |= {(False, True): "above 0 and at most 1", (True, True): "at least 0 and at most 1"}
    with pytest.raises(InputError, match=f"Expected top to be {words[zero, one]}; got 2"):
        share(2, "top", zero=zero, one=one)


def test_what_else_can_be_given_is_in_the_message():
    with pytest.raises(InputError, match="Expected ranks to be None or a whole number of at least 2, got 1"):
        whole_number(1, "ranks", least=2, also="None")
    with pytest.raises(InputError, match="Expected rate to be a finite number above 0, got 0"):
        number(0, "rate", above=0)


def test_a_misspelt_name_finds_its_neighbours():
    assert did_you_mean("ATENTION ", ["attention", "input"]) == " Did you mean 'attention'?"
    assert did_you_mean("txt", ["text", "Text", "label"]) == " Did you mean 'text'?"  # the first of two that read alike
    assert did_you_mean("run1", ["run2", "run3"], str.upper) == " Did you mean RUN3 or RUN2?"
    assert did_you_mean("x" * 10**6, ["text"]) == did_you_mean(None, []) == ""


def test_a_value_in_a_message_is_short_and_in_one_line():
    assert short_repr("a" * 10**6, 20) == "'aaaaaaaaaaaaaaaa..."
    assert "\n" not in short_repr([1, "\n"] * 5)
