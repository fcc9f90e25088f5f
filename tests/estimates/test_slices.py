"""Slices: each is the summary of its texts, and those that cannot be made are refused."""

import numpy as np
import pandas as pd
import pytest

from attnfaith.errors import InputError
from attnfaith.estimates.summary_table import slices_of
from tests.helpers.seeded_tables import NAN, frames, made, single_weight
from tests.helpers.summaries import summarise_erasure, summarise_single_weight


@pytest.mark.parametrize("by", ["class", "length", "confidence", "correct"])
def test_a_slice_is_the_summary_of_its_texts(by):
    rows, about = made(10, texts=120)
    erasure, texts = frames(rows, about)
    table = summarise_erasure(erasure, texts, n_resamples=100, by=by)
    here = texts[texts.aside.isna()]
    label = {
        "class": here.prediction.map(lambda value: f"{value:g}"),
        "correct": here.correct.astype(str),
        "length": None,
        "confidence": None,
    }[by]
    parts = dict.fromkeys(table.slice)
    assert len(parts) == {"class": 3, "length": 4, "confidence": 3, "correct": 2}[by]
    total = 0
    for part in parts:
        assert part.startswith(f"{by}=")
        if by == "length":
            start, end = part.removeprefix("length=").split("-") if "-" in part else 2 * [part.removeprefix("length=")]
            ids = here.text_id[(here["items"] >= int(start)) & (here["items"] <= int(end))]
        elif by == "confidence":
            lower, upper = np.quantile(here.confidence, [1 / 3, 2 / 3])
            third = np.where(here.confidence < lower, "low", np.where(here.confidence < upper, "middle", "high"))
            ids = here.text_id[third == part.removeprefix("confidence=")]
        else:
            ids = here.text_id[label == part.removeprefix(f"{by}=")]
        total += len(ids)
        alone = summarise_erasure(erasure[erasure.text_id.isin(ids)], texts[texts.text_id.isin(ids)], n_resamples=100)
        alone = alone[(alone.other == "") & (alone.figure != "set_aside")].drop(columns="slice").reset_index(drop=True)
        of_slice = table[table.slice == part].drop(columns="slice").reset_index(drop=True)
        pd.testing.assert_frame_equal(of_slice, alone)
    assert total == len(here)


def test_lengths_are_named_by_the_shortest_and_the_longest_there_are():
    def labels(*items):
        texts = pd.DataFrame({"text_id": range(len(items)), "aside": None, "items": items})
        return [part.label for part in slices_of(texts, "length")]

    assert labels(2, 3, 5, 9) == ["length=2", "length=3", "length=5", "length=9"]
    assert labels(2, 3, 5, 9, 10, 20, 30, 31) == ["length=2-3", "length=5-9", "length=10-20", "length=30-31"]
    assert labels(4, 4, 4, 4, 8) == ["length=4", "length=8"]


def test_lengths_that_are_all_equal_are_one_slice():
    rows, about = made(11)
    texts = frames(rows, about)[1]
    texts.loc[texts.aside.isna(), "items"] = 7
    table = summarise_erasure(frames(rows, about)[0], texts, n_resamples=20, by="length")
    assert set(table.slice) == {"length=7"}


def test_equal_confidences_stay_together():
    rows, about = made(11)
    erasure, texts = frames(rows, about)
    texts.loc[texts.aside.isna(), "confidence"] = 1.0
    assert set(summarise_erasure(erasure, texts, n_resamples=20, by="confidence").slice) == {"confidence=high"}


def test_slices_that_cannot_be_made_are_refused():
    rows, about = made(12)
    erasure, texts = frames(rows, about)
    unsure = texts.assign(confidence=NAN)
    with pytest.raises(InputError, match="by to be one of class, confidence, correct, length"):
        summarise_erasure(erasure, texts, by="gender")
    with pytest.raises(InputError, match="Evaluate with label_column"):
        summarise_erasure(erasure, texts.assign(correct=None), by="correct")
    with pytest.raises(InputError, match="multi-label"):
        summarise_erasure(erasure, unsure.assign(prediction=[[0, 1]] * len(texts)), by="class")
    with pytest.raises(InputError, match="regression"):
        summarise_erasure(erasure, unsure.assign(prediction=0.5), by="class")
    with pytest.raises(InputError, match="probability of one predicted class"):
        summarise_single_weight(single_weight(), unsure, by="confidence")
