"""Verdicts: every label and reason on summaries made by hand, and on runs whose truth is planted."""

import numpy as np
import pandas as pd
import pytest

from attnfaith.estimates.lookup import SummaryValue
from attnfaith.evaluation.verdict import Verdict
from attnfaith.evaluation.verdict_rule import FAITHFUL, FEW, UNFAITHFUL, texts_needed
from attnfaith.evaluation.verdict_text import CONCLUSIONS, REASONS
from tests.helpers.handmade_summaries import ATTENTION, CONTROL, NAN, PRODUCT, judged, level, said
from tests.helpers.summaries import summarise_erasure

KEYS = (ATTENTION, CONTROL, PRODUCT, ("attention", "gradient"), ("attention", "lrp"))


def test_the_example_of_a_reader():
    found = judged(level())
    assert (found.label, found.level, found.reason) == ("unfaithful", "attention", "")
    assert found.sentences[0] == (
        "Attention flips the decision after removing 41 % [38, 44] of the words on average; "
        "the smallest sets that flip it hold 6.0 % [5.0, 7.0]."
    )
    assert found.sentences[1] == (
        "A random order removes 60 % [55, 64]: attention removes 17 points [14, 20] less, so it is better than a "
        "random order."
    )
    assert said(found, "Gradient x attention, the best of the other rankings that were run, removes 10 % [8, 12].")
    assert said(found, "Do not read attention as an explanation of this model.")
    assert str(found).splitlines()[0] == "Attention as an explanation: unfaithful."
    lines = str(found).splitlines()
    assert [line for line in lines[1:] if line and line not in ("Other rankings", "Texts")] == list(found.sentences)


@pytest.mark.parametrize(
    ("skill", "label", "reason"),
    [
        ((0.2, 0.1, UNFAITHFUL - 0.01), "unfaithful", ""),
        ((0.4, 0.1, UNFAITHFUL), "unfaithful or partly", ""),
        ((0.55, UNFAITHFUL - 0.01, FAITHFUL - 0.01), "unfaithful or partly", ""),
        ((0.6, UNFAITHFUL, FAITHFUL - 0.01), "partly", ""),
        ((0.7, UNFAITHFUL, FAITHFUL), "partly or faithful", ""),
        ((0.7, UNFAITHFUL - 0.01, FAITHFUL), "undecided", "wide"),
        ((0.85, FAITHFUL - 0.01, 0.9), "partly or faithful", ""),
        ((0.85, FAITHFUL, 0.9), "faithful", ""),
        ((-0.3, -0.5, -0.1), "unfaithful", ""),
    ],
)
def test_the_label_follows_the_interval_of_skill(skill, label, reason):
    found = judged(level(skill=skill))
    assert (found.label, found.reason) == (label, reason)
    if label != "undecided":
        assert CONCLUSIONS[label] in found.sentences
    assert said(found, "texts like these would settle it") == (label == "undecided" or " or " in label)


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
        ({"skill": (0.6, 0.55, 0.7), "gap_mean_difference": (-0.1, -0.2, 0.0)}, "same"),
        ({"skill": (0.7, 0.55, 0.9), "gap_mean_difference": (-0.1, -0.2, 0.0)}, "same"),
    ],
)
def test_every_reason_not_to_decide(changed, reason):
    found = judged(level(**changed))
    assert (found.label, found.reason) == ("undecided", reason)
    assert REASONS[reason] in found.sentences


def test_every_reason_is_said_in_words():
    assert len(REASONS) == 10  # each is met here


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


def test_how_many_texts_would_settle_it():
    """An interval shrinks with the root of the number of texts: half as far from a limit takes four times as many."""
    assert said(
        judged(level(skill=(0.45, 0.35, 0.55))),
        "About 4,100 texts like these would settle it, if skill stays as it is.",
    )
    assert said(judged(level(skill=(0.5, 0.4, 0.6))), "More texts are unlikely to settle it")
    one, two = (
        texts_needed(SummaryValue(0.4, 0.3, 0.5), 0.5, 100),
        texts_needed(SummaryValue(0.45, 0.35, 0.55), 0.5, 100),
    )
    assert two == pytest.approx(4 * one, rel=0.1)


def test_searches_are_no_rivals():
    keys = (ATTENTION, CONTROL, ("attention", "greedy"), ("attention", "optimal"))
    assert not judged(level(keys=keys)).parts["other rankings"]


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("skill", [(0.9, 0.85, 0.95), (0.6, 0.55, 0.7), (0.45, 0.4, 0.55), (0.2, 0.1, 0.3)])
def test_what_is_said_of_attention_does_not_depend_on_other_rankings(skill, exact):
    alone, among = (judged(level(keys=keys, exact=exact, skill=skill)) for keys in ((ATTENTION, CONTROL), KEYS))
    assert alone.label == among.label
    assert alone.parts[""] == among.parts[""]
    assert alone.parts["texts"] == among.parts["texts"]
    assert among.parts["other rankings"]


# planted truth, through the summary


def planted(how, *, n=300, items=40, seed=0, exact=True):
    """A run on texts of which a few items decide, known to attention as ``how`` says."""
    draw = np.random.default_rng(seed)
    smallest = draw.integers(1, 5, n)
    chance = np.minimum(smallest + draw.integers(0, items, n), items)
    rankings = {"random": chance, "attention": {"perfect": smallest, "chance": draw.permutation(chance)}.get(how)}
    if how == "half":
        rankings["attention"] = np.where(draw.random(n) < 0.65, smallest, chance)
    lots = [
        pd.DataFrame({"text_id": np.arange(n), "ranking": name, "removed": removed})
        for name, removed in rankings.items()
    ]
    same = {"ranking_level": "attention", "erase_level": "attention", "items": items, "mass": 0.5, "censored": False}
    same |= {"marginal": False, "ties": 0, "undefined": 0, "flippable": True}
    table = pd.concat(lots).assign(**same)
    table["minimum_high"] = np.tile(smallest, len(lots))
    table["minimum_low"] = table["minimum_high"] if exact else 1
    return summarise_erasure(table, pd.DataFrame({"text_id": np.arange(n), "aside": None}), n_resamples=500)


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize(("how", "label"), [("perfect", "faithful"), ("half", "partly"), ("chance", "unfaithful")])
def test_planted_truth_is_found(how, label, exact):
    assert judged(planted(how, exact=exact)).label == label


def test_a_random_control_as_good_as_anything_decides_nothing():
    found = judged(planted("perfect", items=1))
    assert found.reason == "easy"


def test_more_texts_decide_what_fewer_could_not():
    few = [judged(planted("half", n=FEW, seed=seed)).label for seed in range(5)]
    many = [judged(planted("half", n=600, seed=seed)).label for seed in range(5)]
    assert set(few) & {"undecided", "unfaithful or partly", "partly or faithful"}
    assert many == ["partly"] * 5


def test_a_verdict_is_a_value():
    assert Verdict("partly", {"": ("a.",)}) == Verdict("partly", {"": ("a.",)})
    with pytest.raises(AttributeError):
        Verdict("partly", {}).label = "faithful"
