"""What is registered with a method, and what is made of it."""

import pytest

import attnfaith as af
from attnfaith.attribution.method import Method, methods

PASSES = "1 to 3 passes, as needed, forward and backward"
DEFAULTS = {"level": "attention", "name": "my_own", "run": None}


@pytest.mark.parametrize(
    ("facts", "cost", "of_ten"),
    [
        ({}, "unknown", None),
        ({"passes": 0}, "none", 0),
        ({"passes": 1}, "1 pass after attention", 1),
        ({"passes": 20, "backward": True}, "20 passes after attention, forward and backward", 20),
        ({"passes": 9, "most_passes": 129}, "9 to 129 passes after attention, as needed", 9),
        ({"passes": 1, "most_passes": 3, "level": "input", "backward": True}, PASSES, 1),
        ({"passes": 1, "passes_per": "item"}, "1 pass after attention for each item", 10),
        ({"passes": 2, "passes_per": "item", "level": "input"}, "2 passes for each item", 20),
        ({"passes": 0.5, "passes_per": "pair"}, "0.5 passes after attention for each pair of items", 50),
        ({"passes": 1, "level": "input"}, "1 pass", 1),
        ({"passes": 1, "cost": "next to nothing"}, "next to nothing", 1),
    ],
)
def test_cost_is_a_number_and_words(facts, cost, of_ten):
    method = Method(**DEFAULTS | facts)
    assert (method.cost, method.passes_for(10)) == (cost, of_ten)
    assert method.grows_with_length == (facts.get("passes_per", "text") != "text")


def test_names_are_made_of_the_name_where_none_is_given():
    assert (Method(**DEFAULTS).display_name, Method(**DEFAULTS).short_name) == ("my own", "my own")
    named = Method(**DEFAULTS, display_name="a long name")
    assert (named.display_name, named.short_name) == ("a long name", "a long name")
    assert Method(**DEFAULTS, display_name="a long name", short_name="name").short_name == "name"


def test_there_is_one_control_at_each_level_and_searches_are_no_controls():
    controls = [key for key, method in methods.items() if method.role == "control"]
    assert sorted(controls) == [("attention", "random"), ("input", "random")]
    assert {name for (_, name), method in methods.items() if method.role == "search"} == {"greedy", "optimal"}


def test_a_listing_can_be_a_table():
    import pandas as pd

    table = pd.DataFrame(af.methods()).set_index(["level", "name"])
    assert table.loc[("input", "lrp"), "default_output"] == "log_odds"
    assert table.loc[("attention", "occlusion"), "passes_per"] == "item"
    assert tuple(table.loc[("input", "integrated_gradients"), ["passes", "most_passes"]]) == (9, 129)
    assert tuple(table.loc[("input", "lrp"), ["passes", "most_passes"]]) == (1, 1)
    assert table["on_request"].sum() == 3


@pytest.mark.parametrize(
    ("facts", "argument"),
    [
        ({"level": "words"}, "level"),
        ({"passes": -1}, "passes"),
        ({"passes": "many"}, "passes"),
        ({"passes_per": "batch"}, "passes_per"),
        ({"default_output": "odds"}, "default_output"),
        ({"role": "rival"}, "role"),
        ({"style": ("red",)}, "style"),
        ({"style": "red"}, "style"),
    ],
)
def test_wrong_facts_are_refused_before_anything_is_registered(facts, argument):
    before = dict(methods)
    with pytest.raises(af.InputError, match=f"{argument} to be"):
        af.register_method("my_own", **facts)(lambda capture, cut, target: capture.weights.mean(1))
    with pytest.raises(af.InputError, match="name of a method"):
        af.register_method("")
    assert methods == before
