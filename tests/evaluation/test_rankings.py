"""Which rankings are judged, and where."""

import pytest

import attnfaith as af
from attnfaith.attribution.method import CONTROL, YOURS, methods
from attnfaith.errors import InputError
from attnfaith.evaluation.rankings import Ranking, check_available, left_out, rankings_for

FROM_THE_ATTENTION = {f"attention/{name}" for name in ("gradient", "integrated_gradients", "occlusion")}
"""Rankings of the attention level in whose order an evaluation erases at the input only where asked."""


def names(erase_level, asked, explanations=None, *, by_token=True, affine=False):
    return [
        str(item) for item in rankings_for(erase_level, asked, explanations or {}, by_token=by_token, affine=affine)
    ]


def registered(level):
    return {f"{at}/{name}" for at, name in methods if at == level}


@pytest.fixture
def mine():
    """A method of a user's at each level."""
    af.register_method("mine", level="attention")(lambda capture, cut, target: capture.weights.mean(1))
    af.register_method("mine", level="input")(lambda model, inputs, target: inputs["attention_mask"].double())
    yield
    del methods["attention", "mine"], methods["input", "mine"]


@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("by_token", [False, True])
def test_all_where_the_final_attention_is_erased(by_token, affine):
    """Every method through the tail, but for what is asked for by name; the optimum where it can be had."""
    keys = names("attention", "all", by_token=by_token, affine=affine)
    dropped = {"attention/greedy"} | (set() if affine else {"attention/optimal"})
    assert len(keys) == len(set(keys))
    assert set(keys) == registered("attention") - dropped
    assert keys[0] == "attention/random"


@pytest.mark.parametrize("affine", [False, True])
def test_all_where_the_whole_model_is_erased(affine):
    """Every method at the input, and those through the tail where they rank the same items; no control twice."""
    keys = names("input", "all", by_token=True, affine=affine)
    dropped = {f"attention/{name}" for name in ("greedy", "optimal", "random", "attention")}
    asked_for = {"input/gradient_attention_fixed", "input/leave_one_out"}
    assert set(keys) == registered("input") - asked_for | (registered("attention") - dropped)
    assert len(keys) == len(set(keys))
    assert keys[0] == "input/random"
    of_sentences = names("input", "all", by_token=False, affine=affine)
    assert set(of_sentences) == registered("input") - asked_for


def test_the_default_is_all_at_the_attention_and_what_is_worth_its_passes_at_the_input(mine):
    for affine in (False, True):
        assert names("attention", "default", affine=affine) == names("attention", "all", affine=affine)
    every, usual = names("input", "all"), names("input", "default")
    assert {"input/integrated_gradients", "input/mine", "attention/gradient_x_attention"} <= set(usual) < set(every)
    declared = {one for one in every if not methods[tuple(one.split("/"))].erased_at_input}
    assert declared == {"input/rollout", "input/gradient_x_input", *FROM_THE_ATTENTION}
    assert set(every) - set(usual) == declared | {"input/occlusion", "input/omission"}
    af.register_method("dear", level="input", passes=1, passes_per="item")(lambda model, inputs, target: None)
    try:
        assert "input/dear" in names("input", "all")
        assert "input/dear" not in names("input", "default")
        assert not methods["input", "dear"].by_default
    finally:
        del methods["input", "dear"]


def test_a_name_adds_to_the_default():
    assert names("input", ["default", "omission"]) == [*names("input", "default"), "input/omission"]
    left = [str(one) for one in left_out("input", "default", [], by_token=True, affine=False)]
    missing = [one for one in left if one not in names("input", "default")]
    assert sorted(names("input", [*missing, "default"])) == sorted(names("input", "all"))
    assert names("input", ["default", "all"]) == names("input", "all")


def test_what_the_default_leaves_out():
    def dear(level, asked, *, by_token=True):
        found = rankings_for(level, asked, {}, by_token=by_token, affine=False)
        return [str(one) for one in left_out(level, asked, found, by_token=by_token, affine=False)]

    of_tokens = ["input/rollout", "input/gradient_x_input", "input/occlusion", "input/omission"]
    assert dear("input", "default", by_token=False) == of_tokens
    assert dear("input", "default") == dear("input", ["default"])
    assert set(dear("input", "default")) == {*of_tokens, *FROM_THE_ATTENTION}
    assert dear("input", ["default", "input/occlusion"], by_token=False) == [*of_tokens[:2], "input/omission"]
    assert dear("attention", "default") == []
    for asked in ("all", ["all", "greedy"], ["attention"], ["default", "all"]):
        assert dear("input", asked) == []


def test_a_method_that_is_registered_appears_under_all(mine):
    assert "attention/mine" in names("attention", "all")
    assert {"attention/mine", "input/mine"} <= set(names("input", "all"))
    assert "attention/mine" not in names("input", "all", by_token=False)
    assert names("attention", ["mine"]) == ["attention/random", "attention/mine"]


@pytest.mark.parametrize("erase_level", ["attention", "input"])
def test_the_random_control_is_always_there_and_once(erase_level):
    control = f"{erase_level}/{CONTROL}"
    for asked in ([], ["random"], [f"{erase_level}/random"], ["gradient", "random"], "all"):
        keys = names(erase_level, asked)
        assert keys[0] == control
        assert sum(item.endswith("/random") for item in keys) == 1


def test_a_name_means_what_is_called_so_where_it_ranks_what_is_erased():
    assert names("attention", ["gradient"]) == ["attention/random", "attention/gradient"]
    assert names("attention", ["input/gradient"]) == ["attention/random", "input/gradient"]
    assert set(names("input", ["gradient"])) == {"input/random", "input/gradient", "attention/gradient"}
    assert names("input", ["attention/gradient"]) == ["input/random", "attention/gradient"]
    assert names("attention", ["rollout"]) == ["attention/random", "input/rollout"]
    assert names("attention", ["greedy"]) == ["attention/random", "attention/greedy"]
    assert names("input", ["gradient"], by_token=False) == ["input/random", "input/gradient"]
    assert names("attention", ["optimal"]) == ["attention/random"]
    assert names("attention", ["optimal"], affine=True) == ["attention/random", "attention/optimal"]
    assert names("input", ["optimal"], affine=True) == ["input/random"]


def test_rankings_listed_twice_are_run_once_in_the_order_listed():
    asked = ["occlusion", "gradient", "attention/gradient", "gradient"]
    assert names("attention", asked) == ["attention/random", "attention/occlusion", "attention/gradient"]


def test_names_that_do_not_exist():
    with pytest.raises(InputError, match=r"'gradient'.*Use \['gradient'\]"):
        names("attention", "gradient")
    with pytest.raises(InputError, match="gradient"):
        names("attention", ["gradeint"])
    with pytest.raises(InputError, match="level to be one of"):
        names("attention", ["output/gradient"])
    with pytest.raises(InputError, match="exists at level='input' only"):
        names("attention", ["attention/rollout"])
    with pytest.raises(InputError, match=r"got int.*as explanations"):
        names("attention", [3])


def test_what_no_level_can_take_is_refused_and_what_one_can_is_not():
    keys = rankings_for("attention", ["rollout", "gradient"], {}, by_token=False, affine=False)
    with pytest.raises(InputError, match=r"rollout cannot be used.*'?attention"):
        check_available(["attention"], ["rollout", "gradient"], keys)
    check_available(["attention"], ["gradient"], keys)
    check_available(["attention"], "all", [])
    both = [*keys, *rankings_for("input", ["rollout", "gradient"], {}, by_token=False, affine=False)]
    check_available(["attention", "input"], ["rollout", "gradient"], both)
    with pytest.raises(InputError, match="optimal"):
        check_available(
            ["attention"], ["optimal"], rankings_for("attention", ["optimal"], {}, by_token=True, affine=False)
        )


def test_explanations_come_last_under_their_own_names():
    def shap(encoded):
        return [0.0] * len(encoded.ids)

    keys = rankings_for("attention", [], {"people": "scores", "shap": shap}, by_token=True, affine=False)
    assert keys[1:] == [Ranking("people", YOURS, "scores"), Ranking("shap", YOURS, shap)]
    assert [str(item) for item in keys[1:]] == ["yours/people", "yours/shap"]
    assert not keys[1].signed


@pytest.mark.parametrize("asked", ["all", ["gradient"], []])
def test_an_explanation_cannot_take_a_rankings_name(asked):
    with pytest.raises(InputError, match=r"'random' has the name of a ranking. Choose another"):
        names("attention", asked, {"random": "column"})
    if asked:
        with pytest.raises(InputError, match="'gradient' has the name of a ranking"):
            names("attention", asked, {"gradient": "column"})


@pytest.mark.parametrize("wrong", [3, [0.1, 0.2], None, {"a": 1}])
def test_an_explanation_is_a_column_or_a_function(wrong):
    with pytest.raises(InputError, match=f"'mine' is of type {type(wrong).__name__}"):
        names("attention", "all", {"mine": wrong})
