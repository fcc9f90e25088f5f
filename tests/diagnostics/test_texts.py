"""Reading labelled texts: how they are divided, and what is refused."""

import datasets
import pytest

from attnfaith.data.labels import ModelLabels
from attnfaith.data.source import DataOptions
from attnfaith.diagnostics.texts import PARTS, read_texts
from attnfaith.errors import InputError
from attnfaith.text.encoder import TextEncoder
from tests.helpers.training_data import rows, small

LABELS = ModelLabels("multiclass", ("bad", "good"), 2)


@pytest.fixture(scope="module")
def encoder():
    model, tokenizer = small("FLANnoenc")
    return TextEncoder(tokenizer, model)


def read(data, encoder, **more):
    return read_texts(data, DataOptions(), LABELS, encoder, **more)


def sizes(texts):
    return tuple(len(texts[part].rows) for part in PARTS)


def numbers(texts):
    return [[row.number for row in texts[part].rows] for part in PARTS]


def test_a_table_is_divided_once_and_for_all(encoder):
    texts = read(rows(100), encoder)
    assert sizes(texts) == (70, 15, 15)
    assert sorted(number for part in numbers(texts) for number in part) == list(range(100))
    assert numbers(texts) == numbers(read(rows(100), encoder))
    assert numbers(texts) != numbers(read(rows(100), encoder, seed=1))
    assert "divided at random" in " ".join(texts.notes)


def test_parts_that_are_given_are_taken_as_they_are(encoder):
    texts = read(rows(60), encoder, test=rows(10, seed=3))
    assert sizes(texts) == (51, 9, 10)
    assert [row["text"] for row in texts["test"].for_training()] == [row["text"] for row in rows(10, seed=3)]
    assert sizes(read(rows(60), encoder, validation=rows(8), test=rows(10))) == (60, 8, 10)


def test_splits_are_taken_by_their_names(encoder):
    splits = {"train": rows(30), "dev": rows(9, seed=1), "test": rows(12, seed=2)}
    data = datasets.DatasetDict({name: datasets.Dataset.from_list(part) for name, part in splits.items()})
    assert sizes(read(data, encoder)) == (30, 9, 12)


def test_a_small_diagnosis_reads_few_texts_and_says_so(encoder):
    texts = read(rows(900), encoder, small=True)
    assert sizes(texts) == (400, 100, 100)
    assert "small diagnosis" in " ".join(texts.notes)


def test_a_small_diagnosis_draws_its_texts_also_from_sorted_data(encoder):
    data = sorted(rows(900), key=lambda row: row["label"])
    for texts in (read(data, encoder, small=True), read(data, encoder, validation=data, test=data, small=True)):
        assert sizes(texts) == (400, 100, 100)
        for part in PARTS:
            assert 0.3 < sum(texts[part].labels) / len(texts[part].labels) < 0.7


def test_labels_are_read_by_name_and_rows_without_are_left_out(encoder):
    named = [{**row, "label": ("bad", "good")[row["label"]]} for row in rows(40)]
    named[3]["label"] = None
    texts = read(named, encoder)
    assert sum(sizes(texts)) == 39
    assert set(texts["train"].labels) == {0, 1}
    assert "1 of 40 rows" in " ".join(texts.notes)


@pytest.mark.parametrize(
    ("data", "code", "words"),
    [
        ([{**row, "label": 1} for row in rows(40)], "invalid-argument", "same label"),
        ([{"text": row["text"]} for row in rows(40)], "missing-labels", "labels"),
        (rows(4), "no-texts", "as many texts as classes"),
        ([{**row, "label": 7} for row in rows(40)], "unknown-label", "7"),
        ([], "no-texts", "no rows"),
    ],
)
def test_what_nothing_can_be_learned_from_is_refused(encoder, data, code, words):
    with pytest.raises(InputError, match=words) as refused:
        read(data, encoder)
    assert refused.value.code == code
