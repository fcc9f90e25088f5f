"""Which split and which columns of the data are read, and what is said of those that are not there."""

import numpy as np
import pandas as pd
import pytest
from datasets import Dataset, DatasetDict

from attnfaith.data.source import Row, open_data
from attnfaith.errors import InputError
from tests.helpers.data_forms import TEXTS, THREE, in_form, rows_of, write_csv


def splits_of(*names):
    return DatasetDict({name: Dataset.from_list([{"text": f"{name} {n}"} for n in range(10)]) for name in names})


def test_the_split_is_chosen_as_evaluate_does():
    source = open_data(splits_of("train", "validation", "test"), label_column=None)
    assert rows_of(source)[0].text == "test 0"
    assert source.notes == (
        "The split 'test' was taken, out of 'train', 'validation', 'test'; choose another with split.",
    )
    assert rows_of(open_data(splits_of("train", "dev"), label_column=None))[0].text == "dev 0"
    assert rows_of(open_data(splits_of("train", "test"), label_column=None, split="train"))[0].text == "train 0"


def test_a_part_of_a_split(tmp_path):
    data = splits_of("train", "test")
    rows = rows_of(open_data(data, label_column=None, split="test[2:4]+train[:10%]"))
    assert [(row.number, row.text) for row in rows] == [(0, "test 2"), (1, "test 3"), (2, "train 0")]
    write_csv(tmp_path / "a.csv")
    assert [row.text for row in rows_of(open_data(tmp_path / "a.csv", split="train[:2]"))] == TEXTS[:2]


@pytest.mark.parametrize(
    ("data", "split", "message"),
    [
        (splits_of("train", "extra"), None, "splits 'train', 'extra'. Choose one with split"),
        (splits_of("train", "test"), "tset", "no split 'tset'; there are 'train', 'test'"),
        (splits_of("train", "test"), "test[", "no split"),
        (splits_of("train")["train"], "test", "no split 'test': .* a single split, .* 'train'"),
        (splits_of("train")["train"].to_iterable_dataset(), "train[:2]", "as a whole"),
        ([{"text": "a"}], "test", "for data with splits"),
    ],
)
def test_splits_that_are_not_there(data, split, message):
    with pytest.raises(InputError, match=message.replace("[", r"\[")):
        open_data(data, split=split)


@pytest.mark.parametrize("form", ["list", "frame", "dataset", "csv", "tsv", "lines", "parquet", "stream", "generated"])
@pytest.mark.parametrize("argument", ["input_column", "second_input_column", "label_column", "score_columns"])
def test_misspelt_columns(form, argument, tmp_path):
    name = {"label_column": "lable", "score_columns": "mien"}.get(argument, "Txt")
    right = {"label_column": "label", "score_columns": "mine"}.get(argument, "text")
    named = "explanations" if argument == "score_columns" else argument  # as the Evaluator calls it
    with pytest.raises(InputError) as caught:
        open_data(in_form(form, tmp_path), labels=THREE, **{argument: name})
    message = str(caught.value)
    assert f"no column '{name}' ({named}). Did you mean '{right}'" in message
    assert all(f"'{column}'" in message.partition("Columns:")[2] for column in ("text", "label", "mine"))


def test_the_default_label_column_may_be_absent():
    source = open_data([{"text": "a"}], labels=THREE)
    assert rows_of(source) == [Row(0, "a")]
    assert source.notes == (
        "The data have no column 'label', so nothing is said of right and wrong; label_column names another one.",
    )
    with pytest.raises(InputError, match="no column 'stars'"):
        open_data([{"text": "a"}], labels=THREE, label_column="stars")
    assert open_data([{"text": "a", "label": "?"}], labels=THREE, label_column=None).notes == ()
    assert rows_of(open_data([{"text": "a", "label": "?"}], labels=None)) == [Row(0, "a")]


@pytest.mark.parametrize("rows", ["text;label\nfine;1\n", '\n"text";"label"\n"fine, really";1\n' * 20])
def test_a_csv_with_another_separator_gets_one_error_that_says_so(rows, tmp_path):
    (tmp_path / "a.csv").write_text(rows)
    with pytest.raises(InputError, match="the header looks separated by ';'") as refused:
        open_data(tmp_path / "a.csv")
    assert refused.value.message.endswith("DataFrame).")
    assert "line" not in str(refused.value)
    (tmp_path / "a.tsv").write_text("text,label\nfine,1\n")
    with pytest.raises(InputError, match="the header looks separated by ','"):
        open_data(tmp_path / "a.tsv")


def test_a_csv_of_one_column_is_no_other_separator(tmp_path):
    (tmp_path / "a.csv").write_bytes("\ufefftext\nfine; very\n".encode())
    assert [row.text for row in rows_of(open_data(tmp_path / "a.csv"))] == ["fine; very"]


def test_a_frame_that_was_read_with_the_wrong_separator():
    with pytest.raises(InputError, match="Is the separator another one"):
        open_data(pd.DataFrame({"text;label": ["fine;1"]}))


@pytest.mark.parametrize(("split", "meant"), [("test[:100]", "train[:100]"), ("test", "train"), ("[:5]", "train[:5]")])
def test_a_single_file_says_what_its_split_is_called(split, meant, tmp_path):
    path = tmp_path / "sst2-test.parquet"
    Dataset.from_dict({"text": [f"text {number}" for number in range(300)]}).to_parquet(path)
    with pytest.raises(InputError, match="a single split, which is called 'train' whatever") as refused:
        open_data(path, split=split)
    assert refused.value.message.endswith(f"Use split={meant!r}.")
    assert open_data(path, split="train[:100]").rows == 100


def test_columns_that_are_there_twice(tmp_path):
    with pytest.raises(InputError, match="several columns 'text'"):
        open_data(pd.DataFrame([["a", "b"]], columns=["text", "text"]))
    (tmp_path / "a.csv").write_text("text,text\na,b\n")
    with pytest.raises(InputError, match="two columns called 'text'"):
        open_data(tmp_path / "a.csv")


def test_pairs():
    data = [{"text": "a", "other": "b"}, {"text": "c", "other": None}, {"text": None, "other": "d"}]
    rows = rows_of(open_data(data, second_input_column="other"))
    assert [(row.text, row.pair) for row in rows] == [("a", "b"), (None, None), (None, None)]


def test_scores():
    data = [{"text": "a", "mine": np.array([1, 2])}, {"text": "b", "mine": None}, {"text": "c", "mine": [1, None]}]
    scores = [row.scores["mine"] for row in rows_of(open_data(data, score_columns="mine"))]
    assert scores[:2] == [(1.0, 2.0), ()]
    assert scores[2][0] == 1.0
    assert np.isnan(scores[2][1])
    for wrong in (5, "high", [[1.0]], ["a"], {"a": 1}):
        with pytest.raises(InputError, match=r"Row 1 .* of the column 'mine' holds"):
            open_data([data[0], {"text": "b", "mine": wrong}], score_columns=["mine"])
