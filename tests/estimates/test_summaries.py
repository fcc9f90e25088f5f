"""Summaries against loops over rows, written straight from the definitions."""

import math
import time

import numpy as np
import pandas as pd
import pytest

from attnfaith.evaluation.tests.erasure.summary import curves
from tests.helpers.seeded_tables import INF, KEYS, NAN, RANDOM, frames, look, made, single_weight
from tests.helpers.summaries import summarise_erasure, summarise_single_weight


def mean(values):
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else NAN


def median(values):
    ordered = sorted(values)
    if not ordered:
        return NAN
    lower, upper = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    return (lower + upper) / 2 if upper < INF else lower


def slow(rows, level, key, *, paper=False):
    """Every figure of one ranking, from rows, straight from the definitions."""
    here = [row for row in rows if row["erase_level"] == level]
    selected = [row for row in here if (row["ranking_level"], row["ranking"]) == key]
    result = {"never_flipped": mean([float(row["censored"]) for row in selected])}
    if paper:
        selected = [row for row in selected if not row["censored"]]
    low, high, sizes, lows, highs = [], [], [], [], []
    exact = True
    for row in here:
        if row["flippable"] is not False and row["minimum_low"] != row["minimum_high"]:
            exact = False
        if row["flippable"] is not False and row["minimum_high"] is None:
            exact = False
    for row in selected:
        upper = row["minimum_high"] or INF
        if upper == INF and row["censored"]:
            continue  # neither the search nor the ranking flips it: no efficiency
        lower = min(row["minimum_low"] or 1, upper)
        removed = row["items"] if row["censored"] else row["removed"]
        low.append(0.0 if row["censored"] else min(lower, removed) / removed)
        high.append(0.0 if row["censored"] else min(upper, removed) / removed)
        sizes.append(removed)
        lows.append(min(lower, removed))
        highs.append(min(upper, removed))
    result |= {
        "flipped_only_at_end": mean(
            [float(not row["censored"] and row["removed"] == row["items"]) for row in selected]
        ),
        "median_fraction": median([INF if row["censored"] else row["fraction"] for row in selected]),
        "mean_fraction": mean([1.0 if row["censored"] else row["fraction"] for row in selected]),
        "beats_reference": mean([float(size(row) < (row["minimum_high"] or INF)) for row in selected]),
        "mean_mass": mean([row["mass"] for row in selected]),
        "marginal": mean([float(row["marginal"]) for row in selected]),
        "tied_scores": mean([float(row["ties"] > 0) for row in selected]),
        "undefined_scores": mean([float(row["undefined"] > 0) for row in selected]),
        "efficiency": mean(high) if exact else NAN,
        "efficiency_of_means": sum(highs) / sum(sizes) if exact else NAN,
    }
    if not exact:
        result |= {"efficiency_low": mean(low), "efficiency_high": mean(high)}
        result |= {
            "efficiency_of_means_low": sum(lows) / sum(sizes) if sizes else NAN,
            "efficiency_of_means_high": sum(highs) / sum(sizes) if sizes else NAN,
        }
    return result, {row["text_id"]: row for row in selected}, mean(high)


@pytest.mark.parametrize("reference", [None, "paper"])
@pytest.mark.parametrize("bounds", ["exact", "some", "none"])
@pytest.mark.parametrize("drop", [0.0, 0.3])
def test_equals_loops_over_rows(bounds, reference, drop):
    rows, about = made(1, texts=90, bounds=bounds, drop=drop)
    table = summarise_erasure(*frames(rows, about), n_resamples=50, reference=reference)
    for level in ("attention", "input"):
        *_, chance = slow(rows, level, RANDOM)
        for key in KEYS:
            expected, mine, worth = slow(rows, level, key, paper=reference is not None)
            if key != RANDOM and reference is None:
                expected["skill"] = (worth - chance) / (1 - chance) if chance < 1 else NAN
            for figure, value in expected.items():
                result = look(table, figure, level, key)
                assert result.value == pytest.approx(value, abs=1e-12, nan_ok=True), figure
                if math.isfinite(value) and figure != "skill":
                    assert result.low - 1e-12 <= value <= result.high + 1e-12, figure
            for other in KEYS:
                if other == key:
                    continue
                theirs = slow(rows, level, other, paper=reference is not None)[1]
                both = sorted({*mine} & {*theirs})
                counts = [(size(mine[text]), size(theirs[text])) for text in both]
                name = "/".join(other)
                for figure, number in {
                    "wins": sum(a < b for a, b in counts),
                    "losses": sum(a > b for a, b in counts),
                    "ties": sum(a == b for a, b in counts),
                }.items():
                    assert look(table, figure, level, key, name).value == pytest.approx(number / len(both))
                gaps = [share(mine[text]) - share(theirs[text]) for text in both]
                gap = look(table, "mean_difference", level, key, name)
                assert gap.value == pytest.approx(mean(gaps), abs=1e-12)
                assert gap.texts == len(both)
                assert gap.low <= gap.value <= gap.high
    assert set(table.figure[table.ranking == "random"]) >= {"efficiency", "wins", "p_holm"}


def size(row):
    return INF if row["censored"] else row["removed"]


def share(row):
    return 1.0 if row["censored"] else row["fraction"]


@pytest.mark.parametrize("bounds", ["exact", "some", "none"])
def test_smallest_sets_equal_loops_over_rows(bounds):
    rows, about = made(2, bounds=bounds)
    table = summarise_erasure(*frames(rows, about), n_resamples=50)
    for level in ("attention", "input"):
        texts = {}
        for row in rows:
            if row["erase_level"] == level:
                texts[row["text_id"]] = row
        low, high, certified, none = [], [], [], []
        for row in texts.values():
            upper = row["minimum_high"] or INF
            impossible = row["flippable"] is False
            lower = INF if impossible else min(row["minimum_low"] or 1, upper)
            low.append(lower / row["items"])
            high.append(upper / row["items"])
            certified.append(float(lower == upper < INF or impossible))
            none.append(float(impossible))
        assert look(table, "certified", level).value == pytest.approx(mean(certified))
        assert look(table, "unflippable", level).value == pytest.approx(mean(none))
        assert look(table, "flippable", level).value == pytest.approx(mean([float(value < INF) for value in high]))
        middle, average = look(table, "minimum_fraction_median", level), look(table, "minimum_fraction_mean", level)
        if bounds == "exact":
            assert middle.value == pytest.approx(median(high))
            assert average.value == pytest.approx(mean([min(value, 1) for value in high]))
            assert "minimum_fraction_mean_low" not in set(table.figure)
            continue
        assert math.isnan(middle.value)
        assert math.isnan(average.value)
        assert "_low" in middle.note
        for end, values in {"low": low, "high": high}.items():
            assert look(table, f"minimum_fraction_median_{end}", level).value == pytest.approx(median(values))
            expected = mean([min(value, 1) for value in values])
            assert look(table, f"minimum_fraction_mean_{end}", level).value == pytest.approx(expected)


# curves


def test_curves_equal_counting():
    rows, _ = made(17, drop=0.2)
    result = curves(frames(rows, [{"aside": None}])[0], points=11)
    assert len(result) == 2 * len(KEYS) * 11
    for row in result.itertuples():
        about = (row.erase_level, row.ranking_level, row.ranking)
        mine = [item for item in rows if (item["erase_level"], item["ranking_level"], item["ranking"]) == about]
        kept = mean([float(item["censored"] or item["fraction"] > row.fraction + 1e-9) for item in mine])
        assert row.kept == pytest.approx(kept)
        assert row.low <= row.kept <= row.high


def test_curves_end_where_nothing_flips():
    rows, about = made(18)
    erasure, texts = frames(rows, about)
    end = curves(erasure).query("fraction == 1 and erase_level == 'input'")
    table = summarise_erasure(erasure, texts, n_resamples=20)
    for row in end.itertuples():
        never = look(table, "never_flipped", "input", (row.ranking_level, row.ranking))
        assert (row.kept, row.low, row.high) == pytest.approx((never.value, never.low, never.high))


def test_single_weights_equal_loops():
    table_in = single_weight()
    texts = pd.DataFrame({"text_id": range(32), "aside": [None] * 31 + ["empty"]})
    table = summarise_single_weight(table_in, texts, n_resamples=100)
    for ranking in ("attention", "gradient"):
        rows = table_in[table_in.ranking == ranking].to_dict("records")
        top = [float(row["top_flips"]) for row in rows]
        drawn = [float(row["drawn_flips"]) for row in rows]
        chance = [row["expected_drawn_flips"] for row in rows]
        expected = {
            "delta_js": mean([row["delta_js"] for row in rows]),
            "delta_js_negative": mean([float(row["delta_js"] < 0) for row in rows]),
            "delta_attention": mean([row["delta_attention"] for row in rows]),
            "expected_delta_js": mean([row["expected_delta_js"] for row in rows]),
            "marginal": mean([float(row["marginal"]) for row in rows]),
            "both": mean([a * b for a, b in zip(top, drawn, strict=True)]),
            "only_top": mean([a * (1 - b) for a, b in zip(top, drawn, strict=True)]),
            "only_drawn": mean([(1 - a) * b for a, b in zip(top, drawn, strict=True)]),
            "neither": mean([(1 - a) * (1 - b) for a, b in zip(top, drawn, strict=True)]),
            "expected_both": mean([a * b for a, b in zip(top, chance, strict=True)]),
            "expected_only_top": mean([a * (1 - b) for a, b in zip(top, chance, strict=True)]),
            "expected_only_drawn": mean([(1 - a) * b for a, b in zip(top, chance, strict=True)]),
            "expected_neither": mean([(1 - a) * (1 - b) for a, b in zip(top, chance, strict=True)]),
        }
        for figure, value in expected.items():
            row = look(table, figure, "attention", ("attention", ranking), test="single_weight")
            assert row.value == pytest.approx(value, abs=1e-12), figure
            assert row.low <= row.value <= row.high
            assert row.texts == 30
        for kind in ("", "expected_"):
            cells = [expected[f"{kind}{name}"] for name in ("both", "only_top", "only_drawn", "neither")]
            assert sum(cells) == pytest.approx(1)
    assert look(table, "too_short", "attention", test="single_weight").value == 1
    assert look(table, "texts", "", test="single_weight").value == 32


@pytest.mark.slow
def test_it_is_quick_on_many_texts():
    n, started = 50_000, time.perf_counter()
    draw = np.random.default_rng(0)
    items = draw.integers(2, 60, n)
    tables = []
    for name in ("attention", "gradient", "random", "lrp", "occlusion", "greedy", "optimal", "integrated_gradients"):
        removed = draw.integers(1, items + 4)
        tables.append(
            pd.DataFrame(
                {
                    "text_id": np.arange(n),
                    "ranking": name,
                    "ranking_level": "attention",
                    "erase_level": "attention",
                    "items": items,
                    "removed": np.where(removed > items, NAN, removed),
                    "mass": 0.5,
                    "censored": removed > items,
                    "marginal": False,
                    "ties": 0,
                    "undefined": 0,
                    "minimum_low": 1,
                    "minimum_high": 1,
                    "flippable": True,
                }
            )
        )
    texts = pd.DataFrame({"text_id": np.arange(n), "aside": None})
    summarise_erasure(pd.concat(tables), texts, n_resamples=1000)
    assert time.perf_counter() - started < 40  # 2 s on one idle core
