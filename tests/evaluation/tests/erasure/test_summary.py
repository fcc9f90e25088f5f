"""Summaries: what they leave out, laws, and edges."""

import itertools
import math

import pandas as pd
import pytest

from attnfaith.errors import InputError
from attnfaith.estimates.summary_table import COLUMNS
from attnfaith.evaluation.tests.erasure.summary import curves
from attnfaith.functional.statistics import holm
from tests.helpers.seeded_tables import ATTENTION, INF, KEYS, NAN, RANDOM, frames, look, made, single_weight
from tests.helpers.summaries import summarise_erasure, summarise_single_weight


def test_counts_and_what_was_left_out():
    rows, about = made(3)
    erasure, texts = frames(rows, about)
    table = summarise_erasure(erasure, texts, n_resamples=20)
    assert look(table, "texts", "").value == len(about)
    aside = table[table.figure == "set_aside"].set_index("note").value
    expected = texts.aside.value_counts()
    assert aside.to_dict() == expected.to_dict()
    short = look(table, "too_short")
    with_rows = erasure[erasure.erase_level == "attention"].text_id.nunique()
    assert short.value == len(about) - expected.sum() - with_rows > 0
    assert table.columns.tolist() == list(COLUMNS)
    assert not table.drop(columns=["value", "low", "high"]).isna().any().any()
    nobody = summarise_erasure(erasure, texts.assign(aside=None), n_resamples=20)
    assert nobody[nobody.figure == "set_aside"].value.tolist() == [0.0]
    for key in KEYS:
        left = look(table, "efficiency", "attention", key)
        unflippable = erasure[(erasure.erase_level == "attention") & ~erasure.flippable.astype(bool)].text_id.nunique()
        assert left.texts == with_rows - unflippable
        assert f"{unflippable} that no set flips" in left.note


def test_what_is_not_known_to_flip_is_counted_apart_from_what_cannot():
    rows, about = made(3, bounds="none")
    table = summarise_erasure(*frames(rows, about), n_resamples=20)
    assert look(table, "unflippable").value == 0
    assert "for which no set was found" in look(table, "efficiency_low", "attention", ATTENTION).note


def test_a_user_s_ranking_better_than_the_upper_bound_has_efficiency_one():
    rows, about = made(4, bounds="some")
    for row in rows:
        if row["ranking"] == "shap" and row["minimum_high"]:
            row.update(removed=1, fraction=1 / row["items"], censored=False)
    table = summarise_erasure(*frames(rows, about), n_resamples=20)
    assert look(table, "efficiency_high", "attention", ("yours", "shap")).high <= 1


def test_a_ranking_that_flips_what_the_search_does_not_has_efficiency_one_there_and_changes_no_other():
    rows, about = made(4)
    erasure, texts = frames(rows, about)
    same_text = erasure.text_id == erasure[~erasure.censored & (erasure.ranking == "shap")].text_id.iloc[0]
    erasure.loc[same_text, ["minimum_low", "minimum_high"]] = NAN
    erasure.loc[same_text & (erasure.ranking != "shap"), "censored"] = True
    with_it = summarise_erasure(erasure, texts, n_resamples=20)
    without = summarise_erasure(erasure[erasure.ranking != "shap"], texts, n_resamples=20)
    for key in (ATTENTION, KEYS[1]):
        left, right = (look(table, "efficiency_high", key=key) for table in (with_it, without))
        assert (left.value, left.texts) == (right.value, right.texts)
    mine = look(with_it, "efficiency_high", key=("yours", "shap"))
    assert mine.texts == look(with_it, "efficiency_high", key=ATTENTION).texts + 1
    assert look(with_it, "beats_reference", key=("yours", "shap")).value > 0
    assert look(with_it, "beats_reference", key=ATTENTION).value == 0
    for figure in ("flippable", "unflippable", "certified"):
        assert look(with_it, figure).value == look(without, figure).value


def test_skill_begins_at_the_random_order_of_the_level_erased_at():
    keys = [*KEYS, ("input", "random")]
    table = summarise_erasure(*frames(*made(4, keys=keys)), n_resamples=20)
    for level in ("attention", "input"):
        worth = {key: look(table, "efficiency", level, key).value for key in keys}
        chance = worth[level, "random"]
        expected = (worth[ATTENTION] - chance) / (1 - chance)
        assert look(table, "skill", level, ATTENTION).value == pytest.approx(expected)
        assert "skill" not in set(table.query("erase_level == @level == ranking_level and ranking == 'random'").figure)


def test_never_flipping_is_neither_dropped_nor_zero():
    rows, about = made(5)
    for row in rows:
        if row["ranking"] == "attention":
            row.update(removed=None, fraction=NAN, mass=NAN, censored=True)
    table = summarise_erasure(*frames(rows, about), n_resamples=200)
    assert look(table, "never_flipped", key=ATTENTION).value == 1
    middle = look(table, "median_fraction", key=ATTENTION)
    assert (middle.value, middle.low, middle.high) == (INF, INF, INF)
    assert middle.note.startswith("not reached")
    assert look(table, "mean_fraction", key=ATTENTION).value == 1
    mass = look(table, "mean_mass", key=ATTENTION)
    assert math.isnan(mass.value)
    assert mass.texts == 0
    assert look(table, "efficiency", key=ATTENTION).value == 0
    paper = summarise_erasure(*frames(rows, about), n_resamples=200, reference="paper")
    for figure in ("median_fraction", "mean_fraction", "efficiency"):
        row = look(paper, figure, key=ATTENTION)
        assert math.isnan(row.value)
        assert row.texts == 0
    assert look(paper, "never_flipped", key=ATTENTION).value == 1  # what was left out is still said
    assert "left out" in look(paper, "mean_fraction", key=KEYS[1]).note


def test_pairs_both_ways_round():
    table = summarise_erasure(*frames(*made(6)), n_resamples=200)
    for key, other in itertools.permutations(KEYS, 2):
        forth = {"key": key, "other": "/".join(other)}
        back = {"key": other, "other": "/".join(key)}
        gap, turned = (look(table, "mean_difference", **about) for about in (forth, back))
        assert (gap.value, gap.low, gap.high) == (-turned.value, -turned.high, -turned.low)
        for figure, same in {"wins": "losses", "p": "p", "p_holm": "p_holm", "ties": "ties"}.items():
            left, right = look(table, figure, **forth).value, look(table, same, **back).value
            assert left == pytest.approx(right, rel=0, abs=0, nan_ok=True)
        corrected = look(table, "p_holm", **forth)
        if is_planned(key, other):
            assert math.isnan(corrected.value)
            assert corrected.note == "a planned comparison: not corrected"
        else:
            assert corrected.value >= look(table, "p", **forth).value


def is_planned(key, other):
    """Of attention, or of a user's own, with the random order."""
    return RANDOM in (key, other) and bool({ATTENTION, ("yours", "shap")} & {key, other})


def test_holm_is_over_the_pairs_of_a_level_each_once():
    table = summarise_erasure(*frames(*made(6, texts=80)), n_resamples=20)
    pairs = [pair for pair in itertools.combinations(KEYS, 2) if not is_planned(*pair)]
    assert len(pairs) == 8
    for level in ("attention", "input"):
        raw, adjusted = (
            [look(table, figure, level, key, "/".join(other)).value for key, other in pairs]
            for figure in ("p", "p_holm")
        )
        assert adjusted == pytest.approx(holm(raw).tolist())
        assert (table.query("erase_level == @level").figure == "p").sum() == 2 * (len(pairs) + 2)


# laws


def test_the_order_of_rows_does_not_matter():
    erasure, texts = frames(*made(7))
    shuffled = erasure.sample(frac=1, random_state=1), texts.sample(frac=1, random_state=2)
    for by in (None, "length"):
        expected = summarise_erasure(erasure, texts, n_resamples=100, by=by)
        pd.testing.assert_frame_equal(expected, summarise_erasure(*shuffled, n_resamples=100, by=by))
    pd.testing.assert_frame_equal(curves(erasure), curves(shuffled[0]))


def test_adding_a_ranking_changes_no_other_rankings_numbers():
    rows, about = made(8)
    fewer = [row for row in rows if row["ranking"] != "shap"]
    all_of_them, some = (summarise_erasure(*frames(part, about), n_resamples=100) for part in (rows, fewer))
    same = all_of_them[(all_of_them.ranking != "shap") & (all_of_them.other != "yours/shap")]
    left, right = (table[table.figure != "p_holm"].reset_index(drop=True) for table in (same, some))
    keys = ["erase_level", "ranking_level", "ranking", "other", "figure", "note"]
    left, right = (table.sort_values(keys).reset_index(drop=True) for table in (left, right))
    pd.testing.assert_frame_equal(left, right, rtol=0, atol=1e-12)


def test_the_seed_moves_intervals_and_not_figures():
    tables = frames(*made(9))
    first, second, again = (summarise_erasure(*tables, n_resamples=100, seed=seed) for seed in (1, 2, 1))
    pd.testing.assert_frame_equal(first, again)
    assert first.value.equals(second.value)
    assert not first.low.equals(second.low)


def test_a_wider_confidence_has_wider_intervals():
    tables = frames(*made(9))
    narrow, wide = (summarise_erasure(*tables, n_resamples=400, confidence_level=level) for level in (0.5, 0.99))
    gap = lambda table: (table.high - table.low).replace(INF, NAN)  # noqa: E731
    assert (gap(wide).fillna(0) >= gap(narrow).fillna(0) - 1e-12).all()


# edges


def test_one_text_has_figures_and_few_intervals():
    rows, about = made(13, texts=1)
    table = summarise_erasure(*frames(rows, about), n_resamples=50)
    result = look(table, "mean_fraction", key=KEYS[1])
    assert result.texts == 1
    assert not math.isnan(result.value)
    assert math.isnan(result.low)
    assert not math.isnan(look(table, "never_flipped", key=KEYS[1]).high)


def test_one_ranking_has_no_pairs_and_no_skill():
    table = summarise_erasure(*frames(*made(14, keys=[ATTENTION])), n_resamples=20)
    assert not {"wins", "skill"} & {*table.figure}
    assert (table.other == "").all()


def test_nothing_erased_at_all():
    rows, about = made(15)
    erasure, texts = frames(rows, about)
    table = summarise_erasure(erasure[:0], texts, n_resamples=20)
    assert set(table.figure) == {"texts", "set_aside"}
    assert curves(erasure[:0]).columns.tolist() == [
        "erase_level",
        "ranking_level",
        "ranking",
        "fraction",
        "kept",
        "low",
        "high",
    ]
    assert len(summarise_single_weight(single_weight()[:0], texts, n_resamples=20)) == 4


def test_two_rows_for_one_ranking_are_refused():
    rows, about = made(16)
    with pytest.raises(InputError, match="several for"):
        summarise_erasure(*frames([*rows, rows[-1]], about), n_resamples=20)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"n_resamples": 0}, "n_resamples to be a whole number of at least 1 and at most 1,000,000"),
        ({"confidence_level": 95}, "between 0 and 1"),
        ({"reference": "released-code"}, "'paper' or None"),
    ],
)
def test_settings_are_checked(settings, words):
    with pytest.raises(InputError, match=words):
        summarise_erasure(*frames(*made(16)), **settings)
