"""Figures of the rationales test, against loops over rows; what is undefined; and what is said of them."""

import math

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import f1_score

from attnfaith.estimates.lookup import SummaryLookup
from attnfaith.evaluation.tests.rationales.summary import sentences
from attnfaith.functional.statistics import Resamples
from tests.helpers.summaries import compared, summarised

NAN = math.nan
SHARES = (0.1, 0.5)
KEYS = [("attention", "attention"), ("attention", "random"), ("input", "random"), ("input", "lrp"), ("yours", "shap")]
CONTROLS = {"attention": ("attention", "random"), "input": ("input", "random")}
RESAMPLES = 40


def made(seed=0, texts=24, levels=("attention", "input")):
    """A run's tables; some texts are not marked, some not at all, some everywhere; some are set aside or too short."""
    draw = np.random.default_rng(seed)
    rows, about = [], []
    for text in range(texts):
        aside = "empty" if text % 11 == 4 else None
        about.append({"text_id": text, "aside": aside, "prediction": None if aside else text % 2})
        about[-1] |= {"confidence": 0.5, "correct": True, "items": 5}
        if aside or text % 10 == 7:
            continue
        size = int(draw.integers(3, 12))
        marked = np.flatnonzero(draw.random(size) < 0.4)
        marked = {1: np.arange(0), 2: np.arange(size)}.get(text % 8, marked)
        spans = [[int(index), int(index) + 1] for index in marked]
        for position in range(len(spans) - 2, -1, -1):
            if spans[position][1] == spans[position + 1][0]:
                spans[position][1] = spans.pop(position + 1)[1]
        known = text % 6 != 3
        for level in levels:
            emptied = float(draw.random())
            for ranking_level, ranking in KEYS:
                without, alone = draw.random((2, len(SHARES)))
                scores = draw.random(size)
                precision = NAN if len(marked) in (0, size) else float(draw.random())
                row = {"text_id": text, "erase_level": level, "ranking_level": ranking_level, "ranking": ranking}
                row |= {"items": size, "all_erased": emptied, "undefined": int(draw.integers(2))}
                row |= {"comprehensiveness": without.mean(), "comprehensiveness_at": without}
                row |= {"sufficiency": alone.mean(), "sufficiency_at": alone}
                row |= {
                    "auprc": precision if known else None,
                    "order": np.argsort(-scores).astype(np.int32) if known else None,
                    "rationale": np.array([np.array(span) for span in spans] or [], dtype=object) if known else None,
                    "unread": (text % 3) if known else None,
                }
                rows.append(row)
    return pd.DataFrame(rows), pd.DataFrame(about)


def summary_of(tables, **more):
    settings = {"shares": SHARES, "n_resamples": RESAMPLES, "confidence_level": 0.9, "seed": 3}
    return summarised("rationales", *tables, **(settings | more))


def look(summary, level, figure, key=("", ""), other="", part="all"):
    rows = summary[
        (summary.erase_level == level)
        & (summary.figure == figure)
        & (summary.ranking_level == key[0])
        & (summary.ranking == key[1])
        & (summary.other == other)
        & (summary.slice == part)
    ]
    assert len(rows) == 1, (level, figure, key, len(rows))
    return rows.iloc[0]


def slow_row(row, share):
    """Token F1 by scikit-learn, and the precision and recall of spans by sets of places."""
    size = len(row.order)
    truth = [any(start <= index < stop for start, stop in row.rationale) for index in range(size)]
    if not any(truth):
        return NAN, NAN, NAN
    count = max(1, math.ceil(share * size - 1e-9))
    chosen = [index in row.order[:count].tolist() for index in range(size)]
    groups, gold = [[]], [set(range(*span)) for span in row.rationale]
    for position, item in enumerate(chosen):
        if item:
            groups[-1].append(position)
        elif groups[-1]:
            groups.append([])
    spans = [set(group) for group in groups if group]
    hits = sum(any(len(span & entry) / len(span | entry) >= 0.5 for entry in gold) for span in spans)
    return f1_score(truth, chosen), hits / len(spans), hits / len(gold)


def slow_share(rows):
    first = rows[rows.order.notna()].drop_duplicates("text_id")
    marked = sum(sum(stop - start for start, stop in spans) for spans in first.rationale)
    return marked / sum(map(len, first.order))


def mean(values):
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else NAN


def ends(draws):
    return np.quantile(draws[~np.isnan(draws)], [0.05, 0.95])


@pytest.mark.parametrize("top", [None, 0.3])
def test_every_figure_is_that_of_loops(top):
    tables = made()
    rows, summary = tables[0], summary_of(tables, top=top)
    for level in ("attention", "input"):
        here = rows[rows.erase_level == level]
        share = slow_share(here) if top is None else top
        ids = sorted(set(here.text_id))
        counts = np.concatenate([item for _, item in Resamples(len(ids), resamples=RESAMPLES, seed=3).counts()])
        values = {}
        for key in KEYS:
            selected = here[(here.ranking_level == key[0]) & (here.ranking == key[1])].sort_values("text_id")
            assert selected.text_id.tolist() == ids
            result = {name: selected[name].tolist() for name in ("comprehensiveness", "sufficiency")}
            for measure in ("comprehensiveness", "sufficiency"):
                lists = selected[f"{measure}_at"].tolist()
                result |= {
                    f"{measure}_at_10%": [item[0] for item in lists],
                    f"{measure}_at_50%": [item[1] for item in lists],
                }
            pairs = zip(selected.sufficiency_at, selected.all_erased, strict=True)
            result["aopc_sufficiency"] = [(sum(item) + last) / 3 for item, last in pairs]
            result["aopc_comprehensiveness"] = [sum(item) / 3 for item in selected.comprehensiveness_at]
            result["auprc"] = [NAN if item is None else item for item in selected.auprc]
            slow = [(NAN,) * 3 if row.order is None else slow_row(row, share) for row in selected.itertuples()]
            result["token_f1"] = [item[0] for item in slow]
            values[key] = result
            for figure, each in result.items():
                row = look(summary, level, figure, key)
                assert row.value == pytest.approx(mean(each)), figure
                assert row.texts == sum(not math.isnan(item) for item in each)
                known = ~np.isnan(each)
                drawn = (counts[:, known] @ np.array(each)[known]) / counts[:, known].sum(1)
                assert [row.low, row.high] == pytest.approx(ends(drawn))
            precision, recall = (np.array([item[index] for item in slow]) for index in (1, 2))
            known = ~np.isnan(precision)

            def both(weights, known=known, precision=precision, recall=recall):
                p, r = (weights[known] @ side[known] / weights[known].sum() for side in (precision, recall))
                return 2 * p * r / (p + r) if p + r else 0.0

            result["iou_f1"] = [both(weights) for weights in counts]
            row = look(summary, level, "iou_f1", key)
            assert row.value == pytest.approx(both(np.ones(len(ids))))
            assert [row.low, row.high] == pytest.approx(ends(np.array(result["iou_f1"])))
            assert row.texts == known.sum()
            assert look(summary, level, "undefined_scores", key).value == pytest.approx(selected.undefined.mean())
        control = CONTROLS[level]
        for key in KEYS:
            if key == control:
                assert not len(
                    summary[
                        (summary.ranking == key[1])
                        & (summary.other == "/".join(control))
                        & (summary.ranking_level == key[0])
                    ]
                )
                continue
            for figure in ("comprehensiveness", "sufficiency", "auprc", "token_f1"):
                gap = np.array(values[key][figure]) - np.array(values[control][figure])
                row = look(summary, level, f"{figure}_difference", key, "/".join(control))
                assert row.value == pytest.approx(mean(gap))
                known = ~np.isnan(gap)
                drawn = (counts[:, known] @ gap[known]) / counts[:, known].sum(1)
                assert [row.low, row.high] == pytest.approx(ends(drawn))
            row = look(summary, level, "iou_f1_difference", key, "/".join(control))
            drawn = np.array(values[key]["iou_f1"]) - np.array(values[control]["iou_f1"])
            assert [row.low, row.high] == pytest.approx(ends(drawn))
        row = look(summary, level, "top_share")
        assert row.value == pytest.approx(share)
        assert row.note == ("of all texts, as people marked" if top is None else "as asked")
        assert look(summary, level, "rationale_share").value == pytest.approx(slow_share(here))


def test_what_is_not_marked_is_counted():
    tables = made()
    rows, texts = tables
    summary, here = summary_of(tables), rows[rows.erase_level == "input"].drop_duplicates("text_id")
    marked = [0 if spans is None else sum(b - a for a, b in spans) for spans in here.rationale]
    without = sum(count == 0 for count in marked)
    whole = sum(
        count == len(order) for count, order in zip(marked, here.order, strict=True) if order is not None and count
    )
    assert without > 2
    assert whole > 0
    assert look(summary, "input", "without_rationale").value == without
    assert look(summary, "input", "whole_rationale").value == whole
    assert look(summary, "input", "cut_off").value == sum((here.unread > 0) & here.order.notna())
    note = look(summary, "input", "token_f1", KEYS[0]).note
    assert note == f"without {without} texts in which nothing is marked"
    short = sum(texts.aside.isna()) - len(here)
    assert look(summary, "input", "too_short").value == short > 0


def test_rows_in_any_order_and_parts_of_the_texts():
    tables = made()
    whole = summary_of(tables)
    shuffled = (tables[0].sample(frac=1, random_state=0), tables[1])
    assert whole.equals(summary_of(shuffled))
    parts = summary_of(tables, by="class")
    halves = [tables[1][tables[1].prediction == number] for number in (0, 1)]
    names = sorted(set(parts["slice"]))
    for name, half in zip(names, halves, strict=True):
        rows = tables[0][tables[0].text_id.isin(half.text_id)]
        top = look(whole, "input", "top_share").value  # of all texts
        alone = summary_of((rows, half), top=top)
        for figure in ("comprehensiveness", "auprc", "token_f1", "iou_f1"):
            row, other = look(parts, "input", figure, KEYS[3], part=name), look(alone, "input", figure, KEYS[3])
            assert (row.value, row.low, row.texts) == pytest.approx((other.value, other.low, other.texts))
        assert look(parts, "input", "top_share", part=name).value == top


def test_states_that_no_model_was_given_are_undefined_and_not_0():
    """Where nothing can be left of a text, there is no last step."""
    tables = made(levels=("input",))
    tables[0]["all_erased"] = NAN
    summary = summary_of(tables)
    for figure, key in (("all_erased", ("", "")), ("aopc_sufficiency", KEYS[3])):
        row = look(summary, "input", figure, key)
        assert math.isnan(row.value)
        assert row.texts == 0
    assert look(summary, "input", "aopc_comprehensiveness", KEYS[3]).value > 0


def test_without_a_random_order_there_are_no_differences():
    rows, texts = made()
    summary = summary_of((rows[rows.ranking != "random"], texts))
    assert not summary.figure.str.endswith("_difference").any()
    assert list(sentences(SummaryLookup(summary, "rationales"), FACTS)) == []


def test_two_runs_are_compared_by_the_columns_of_the_rows():
    rows, _ = made()
    result = compared("rationales", rows, shares=SHARES)
    assert list(result) == ["attention", "input"]
    selected = rows[(rows.erase_level == "input") & (rows.ranking == "lrp")].sort_values("text_id")
    side = result["input"]
    assert side["text_ids"].tolist() == selected.text_id.tolist()
    for figure in ("comprehensiveness", "sufficiency", "auprc"):
        values = selected[figure].astype(float).to_numpy()
        assert np.array_equal(side["columns"][figure, ("input", "lrp")], values, equal_nan=True)
    bare = rows.assign(auprc=None, order=None)
    assert {figure for figure, _ in compared("rationales", bare, shares=SHARES)["input"]["columns"]} == {
        "comprehensiveness",
        "sufficiency",
        "undefined_scores",
    }


FACTS = {"tail_is_affine": False, "unit": {"attention": "tokens", "input": "tokens"}, "decision": "multiclass"}


def attention_sentences(*, sufficiency=0.05, gap=(0.2, 0.1, 0.3), without=(), **changed):
    """What is said of figures made by hand."""
    row = {"test": "rationales", "erase_level": "input", "slice": "all", "texts": 50, "note": ""}

    def line(figure, key, value, low, high, other=""):
        index = {"ranking_level": key[0], "ranking": key[1], "other": other}
        return row | index | {"figure": figure, "value": value, "low": low, "high": high}

    figures = {"comprehensiveness": (0.3, 0.1), "sufficiency": (sufficiency, 0.2), "token_f1": (0.4, 0.2)}
    rows = [
        line(figure, key, value, value - 0.02, value + 0.02)
        for figure, values in figures.items()
        for key, value in zip((KEYS[0], CONTROLS["input"]), values, strict=True)
        if figure not in without
    ]
    rows.append(line("comprehensiveness_difference", KEYS[0], *gap, other="input/random"))
    rows.append(line("rationale_share", ("", ""), 0.31, 0.3, 0.32))
    return list(sentences(SummaryLookup(pd.DataFrame(rows), "rationales"), FACTS | changed))


def test_sentences():
    first, second = attention_sentences()
    assert first == (
        "Removing attention's top tokens lowers the probability of the explained class by 0.30 [0.28, 0.32] "
        "(comprehensiveness), more than a random order's 0.10 [0.08, 0.12]; keeping only them lowers it by 0.05 "
        "[0.03, 0.07] (sufficiency), a random order's by 0.20 [0.18, 0.22]."
    )
    assert second == (
        "People marked 31 % [30, 32] of the tokens; attention's top agrees with them with a token F1 of 0.40 "
        "[0.38, 0.42], a random order's with 0.20 [0.18, 0.22]."
    )
    assert "not clearly different from a random order's" in attention_sentences(gap=(0.0, -0.1, 0.1))[0]
    assert "less than a random order's" in attention_sentences(gap=(-0.2, -0.3, -0.1))[0]
    assert attention_sentences(decision="regression")[0] == (
        "Removing attention's top tokens changes the value by 0.3 [0.28, 0.32] (comprehensiveness), more than a random "
        "order's 0.1 [0.08, 0.12]; keeping only them changes it by 0.05 [0.03, 0.07] (sufficiency), a random order's "
        "by 0.2 [0.18, 0.22]."
    )
    assert "top sentences" in attention_sentences(unit={"attention": "tokens", "input": "sentences"})[0]
    assert "0.00 [-0.02, 0.02] (sufficiency)" in attention_sentences(sufficiency=-0.001)[0]
    assert len(attention_sentences(sufficiency=-0.1)) == len(attention_sentences()) + 1  # what a negative number means
    assert len(attention_sentences(without=("token_f1",))) == 1
    assert attention_sentences(without=("comprehensiveness",)) == []
