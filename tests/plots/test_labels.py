"""Names in words: none of the library's own shows an underscore, long ones are shortened, no two are alike."""

import re

import pytest

import attnfaith as af
from attnfaith.attribution.display_names import display_name
from attnfaith.plots.labels import LONGEST, labels_for, shortened

REGISTERED = [(row["level"], row["name"]) for row in af.methods()]


def test_all_methods_are_found():
    assert len(REGISTERED) >= 18


@pytest.mark.parametrize(("level", "name"), REGISTERED)
def test_every_method_has_a_name_in_words(level, name):
    words = display_name((level, name), short=True)
    assert re.fullmatch(r"[A-Za-z -]+", words)
    label = labels_for(REGISTERED)[level, name]
    assert label.startswith(words)
    assert len(label) <= LONGEST, "a name of our own is never shortened"


@pytest.mark.parametrize(
    ("ranking", "words"),
    [
        ("max_x", "max x"),
        ("SHAP", "SHAP"),
        ("__my__own_", "my own"),
        ("___", "'___'"),
    ],
)
def test_the_name_of_a_ranking_that_is_not_registered(ranking, words):
    assert display_name(("yours", ranking)) == words


def test_the_input_level_is_marked_where_the_name_does_not_say_it():
    labels = labels_for(REGISTERED)
    assert labels["input", "gradient"] == "gradient (input)"
    assert labels["input", "rollout"] == "rollout (input)"
    assert labels["input", "gradient_x_input"] == "gradient x input"
    assert labels["attention", "gradient"] == "gradient"
    assert labels["input", "random"] == "random order (input)"


def test_the_only_control_needs_no_level():
    assert labels_for([("input", "random"), ("input", "lrp")])["input", "random"] == "random order"
    assert labels_for([("yours", "shap_values")]) == {("yours", "shap_values"): "shap values (yours)"}


@pytest.mark.parametrize(
    "names",
    [
        ["my_ranking", "my ranking", "my__ranking"],
        [f"scores_of_the_second_annotator_{when}_adjudication" for when in ("before", "after")],
        [f"{'x' * 40}{number}{'y' * 40}" for number in range(12)],
        ["x" * 80, "x" * 81],
    ],
)
def test_no_two_labels_are_alike_and_none_is_long(names):
    labels = labels_for([("yours", name) for name in names])
    assert len(set(labels.values())) == len(names)
    assert max(map(len, labels.values())) <= LONGEST


def test_names_that_read_alike_are_left_as_they_are():
    labels = labels_for([("yours", "my_ranking"), ("yours", "my ranking"), ("attention", "my_ranking")])
    assert list(labels.values()) == ["my_ranking (yours)", "my ranking (yours)", "my_ranking"]


def test_a_shortened_name_keeps_both_ends():
    label = shortened("from the first to the very last word", 20)
    assert label == "from the f…last word"
    assert shortened("short", 20) == "short"


def test_at_one_level_only_a_shared_name_has_its_level():
    labels = labels_for([("input", "lrp"), ("input", "gradient"), ("attention", "gradient")], one_level=True)
    assert list(labels.values()) == ["LRP", "gradient (input)", "gradient"]
