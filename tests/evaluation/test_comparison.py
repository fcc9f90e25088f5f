"""Comparisons: loops over resampled texts as slow twins, laws, and two runs that have little in common."""

import math

import numpy as np
import pandas as pd
import pytest

from attnfaith.errors import InputError
from attnfaith.evaluation.comparison import (
    COLUMNS,
    FIRST_ONLY,
    NOT_REACHED,
    OTHER_SEARCH,
    SECOND_ONLY,
    compare,
    sentences,
)
from attnfaith.functional.statistics import Resamples
from tests.helpers.seeded_tables import ATTENTION, INF, KEYS, NAN, RANDOM, frames, made, single_weight
from tests.helpers.summaries import summarise_erasure, summarise_single_weight


def run(seed, *, single=False, **settings):
    tables = dict(zip(("erasure", "texts"), frames(*made(seed, **settings)), strict=True))
    if single:
        tables["single_weight"] = single_weight(len(tables["texts"]), seed)
    return tables


def look(table, figure, key=("", ""), level="attention", test="erasure"):
    result = table[
        (table.test == test)
        & (table.figure == figure)
        & (table.erase_level == level)
        & (table.ranking_level == key[0])
        & (table.ranking == key[1])
    ]
    assert len(result) == 1, (figure, key, len(result))
    return result.iloc[0]


def fractions(tables, key, level="attention"):
    """Per text, the fraction removed."""
    rows = tables["erasure"]
    rows = rows[(rows.erase_level == level) & (rows.ranking_level == key[0]) & (rows.ranking == key[1])]
    return {row.text_id: INF if row.censored else row.fraction for row in rows.itertuples()}


@pytest.mark.parametrize("bounds", ["exact", "some"])
def test_both_columns_are_the_runs_own_summaries(bounds):
    first, second = run(1, bounds=bounds, single=True), run(2, texts=60, bounds=bounds, single=True)
    table = compare(first, second, paired=False, n_resamples=50)
    assert table.columns.tolist() == list(COLUMNS)
    checked = 0
    for side, tables in (("a", first), ("b", second)):
        summary = pd.concat(
            [
                summarise_erasure(tables["erasure"], tables["texts"], n_resamples=20),
                summarise_single_weight(tables["single_weight"], tables["texts"].assign(aside=None), n_resamples=20),
            ]
        )
        for row in table.itertuples():
            same = summary[
                (summary.test == row.test)
                & (summary.erase_level == row.erase_level)
                & (summary.ranking == row.ranking)
                & (summary.ranking_level == row.ranking_level)
                & (summary.figure == row.figure)
                & (summary.other == "")
            ]
            for line in same.itertuples():
                checked += 1
                assert getattr(row, side) == pytest.approx(line.value, abs=1e-12, nan_ok=True), row.figure
                assert getattr(row, f"texts_{side}") == line.texts
    assert checked > 150


def test_figures_of_other_definitions_are_not_compared():
    first, second = run(1), run(2)
    alike, apart = (compare(first, second, paired=False, same_search=same, n_resamples=50) for same in (True, False))
    assert not (alike.note == OTHER_SEARCH).any()
    other = apart[apart.note == OTHER_SEARCH]
    assert {"skill", "efficiency", "flippable", "minimum_fraction_mean_high"} <= set(other.figure)
    assert other.difference.isna().all()
    assert other.a.notna().all()
    rest = apart.note != OTHER_SEARCH
    pd.testing.assert_frame_equal(apart[rest], alike[rest])
    assert f"Efficiency and skill are not compared: {OTHER_SEARCH}." in sentences(apart)


def test_paired_differences_equal_loops():
    first, second = run(3, drop=0.1), run(4, drop=0.1)
    table = compare(first, second, paired=True, n_resamples=80, seed=5)
    texts = np.intersect1d(
        *(tables["erasure"].query("erase_level == 'attention'").text_id for tables in (first, second))
    )
    counts = np.concatenate([part for _, part in Resamples(len(texts), resamples=80, seed=5).counts()])
    for key in KEYS:
        values = [[mine.get(text, NAN) for text in texts] for mine in (fractions(first, key), fractions(second, key))]
        result = look(table, "mean_fraction", key)
        drawn = []
        for row in counts:
            means = []
            for column in values:
                chosen = [min(value, 1) for value, count in zip(column, row, strict=True) for _ in range(int(count))]
                means.append(np.nanmean(chosen))
            drawn.append(means[1] - means[0])
        assert result.difference == pytest.approx(
            np.nanmean(np.minimum(values[1], 1)) - np.nanmean(np.minimum(values[0], 1))
        )
        assert result.low == pytest.approx(np.percentile(drawn, 2.5), abs=1e-12)
        assert result.high == pytest.approx(np.percentile(drawn, 97.5), abs=1e-12)


def test_a_run_does_not_differ_from_itself():
    tables = run(5, single=True)
    same = compare(tables, tables, paired=True, n_resamples=50)
    known = same[np.isfinite(same.a) & ~same.note.str.contains("reached")]
    assert len(known) > 60
    assert (known.difference == 0).all()
    sure = known[known.low.notna()]
    assert ((sure.low.abs() < 1e-12) & (sure.high.abs() < 1e-12)).all()
    apart = compare(tables, tables, paired=False, n_resamples=50)
    result = look(apart, "mean_fraction", ATTENTION)
    assert abs(result.difference) < 1e-12
    assert result.low < 0 < result.high  # two samples that happen to be equal


def test_pairing_makes_intervals_narrower():
    first, second = run(6, texts=150), run(6, texts=150)
    erasure = second["erasure"]
    second["erasure"] = erasure.assign(removed=np.minimum(erasure.removed + 1, erasure["items"]))
    widths = []
    for paired in (True, False):
        row = look(compare(first, second, paired=paired, n_resamples=400), "mean_fraction", KEYS[1])
        assert row.difference > 0
        widths.append(row.high - row.low)
    assert widths[0] < widths[1] / 2


def test_turned_round_the_signs_turn():
    first, second = run(7), run(8)
    forth, back = (
        compare(first, second, paired=True, n_resamples=60),
        compare(second, first, paired=True, n_resamples=60),
    )
    keys = ["test", "erase_level", "ranking_level", "ranking", "figure"]
    both = forth.merge(back, on=keys, suffixes=("", "_back"))
    assert len(both) == len(forth) == len(back)
    for left, right in (("a", "b_back"), ("difference", "difference_back"), ("low", "high_back")):
        sign = 1 if left == "a" else -1
        assert np.allclose(both[left], sign * both[right], rtol=0, atol=1e-12, equal_nan=True)


def test_only_common_texts_are_compared_in_pairs():
    first, second = run(9, texts=40), run(9, texts=70)
    table = compare(first, second, paired=True, n_resamples=30)
    assert (
        look(table, "mean_fraction", ATTENTION).difference,
        look(table, "accuracy", level="", test="texts").difference,
    ) == (0, 0)
    apart = compare(first, second, paired=False, n_resamples=30)
    row = look(apart, "accuracy", level="", test="texts")
    assert row.texts_a == first["texts"].aside.isna().sum() < row.texts_b == second["texts"].aside.isna().sum()


def test_texts_are_matched_by_their_number():
    first, second = run(9, texts=60), run(9, texts=60)
    odd = {name: table[table.text_id % 2 == 1] for name, table in second.items()}
    table = compare(first, odd, paired=True, n_resamples=30)
    known = table[(table.test == "erasure") & table.difference.notna()]
    assert len(known) > 50
    assert (known.difference == 0).all()
    assert (known.texts_a == known.texts_b).all()


def test_texts_in_common_are_needed_for_pairs():
    first, second = run(10), run(10)
    second = {name: table.assign(text_id=table.text_id + 1000) for name, table in second.items()}
    with pytest.raises(InputError, match="no text in common"):
        compare(first, second, paired=True, n_resamples=30)
    assert len(compare(first, second, paired=False, n_resamples=30))


def test_what_only_one_run_has_is_kept_and_not_compared():
    left, right = run(11, keys=KEYS[:4]), run(12, keys=KEYS[1:], levels=["attention"])
    table = compare(left, right, paired=True, n_resamples=30)
    first, second = look(table, "mean_fraction", ATTENTION), look(table, "mean_fraction", KEYS[4])
    assert (first.note, second.note) == (FIRST_ONLY, SECOND_ONLY)
    assert math.isnan(first.b)
    assert math.isnan(first.difference)
    assert math.isnan(second.a)
    assert second.texts_a == 0
    assert (table[table.erase_level == "input"].note == FIRST_ONLY).all()
    assert any("in one run only and are not compared" in sentence for sentence in sentences(table))


def test_exact_and_bounded_runs_share_the_ends():
    table = compare(run(13), run(13, bounds="some"), paired=True, n_resamples=30)
    assert look(table, "efficiency", ATTENTION).note == FIRST_ONLY
    assert not math.isnan(look(table, "efficiency_high", ATTENTION).difference)
    exact = compare(run(13), run(14), paired=True, n_resamples=30)
    assert not math.isnan(look(exact, "efficiency", ATTENTION).difference)
    assert "efficiency_high" not in set(exact.figure)
    assert "skill" not in set(exact[exact.ranking == "random"].figure)
    assert not math.isnan(look(exact, "skill", ATTENTION).low)


def test_medians_that_are_not_reached_have_no_difference():
    first, second = run(15), run(16)
    erasure = second["erasure"]
    erasure.loc[erasure.ranking == "attention", "censored"] = True
    row = look(compare(first, second, paired=True, n_resamples=30), "median_fraction", ATTENTION)
    assert row.b == INF
    assert row.note == NOT_REACHED
    assert all(math.isnan(value) for value in (row.difference, row.low, row.high))


def test_runs_without_labels_or_tests():
    first, second = run(17), run(18)
    for tables in (first, second):
        tables["texts"] = tables["texts"].assign(correct=None)
    table = compare(first, second, paired=True, n_resamples=30)
    assert math.isnan(look(table, "accuracy", level="", test="texts").a)
    assert not any("right on" in sentence for sentence in sentences(table))
    bare = compare({"texts": first["texts"]}, {"texts": second["texts"]}, paired=True, n_resamples=30)
    assert set(bare.test) == {"texts"}
    assert len(sentences(bare)) == 1


# sentences


def comparison(rows):
    same = {"test": "erasure", "erase_level": "attention", "ranking_level": "attention", "note": ""}
    same |= {"texts_a": 100, "texts_b": 100}
    columns = ("ranking", "figure", "a", "b", "difference", "low", "high")
    return pd.DataFrame([same | dict(zip(columns, row, strict=True)) for row in rows], columns=list(COLUMNS))


def test_sentences():
    table = comparison(
        [
            ("attention", "mean_fraction", 0.43, 0.31, -0.12, -0.16, -0.08),
            ("random", "mean_fraction", 0.6, 0.61, 0.01, -0.02, 0.04),
            ("lrp", "mean_fraction", 0.2, 0.1, -0.1, -0.13, -0.07),
            ("attention", "never_flipped", 0.1, 0.04, -0.06, -0.09, -0.03),
            ("attention", "skill", 0.4, 0.45, 0.05, -0.01, 0.11),
        ]
    )
    assert sentences(table, ("before", "after")) == (
        "At the final attention, attention flips the decision after 43 % of the items in before and 31 % in after: "
        "-12 points [-16, -8].",
        "At the final attention, attention never flips the decision on 10 % of the texts in before and 4.0 % in after: "
        "-6.0 points [-9.0, -3.0].",
        "At the final attention, the skill of attention is 40 % in before and 45 % in after: +5.0 points "
        "[-1.0, +11.0], no clear difference.",
        "At the final attention, these other rankings remove clearly more or less: LRP (-10 points [-13, -7]).",
        "Shares removed are means over texts, 100 % for a text that never flips.",
        "Differences are after minus before, in percentage points; their intervals are not corrected for the number "
        "of comparisons.",
    )


def test_sentences_where_nothing_differs():
    table = comparison(
        [
            ("attention", "never_flipped", 0.0, 0.0, 0.0, 0.0, 0.0),
            ("lrp", "mean_fraction", 0.2, 0.21, 0.01, NAN, NAN),
        ]
    )
    result = sentences(table)
    assert result[0].endswith("no other ranking removes clearly more or less.")
    assert not any("never flips 0" in sentence for sentence in result)


def test_the_seed_and_settings():
    left, right = run(19), run(20)
    first, again, other = (compare(left, right, paired=False, n_resamples=50, seed=seed) for seed in (1, 1, 2))
    pd.testing.assert_frame_equal(first, again)
    assert not first.low.equals(other.low)
    with pytest.raises(InputError, match="n_resamples"):
        compare(left, right, paired=True, n_resamples=0)
    narrow, wide = (compare(left, right, paired=True, n_resamples=200, confidence_level=level) for level in (0.5, 0.99))
    width = [
        look(table, "mean_fraction", RANDOM).high - look(table, "mean_fraction", RANDOM).low for table in (narrow, wide)
    ]
    assert width[0] < width[1]
