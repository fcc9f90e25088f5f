"""Figures of the adversarial test against counts by hand, and what is sentences_of of them."""

import math

import numpy as np
import pandas as pd
import pytest

from attnfaith.estimates.lookup import SummaryLookup, SummaryValue
from attnfaith.evaluation.tests.adversarial.summary import nats, sentences
from tests.helpers.summaries import compared, summarised

LN2 = math.log(2)
TEXTS = pd.DataFrame(
    {"text_id": range(8), "aside": [None] * 7 + ["the text is empty"], "prediction": [0, 1] * 4, "confidence": 0.9}
)


def made(**columns):
    """Six of the seven texts, in an order of their own."""
    table = {
        "text_id": [5, 0, 1, 2, 3, 4],
        "max_weight": [0.9, 0.1, 0.2, 0.25, 0.3, 1.0],
        "epsilon": 0.05,
        "js": [0.1, 0.65, 0.2, 0.3, 0.64, 0.0],
        "satisfied": [5, 5, 3, 1, 5, 0],
        "js_low": None,
        "js_high": None,
        "js_most": [0.11, 0.69, 0.69, 0.32, 0.69, 0.0],
    }
    return pd.DataFrame(table | columns)


def figures_of(table, **options):
    return summarised("adversarial", table, TEXTS, n_resamples=99, **options)


def values(summary, other=""):
    return summary[(summary.other == other) & (summary.slice == "all")].set_index("figure").value.to_dict()


def test_figures_of_the_search_alone():
    result = values(figures_of(made()))
    assert (result["texts"], result["set_aside"], result["too_short"]) == (8, 1, 1)
    assert (result["epsilon"], result["near"]) == (0.05, 0.9)
    assert result["near_ln2"] == pytest.approx(2 / 6)
    assert result["near_most"] == pytest.approx(4 / 5)  # of the last nothing else was possible: undefined
    assert result["unsatisfied"] == pytest.approx(1 / 6)
    assert result["js_mean"] == pytest.approx(1.89 / 6)
    assert result["js_median"] == pytest.approx(0.25)
    assert result["most_mean"] == pytest.approx(2.5 / 6)
    assert not [name for name in result if name.endswith(("_exact", "_low", "_high"))]


def test_near_is_an_option_and_inclusive():
    table = made(js=[0.5 * LN2] * 6)
    assert values(figures_of(table, near=0.5))["near_ln2"] == 1
    assert values(figures_of(table, near=0.51))["near_ln2"] == 0


def test_exact_values_are_shown_with_the_search():
    exact = [0.11, 0.68, 0.67, 0.31, 0.69, 0.0]
    result = values(figures_of(made(js_low=exact, js_high=np.array(exact) + 1e-13)))
    assert result["near_ln2_exact"] == pytest.approx(3 / 6)
    assert result["near_most_exact"] == 1
    assert result["gap_exact"] == pytest.approx((sum(exact) - 1.89) / 6)
    assert result["js_mean_exact"] == pytest.approx(sum(exact) / 6)
    assert result["js_median_exact"] == pytest.approx(0.49)
    assert not [name for name in result if name.endswith(("_low", "_high"))]


def test_bounds_are_shown_with_the_search():
    low, high = [0.1, 0.66, 0.4, 0.3, 0.64, 0.0], [0.11, 0.69, 0.68, 0.31, 0.69, 0.0]
    result = values(figures_of(made(js_low=low, js_high=high)))
    assert (result["near_ln2_low"], result["near_ln2_high"]) == pytest.approx((2 / 6, 3 / 6))
    assert (result["gap_low"], result["gap_high"]) == pytest.approx(((sum(low) - 1.89) / 6, (sum(high) - 1.89) / 6))
    assert result["js_mean_high"] == pytest.approx(sum(high) / 6)
    assert not [name for name in result if name.endswith("_exact")]


def test_ranges_of_the_largest_weight():
    summary = figures_of(made())
    counts = summary[(summary.figure == "js_mean") & (summary.other != "")].set_index("other").texts.to_dict()
    assert counts == {
        "max_weight=0-0.25": 2,
        "max_weight=0.25-0.5": 2,
        "max_weight=0.5-0.75": 0,
        "max_weight=0.75-1": 2,
    }
    assert values(summary, "max_weight=0-0.25")["js_mean"] == pytest.approx(0.425)
    assert values(summary, "max_weight=0.75-1")["near_ln2"] == 0
    assert math.isnan(values(summary, "max_weight=0.5-0.75")["js_mean"])


def test_parts_of_the_texts_and_order_of_the_rows():
    table = made()
    summary = figures_of(table, by="class")
    assert set(summary.slice) == {"class=0", "class=1"}
    zero = summary[(summary.slice == "class=0") & (summary.figure == "js_mean") & (summary.other == "")]
    assert float(zero.value.iloc[0]) == pytest.approx((0.65 + 0.3 + 0.0) / 3)
    pd.testing.assert_frame_equal(figures_of(table.sample(frac=1, random_state=1)), figures_of(table))


def test_no_rows_at_all():
    result = values(figures_of(made()[:0]))
    assert result["too_short"] == 7
    assert "js_mean" not in result


def test_two_runs_are_compared_by_the_numbers_of_the_summary():
    low = [0.1, 0.66, 0.4, 0.3, 0.64, 0.0]
    table = made(js_low=low, js_high=low)
    side, result = compared("adversarial", table)[""], values(figures_of(table))
    assert side["text_ids"].tolist() == [0, 1, 2, 3, 4, 5]
    for (name, _), column in side["columns"].items():
        middle = np.median if "median" in name else np.nanmean
        assert result[name] == pytest.approx(middle(column)), name
    assert {name for name, _ in side["columns"]} >= {"js_mean", "js_mean_exact", "js_median", "gap_exact"}


def sentences_of(table, **facts):
    return list(sentences(SummaryLookup(figures_of(table), "adversarial"), facts))


def test_sentences():
    first, meaning, median, most = sentences_of(made())
    assert first.startswith("On 33 % [")
    assert meaning == (
        "'Entirely different' is a Jensen-Shannon divergence of at least 90 % of ln 2, and 'the same' a total "
        "variation distance of at most 0.05."
    )
    assert median.startswith("The median divergence that the search reaches is 0.25 nats [")
    assert "possible" not in median
    assert most.startswith("If the output may change, ")
    exact = [0.11, 0.68, 0.67, 0.31, 0.69, 0.0]
    first, meaning, median, _ = sentences_of(made(js_low=exact, js_high=exact), decision="regression")
    assert first.startswith("On 50 % [")
    assert "the search finds such weights on 33 % [" in first
    assert meaning.endswith("a value that moves by at most 0.05.")
    assert ", of 0.49 nats [" in median
    first, _, median, _ = sentences_of(made(js_low=[0.1, 0.66, 0.4, 0.3, 0.64, 0.0], js_high=exact))
    assert first.startswith("On at least 33 % [")
    assert "] and at most 50 % [" in first
    assert "the largest possible is between" in median
    assert sentences_of(made()[:0]) == []


def test_divergences_in_words():
    assert nats(SummaryValue(0.5, 0.4, 0.6)) == "0.50 nats [0.40, 0.60]"
    assert nats(SummaryValue(0.5)) == "0.50 nats"
