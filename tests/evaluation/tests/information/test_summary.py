"""Figures of the information test, from tables whose figures are known; what is said of them."""

import math

import numpy as np
import pandas as pd
import pytest

from attnfaith.errors import InputError
from attnfaith.estimates.lookup import SummaryLookup
from attnfaith.estimates.summary_table import COLUMNS
from attnfaith.evaluation.tests.information.summary import sentences, summarise
from attnfaith.functional.information import weighted_kendall

FACTS = {"unit": {"attention": "tokens", "input": "tokens"}}


def table_of(information, *, chance=0.1, weights=None, seeds=3, group="all", noise=0.01, draws=80, note="", key=0):
    """Rows as they are measured, each rank about as informative as is said."""
    draw, rows = np.random.default_rng([key, len(information)]), []
    weights = np.arange(len(information), 0, -1) / sum(range(len(information) + 1)) if weights is None else weights
    shared = draw.normal(size=(draws, len(information)))
    for seed in range(seeds):
        for rank, value in enumerate(information):
            null = chance + 0.01 * draw.normal(size=draws)
            row = {"group": group, "rank": rank, "kmeans_seed": seed, "mean_weight": weights[rank]}
            mi = value + chance + 0.001 * seed
            row |= {"mi": mi, "corrected": mi - null.mean(), "miller_madow": mi - chance / 2, "null": null}
            row |= {"halves": mi + 0.1 * (1 + rank) + noise * shared[:, rank], "samples": 400, "ranks_by_length": 9}
            row |= {"ranks_by_weight": 12, "clusters": 60, "singletons": seed, "outputs": 5, "output_entropy": 1.5}
            rows.append(row | {"note": note})
    return pd.DataFrame(rows)


def refused(note="12 texts are too few", outputs=None, ranks=3):
    blank = dict.fromkeys(
        ["kmeans_seed", "mi", "corrected", "miller_madow", "null", "halves", "clusters", "singletons"]
    )
    blank |= {"output_entropy": None, "outputs": outputs, "samples": 12, "ranks_by_length": ranks, "ranks_by_weight": 9}
    rows = [
        blank | {"group": "all", "rank": rank, "mean_weight": 0.3 - rank / 10, "note": note} for rank in range(ranks)
    ]
    return pd.DataFrame(rows)


def texts(count=450):
    correct = [number % 3 > 0 for number in range(count)]
    return pd.DataFrame({"text_id": range(count), "aside": None, "correct": correct, "prediction": 0, "items": 5})


def summary_of_heads(count, ranks=6):
    draw = np.random.default_rng(0)
    tables = [
        table_of(draw.random(ranks) * 0.3, seeds=1, group=str(head), key=head, noise=0.04) for head in range(count)
    ]
    return summarise(pd.concat([table_of(np.linspace(0.4, 0.1, ranks)), *tables]), texts())


def estimate(summary, figure, rank="", ranking="all"):
    chosen = summary[(summary.figure == figure) & (summary.other == rank) & (summary.ranking == ranking)]
    (row,) = chosen.to_dict("records")
    return row


def test_figures_are_means_over_the_clusterings():
    table = table_of([0.5, 0.3, 0.0])
    summary = summarise(table, texts())
    assert list(summary.columns) == list(COLUMNS)
    assert set(summary.test) == {"information"}
    for rank in range(3):
        rows = table[table["rank"] == rank]
        for figure, column in (("mi", "mi"), ("mi_corrected", "corrected"), ("mi_miller_madow", "miller_madow")):
            assert estimate(summary, figure, str(rank))["value"] == pytest.approx(rows[column].mean())
        null = np.mean(rows["null"].tolist(), axis=0)
        row = estimate(summary, "null", str(rank))
        assert (row["value"], row["low"], row["high"]) == pytest.approx(
            (null.mean(), *np.quantile(null, [0.025, 0.975]))
        )
        halves = np.mean(rows["halves"].tolist(), axis=0)
        low, high = np.quantile(halves, [0.025, 0.975]) - halves.mean()
        for figure in ("mi", "mi_corrected"):
            row = estimate(summary, figure, str(rank))
            assert (row["low"], row["high"]) == pytest.approx((row["value"] + low, row["value"] + high))
        assert estimate(summary, "singletons", str(rank))["value"] == 1
        assert estimate(summary, "mean_weight", str(rank))["value"] == pytest.approx((3 - rank) / 6)
    known = {"samples": 400, "left_out": 50, "ranks": 3, "ranks_by_length": 9, "ranks_by_weight": 12, "clusters": 60}
    known |= {"outputs": 5, "output_entropy": 1.5, "informative": 2}
    assert {name: estimate(summary, name)["value"] for name in known} == known
    assert [estimate(summary, "p", str(rank))["value"] for rank in (0, 1)] == pytest.approx([1 / 81] * 2)
    assert estimate(summary, "p", "2")["value"] > 0.3


def with_information(table, lines):
    """The same table with other information at each start and rank, ``[seeds, k]``; what is drawn moves along."""
    table = table.sort_values(["kmeans_seed", "rank"]).reset_index(drop=True)
    moved = np.ravel(lines) - table["mi"].to_numpy()
    for column in ("mi", "corrected", "miller_madow"):
        table[column] += moved
    table["halves"] = [half + move for half, move in zip(table["halves"], moved, strict=True)]
    return table


def test_tau_is_of_the_information_that_is_shown():
    """The figure beside a descending curve of information is 1, however much the single starts differ."""
    starts = [[0.210, 0.204, 0.181, 0.175], [0.190, 0.214, 0.171, 0.185], [0.230, 0.194, 0.191, 0.165]]
    summary = summarise(with_information(table_of([0.5, 0.4, 0.3, 0.2]), starts), texts())
    shown = [estimate(summary, "mi", str(rank))["value"] for rank in range(4)]
    assert shown == pytest.approx([0.210, 0.204, 0.181, 0.175])
    assert estimate(summary, "weighted_kendall")["value"] == 1.0
    seeds = estimate(summary, "weighted_kendall_seeds")
    assert seeds["value"] < 0.8
    assert (seeds["low"], seeds["high"]) == (pytest.approx(weighted_kendall([4, 3, 2, 1], starts[1])), 1.0)


@pytest.mark.parametrize("form", ["product", "additive", "hyperbolic"])
def test_tau_is_of_mean_information_with_an_interval_over_halves(form):
    table, draw = table_of([0.5, 0.48, 0.2, 0.22], noise=0.02), np.random.default_rng(3)
    table = with_information(table, table["mi"].to_numpy().reshape(3, 4) + 0.03 * draw.normal(size=(3, 4)))
    summary = summarise(table, texts(), weights=form)
    weights = np.array([0.4, 0.3, 0.2, 0.1])
    by_rank = [rows for _, rows in table.groupby("rank")]
    for figure, column in (("weighted_kendall", "mi"), ("weighted_kendall_corrected", "corrected")):
        row = estimate(summary, figure)
        means = [rows[column].mean() for rows in by_rank]
        assert row["value"] == pytest.approx(weighted_kendall(weights, means, form))
        shown = "mi" if column == "mi" else "mi_corrected"
        assert means == pytest.approx([estimate(summary, shown, str(rank))["value"] for rank in range(4)])
        halves = []
        for half in range(80):
            drawn = [np.mean([line[half] - np.mean(line) for line in rows["halves"]]) for rows in by_rank]
            halves.append(weighted_kendall(weights, np.add(means, drawn), form))
        assert (row["low"], row["high"]) == pytest.approx(tuple(np.quantile(halves, [0.025, 0.975])), abs=1e-9)
        assert row["low"] < row["value"] <= row["high"]
    seeds = estimate(summary, "weighted_kendall_seeds")
    taus = [weighted_kendall(weights, rows.sort_values("rank")["mi"], form) for _, rows in table.groupby("kmeans_seed")]
    assert min(taus) < max(taus)
    assert (seeds["value"], seeds["low"], seeds["high"]) == pytest.approx((np.mean(taus), min(taus), max(taus)))
    wide, narrow = (summarise(table, texts(), confidence_level=level) for level in (0.99, 0.5))
    assert estimate(wide, "weighted_kendall")["low"] <= estimate(narrow, "weighted_kendall")["low"]
    assert estimate(wide, "null", "0")["high"] > estimate(narrow, "null", "0")["high"]


def test_a_start_without_a_tau_is_counted():
    flat = with_information(table_of([0.5, 0.4, 0.3]), [[0.3, 0.3, 0.3], [0.5, 0.4, 0.3], [0.5, 0.3, 0.4]])
    summary = summarise(flat, texts())
    row = estimate(summary, "weighted_kendall_seeds")
    assert row["note"] == "from the smallest to the largest of 3 k-means seeds; undefined at 1 of 3"
    assert row["high"] == pytest.approx(1)
    assert row["low"] < row["value"] < row["high"]
    assert row["value"] == pytest.approx((1 + weighted_kendall([3, 2, 1], [0.5, 0.3, 0.4])) / 2)


def test_the_order_of_rows_and_of_groups_does_not_matter():
    table = pd.concat([table_of([0.5, 0.1]), table_of([0.2, 0.3], group="3", seeds=1)])
    summary = summarise(table, texts())
    shuffled = summarise(table.sample(frac=1, random_state=0), texts())
    columns = ["ranking", "other", "figure"]
    left, right = (item.sort_values(columns).reset_index(drop=True) for item in (summary, shuffled))
    pd.testing.assert_frame_equal(left, right)
    assert estimate(summary, "weighted_kendall", ranking="3")["value"] == -1
    assert set(summary.ranking) == {"", "all", "3"}
    assert "weighted_kendall_seeds" not in set(summary[summary.ranking == "3"].figure)


@pytest.mark.parametrize(
    ("table", "note"),
    [
        (table_of([0.4]), "one rank only: there is nothing to compare"),
        (table_of([0.4, 0.2], weights=[0.5, 0.5]), "the mean attention of all ranks is alike"),
        (table_of([0.0, 0.0], seeds=1, noise=0.0), "all ranks say the same"),
    ],
)
def test_where_there_is_no_order_tau_is_undefined_and_says_why(table, note):
    row = estimate(summarise(table, texts()), "weighted_kendall")
    assert math.isnan(row["value"])
    assert math.isnan(row["low"])
    assert row["note"] == note


def test_what_was_refused_has_a_reason_and_no_numbers():
    summary = summarise(refused(), texts())
    for figure in ("weighted_kendall", "weighted_kendall_corrected", "informative"):
        row = estimate(summary, figure)
        assert math.isnan(row["value"])
        assert row["note"] == "12 texts are too few"
    assert estimate(summary, "mean_weight", "0")["value"] == 0.3
    assert not set(summary.figure) & {"mi", "mi_corrected", "null", "p", "clusters"}


def test_an_empty_table_says_so():
    summary = summarise(refused().iloc[:0], texts())
    assert estimate(summary, "weighted_kendall")["note"] == "no text has an item to look at"


def test_parts_of_the_texts_have_no_figures_but_a_reason():
    summary = summarise(table_of([0.5, 0.1]), texts(), by="correct")
    assert set(summary.slice) == {"correct=False", "correct=True"}
    assert set(summary.figure) == {"texts", "weighted_kendall"}
    rows = summary[summary.figure == "weighted_kendall"]
    assert rows.value.isna().all()
    assert rows.note.str.contains("over all texts at once").all()
    with pytest.raises(InputError, match="by"):
        summarise(table_of([0.5, 0.1]), texts(), by="colour")


def said_of(table):
    return list(sentences(SummaryLookup(summarise(table, texts()), "information"), FACTS))


def test_sentences_say_which_way_it_goes():
    most, least, tau = said_of(table_of([0.5, 0.3, 0.1, 0.0]))
    assert most.startswith("The most attended of the tokens say 0.50 nats [")
    assert most.endswith("] about the output, of 1.50 nats that there are to say (corrected for chance).")
    assert least.startswith("At rank 4, the last that was measured, they say 0.0")
    assert (
        tau == "More attention goes with more information: weighted Kendall's tau over the ranks is 1.00 [1.00, 1.00]."
    )
    assert "less information:" in said_of(table_of([0.0, 0.1, 0.3, 0.5]))[2]
    assert "neither" in said_of(table_of([0.30, 0.29, 0.31], noise=0.1))[2]


def test_sentences_say_what_is_undefined():
    assert said_of(refused()) == [
        "How much the attended tokens say about the output was not measured: 12 texts are too few."
    ]
    (same,) = said_of(refused(outputs=1))
    assert same.endswith("was not measured: the output never changes.")
    table = table_of([0.0, 0.001, 0.0005])
    assert estimate(summarise(table, texts()), "weighted_kendall")["note"].startswith("no rank says more than chance")
    assert said_of(table) == ["At no rank of attention do the tokens say more about the output than chance."]
    assert said_of(table_of([0.4, 0.2], weights=[0.5, 0.5]))[2].startswith("Whether more attention goes with more")
    assert len(said_of(table_of([0.4]))) == 1
    assert list(sentences(SummaryLookup(summarise(refused(), texts()), "erasure"), FACTS)) == []
