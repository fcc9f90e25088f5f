"""Data in every form that they may have: the same rows, in shards, read only as far as they are wanted."""

import csv

import datasets
import pandas as pd
import pytest
from datasets import Dataset, IterableDataset

from attnfaith.data.source import open_data
from attnfaith.errors import InputError
from tests.helpers.data_forms import FORMS, TEXTS, THREE, expected_rows, in_form, records, rows_of


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_rows(form, tmp_path):
    source = open_data(in_form(form, tmp_path), score_columns=["mine"], labels=THREE)
    assert rows_of(source) == expected_rows()
    assert rows_of(source, 100) == expected_rows()  # and again
    assert source.rows == (None if form in ("stream", "generated") else len(TEXTS))
    assert source.notes == (("1 of 8 texts have no label.",) if source.rows else ())


@pytest.mark.parametrize("form", ["list", "csv", "dataset", "stream", "frame"])
@pytest.mark.parametrize("of", [1, 2, 3, 5])
def test_processes_share_the_shards(form, of, tmp_path):
    source = open_data(in_form(form, tmp_path), labels=None)
    whole = list(source.shards(3))
    assert [number for number, _ in whole] == [0, 1, 2]
    assert [len(rows) for _, rows in whole] == [3, 3, 2]
    parts = [list(source.shards(3, index=index, of=of)) for index in range(of)]
    assert all(number % of == index for index, part in enumerate(parts) for number, _ in part)
    assert sorted((shard for part in parts for shard in part), key=lambda shard: shard[0]) == whole


@pytest.mark.parametrize("arguments", [{"size": 0}, {"size": 2, "index": 2, "of": 2}, {"size": 2, "index": -1}])
def test_bad_shards(arguments):
    with pytest.raises(InputError, match="size of at least 1"):
        list(open_data(records()).shards(**arguments))


def test_a_process_does_not_read_the_shards_of_others():
    seen = []

    class Watched(list):
        def __getitem__(self, key):
            seen.append(key)
            return super().__getitem__(key)

    source = open_data(Watched(records()), label_column=None)
    seen.clear()
    assert [number for number, _ in source.shards(2, index=1, of=2)] == [1, 3]
    assert seen == [slice(2, 4), slice(6, 8)]


def test_a_stream_is_not_kept_in_memory():
    """Rows are pulled as they are wanted, whatever the length of the stream."""
    pulled = []

    def endless():
        for number in range(10**9):
            pulled.append(number)
            yield {"text": f"text {number}"}

    shards = open_data(IterableDataset.from_generator(endless)).shards(4, index=1, of=2)
    pulled.clear()
    assert [row.number for _, rows in (next(shards), next(shards)) for row in rows] == [4, 5, 6, 7, 12, 13, 14, 15]
    assert len(pulled) <= 17


def test_nothing_is_left_behind(tmp_path):
    data = Dataset.from_list(records()).with_format("numpy", columns=["label"])
    frame = pd.DataFrame(records())
    before = data.format, data._fingerprint, frame.copy()

    def switches():
        return csv.field_size_limit(), datasets.are_progress_bars_disabled(), datasets.logging.get_verbosity()

    limit = csv.field_size_limit(99_999)
    try:
        was = switches()
        for item in (data, frame, in_form("csv", tmp_path), in_form("lines", tmp_path), in_form("parquet", tmp_path)):
            rows_of(open_data(item, labels=THREE))
        (tmp_path / "bad.csv").write_text("text\na,b\n")
        (tmp_path / "bad.jsonl").write_text("{")
        (tmp_path / "bad.parquet").write_text("PAR1")
        for name in ("bad.csv", "bad.jsonl", "bad.parquet"):
            with pytest.raises(InputError):
                open_data(tmp_path / name)
        assert switches() == was
    finally:
        csv.field_size_limit(limit)
    assert (data.format, data._fingerprint) == before[:2]
    pd.testing.assert_frame_equal(frame, before[2])


@pytest.mark.parametrize("kind", [list, tuple])
def test_a_list_of_strings_is_a_list_of_texts(kind):
    texts = ["A fine film: 10/10?", "Dull.", "", "a*b"]
    source = open_data(kind(texts))
    assert [row.text for row in rows_of(source)] == texts
    assert (source.rows, source.labelled) == (4, False)
    assert [row.text for row in rows_of(open_data(kind(texts), input_column="review"))] == texts


def test_a_list_of_file_names_is_no_list_of_texts(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_text(f"text\n{name} film\n")
    names = [str(tmp_path / "a.csv"), str(tmp_path / "b.csv")]
    assert [row.text for row in rows_of(open_data(names))] == ["a film", "b film"]
    with pytest.raises(InputError, match=r"no file 'no such\.csv'"):
        open_data(["no such.csv"])
