"""Figures of the permutation test against loops over its rows; what is said of them; two runs beside each other."""

import math
from statistics import mean, median

import numpy as np
import pandas as pd
import pytest

from attnfaith.errors import InputError
from attnfaith.estimates.lookup import SummaryLookup, SummaryValue
from attnfaith.estimates.weight_bins import BINS, bins_of
from attnfaith.evaluation.comparison import compare
from attnfaith.evaluation.tests.permutation.summary import distance_text, sentences
from attnfaith.evaluation.tests.permutation.test import Permutation
from tests.helpers.seeded_tables import NAN, look
from tests.helpers.summaries import summarised

ENDS = ((0, 0.25), (0.25, 0.5), (0.5, 0.75), (0.75, math.inf))
QUICK = {"n_resamples": 99}


def made(texts=60, seed=0, short=3, aside=2):
    """Rows as a run writes them; the last texts are too short, or set aside."""
    draw, rows = np.random.default_rng(seed), []
    about = {"text_id": range(texts), "prediction": draw.integers(3, size=texts), "correct": True, "confidence": 0.9}
    table = pd.DataFrame(about).assign(items=5, aside=None)
    table.loc[texts - aside :, "aside"] = "empty"
    for text in range(texts - short - aside):
        far = np.sort(draw.random(3))
        flips = float(draw.integers(0, 3)) / 4
        rows.append(
            {
                "text_id": text,
                "items": 5,
                "max_weight": float(draw.random()),
                "median_tvd": far[1],
                "mean_tvd": far[0],
                "max_tvd": far[2],
                "flips": flips,
                "never_changes": flips == 0,
                "prediction": int(table.prediction[text]),
                "gold": None,
                "marginal": bool(draw.random() < 0.2),
            }
        )
    return rows, table


FIGURES = {
    "median_tvd": lambda rows: median([row["median_tvd"] for row in rows]),
    "median_tvd_mean": lambda rows: mean([row["median_tvd"] for row in rows]),
    "max_tvd": lambda rows: median([row["max_tvd"] for row in rows]),
    "flips": lambda rows: mean([row["flips"] for row in rows]),
    "never_changes": lambda rows: mean([float(row["never_changes"]) for row in rows]),
    "marginal": lambda rows: mean([float(row["marginal"]) for row in rows]),
}


def check(summary, rows, part):
    where = {"level": "", "test": "permutation", "part": part}
    for figure, of in FIGURES.items():
        result = look(summary, figure, **where)
        assert result.value == pytest.approx(of(rows)), figure
        assert result.texts == len(rows)
        assert result.low <= result.value <= result.high
        for name, (low, high) in zip(BINS, ENDS, strict=True):
            chosen = [row for row in rows if low <= row["max_weight"] < high]
            result = look(summary, figure, other=f"max_weight={name}", **where)
            assert result.texts == len(chosen)
            assert result.value == (pytest.approx(of(chosen)) if chosen else pytest.approx(NAN, nan_ok=True))


def test_every_figure_equals_a_loop_also_by_weight_and_class():
    rows, texts = made(200)
    shuffled = pd.DataFrame(rows).sample(frac=1, random_state=1)
    summary = summarised("permutation", shuffled, texts, **QUICK)
    check(summary, rows, "all")
    assert look(summary, "texts", "", test="permutation").value == 200
    assert look(summary, "set_aside", "", test="permutation").value == 2
    short = look(summary, "too_short", "", test="permutation")
    assert (short.value, short.texts, short.note) == (3, 198, "fewer than two items to shuffle")
    classes = summarised("permutation", shuffled, texts, by="class", **QUICK)
    for number in range(3):
        check(classes, [row for row in rows if row["prediction"] == number], f"class={number}")
    pd.testing.assert_frame_equal(summary, summarised("permutation", pd.DataFrame(rows), texts, **QUICK))


def test_a_share_of_all_or_none_has_an_interval():
    rows, texts = made(40)
    table = pd.DataFrame(rows).assign(never_changes=True, median_tvd=0.0, max_tvd=0.0)
    summary = summarised("permutation", table, texts, **QUICK)
    result = look(summary, "never_changes", "", test="permutation")
    assert 0.85 < result.low < result.value == result.high == 1
    assert look(summary, "median_tvd", "", test="permutation")[["value", "low", "high"]].tolist() == [0, 0, 0]


def test_without_rows_there_is_only_what_was_left_out():
    rows, texts = made(10, short=8)
    summary = summarised("permutation", pd.DataFrame(rows, columns=list(made()[0][0])), texts, **QUICK)
    assert list(summary.figure) == ["texts", "set_aside", "too_short"]
    assert look(summary, "too_short", "", test="permutation").value == 8
    assert not list(sentences(SummaryLookup(summary, "permutation"), {}))


def test_bins_begin_at_their_lower_ends():
    weights = np.array([0, 0.2499, 0.25, np.float32(0.25) - 1e-8, 0.4999, 0.5, 0.7499, 0.75, 1, 1.0000001, 1.3])
    assert bins_of(weights).tolist() == [0, 0, 1, 1, 1, 2, 2, 3, 3, 3, 3]


def test_wrong_arguments_are_refused():
    rows, texts = made(10)
    with pytest.raises(InputError, match="by to be one of"):
        summarised("permutation", pd.DataFrame(rows), texts, by="weight")
    with pytest.raises(InputError, match="confidence_level"):
        summarised("permutation", pd.DataFrame(rows), texts, confidence_level=95)


def spoken(moved, never, texts=500, decision="multiclass"):
    """What is said of a median distance and a share of texts, each with its interval."""
    table = [
        {"figure": figure, "value": value, "low": low, "high": high, "texts": texts}
        for figure, (value, low, high) in {"median_tvd": moved, "never_changes": never}.items()
    ]
    same = {"test": "permutation", "erase_level": "", "ranking": "", "ranking_level": "", "other": "", "slice": "all"}
    return list(
        Permutation.sentences(SummaryLookup(pd.DataFrame(table).assign(**same), "permutation"), {"decision": decision})
    )


LITTLE, FAR = (0.01, 0.008, 0.012), (0.31, 0.28, 0.33)
OFTEN, SELDOM, HALF = (0.9, 0.88, 0.92), (0.1, 0.08, 0.12), (0.5, 0.46, 0.54)


@pytest.mark.parametrize(
    ("moved", "never", "words"),
    [
        (LITTLE, OFTEN, "Which item gets which weight hardly matters."),
        (FAR, SELDOM, "Which item gets which weight matters."),
        (FAR, OFTEN, "Which item gets which weight matters on some of the texts only."),
        (LITTLE, SELDOM, "Which item gets which weight matters on some of the texts only."),
        (FAR, HALF, "Which item gets which weight matters on some of the texts only."),
        ((0.04, 0.03, 0.06), OFTEN, "Which item gets which weight matters on some of the texts only."),
    ],
)
def test_sentences(moved, never, words):
    value, low, high = moved
    share, least, most = (f"{100 * end:.0f}" for end in never)
    assert spoken(moved, never) == [
        "Shuffling the weights of the final attention moves the output by a median total variation distance of "
        f"{value:.3f} [{low:.3f}, {high:.3f}], on a scale from 0 to 1.",
        f"On {share} % [{least}, {most}] of the texts no shuffle that was tried changes the decision.",
        words,
    ]


def test_few_texts_are_not_judged_and_a_regression_has_a_unit_of_its_own():
    assert len(spoken(FAR, SELDOM, texts=19)) == 2
    assert spoken(FAR, SELDOM, texts=20)[2] == "Which item gets which weight matters."
    first, _, third = spoken((70.0, 60.0, 80.0), OFTEN, decision="regression")
    assert first.endswith("changes the value by a median of 70.000 [60.000, 80.000].")
    assert third == "Which item gets which weight hardly matters."


def test_a_number_above_0_is_never_shown_as_0():
    assert distance_text(SummaryValue(0.0, 0.0, 0.0)) == "0.000 [0.000, 0.000]"
    assert distance_text(SummaryValue(1e-4)) == "less than 0.001"


def test_two_runs_are_compared_by_the_same_figures():
    tables = []
    for seed in (0, 1):
        rows, texts = made(80, seed)
        tables.append({"texts": texts, "permutation": pd.DataFrame(rows).sample(frac=1, random_state=seed)})
    result = compare(*tables, paired=True, n_resamples=99)
    result = result[result.test == "permutation"].set_index("figure")
    assert set(result.index) == set(FIGURES)
    for figure, of in FIGURES.items():
        for side, seed in (("a", 0), ("b", 1)):
            assert result[side][figure] == pytest.approx(of(made(80, seed)[0])), figure
