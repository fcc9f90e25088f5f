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
from tests.helpers.metric_runs import INTERVALS, RANKINGS, SEED, STATISTICS, agree, per_text, summary_of, texts_of
from tests.helpers.summaries import summarised


@pytest.fixture
def scores():
    """Ragged, some with ties, one constant, one of a single item, one with scores that are missing."""
    rng = np.random.default_rng(0)
    lengths = [5, 2, 9, 4, 1, 12, 3, 6, 40]
    first = [rng.normal(size=size).round(1) for size in lengths]
    other = [(left + rng.normal(size=len(left))).round(1) for left in first]
    other[3][:] = 0.5
    first[5][2] = other[5][7] = math.nan
    return [values.tolist() for values in first], [values.tolist() for values in other]


def pairs(scores):
    """What scipy is given of each text: the items that both score."""
    for first, other in zip(*scores, strict=True):
        kept = [(left, right) for left, right in zip(first, other, strict=True) if left == left and right == right]
        yield tuple(zip(*kept, strict=True))


@pytest.mark.filterwarnings("ignore:An input array is constant")
def test_equals_scipy_text_by_text(scores, monkeypatch):
    monkeypatch.setattr(paired_scores, "_TEXTS", 4)  # several lots
    result = RankAgreement(per_text=True).compute(predictions=scores[0], references=scores[1])
    taus = [(kendalltau(*pair) if len(pair[0]) > 1 else None) for pair in pairs(scores)]
    for text, tau in enumerate(taus):
        expected = (math.nan, math.nan) if tau is None else (tau.statistic, tau.pvalue)
        assert result["per_text"]["tau"][text] == pytest.approx(expected[0], nan_ok=True), text
        assert result["per_text"]["p"][text] == pytest.approx(expected[1], nan_ok=True), text
    rho = [spearmanr(*pair).statistic if len(pair[0]) > 1 else math.nan for pair in pairs(scores)]
    assert result["per_text"]["spearman"] == pytest.approx(rho, nan_ok=True)
    known = [item for item in taus if item is not None and not math.isnan(item.statistic)]
    assert (result["texts"], result["too_short"], result["undefined"]) == (9, 1, 1)
    assert len(known) == 7
    assert result["tau"] == pytest.approx(np.mean([item.statistic for item in known]))
    assert result["tau_sd"] == pytest.approx(np.std([item.statistic for item in known]))
    assert result["significant"] == np.mean([item.pvalue <= 0.05 for item in known])
    assert result["spearman"] == pytest.approx(np.nanmean(rho))


def common(left, other, top):
    """The share of common items among the first of two lists, ties in the order of the text."""
    items = [item for item in range(len(left)) if left[item] == left[item] and other[item] == other[item]]
    count = min(top, len(items)) if top >= 1 else math.ceil(top * len(items))
    first = [set(sorted(items, key=lambda item: (-values[item], item))[:count]) for values in (left, other)]
    return len(first[0] & first[1]) / count


def test_overlaps_equal_a_loop(scores):
    tops = (1, 3, 0.5, 100)
    result = TopOverlap(tops=tops).compute(predictions=scores[0], references=scores[1])
    assert list(result) == ["texts", "too_short", "undefined", *(f"overlap_at_{top}" for top in tops)]
    texts = [pair for pair in zip(*scores, strict=True) if len(pair[0]) > 1]
    for top in tops:
        assert result[f"overlap_at_{top}"] == pytest.approx(np.mean([common(*pair, top) for pair in texts]))
    assert result["overlap_at_100"] == 1
    same = RankAgreement(top=3).compute(predictions=scores[0], references=scores[1])
    assert same["overlap"] == result["overlap_at_3"]


@pytest.mark.parametrize("top", [0.1, 2])
def test_equals_the_summary_of_the_agreement_test(top):
    batch = texts_of()
    test = Agreement(top=top)
    _, summary = summary_of(test, batch)
    first, other = (per_text(batch, batch.scores(ranking, "attention").double()) for ranking in RANKINGS[:2])
    near = MARGIN * tolerance_of(batch.logits)
    result = RankAgreement(top=top, near=near, **INTERVALS).compute(predictions=first, references=other)
    which = {"erase_level": "attention", "ranking": "attention", "other": "attention/gradient"}
    agree(result, summary, "tau", "tau_sd", "significant", "spearman", "overlap", **which)
    assert abs(result["tau"]) < 0.99


@pytest.mark.filterwarnings("ignore:An input array is constant")
def test_randomised_models_are_summed_up_as_the_sanity_test_does(scores):
    scores = [[values for values in part if len(values) > 1] for part in scores]
    rows = []
    for text, (first, other) in enumerate(pairs(scores)):
        rho, absolute = spearmanr(first, other).statistic, spearmanr(np.abs(first), np.abs(other)).statistic
        row = {"text_id": text, "ranking": "lrp", "ranking_level": "input", "layer": "top", "depth": 1, "reason": None}
        row["draw"] = 0
        rows.append(row | {"spearman": rho, "spearman_absolute": absolute, "tau": kendalltau(first, other).statistic})
    texts = pd.DataFrame({"text_id": range(len(rows)), "aside": None})
    figures = summarised("sanity", pd.DataFrame(rows), texts, seed=SEED, **STATISTICS)
    result = RandomisationAgreement(**INTERVALS).compute(predictions=scores[1], references=scores[0])
    agree(result, figures, "spearman", "spearman_absolute", "tau", other="1/top")
    agree(result, figures, "notices", "notices_absolute")
    assert result["undefined"] == 1
    assert 0 < result["notices"] < 1


def test_near_ties_are_ties_with_the_option():
    first, other = [[1.0, 1.0 + 1e-12, 2.0]], [[2.0, 1.0, 3.0]]
    assert RankAgreement().compute(predictions=first, references=other)["tau"] == pytest.approx(1 / 3)
    near = RankAgreement(near=1e-9).compute(predictions=first, references=other)["tau"]
    assert near == pytest.approx(kendalltau([1, 1, 2], [2, 1, 3]).statistic)


def test_constant_scores_everywhere_leave_nothing_and_say_so():
    result = RankAgreement().compute(predictions=[[1, 1, 1]] * 3, references=[[1, 2, 3]] * 3)
    assert result["undefined"] == result["texts"] == 3
    assert all(math.isnan(result[name]) for name in ("tau", "spearman", "significant", "tau_sd"))


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
