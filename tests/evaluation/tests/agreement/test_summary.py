"""Figures of the agreement test, against plain means over texts, and what is said of them."""

import math

import numpy as np
import pandas as pd
import pytest

from attnfaith.errors import InputError
from attnfaith.estimates.lookup import SummaryLookup
from attnfaith.evaluation.tests.agreement.summary import CLOSE, LITTLE, sentences
from attnfaith.functional.statistics import Resamples
from tests.helpers.summaries import compared, summarised

PAIR = ["ranking_level", "ranking", "other_level", "other"]
KEYS = [
    ("attention", "attention", "input", "gradient_attention_fixed"),
    ("attention", "attention", "input", "leave_one_out"),
    ("attention", "gradient", "yours", "shap/values"),
]


def tables(count=60, level="attention", seed=0, undefined=0.2):
    """Rows of three pairs, some of them without a tau; and their texts, two of them too short for a row."""
    draw, rows = np.random.default_rng(seed), []
    texts = pd.DataFrame({"text_id": range(count + 2), "aside": None, "items": 9, "confidence": 0.7})
    texts["prediction"] = draw.integers(0, 2, len(texts))
    for text in draw.permutation(count).tolist():
        for index, key in enumerate(KEYS):
            lost = draw.random() < undefined
            tau = math.nan if lost else float(np.clip(0.3 * index + 0.2 * draw.normal(), -1, 1))
            row = {"text_id": text, "level": level, **dict(zip(PAIR, key, strict=True))}
            p = math.nan if lost else draw.random() ** (1 + 3 * index)
            rows.append(row | {"tau": tau, "p": p, "spearman": 1.2 * tau, "overlap": draw.random()})
    return pd.DataFrame(rows), texts


def figure(summary, key, name):
    result = summary[(summary.figure == name) & (summary.other == "/".join(key[2:])) & (summary.ranking == key[1])]
    assert len(result) == 1
    return result.iloc[0]


@pytest.mark.parametrize("alpha", [0.05, 0.5])
@pytest.mark.parametrize("by", [None, "class"])
def test_figures_are_means_over_the_texts_where_they_are_defined(by, alpha):
    table, texts = tables()
    summary = summarised("agreement", table, texts, by=by, alpha=alpha, n_resamples=199)
    parts = (
        {"all": texts.text_id} if by is None else {f"class={c}": texts.text_id[texts.prediction == c] for c in (0, 1)}
    )
    assert set(summary.slice) == set(parts)
    for part, ids in parts.items():
        of_part = summary[summary.slice == part]
        for key in KEYS:
            rows = table[(table[PAIR] == list(key)).all(axis=1) & table.text_id.isin(ids)]
            tau = rows.tau.dropna()
            expected = {
                "tau": (tau.mean(), len(tau)),
                "tau_sd": (tau.std(ddof=0), len(tau)),
                "significant": ((rows.p.dropna() <= alpha).mean(), len(tau)),
                "spearman": (rows.spearman.mean(), len(tau)),
                "overlap": (rows.overlap.mean(), len(rows)),
                "undefined": (rows.tau.isna().mean(), len(rows)),
            }
            for name, (value, count) in expected.items():
                result = figure(of_part, key, name)
                assert result.value == pytest.approx(value, abs=1e-12)
                assert result.texts == count
                assert result.low <= result.value <= result.high
                assert result.low < result.high
                assert (result.erase_level, result.ranking_level) == ("attention", key[0])
        assert of_part[of_part.figure == "too_short"].value.tolist() == [ids.isin([60, 61]).sum()]


def test_intervals_hold_the_truth_about_as_often_as_they_say():
    """The standard deviation over texts of many runs whose truth is known."""
    draw, held, runs = np.random.default_rng(1), {"tau": 0, "tau_sd": 0}, 60
    texts = pd.DataFrame({"text_id": range(80), "aside": None})
    for _ in range(runs):
        table = texts.assign(**dict(zip(PAIR, KEYS[0], strict=True)), level="input", p=0.5, spearman=0.0, overlap=0.0)
        table["tau"] = 0.4 + draw.uniform(-0.5, 0.5, 80)
        summary = summarised("agreement", table, texts, n_resamples=199).set_index("figure")
        for name, truth in (("tau", 0.4), ("tau_sd", math.sqrt(1 / 12))):
            held[name] += summary.low[name] <= truth <= summary.high[name]
    assert min(held.values()) > 0.85 * runs


def test_the_interval_of_the_spread_is_that_of_resamples_made_one_by_one():
    table, texts = tables(12)
    summary = summarised("agreement", table, texts, n_resamples=40, seed=3)
    rows = table[(table[PAIR] == list(KEYS[1])).all(axis=1)].sort_values("text_id")
    spreads = []
    for _, counts in Resamples(12, resamples=40, seed=3).counts():
        for times in counts.astype(int):
            spreads.append(np.nanstd(np.repeat(rows.tau.to_numpy(), times)))
    assert len(spreads) == 40
    result = figure(summary, KEYS[1], "tau_sd")
    np.testing.assert_allclose([result.low, result.high], np.quantile(spreads, [0.025, 0.975]), rtol=1e-12)


def test_alpha_itself_is_significant_and_so_is_the_opposite_order():
    table, texts = tables(undefined=0)
    summary = summarised("agreement", table.assign(p=0.05, tau=-0.9), texts, n_resamples=9)
    assert all(figure(summary, key, "significant").value == 1 for key in KEYS)


def test_order_of_rows_and_the_seed():
    table, texts = tables()
    whole = summarised("agreement", table, texts, n_resamples=99)
    shuffled = summarised("agreement", table.sample(frac=1, random_state=1), texts, n_resamples=99)
    pd.testing.assert_frame_equal(whole, shuffled)
    assert not whole.equals(summarised("agreement", table, texts, n_resamples=99, seed=1))


def test_what_never_has_a_value_is_counted_and_nan():
    table, texts = tables(undefined=1.1)
    summary = summarised("agreement", table, texts, n_resamples=99)
    for key in KEYS:
        assert figure(summary, key, "undefined").value == 1
        assert "constant" in figure(summary, key, "undefined").note
        for name in ("tau", "tau_sd", "significant", "spearman"):
            result = figure(summary, key, name)
            assert math.isnan(result.value)
            assert result.texts == 0
    assert not list(sentences(SummaryLookup(summary, "agreement")))


def test_one_text_has_no_spread_and_no_interval():
    table, texts = tables(1, undefined=0)
    summary = summarised("agreement", table, texts, n_resamples=99)
    assert math.isnan(figure(summary, KEYS[1], "tau_sd").value)
    assert math.isnan(figure(summary, KEYS[1], "tau").low)


def test_an_empty_table_has_counts_only():
    table, texts = tables()
    assert set(summarised("agreement", table.iloc[:0], texts).figure) == {"texts", "set_aside"}


def test_a_pair_that_is_there_twice_is_refused():
    table, texts = tables()
    with pytest.raises(InputError, match="one row for each text and ranking"):
        summarised("agreement", pd.concat((table, table.head(1))), texts)


def test_levels_are_distinguished():
    (first, texts), (second, _) = tables(level="attention"), tables(level="input", seed=1)
    summary = summarised("agreement", pd.concat((first, second)), texts, n_resamples=99)
    alone = summarised("agreement", second, texts, n_resamples=99)
    pd.testing.assert_frame_equal(
        summary[summary.erase_level == "input"].reset_index(drop=True),
        alone[alone.erase_level == "input"].reset_index(drop=True),
    )
    assert set(compared("agreement", pd.concat((first, second)))) == {"attention", "input"}


def test_two_runs_are_compared_by_the_tau_of_attention():
    table, _ = tables()
    side = compared("agreement", table)["attention"]
    key = ("attention", "attention")
    assert set(side["columns"]) == {("tau:input/gradient_attention_fixed", key), ("tau:input/leave_one_out", key)}
    rows = table[table.other == "leave_one_out"].sort_values("text_id")
    np.testing.assert_array_equal(side["columns"]["tau:input/leave_one_out", key], rows.tau)
    np.testing.assert_array_equal(side["text_ids"], rows.text_id)


def summary_with(taus, *, texts=100, level="attention", lost=0.0, others=None):
    """Sentences of attention's pairs whose mean tau, with its interval, is given."""
    rows, same = [], {"test": "agreement", "slice": "all", "erase_level": level, "note": "", "texts": texts}
    same |= {"ranking": "attention", "ranking_level": level}
    for other, (tau, low, high) in zip(others or ["/".join(key[2:]) for key in KEYS[:2]], taus, strict=True):
        for name, value in (("tau", (tau, low, high)), ("significant", (0.5, 0.4, 0.6)), ("undefined", (lost, 0, 0.2))):
            numbers = dict(zip(("value", "low", "high"), value, strict=True))
            rows.append(same | numbers | {"figure": name, "other": other})
    return pd.DataFrame(rows)


def test_sentences():
    summary = summary_with([(0.34, 0.33, 0.35), (0.8, CLOSE + 0.01, 0.9)])
    assert list(sentences(SummaryLookup(summary, "agreement"))) == [
        "Attention has a mean Kendall's tau of 0.34 [0.33, 0.35] with gradient (attention held constant), "
        "significant on 50 % [40, 60] of the texts: little agreement.",
        "Attention has a mean Kendall's tau of 0.80 [0.71, 0.90] with leave-one-out, significant on 50 % [40, 60] of "
        "the texts: close agreement.",
        "Tau compares two orders (1: the same, -1: reversed) and does not say which of them is right.",
    ]


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (-0.2, LITTLE - 0.01, ": little agreement."),
        (0.1, LITTLE + 0.01, ": some agreement."),
        (0.5, CLOSE + 0.1, ": some agreement."),
        (CLOSE + 0.01, 0.9, ": close agreement."),
    ],
)
def test_how_much_agreement_it_is_called(low, high, words):
    result = " ".join(sentences(SummaryLookup(summary_with([((low + high) / 2, low, high)] * 2), "agreement")))
    assert result.count(words) == 2
    few = " ".join(sentences(SummaryLookup(summary_with([((low + high) / 2, low, high)] * 2, texts=19), "agreement")))
    assert "agreement." not in few


def test_undefined_texts_are_mentioned_where_they_are_many():
    many, few = (summary_with([(0.3, 0.2, 0.35)] * 2, lost=lost) for lost in (0.12, 0.01))
    assert sum("undefined" in sentence for sentence in sentences(SummaryLookup(many, "agreement"))) == 2
    assert not any("undefined" in sentence for sentence in sentences(SummaryLookup(few, "agreement")))


def test_sentences_name_levels_where_there_are_two():
    alone = summary_with([(0.3, 0.2, 0.35)] * 2, others=["attention/gradient", "attention/gradient_x_attention"])
    first, second, _ = sentences(SummaryLookup(alone, "agreement"))
    assert "with gradient," in first
    assert "with gradient x attention," in second
    both = pd.concat((alone, summary_with([(0.3, 0.2, 0.35)] * 2, level="input")))
    levels = [sentence.split(" has ")[0] for sentence in sentences(SummaryLookup(both, "agreement"))][:-1]
    assert levels == ["Attention at the final attention"] * 2 + ["Attention at the input level"] * 2
    assert not list(sentences(SummaryLookup(alone.iloc[:0], "agreement")))
