"""Two scores of the same items: rank correlations and common items, against scipy and the tests' own summaries."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kendalltau, spearmanr

import attnfaith as af
from attnfaith.adapters.self_check import tolerance_of
from attnfaith.evaluation.removal import MARGIN
from attnfaith.evaluation.tests.agreement.test import Agreement
from attnfaith.metrics import RandomisationAgreement, RankAgreement, TopOverlap, paired_scores
from tests.helpers.metric_runs import INTERVALS, RANKINGS, SEED, STATISTICS, agree, own, summary_of, texts_of
from tests.helpers.summaries import summarised


@pytest.fixture
def scores():
    """Ragged, some with ties, one constant, one of a single item, one with scores that are missing."""
    rng = np.random.default_rng(0)
    lengths = [5, 2, 9, 4, 1, 12, 3, 6, 40]
    one = [rng.normal(size=size).round(1) for size in lengths]
    other = [(left + rng.normal(size=len(left))).round(1) for left in one]
    other[3][:] = 0.5
    one[5][2] = other[5][7] = math.nan
    return [values.tolist() for values in one], [values.tolist() for values in other]


def pairs(scores):
    """What scipy is given of each text: the items that both score."""
    for one, other in zip(*scores, strict=True):
        kept = [(left, right) for left, right in zip(one, other, strict=True) if left == left and right == right]
        yield tuple(zip(*kept, strict=True))


@pytest.mark.filterwarnings("ignore:An input array is constant")
def test_equals_scipy_text_by_text(scores, monkeypatch):
    monkeypatch.setattr(paired_scores, "_TEXTS", 4)  # several lots
    found = RankAgreement(per_text=True).compute(predictions=scores[0], references=scores[1])
    taus = [(kendalltau(*pair) if len(pair[0]) > 1 else None) for pair in pairs(scores)]
    for text, tau in enumerate(taus):
        expected = (math.nan, math.nan) if tau is None else (tau.statistic, tau.pvalue)
        assert found["per_text"]["tau"][text] == pytest.approx(expected[0], nan_ok=True), text
        assert found["per_text"]["p"][text] == pytest.approx(expected[1], nan_ok=True), text
    rho = [spearmanr(*pair).statistic if len(pair[0]) > 1 else math.nan for pair in pairs(scores)]
    assert found["per_text"]["spearman"] == pytest.approx(rho, nan_ok=True)
    known = [one for one in taus if one is not None and not math.isnan(one.statistic)]
    assert (found["texts"], found["too_short"], found["undefined"]) == (9, 1, 1)
    assert len(known) == 7
    assert found["tau"] == pytest.approx(np.mean([one.statistic for one in known]))
    assert found["tau_sd"] == pytest.approx(np.std([one.statistic for one in known]))
    assert found["significant"] == np.mean([one.pvalue <= 0.05 for one in known])
    assert found["spearman"] == pytest.approx(np.nanmean(rho))


def common(one, other, top):
    """The share of common items among the first of two lists, ties in the order of the text."""
    items = [item for item in range(len(one)) if one[item] == one[item] and other[item] == other[item]]
    count = min(top, len(items)) if top >= 1 else math.ceil(top * len(items))
    first = [set(sorted(items, key=lambda item: (-values[item], item))[:count]) for values in (one, other)]
    return len(first[0] & first[1]) / count


def test_overlaps_equal_a_loop(scores):
    tops = (1, 3, 0.5, 100)
    found = TopOverlap(tops=tops).compute(predictions=scores[0], references=scores[1])
    assert list(found) == ["texts", "too_short", "undefined", *(f"overlap_at_{top}" for top in tops)]
    texts = [pair for pair in zip(*scores, strict=True) if len(pair[0]) > 1]
    for top in tops:
        assert found[f"overlap_at_{top}"] == pytest.approx(np.mean([common(*pair, top) for pair in texts]))
    assert found["overlap_at_100"] == 1
    same = RankAgreement(top=3).compute(predictions=scores[0], references=scores[1])
    assert same["overlap"] == found["overlap_at_3"]


@pytest.mark.parametrize("top", [0.1, 2])
def test_equals_the_summary_of_the_agreement_test(top):
    batch = texts_of()
    test = Agreement(top=top)
    _, summary = summary_of(test, batch)
    one, other = (own(batch, batch.scores(ranking, "attention").double()) for ranking in RANKINGS[:2])
    near = MARGIN * tolerance_of(batch.logits)
    found = RankAgreement(top=top, near=near, **INTERVALS).compute(predictions=one, references=other)
    which = {"erase_level": "attention", "ranking": "attention", "other": "attention/gradient"}
    agree(found, summary, "tau", "tau_sd", "significant", "spearman", "overlap", **which)
    assert abs(found["tau"]) < 0.99


@pytest.mark.filterwarnings("ignore:An input array is constant")
def test_randomised_models_are_summed_up_as_the_sanity_test_does(scores):
    scores = [[values for values in lot if len(values) > 1] for lot in scores]
    rows = []
    for text, (one, other) in enumerate(pairs(scores)):
        rho, absolute = spearmanr(one, other).statistic, spearmanr(np.abs(one), np.abs(other)).statistic
        row = {"text_id": text, "ranking": "lrp", "ranking_level": "input", "layer": "top", "depth": 1, "reason": None}
        row["draw"] = 0
        rows.append(row | {"spearman": rho, "spearman_absolute": absolute, "tau": kendalltau(one, other).statistic})
    texts = pd.DataFrame({"text_id": range(len(rows)), "aside": None})
    figures = summarised("sanity", pd.DataFrame(rows), texts, seed=SEED, **STATISTICS)
    found = RandomisationAgreement(**INTERVALS).compute(predictions=scores[1], references=scores[0])
    agree(found, figures, "spearman", "spearman_absolute", "tau", other="1/top")
    agree(found, figures, "notices", "notices_absolute")
    assert found["undefined"] == 1
    assert 0 < found["notices"] < 1


def test_near_ties_are_ties_where_that_is_asked_for():
    one, other = [[1.0, 1.0 + 1e-12, 2.0]], [[2.0, 1.0, 3.0]]
    assert RankAgreement().compute(predictions=one, references=other)["tau"] == pytest.approx(1 / 3)
    near = RankAgreement(near=1e-9).compute(predictions=one, references=other)["tau"]
    assert near == pytest.approx(kendalltau([1, 1, 2], [2, 1, 3]).statistic)


def test_constant_scores_everywhere_leave_nothing_and_say_so():
    found = RankAgreement().compute(predictions=[[1, 1, 1]] * 3, references=[[1, 2, 3]] * 3)
    assert found["undefined"] == found["texts"] == 3
    assert all(math.isnan(found[name]) for name in ("tau", "spearman", "significant", "tau_sd"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"top": 0}, "top to be a share between 0 and 1 or a whole number of at least 1"),
        ({"top": 1.5}, "top to be a share between 0 and 1 or a whole number of at least 1"),
        ({"alpha": 5}, "alpha to be between 0 and 1"),
        ({"near": -1}, "near to be at least 0 and below 1"),
        ({"tops": [1]}, "does not know 'tops'"),
    ],
)
def test_options_without_sense_are_refused_when_made_and_when_computed(options, message):
    with pytest.raises(af.InputError, match=message):
        RankAgreement(**options)
    with pytest.raises(af.InputError, match=message):
        RankAgreement().compute(predictions=[[1, 2]], references=[[1, 2]], **options)


@pytest.mark.parametrize("tops", [[], 3, "13", [0], [True]])
def test_tops_are_a_list_of_numbers_of_items(tops):
    with pytest.raises(af.InputError, match=r"tops|top to be a share"):
        TopOverlap(tops=tops)


def test_as_many_scores_are_needed_on_both_sides():
    with pytest.raises(af.InputError, match="items in every input of text 1, got 3 in predictions, 2 in references"):
        RankAgreement().compute(predictions=[[1, 2], [1, 2, 3]], references=[[1, 2], [1, 2]])
