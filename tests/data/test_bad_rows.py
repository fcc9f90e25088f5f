"""Rows that cannot be read, and texts that are missing, strange, or no texts: named by their line or row."""

import json

import numpy as np
import pandas as pd
import pytest
from datasets import Dataset, IterableDataset

from attnfaith.data.source import Row, open_data
from attnfaith.errors import InputError
from tests.helpers.data_forms import THREE, rows_of


def test_bad_rows_of_a_csv(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(
        'text,label\n"fine\nin two lines",1\ntoo, many, fields\n\nshort\n"cut" off,1\nfine,0\n"never closed,1\n'
    )
    with pytest.raises(InputError) as caught:
        open_data(path)
    message = str(caught.value)
    assert "has 4 bad rows" in message
    assert "line 4 has 3 fields where the header has 2 ('too,  many,  fields')" in message
    assert "line 6 has 1 fields" in message
    assert "line 7 cannot be read" in message
    assert "line 9 cannot be read" in message


def test_only_the_first_bad_rows_are_listed(tmp_path):
    (tmp_path / "a.csv").write_text("text,label\n" + "a,b,c\n" * 500)
    with pytest.raises(InputError, match=r"has 500 bad rows, the first 10: line 2 .* line 11 ") as caught:
        open_data(tmp_path / "a.csv")
    assert "line 12" not in str(caught.value)


def test_a_row_too_long_at_the_very_beginning(tmp_path):
    """Where pandas takes the first column for an index, and shifts the others."""
    (tmp_path / "a.csv").write_text("text,label\n" + "a,b,1\n" * 3)
    with pytest.raises(InputError, match="3 bad rows: line 2 "):
        open_data(tmp_path / "a.csv")


def test_bad_lines_of_json(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "fine"}\n{"text": "cut\n\n[1, 2]\n"alone"\n{"text": "fine"}\n')
    with pytest.raises(InputError) as caught:
        open_data(path)
    message = str(caught.value)
    assert "has 3 bad rows: line 2 is not JSON" in message
    assert "line 4 is a list, not an object" in message
    assert "line 5 is a str" in message


def test_a_bad_json_list(tmp_path):
    (tmp_path / "a.json").write_text('\n[\n {"text": "a"},\n {"text": }\n]')
    with pytest.raises(InputError, match="not JSON: line 4"):
        open_data(tmp_path / "a.json")
    (tmp_path / "a.json").write_text('[{"text": "a"}, 5]')
    with pytest.raises(InputError, match="entry 1 of its list is a int"):
        open_data(tmp_path / "a.json")


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_another_encoding(name, tmp_path):
    lines = {"a.csv": "text\nfine\ncafé\n", "a.jsonl": '{"text": "a"}\n{}\n{"text": "café"}\n'}
    (tmp_path / name).write_bytes(lines[name].encode("latin-1"))
    with pytest.raises(InputError, match="not UTF-8: line 3 holds the byte 0xe9"):
        open_data(tmp_path / name)


def test_a_byte_order_mark_is_no_column(tmp_path):
    (tmp_path / "a.csv").write_text("text\nfine\n", encoding="utf-8-sig")
    assert rows_of(open_data(tmp_path / "a.csv")) == [Row(0, "fine")]


def test_a_very_long_text(tmp_path):
    text = "word " * 100_000
    (tmp_path / "a.csv").write_text(f"text\n{text}\n")
    assert rows_of(open_data(tmp_path / "a.csv")) == [Row(0, text)]


@pytest.mark.parametrize("form", ["list", "frame", "lines", "dataset"])
def test_texts_of_another_type(form, tmp_path):
    data = [{"text": "fine"}] * 1500 + [{"text": 5}]
    if form == "lines":
        (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, data)))
        data = tmp_path / "a.jsonl"
    elif form == "frame":
        data = pd.DataFrame(data)
    elif form == "dataset":
        data = Dataset.from_dict({"text": [None] * 1500 + [5]})
    with pytest.raises(InputError, match=r"Row 1500 .* of the column 'text' holds 5, of type int"):
        open_data(data)


def test_a_stream_is_checked_at_its_first_row_and_on_the_way():
    with pytest.raises(InputError, match=r"Row 0"):
        open_data(Dataset.from_dict({"text": [1, 2]}).to_iterable_dataset())
    source = open_data(IterableDataset.from_generator(lambda: iter([{"text": "a"}, {"text": 2.5}])))
    with pytest.raises(InputError, match=r"Row 1 .* of type float"):
        rows_of(source)


def test_a_column_of_numbers_in_a_csv(tmp_path):
    (tmp_path / "a.csv").write_text("id,text\n,a\n7,b\n8,c\n")
    with pytest.raises(InputError, match=r"'id' holds numbers only, from row 1 .*'7'"):
        open_data(tmp_path / "a.csv", input_column="id")


@pytest.mark.parametrize(
    "data", [[{"text": None}], pd.DataFrame({"text": [float("nan"), None]})], ids=["list", "frame"]
)
def test_a_column_of_nothing(data):
    with pytest.raises(InputError, match="holds no text"):
        open_data(data)


def test_half_a_character(tmp_path):
    with pytest.raises(InputError, match=r"Row 1 .* half a character"):
        open_data([{"text": "fine"}, {"text": "\ud83d"}])
    (tmp_path / "a.jsonl").write_text('{"text": "\\ud83d"}\n')
    with pytest.raises(InputError, match=r"Row 0 .* half a character"):
        open_data(tmp_path / "a.jsonl")


@pytest.mark.parametrize("missing", [None, float("nan"), np.nan, pd.NA, np.float64("nan")])
def test_missing_texts(missing):
    rows = rows_of(open_data(pd.DataFrame({"text": ["a", missing], "label": [missing, "good"]}), labels=THREE))
    assert rows == [Row(0, "a"), Row(1, None, None, 2)]


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_a_carriage_return_outside_quotes_is_never_lost(tmp_path, ending):
    """It is named with its line; within quotes it is a part of the text."""
    path = tmp_path / "data.csv"
    for cell, wrong in (("\rgood film", True), ("good\rfilm", True), ('"\rgood\rfilm\r"', False)):
        path.write_bytes(ending.join(["text,label", f"{cell},1", "dull,0", ""]).encode())
        if wrong:
            with pytest.raises(InputError, match=r"line 2 .*carriage return outside quotes"):
                open_data(str(path), label_column=None)
        else:
            rows = next(iter(open_data(str(path), label_column=None).shards(9)))[1]
            assert [row.text for row in rows] == ["\rgood\rfilm\r", "dull"]


def test_files_of_old_macs_end_lines_with_carriage_returns(tmp_path):
    path = tmp_path / "data.csv"
    path.write_bytes(b"text,label\rgood,1\rdull,0\r")
    rows = next(iter(open_data(str(path), label_column=None).shards(9)))[1]
    assert [row.text for row in rows] == ["good", "dull"]
