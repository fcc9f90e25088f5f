"""Figures of the sanity test against loops over its rows; what is said of them; two runs beside each other."""

import math
from statistics import mean

import numpy as np
import pandas as pd
import pytest

from attnfaith.estimates.lookup import SummaryLookup, SummaryValue
from attnfaith.evaluation.comparison import compare
from attnfaith.evaluation.tests.sanity.summary import HALF, MEASURES, RANDOM_LABELS, notices, rho_text
from attnfaith.evaluation.tests.sanity.test import Sanity
from attnfaith.evaluation.verdict_rule import FEW
from tests.helpers.seeded_tables import NAN
from tests.helpers.summaries import summarised

KEYS = [("attention", "attention"), ("attention", "gradient"), ("attention", "random"), ("input", "gradient")]
LAYERS = ["classifier", *(f"encoder.layer.{number}" for number in reversed(range(10))), "embeddings"]
QUICK = {"n_resamples": 99}
CONSTANT, BROKEN = "all items have the same score", "its tail is off"


def made(texts=40, seed=0, *, short=3, aside=2, labels=True, draws=3):
    """Rows as a run writes them; the last texts are too short, or set aside."""
    draw, rows = np.random.default_rng(seed), []
    about = {"text_id": range(texts), "prediction": draw.integers(2, size=texts), "correct": True, "confidence": 0.9}
    table = pd.DataFrame(about).assign(items=5, aside=None)
    table.loc[texts - aside :, "aside"] = "empty"
    steps = [*enumerate(LAYERS, start=1), *([(0, RANDOM_LABELS)] if labels else [])]
    for text in range(texts - short - aside):
        for depth, layer in steps:
            for level, ranking in KEYS:
                reason = None
                if (level, ranking) == ("attention", "gradient") and draw.random() < 0.3:
                    reason = CONSTANT if draw.random() < 0.5 else BROKEN
                measures = {name: NAN if reason else float(draw.uniform(-1, 1)) for name in MEASURES}
                key = {"text_id": text, "ranking_level": level, "ranking": ranking, "layer": layer, "depth": depth}
                key |= {"draw": int(draw.integers(draws)) if depth == 0 else text % draws, "items": 5}
                rows.append(key | measures | {"reason": reason, "prediction": int(table.prediction[text])})
    return rows, table


def look(summary, figure, key, other="", part="all"):
    rows = summary[(summary.figure == figure) & (summary.other == other) & (summary.slice == part)]
    rows = rows[(rows.ranking_level == key[0]) & (rows.ranking == key[1])]
    assert len(rows) == 1, (figure, key, other, len(rows))
    return rows.iloc[0]


def check(summary, rows, part):
    for key in KEYS:
        mine = [row for row in rows if (row["ranking_level"], row["ranking"]) == key]
        for depth, layer in [*enumerate(LAYERS, start=1), (0, RANDOM_LABELS)]:
            other = f"{depth}/{layer}" if depth else RANDOM_LABELS
            here = [row for row in mine if row["depth"] == depth]
            for name in MEASURES:
                known = [row[name] for row in here if not math.isnan(row[name])]
                result = look(summary, name, key, other, part)
                assert result.value == pytest.approx(mean(known))
                assert result.texts == len(known)
                assert result.low < result.value < result.high
            undefined = [row["reason"] is not None for row in here]
            result = look(summary, "undefined", key, other, part)
            assert (result.value, result.texts) == (pytest.approx(mean(map(float, undefined))), len(here))
            for reason in (CONSTANT, BROKEN):
                count = sum(row["reason"] == reason for row in here)
                assert (f"{reason}: {count}" in result.note) == (count > 0)
        last = [row for row in mine if row["depth"] == len(LAYERS)]
        for suffix in ("", "_absolute"):
            known = [(row["draw"], row[f"spearman{suffix}"]) for row in last if not math.isnan(row["spearman"])]
            values = [value for _, value in known]
            assert look(summary, f"kept{suffix}", key, part=part).value == pytest.approx(mean(values))
            result = look(summary, f"notices{suffix}", key, part=part)
            assert (result.value, result.texts) == (
                pytest.approx(mean(float(item < HALF) for item in values)),
                len(values),
            )
            ends = sorted(mean(value for draw, value in known if draw == item) for item in {draw for draw, _ in known})
            for end, value in (("lowest", ends[0]), ("highest", ends[-1])):
                assert look(summary, f"kept{suffix}_{end}", key, part=part).value == pytest.approx(value)


def test_every_figure_equals_a_loop_also_by_class():
    rows, texts = made()
    shuffled = pd.DataFrame(rows).sample(frac=1, random_state=1)
    summary = summarised("sanity", shuffled, texts, **QUICK)
    check(summary, rows, "all")
    counts = summary[summary.ranking == ""].set_index("figure")
    assert counts.value.to_dict() == {"texts": 40, "set_aside": 2, "too_short": 3}
    assert counts.note["too_short"] == "fewer than two items to rank"
    classes = summarised("sanity", shuffled, texts, by="class", **QUICK)
    for number in range(2):
        check(classes, [row for row in rows if row["prediction"] == number], f"class={number}")
    pd.testing.assert_frame_equal(summary, summarised("sanity", pd.DataFrame(rows), texts, **QUICK))


def test_depths_are_in_the_order_of_the_layers():
    summary = summarised("sanity", *(pd.DataFrame(item) for item in made()), **QUICK)
    others = summary[(summary.figure == "tau") & (summary.ranking == "random")].other.tolist()
    assert others == [RANDOM_LABELS, *(f"{depth}/{layer}" for depth, layer in enumerate(LAYERS, start=1))]


def test_a_draw_without_a_value_is_neither_the_lowest_nor_the_highest():
    rows, texts = made(labels=False)
    table = pd.DataFrame(rows)
    table.loc[(table.draw == 1) & (table.ranking == "attention"), list(MEASURES)] = NAN
    table.loc[table.ranking == "random", list(MEASURES)] = NAN
    summary = summarised("sanity", table, texts, **QUICK)
    means = table[(table.depth == len(LAYERS)) & (table.ranking == "attention")].groupby("draw").spearman.mean()
    for end, value in (("lowest", means.min()), ("highest", means.max())):
        assert look(summary, f"kept_{end}", KEYS[0]).value == pytest.approx(value)
        assert math.isnan(look(summary, f"kept_{end}", KEYS[2]).value)
    assert look(summary, "undefined", KEYS[2], f"{len(LAYERS)}/embeddings").value == 1


def test_without_rows_there_is_only_what_was_left_out():
    rows, texts = made(10, short=8)
    summary = summarised("sanity", pd.DataFrame(rows, columns=list(made()[0][0])), texts, **QUICK)
    assert list(summary.figure) == ["texts", "set_aside", "too_short"]
    assert not list(Sanity.sentences(SummaryLookup(summary, "sanity"), {}))


KEPT = (0.62, 0.58, 0.66)
GONE, CHANCE = (0.05, -0.02, 0.11), (0.0, -0.03, 0.03)


def spoken(texts=500, labels=None, note="", **kept):
    """What is said of what rankings keep: a value with its interval, or that with the ends over draws."""
    rows = []
    for ranking, (value, low, high, *ends) in kept.items():
        about = {"ranking_level": "attention", "ranking": ranking, "other": "", "texts": texts}
        lowest, highest = ends or (low, high)
        for figure, (item, bottom, top) in {
            "kept": (value, low, high),
            "kept_lowest": (lowest, lowest, lowest),
            "kept_highest": (highest, highest, highest),
        }.items():
            rows.append(about | {"figure": figure, "value": item, "low": bottom, "high": top})
    if labels:
        about = {"ranking_level": "attention", "ranking": "attention", "other": RANDOM_LABELS, "texts": texts}
        rows.append(about | dict(zip(("figure", "value", "low", "high"), ("spearman", *labels), strict=True)))
    columns = ["ranking_level", "ranking", "other", "texts", "figure", "value", "low", "high"]
    table = pd.DataFrame(rows, columns=columns).assign(test="sanity", erase_level="", slice="all", note=note)
    return list(Sanity.sentences(SummaryLookup(table, "sanity"), {}))


def test_attention_that_keeps_itself():
    assert spoken(attention=KEPT, random=CHANCE) == [
        "With all layers re-initialised, attention still has a rank correlation of 0.62 [0.58, 0.66] with the original "
        "(a random order: 0.00 [-0.03, 0.03]): it shows the input more than what the model has learned."
    ]
    assert spoken(attention=KEPT, gradient=KEPT, lrp=GONE)[1:] == ["The same holds for gradient (0.62 [0.58, 0.66])."]


def test_attention_that_notices():
    assert spoken(attention=GONE, labels=KEPT) == [
        "With all layers re-initialised, attention has a rank correlation of 0.05 [-0.02, 0.11] with the original: it "
        "depends on what the model has learned.",
        "In a model that was trained on random labels, attention has a rank correlation of 0.62 [0.58, 0.66] with the "
        "original.",
    ]
    others = "These rankings hardly change when the model's weights are random: "
    assert spoken(attention=GONE, gradient=KEPT, lrp=KEPT)[1] == (
        f"{others}gradient (0.62 [0.58, 0.66]) and LRP (0.62 [0.58, 0.66])."
    )
    assert len(spoken(attention=GONE, optimal=KEPT, greedy=KEPT)) == 1  # nobody reads them as explanations
    assert spoken(gradient=KEPT, random=CHANCE) == [f"{others}gradient (0.62 [0.58, 0.66])."]


@pytest.mark.parametrize(
    ("texts", "kept"),
    [(500, (0.5, 0.45, 0.55)), (FEW - 1, KEPT), (FEW - 1, GONE), (500, (*KEPT, 0.4, 0.8)), (500, (*GONE, -0.3, 0.55))],
)
def test_where_texts_are_few_or_draws_or_resamples_differ_nothing_is_concluded(texts, kept):
    (sentence,) = spoken(texts, attention=kept)
    assert sentence == (
        f"With all layers re-initialised, attention has a rank correlation of {rho_text(SummaryValue(*kept[:3]))} with "
        "the original."
    )


def test_attention_that_is_the_same_everywhere():
    (sentence,) = spoken(attention=(NAN, NAN, NAN))
    assert sentence.endswith("on no text (the table has the reasons).")
    (sentence,) = spoken(attention=(NAN, NAN, NAN), note="all items have the same score: 20")
    assert sentence.endswith("on no text (all items have the same score: 20).")
    assert spoken() == []
    assert spoken(random=CHANCE) == []


def test_two_runs_are_compared_by_what_is_kept():
    tables = [{"texts": made(seed=seed)[1], "sanity": pd.DataFrame(made(seed=seed)[0])} for seed in (0, 1)]
    result = compare(*tables, paired=True, n_resamples=99)
    result = result[result.test == "sanity"]
    assert set(result.figure) == {"kept", "kept_absolute", "notices", "notices_absolute"}
    for side, table in zip("ab", tables, strict=True):
        summary = summarised("sanity", table["sanity"], table["texts"], **QUICK)
        for row in result.itertuples():
            key = (row.ranking_level, row.ranking)
            assert getattr(row, side) == pytest.approx(look(summary, row.figure, key).value)


def test_half_is_not_below_half():
    assert notices(np.array([0.5, 0.49, np.nan])).values.ravel().tolist() == pytest.approx([0, 1, np.nan], nan_ok=True)
