"""Decisions without the first items of a ranking, as figures of the erasure test."""

import math

import numpy as np
import pytest
import torch

import attnfaith as af
from attnfaith.evaluation.tests.erasure.metric import first_flip
from attnfaith.evaluation.tests.erasure.test import Erasure
from attnfaith.functional.decision import Decision
from attnfaith.functional.first_flip import RemovalOrders, first_flips, from_prefixes
from attnfaith.functional.ranking import order_of
from attnfaith.metrics import DecisionFlip
from tests.helpers.metric_runs import INTERVALS, agree, summary_of, texts_of

FIGURES = ("never_flipped", "flipped_only_at_end", "median_fraction", "mean_fraction")
DECISIONS = [[0, 1, 1, 0], [1, 1], [0, 1, 1, 1], [2, 0], [0], [], [1, 1, 0]]
BEFORE = [0, 1, 0, 2, 0, 1, 1]


def test_figures_of_a_hand_made_case():
    result = DecisionFlip().compute(predictions=DECISIONS, references=BEFORE, per_text=True)
    assert result["texts"] == 7
    assert result["too_short"] == 2
    assert result["undefined"] == 0
    assert result["never_flipped"] == pytest.approx(1 / 5)
    assert result["flipped_only_at_end"] == pytest.approx(2 / 5)
    assert result["median_fraction"] == 1
    assert result["mean_fraction"] == pytest.approx((1 / 2 + 1 + 1 / 2 + 1 + 1) / 5)
    removed = result["per_text"]["removed"]
    assert removed[:4] == [2, math.inf, 2, 2]
    assert math.isnan(removed[4])
    assert math.isnan(removed[5])
    assert removed[6] == 3
    assert result["per_text"]["fraction"][0] == 0.5


def test_a_median_that_fewer_than_half_reach_is_not_reached():
    result = DecisionFlip().compute(predictions=[[0, 0], [0, 0], [1, 0]], references=[0, 0, 0])
    assert result["median_fraction"] == math.inf
    assert result["mean_fraction"] == pytest.approx((1 + 1 + 0.5) / 3)


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ([0, 0, 1], 3),
        ([None, 1], math.nan),
        ([0, None, 1], math.nan),
        ([0, 1, None], 2),
        ([0, 0, None], math.inf),
        ([0, None, 0], math.nan),
        ([None, None], math.nan),
    ],
)
def test_where_no_decision_was_made_the_flip_is_known_or_it_is_not(after, expected):
    assert first_flip(np.array(after, dtype=float), np.array(0.0)) == pytest.approx(expected, nan_ok=True)
    result = DecisionFlip().compute(predictions=[after, [1, 1]], references=[0, 0])
    assert result["undefined"] == math.isnan(expected)
    assert result["never_flipped"] == (0.5 if expected == math.inf else 0)


@pytest.mark.parametrize("ranking", ["attention", "gradient", "random"])
def test_equals_the_summary_of_the_erasure_test(ranking):
    """From decisions along the rankings' orders, through the tail; and from the table of the test."""
    batch = texts_of()
    table, summary = summary_of(Erasure(), batch)
    scores = batch.scores(
        next(item for item in batch.config.rankings["attention"] if item.name == ranking), "attention"
    )
    prefixes = batch.config.cut.prefixes(batch.capture, order_of(scores, batch.capture.mask)).argmax(-1)
    counts = batch.capture.lengths.tolist()
    after = [row[1 : count + 1].tolist() for row, count in zip(prefixes, counts, strict=True)]
    result = DecisionFlip(**INTERVALS).compute(predictions=after, references=batch.logits.argmax(-1))
    assert result["too_short"] == 1
    assert result["never_flipped"] < 1
    assert table.censored.any()
    agree(result, summary, *FIGURES, ranking=ranking)
    rows = table[table.ranking == ranking].sort_values("text_id")
    rebuilt = [
        [row.prediction] * row.items
        if row.censored
        else [row.prediction] * (int(row.removed) - 1) + [int(row.new_label)] + [None] * (row.items - int(row.removed))
        for row in rows.itertuples()
    ]
    again = DecisionFlip(**INTERVALS).compute(predictions=rebuilt, references=rows.prediction.to_numpy())
    agree(again, summary, *FIGURES, ranking=ranking)


def test_equals_the_search_of_the_erasure_test(generator):
    """The same first flips as the function that goes down prefixes of logits."""
    logits = torch.randn(40, 9, 3, generator=generator)
    logits[:, 0, 0] += 2
    logits[:, 1:, 0] += 1.5
    before = logits[:, 0]
    everything = torch.ones(40, 8, dtype=torch.bool)
    lanes = RemovalOrders(
        orders=torch.arange(8).expand(40, 8),
        texts=torch.arange(40),
        counts=torch.full((40,), 8),
        items=everything,
        always_kept=~everything,
        max_removed=torch.full((40,), 8),
    )
    flips = first_flips(lanes, before, Decision(), from_prefixes(logits))
    expected = torch.where(flips.flips, flips.removed.double(), torch.inf).tolist()
    decided = logits.argmax(-1)
    result = DecisionFlip(per_text=True).compute(predictions=decided[:, 1:], references=decided[:, 0])
    assert result["per_text"]["removed"] == expected
    assert 0 < result["never_flipped"] < 1


@pytest.mark.parametrize(
    ("predictions", "references", "message"),
    [
        ([[0.5, 1]], [0], "predictions of text 0 to be a list of whole numbers"),
        ([["yes", "no"]], [0], "predictions of text 0 to be a list of whole numbers"),
        ([0, 1], [0, 1], "predictions of text 0 to be a list of whole numbers, got an array of shape"),
        ([[0, 1]], [None], "references to be decisions, got None for text 0"),
        ([[0, 1]], [[0]], "references of text 0 to be a whole number"),
        ([[0, 1], [1, 1]], [0], "2 of predictions, 1 of references"),
    ],
)
def test_bad_input_is_refused_with_the_text(predictions, references, message):
    with pytest.raises(af.InputError, match=message):
        DecisionFlip().compute(predictions=predictions, references=references)
