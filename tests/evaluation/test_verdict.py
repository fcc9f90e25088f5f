"""Verdicts: every label and reason on summaries made by hand, and on runs whose truth is planted."""

import numpy as np
import pandas as pd
import pytest

from attnfaith.evaluation.summaries.speaking import REASONS
from attnfaith.evaluation.summary import summarise_erasure
from attnfaith.evaluation.verdict import FAITHFUL, FEW, RIVALS, UNFAITHFUL, Verdict
from tests.evaluation.summaries.handmade import ATTENTION, CONTROL, NAN, OTHERS, PRODUCT, judged, level, said


def test_the_example_of_a_reader():
    found = judged(level())
    assert (found.label, found.level, found.reason) == ("unfaithful", "attention", "")
    assert found.sentences[0] == (
        "Attention flips the decision after removing 41 % [38, 44] of the words; "
        "the smallest set that does is 6.0 % [5.0, 7.0]."
    )
    assert found.sentences[1] == "Gradient x attention needs 6.3 %."
    assert said(found, "A random order needs 60 % [55, 64]; attention is better than that.")
    assert said(found, "Do not read attention as an explanation of this model.")
    assert str(found).splitlines()[0] == "Attention as an explanation: unfaithful."
    assert str(found).splitlines()[1:] == list(found.sentences)


@pytest.mark.parametrize(
    ("skill", "label", "reason"),
    [
        ((0.2, 0.1, UNFAITHFUL - 0.01), "unfaithful", ""),
        ((0.4, 0.1, UNFAITHFUL), "partly", ""),
        ((0.6, UNFAITHFUL, 0.7), "partly", ""),
        ((0.7, UNFAITHFUL, 0.9), "partly", ""),
        ((0.7, UNFAITHFUL - 0.01, FAITHFUL), "undecided", "wide"),
        ((0.85, FAITHFUL - 0.01, 0.9), "partly", ""),
        ((0.85, FAITHFUL, 0.9), "faithful", ""),
        ((-0.3, -0.5, -0.1), "unfaithful", ""),
    ],
)
def test_the_label_follows_the_interval_of_skill(skill, label, reason):
    found = judged(level(skill=skill))
    assert (found.label, found.reason) == (label, reason)
    if label != "undecided":
        conclusion = {"unfaithful": "Do not read", "partly": "by itself", "faithful": "can be read as a ranking"}[label]
        assert said(found, conclusion)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"keys": (PRODUCT, CONTROL)}, "no attention"),
        ({"keys": (ATTENTION, PRODUCT)}, "no control"),
        ({"texts": FEW - 1}, "few texts"),
        ({"flipped": FEW - 1}, "few flips"),
        ({"random_efficiency": (0.85, FAITHFUL, 0.9)}, "easy"),
        ({"skill": (NAN, NAN, NAN)}, "no skill"),
        ({"skill": (0.6, 0.3, 0.9)}, "wide"),
        ({"skill": (0.6, 0.3, 0.7), "gap_p_holm": (0.06, NAN, NAN)}, "same"),
        ({"skill": (0.6, 0.3, 0.7), "gap_mean_difference": (-0.1, -0.2, 0.0)}, "same"),
        ({"skill": (0.6, 0.3, 0.7), "gap_p_holm": (NAN, NAN, NAN)}, "same"),
        ({"skill": (0.9, 0.85, 0.95), "exact": False, "keys": (ATTENTION, CONTROL, *OTHERS[: RIVALS - 1])}, "rivals"),
    ],
)
def test_every_reason_not_to_decide(changed, reason):
    found = judged(level(**changed))
    assert (found.label, found.reason) == ("undecided", reason)
    assert REASONS[reason] in found.sentences


def test_every_reason_is_said_in_words():
    assert len(REASONS) == 11  # each is met here


def test_just_enough_texts_are_enough():
    assert judged(level(texts=FEW)).label == "unfaithful"
    assert judged(level(flipped=FEW)).label == "unfaithful"


def test_too_few_texts_are_not_described_either():
    found = judged(level(texts=5))
    assert not said(found, "flips the decision after")
    assert said(found, "5 texts were judged")


def test_nothing_at_all():
    found = judged(level()[:0])
    assert (found.label, found.level, found.reason) == ("undecided", None, "no erasure")
    assert found.sentences[0] == REASONS["no erasure"]


def test_without_the_erasure_test_the_texts_are_spoken_of_too():
    short = level()[:1].assign(test="agreement", ranking="", ranking_level="", figure="too_short", value=7.0)
    about = {"texts": 500, "aside": {"empty": 3}, "truncated": 1200, "special_tokens": True}
    found = judged(short, **about)
    assert found.reason == "no erasure"
    assert found.sentences[1:] == (
        "500 texts were looked at; 7 had fewer than two words to rank; set aside: 3 (empty); 1,200 were cut off at the "
        "longest length the model reads.",
        "Special tokens such as [CLS] are among the words.",
        "In brackets: 95 % intervals over texts.",
    )


def test_an_erasure_of_no_text():
    counts = level()[:1].assign(ranking="", ranking_level="", erase_level="", figure="texts")
    found = judged(counts)
    assert (found.label, found.level, found.reason) == ("undecided", None, "no texts")
    assert found.sentences[0] == "No text has two items or more to erase, so there is nothing to judge."


def test_searches_are_no_rivals():
    keys = (ATTENTION, CONTROL, PRODUCT, ("attention", "greedy"), ("attention", "optimal"))
    assert judged(level(skill=(0.9, 0.85, 0.95), exact=False, keys=keys)).reason == "rivals"


def test_rivals_are_not_needed_where_nearly_all_is_known():
    few = {"skill": (0.9, 0.85, 0.95), "exact": False, "keys": (ATTENTION, CONTROL)}
    assert judged(level(**few, certified=(0.95, 0.9, 1.0))).label == "faithful"
    assert judged(level(**few, certified=(0.85, 0.8, 0.9))).reason == "rivals"
    assert judged(level(**(few | {"skill": (0.2, 0.1, 0.3)}))).label == "unfaithful"  # skill is at most so much


# planted truth, through the summary


def planted(how, *, n=300, items=40, seed=0, exact=True, rivals=True):
    """A run on texts of which a few items decide, known to every ranking but as ``how`` says to attention."""
    draw = np.random.default_rng(seed)
    smallest = draw.integers(1, 5, n)
    chance = np.minimum(smallest + draw.integers(0, items, n), items)
    rankings = {"random": chance, "attention": {"perfect": smallest, "chance": draw.permutation(chance)}.get(how)}
    if how == "half":
        rankings["attention"] = np.where(draw.random(n) < 0.65, smallest, chance)
    if rivals:
        rankings |= dict.fromkeys(("gradient", "gradient_x_attention", "lrp"), smallest)
    lots = [
        pd.DataFrame({"text_id": np.arange(n), "ranking": name, "removed": removed})
        for name, removed in rankings.items()
    ]
    same = {"ranking_level": "attention", "erase_level": "attention", "items": items, "mass": 0.5, "censored": False}
    same |= {"marginal": False, "ties": 0, "undefined": 0, "flippable": True if exact else None}
    table = pd.concat(lots).assign(**same)
    table["minimum_low"] = table["minimum_high"] = np.tile(smallest, len(lots)) if exact else None
    return summarise_erasure(table, pd.DataFrame({"text_id": np.arange(n), "aside": None}), n_resamples=500)


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize(("how", "label"), [("perfect", "faithful"), ("half", "partly"), ("chance", "unfaithful")])
def test_planted_truth_is_found(how, label, exact):
    assert judged(planted(how, exact=exact)).label == label


def test_without_bounds_or_rivals_nothing_good_is_said():
    assert judged(planted("perfect", exact=False, rivals=False)).reason == "rivals"


def test_a_random_control_as_good_as_anything_decides_nothing():
    found = judged(planted("perfect", items=1))
    assert found.reason == "easy"


def test_more_texts_decide_what_fewer_could_not():
    few = [judged(planted("half", n=FEW, seed=seed)).label for seed in range(5)]
    many = [judged(planted("half", n=600, seed=seed)).label for seed in range(5)]
    assert "undecided" in few
    assert many == ["partly"] * 5


def test_a_verdict_is_a_value():
    assert Verdict("partly", {"": ("a.",)}) == Verdict("partly", {"": ("a.",)})
    with pytest.raises(AttributeError):
        Verdict("partly", {}).label = "faithful"
