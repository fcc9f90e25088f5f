"""Verdicts: every label and reason on summaries made by hand, and on runs whose truth is planted."""

import math

import numpy as np
import pandas as pd
import pytest

from attnfaith.estimates.lookup import SummaryLookup, SummaryValue
from attnfaith.evaluation.verdict import Verdict
from attnfaith.evaluation.verdict_rule import FAITHFUL, FEW, UNFAITHFUL, judge, texts_needed
from tests.helpers.handmade_summaries import ATTENTION, CONTROL, NAN, PRODUCT, judged, level, says
from tests.helpers.small_runs import computed, evaluator_of
from tests.helpers.summaries import summarise_erasure
from tests.helpers.tokenizers import Reader

KEYS = (ATTENTION, CONTROL, PRODUCT, ("attention", "gradient"), ("attention", "lrp"))


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
    result = judged(level(skill=skill))
    assert (result.label, result.reason) == (label, reason)
    needed = judge(SummaryLookup(level(skill=skill)), "attention", ATTENTION).needed
    assert (needed is not None) == (label == "undecided" or " or " in label)
    assert str(result).splitlines()[0] == f"Attention as an explanation: {label}."


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
    result = judged(level(**changed))
    assert (result.label, result.reason) == ("undecided", reason)


def test_a_label_and_a_reason_are_plain_words():
    result = judged(level(texts=5))
    assert (type(result.label), type(result.reason)) == (str, str)
    assert repr((result.label, result.reason)) == "('undecided', 'few texts')"


def test_just_enough_texts_are_enough():
    assert judged(level(texts=FEW)).label == "unfaithful"
    assert judged(level(flipped=FEW)).label == "unfaithful"


def test_nothing_at_all():
    result = judged(level()[:0])
    assert (result.label, result.level, result.reason, result.rankings) == ("undecided", None, "no erasure", None)
    assert len(result.parts[""]) == 1


def test_without_the_erasure_test_the_texts_are_described_too():
    short = level()[:1].assign(test="agreement", ranking="", ranking_level="", figure="too_short", value=7.0)
    about = {"texts": 500, "aside": {"empty": 3}, "truncated": 1200, "special_tokens": True}
    result = judged(short, **about)
    assert result.reason == "no erasure"
    for count in ("500", "7", "3", "1,200", "95 %"):
        assert says(result, f"{count} "), count


def test_an_erasure_of_no_text():
    counts = level()[:1].assign(ranking="", ranking_level="", erase_level="", figure="texts")
    result = judged(counts)
    assert (result.label, result.level, result.reason) == ("undecided", None, "no texts")


def test_how_many_texts_would_settle_it():
    """An interval shrinks with the root of the number of texts: half as far from a limit takes four times as many."""
    assert says(judged(level(skill=(0.45, 0.35, 0.55))), "4,100")
    at_the_limit = judge(SummaryLookup(level(skill=(0.5, 0.4, 0.6))), "attention", ATTENTION)
    assert at_the_limit.needed == math.inf
    first, second = (
        texts_needed(SummaryValue(0.4, 0.3, 0.5), 0.5, 100),
        texts_needed(SummaryValue(0.45, 0.35, 0.55), 0.5, 100),
    )
    assert second == pytest.approx(4 * first, rel=0.1)


def test_searches_are_no_rivals():
    keys = (ATTENTION, CONTROL, ("attention", "greedy"), ("attention", "optimal"))
    assert (
        judged(level(keys=keys)).parts["other rankings"]
        == judged(level(keys=(ATTENTION, CONTROL))).parts["other rankings"]
    )


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("skill", [(0.9, 0.85, 0.95), (0.6, 0.55, 0.7), (0.45, 0.4, 0.55), (0.2, 0.1, 0.3)])
def test_the_verdict_on_attention_does_not_depend_on_other_rankings(skill, exact):
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
    tables = [
        pd.DataFrame({"text_id": np.arange(n), "ranking": name, "removed": removed})
        for name, removed in rankings.items()
    ]
    same = {"ranking_level": "attention", "erase_level": "attention", "items": items, "mass": 0.5, "censored": False}
    same |= {"marginal": False, "ties": 0, "undefined": 0, "flippable": True}
    table = pd.concat(tables).assign(**same)
    table["minimum_high"] = np.tile(smallest, len(tables))
    table["minimum_low"] = table["minimum_high"] if exact else 1
    return summarise_erasure(table, pd.DataFrame({"text_id": np.arange(n), "aside": None}), n_resamples=500)


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize(("how", "label"), [("perfect", "faithful"), ("half", "partly"), ("chance", "unfaithful")])
def test_planted_truth_is_found(how, label, exact):
    assert judged(planted(how, exact=exact)).label == label


def test_a_random_control_as_good_as_anything_decides_nothing():
    result = judged(planted("perfect", items=1))
    assert result.reason == "easy"


def test_more_texts_decide_what_fewer_could_not():
    few = [judged(planted("half", n=FEW, seed=seed)).label for seed in range(5)]
    many = [judged(planted("half", n=600, seed=seed)).label for seed in range(5)]
    assert set(few) & {"undecided", "unfaithful or partly", "partly or faithful"}
    assert many == ["partly"] * 5


def test_the_tolerance_of_a_regression_is_stated():
    evaluator, data = evaluator_of("regression")
    result = computed(evaluator, data, "erasure", rankings=["attention"]).verdict
    assert says(result, "moves by more than the tolerance, 0.05.")
    assert not says(judged(level()), "tolerance")


def test_a_notebook_shows_all_of_it():
    result = judged(level(texts=500), model="<b>a model</b>")
    page = Reader(result._repr_html_())
    assert page.tags == {"div", "b", "table", "thead", "tbody", "tr", "th", "td"}
    cells = [cell for row in result.rankings.rows for cell in row if cell]
    expected = [result.headline, *result.sentences, *(heading for heading, _, _ in result.sections), *cells]
    assert set(expected) | set(result.rankings.columns) == set(page.texts)
    assert repr(result) == str(result)


def test_a_verdict_is_a_value():
    assert Verdict("partly", {"": ("a.",)}) == Verdict("partly", {"": ("a.",)})
    with pytest.raises(AttributeError):
        Verdict("partly", {}).label = "faithful"
