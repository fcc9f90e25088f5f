"""Data in every form that they may have, and everything that can be wrong with them."""

import csv
import json
import os
import subprocess
import sys
import tempfile

import datasets
import numpy as np
import pandas as pd
import pytest
from datasets import ClassLabel, Dataset, DatasetDict, Features, IterableDataset, List, Value

from attnfaith.errors import InputError, StorageError
from attnfaith.evaluation.data import LabelSpace, Row, open_data
from attnfaith.evaluation.labels import Labels

THREE = LabelSpace("multiclass", ("bad", "so-so", "good"), 3)
TEXTS = ["A fine film.", "NA", 'She said "no, never".', "2020-01-01", "two\nlines", "12", None, "naïve ☕"]
GOLD = [2, 0, 0, 1, 2, 0, 1, None]
MINE = [[0.5, 1.0], [2.0], [], [0.0], [-1.5, 0.25], [1.0], [3.0], [1e-9]]


def _records():
    return [{"text": t, "label": g, "mine": m} for t, g, m in zip(TEXTS, GOLD, MINE, strict=True)]


def _expected():
    return [Row(n, t, None, g, {"mine": tuple(m)}) for n, (t, g, m) in enumerate(zip(TEXTS, GOLD, MINE, strict=True))]


def _rows(source, size=3):
    return [row for _, rows in source.shards(size) for row in rows]


def _write_csv(path, delimiter=","):
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(["text", "label", "mine", "rest"])
        for row in _records():
            writer.writerow([row["text"], row["label"], json.dumps(row["mine"]), "x"])


def _write_lines(path):
    path.write_text("".join(json.dumps(row) + "\n" for row in _records()), encoding="utf-8")


def _form(name, folder):
    data = Dataset.from_list(_records())
    if name == "csv":
        _write_csv(folder / "a.csv")
        return folder / "a.csv"
    if name == "tsv":
        _write_csv(folder / "a.tsv", "\t")
        return str(folder / "a.tsv")
    if name == "lines":
        _write_lines(folder / "a.jsonl")
        return folder / "a.jsonl"
    if name == "json list":
        (folder / "a.json").write_text(json.dumps(_records(), indent=1))
        return folder / "a.json"
    if name == "two files":
        half = len(TEXTS) // 2
        for part, rows in (("a", _records()[:half]), ("b", _records()[half:])):
            (folder / f"{part}.ndjson").write_text("\n".join(map(json.dumps, rows)))
        return str(folder / "*.ndjson")
    if name == "parquet":
        data.to_parquet(folder / "a.parquet")
        return [folder / "a.parquet"]
    if name == "saved":
        data.save_to_disk(folder / "saved")
        return folder / "saved"
    if name == "folder":
        data.to_parquet(folder / "train.parquet")
        return folder
    return {
        "list": _records(),
        "frame": pd.DataFrame(_records(), index=range(7, 7 + len(TEXTS))),
        "dataset": data,
        "as tensors": data.with_format("torch", columns=["label"]),
        "shuffled twice": data.select(range(len(TEXTS) - 1, -1, -1)).select(range(len(TEXTS) - 1, -1, -1)),
        "stream": data.to_iterable_dataset(num_shards=2),
        "generated": IterableDataset.from_generator(_records),
        "one split": DatasetDict(whatever=data),
    }[name]


FORMS = "list frame dataset csv tsv lines parquet saved folder stream generated".split()
FORMS += ["json list", "two files", "as tensors", "shuffled twice", "one split"]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_rows(form, tmp_path):
    source = open_data(_form(form, tmp_path), score_columns=["mine"], labels=THREE)
    assert _rows(source) == _expected()
    assert _rows(source, 100) == _expected()  # and again
    assert source.rows == (None if form in ("stream", "generated") else len(TEXTS))
    assert source.notes == (("1 of 8 texts have no label.",) if source.rows else ())


@pytest.mark.parametrize("form", ["list", "csv", "dataset", "stream", "frame"])
@pytest.mark.parametrize("of", [1, 2, 3, 5])
def test_processes_share_the_shards(form, of, tmp_path):
    source = open_data(_form(form, tmp_path), labels=None)
    whole = list(source.shards(3))
    assert [number for number, _ in whole] == [0, 1, 2]
    assert [len(rows) for _, rows in whole] == [3, 3, 2]
    parts = [list(source.shards(3, index=index, of=of)) for index in range(of)]
    assert all(number % of == index for index, part in enumerate(parts) for number, _ in part)
    assert sorted((shard for part in parts for shard in part), key=lambda shard: shard[0]) == whole


@pytest.mark.parametrize("arguments", [{"size": 0}, {"size": 2, "index": 2, "of": 2}, {"size": 2, "index": -1}])
def test_bad_shards(arguments):
    with pytest.raises(InputError, match="size of at least 1"):
        list(open_data(_records()).shards(**arguments))


def test_a_process_does_not_read_the_shards_of_others():
    seen = []

    class Watched(list):
        def __getitem__(self, key):
            seen.append(key)
            return super().__getitem__(key)

    source = open_data(Watched(_records()), label_column=None)
    seen.clear()
    assert [number for number, _ in source.shards(2, index=1, of=2)] == [1, 3]
    assert seen == [slice(2, 4), slice(6, 8)]


def test_a_stream_is_not_held():
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


def test_pairs():
    data = [{"text": "a", "other": "b"}, {"text": "c", "other": None}, {"text": None, "other": "d"}]
    rows = _rows(open_data(data, second_input_column="other"))
    assert [(row.text, row.pair) for row in rows] == [("a", "b"), (None, None), (None, None)]


def test_nothing_is_left_behind(tmp_path):
    data = Dataset.from_list(_records()).with_format("numpy", columns=["label"])
    frame = pd.DataFrame(_records())
    before = data.format, data._fingerprint, frame.copy()

    def switches():
        return csv.field_size_limit(), datasets.are_progress_bars_disabled(), datasets.logging.get_verbosity()

    limit = csv.field_size_limit(99_999)
    try:
        was = switches()
        for one in (data, frame, _form("csv", tmp_path), _form("lines", tmp_path), _form("parquet", tmp_path)):
            _rows(open_data(one, labels=THREE))
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


# Splits


def _splits(*names):
    return DatasetDict({name: Dataset.from_list([{"text": f"{name} {n}"} for n in range(10)]) for name in names})


def test_the_split_is_chosen_as_evaluate_does():
    source = open_data(_splits("train", "validation", "test"), label_column=None)
    assert _rows(source)[0].text == "test 0"
    assert source.notes == (
        "The split 'test' was taken, out of 'train', 'validation', 'test'; split= chooses another.",
    )
    assert _rows(open_data(_splits("train", "dev"), label_column=None))[0].text == "dev 0"
    assert _rows(open_data(_splits("train", "test"), label_column=None, split="train"))[0].text == "train 0"


def test_a_part_of_a_split(tmp_path):
    data = _splits("train", "test")
    rows = _rows(open_data(data, label_column=None, split="test[2:4]+train[:10%]"))
    assert [(row.number, row.text) for row in rows] == [(0, "test 2"), (1, "test 3"), (2, "train 0")]
    _write_csv(tmp_path / "a.csv")
    assert [row.text for row in _rows(open_data(tmp_path / "a.csv", split="train[:2]"))] == TEXTS[:2]


@pytest.mark.parametrize(
    ("data", "split", "said"),
    [
        (_splits("train", "extra"), None, "splits 'train', 'extra'. Choose with split="),
        (_splits("train", "test"), "tset", "no split 'tset'; there are 'train', 'test'"),
        (_splits("train", "test"), "test[", "no split"),
        (_splits("train")["train"], "test", "no split 'test'; there are 'train'"),
        (_splits("train")["train"].to_iterable_dataset(), "train[:2]", "as a whole"),
        ([{"text": "a"}], "test", "for data with splits"),
    ],
)
def test_splits_that_are_not_there(data, split, said):
    with pytest.raises(InputError, match=said.replace("[", r"\[")):
        open_data(data, split=split)


# Columns


@pytest.mark.parametrize("form", ["list", "frame", "dataset", "csv", "tsv", "lines", "parquet", "stream", "generated"])
@pytest.mark.parametrize("argument", ["input_column", "second_input_column", "label_column", "score_columns"])
def test_misspelt_columns(form, argument, tmp_path):
    name = {"label_column": "lable", "score_columns": "mien"}.get(argument, "Txt")
    right = {"label_column": "label", "score_columns": "mine"}.get(argument, "text")
    with pytest.raises(InputError) as caught:
        open_data(_form(form, tmp_path), labels=THREE, **{argument: name})
    said = str(caught.value)
    assert f"no column '{name}' ({argument}). Did you mean '{right}'" in said
    assert all(f"'{column}'" in said.partition("Columns:")[2] for column in ("text", "label", "mine"))


def test_the_default_label_column_may_be_absent():
    source = open_data([{"text": "a"}], labels=THREE)
    assert _rows(source) == [Row(0, "a")]
    assert source.notes == ("The data have no column 'label', so nothing is said of right and wrong.",)
    with pytest.raises(InputError, match="no column 'stars'"):
        open_data([{"text": "a"}], labels=THREE, label_column="stars")
    assert open_data([{"text": "a", "label": "?"}], labels=THREE, label_column=None).notes == ()
    assert _rows(open_data([{"text": "a", "label": "?"}], labels=None)) == [Row(0, "a")]


def test_another_separator_is_suspected(tmp_path):
    (tmp_path / "a.csv").write_text("text;label\nfine;1\n")
    with pytest.raises(InputError, match="separator another one"):
        open_data(tmp_path / "a.csv")


def test_columns_that_are_there_twice(tmp_path):
    with pytest.raises(InputError, match="several columns 'text'"):
        open_data(pd.DataFrame([["a", "b"]], columns=["text", "text"]))
    (tmp_path / "a.csv").write_text("text,text\na,b\n")
    with pytest.raises(InputError, match="two columns called 'text'"):
        open_data(tmp_path / "a.csv")


# What is no data


@pytest.mark.parametrize(
    "empty",
    [
        [],
        pd.DataFrame({"text": []}),
        Dataset.from_dict({"text": []}),
        IterableDataset.from_generator(lambda: iter(())),
        "head.csv",
        "nothing.csv",
        "nothing.jsonl",
        "list.json",
    ],
    ids=str,
)
def test_empty_data(empty, tmp_path):
    if isinstance(empty, str):
        content = {"head.csv": "text,label\n", "list.json": "[]"}.get(empty, "")
        (tmp_path / empty).write_text(content)
        empty = tmp_path / empty
    with pytest.raises(InputError, match="empty"):
        open_data(empty)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (5, "got int"),
        (None, "got NoneType"),
        ({"text": ["a"]}, "from_dict"),
        (iter([{"text": "a"}]), "got list_iterator"),
        (["I liked it.", "So did I."], r"\[\{'text': \.\.\.\}"),
        ([{"text": "a"}, "b"], "Entry 1 of the list is of type str"),
        ("no/such/file.csv", "no file 'no/such/file.csv'"),
        ("./nothing", "no file"),
        ("*.csv", "no file"),
        ("x" * 5000, "cannot be reached|no file"),
    ],
)
def test_no_data(data, said):
    with pytest.raises(InputError, match=said):
        open_data(data)


def test_a_name_that_is_nowhere():
    with pytest.raises(InputError, match=r"no file or folder 'no-such-set', and no data set .* Hugging Face hub: .+"):
        open_data("no-such-set", subset="a", split="test")


def test_a_misspelt_file(tmp_path):
    _write_csv(tmp_path / "reviews.csv")
    with pytest.raises(InputError, match=r"Did you mean '.*reviews\.csv'"):
        open_data(tmp_path / "review.csv")


@pytest.mark.parametrize("name", ["a.txt", "a.xlsx", "a.csv.gz", "a"])
def test_files_of_another_kind(name, tmp_path):
    (tmp_path / name).write_text("text\na\n")
    with pytest.raises(InputError, match=r"expected files of one kind, out of \.csv"):
        open_data(tmp_path / name)


def test_files_of_several_kinds(tmp_path):
    _write_csv(tmp_path / "a.csv")
    _write_lines(tmp_path / "a.jsonl")
    with pytest.raises(InputError, match="of one kind"):
        open_data([tmp_path / "a.csv", tmp_path / "a.jsonl"])


def test_a_subset_of_a_file(tmp_path):
    _write_csv(tmp_path / "a.csv")
    with pytest.raises(InputError, match="subset='b'"):
        open_data(tmp_path / "a.csv", subset="b")
    with pytest.raises(InputError, match="subset='b'"):
        open_data(_records(), subset="b")


@pytest.mark.parametrize("name", ["a.parquet", "folder"])
def test_what_cannot_be_read(name, tmp_path):
    path = tmp_path / name
    if name == "folder":
        path.mkdir()
        (path / "state.json").write_text("{")
    else:
        path.write_bytes(b"PAR1 and no more")
    with pytest.raises(InputError, match=f"{name}' cannot be read"):
        open_data(path)


def test_a_folder_of_nothing(tmp_path):
    with pytest.raises(InputError, match="holds no data"):
        open_data(tmp_path)


def test_a_transform_is_not_guessed_at():
    with pytest.raises(InputError, match=r"Use map\(\)"):
        open_data(Dataset.from_list(_records()).with_transform(lambda batch: batch))


# Rows that are wrong


def test_bad_rows_of_a_csv(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(
        'text,label\n"fine\nin two lines",1\ntoo, many, fields\n\nshort\n"cut" off,1\nfine,0\n"never closed,1\n'
    )
    with pytest.raises(InputError) as caught:
        open_data(path)
    said = str(caught.value)
    assert "has 4 bad rows" in said
    assert "line 4 has 3 fields where the header has 2 ('too,  many,  fields')" in said
    assert "line 6 has 1 fields" in said
    assert "line 7 cannot be read" in said
    assert "line 9 cannot be read" in said


def test_only_the_first_bad_rows_are_told(tmp_path):
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
    said = str(caught.value)
    assert "has 3 bad rows: line 2 is not JSON" in said
    assert "line 4 is a list, not an object" in said
    assert "line 5 is a str" in said


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
    assert _rows(open_data(tmp_path / "a.csv")) == [Row(0, "fine")]


def test_a_very_long_text(tmp_path):
    text = "word " * 100_000
    (tmp_path / "a.csv").write_text(f"text\n{text}\n")
    assert _rows(open_data(tmp_path / "a.csv")) == [Row(0, text)]


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
        _rows(source)


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
    rows = _rows(open_data(pd.DataFrame({"text": ["a", missing], "label": [missing, "good"]}), labels=THREE))
    assert rows == [Row(0, "a"), Row(1, None, None, 2)]


def test_scores():
    data = [{"text": "a", "mine": np.array([1, 2])}, {"text": "b", "mine": None}, {"text": "c", "mine": [1, None]}]
    scores = [row.scores["mine"] for row in _rows(open_data(data, score_columns="mine"))]
    assert scores[:2] == [(1.0, 2.0), ()]
    assert scores[2][0] == 1.0
    assert np.isnan(scores[2][1])
    for wrong in (5, "high", [[1.0]], ["a"], {"a": 1}):
        with pytest.raises(InputError, match=r"Row 1 .* of the column 'mine' holds"):
            open_data([data[0], {"text": "b", "mine": wrong}], score_columns=["mine"])


# Files that change, and files that two processes read


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.parquet"])
def test_a_changed_file_is_read_anew_and_an_open_one_stays(name, tmp_path):
    def write(word):
        data = Dataset.from_dict({"text": [word] * 3})
        {".csv": data.to_csv, ".jsonl": data.to_json, ".parquet": data.to_parquet}[path.suffix](path)
        os.utime(path, (10**9, 10**9))  # the same size, the same time

    path = tmp_path / name
    write("old")
    first = open_data(path)
    write("new")
    second = open_data(path)
    assert [row.text for row in _rows(first)] == ["old"] * 3
    assert [row.text for row in _rows(second)] == ["new"] * 3


def test_two_processes_read_one_file(tmp_path):
    Dataset.from_dict({"text": [f"text {n}" for n in range(5000)]}).to_parquet(tmp_path / "a.parquet")
    program = (
        "import sys; from attnfaith.evaluation.data import open_data\n"
        "for _ in range(3): print(sum(len(rows) for _, rows in open_data(sys.argv[1]).shards(100)))"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "a.parquet")]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [process.communicate()[0].split() for process in running] == [["5000"] * 3] * 2


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_nothing_is_left_in_the_folder_for_temporary_files(name, tmp_path, monkeypatch):
    (tmp_path / "passing").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "passing"))
    Dataset.from_dict({"text": ["a", "b"]}).to_parquet(tmp_path / "a.parquet")
    _write_csv(tmp_path / "a.csv")
    source = open_data(tmp_path / name)
    assert list((tmp_path / "passing").iterdir()) == []
    assert len(_rows(source)) == source.rows
    (tmp_path / "bad.csv").write_text("text\na,b\n")
    with pytest.raises(InputError):
        open_data(tmp_path / "bad.csv")
    assert list((tmp_path / "passing").iterdir()) == []


def test_no_room_for_temporary_files(tmp_path, monkeypatch):
    _write_csv(tmp_path / "a.csv")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(StorageError, match="TMPDIR"):
        open_data(tmp_path / "a.csv")


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_a_full_disk_for_temporary_files(name, tmp_path):
    text = "much to say " * 1000
    Dataset.from_dict({"text": [text] * 100}).to_parquet(tmp_path / "a.parquet")
    Dataset.from_dict({"text": [text] * 100}).to_csv(tmp_path / "a.csv")
    program = (
        "import resource, sys; from attnfaith.evaluation.data import open_data\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "open_data(sys.argv[1])"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path / name)], capture_output=True, text=True)
    assert done.returncode == 1
    assert "StorageError: No copy of the data can be laid aside" in done.stderr.splitlines()[-1]


# Labels


def _read(space, labels, mapping=None, features=None):
    texts = [f"text {number}" for number in range(len(labels))]
    if features is None:
        data = [{"text": text, "label": label} for text, label in zip(texts, labels, strict=True)]
    else:
        data = Dataset.from_dict({"text": texts, "label": labels}, Features(text=Value("string"), label=features))
    source = open_data(data, labels=space, label_mapping=mapping)
    return [row.label for row in _rows(source)], source.notes


STARS = LabelSpace("multiclass", ("1", "2", "3"), 3)
MANY = LabelSpace("multilabel", THREE.names, 3)
NUMBER = LabelSpace("regression", ("LABEL_0",), 1)
PLAIN = LabelSpace("multiclass", ("LABEL_0", "LABEL_1"), 2)


@pytest.mark.parametrize(
    ("space", "labels", "mapping", "expected"),
    [
        (THREE, [0, 2, np.int64(1), 1.0, True], None, [0, 2, 1, 1, 1]),
        (THREE, ["good", "So-So", " bad ", "2", "1.0", "TRUE"], None, [2, 1, 0, 2, 1, 1]),
        (THREE, [None, float("nan"), "", "good"], None, [None, None, None, 2]),
        (THREE, ["neg", "pos", "good"], {"neg": 0, "pos": "good"}, [0, 2, 2]),
        (THREE, [-1, 0, 1], {"bad": -1, "so-so": 0, "good": 1}, [0, 1, 2]),  # as evaluate
        (THREE, ["-1", "0", "1"], {"bad": -1.0, "so-so": 0.0, "good": 1.0}, [0, 1, 2]),
        (THREE, [5, 1, "good"], {5: 2, 1: 0}, [2, 0, 2]),
        (PLAIN, ["pos", "neg"], {"neg": 0, "pos": 1}, [1, 0]),
        (PLAIN, [4, 0], {"LABEL_0": 0, "LABEL_1": 4}, [1, 0]),
        (PLAIN, [False, True, "False", "LABEL_1"], None, [0, 1, 0, 1]),
        (STARS, ["1", "3"], None, [0, 2]),
        (STARS, [1, 3], {"1": 1, "2": 2, "3": 3}, [0, 2]),
        (STARS, [0, 2], {"1": 0, "2": 1, "3": 2}, [0, 2]),
        (LabelSpace("multiclass", ("true", "false"), 2), [True, False, "true"], None, [0, 1, 0]),
        (LabelSpace("multiclass", (), 4), [3, "0"], None, [3, 0]),
        (LabelSpace("sigmoid", ("LABEL_0",), 1), [0, 1, "1"], None, [0, 1, 1]),
        (LabelSpace("sigmoid", ("no", "yes"), 2), ["yes", 0], None, [1, 0]),
        (NUMBER, [1, 2.5, "3.5", True, None, "nan"], None, [1, 2.5, 3.5, 1, None, None]),
        (MANY, [[0, 2], ["good", "bad"], [], None], None, [(0, 2), (0, 2), (), None]),
        (MANY, [[0, 1, 1], [0.0, 0.0, 0.0], (True, False, True)], None, [(1, 2), (), (0, 2)]),
        (MANY, ["[0, 2]", '["good"]', [2, 2]], None, [(0, 2), (2,), (2,)]),
        (LabelSpace("multilabel", ("a", "b"), 2), [[0, 1], [1, 1], ["a"], []], None, [(1,), (0, 1), (0,), ()]),
    ],
)  # fmt: skip
def test_labels(space, labels, mapping, expected):
    found, _ = _read(space, labels, mapping)
    assert found == expected
    assert [type(one) for one in found] == [
        type(float(e) if space.kind == "regression" and e is not None else e) for e in expected
    ]


@pytest.mark.parametrize(
    ("features", "mapping", "expected", "noted"),
    [
        (ClassLabel(names=["good", "bad"]), None, [2, 0], False),  # by name
        (ClassLabel(names=["GOOD", "Bad", "So-so"]), None, [2, 0], False),
        (ClassLabel(names=["no", "yes"]), None, [0, 1], True),  # by number
        (ClassLabel(num_classes=3), None, [0, 1], True),
        (ClassLabel(names=["no", "yes"]), {"no": "bad", "yes": "good"}, [0, 2], False),
        (ClassLabel(names=["no", "yes"]), {"bad": 0, "good": 1}, [0, 2], False),
        (ClassLabel(names=["no", "yes"]), {"bad": "no", "good": "yes"}, [0, 2], False),
        (ClassLabel(names=["no", "yes"]), {1: 0, 0: 2}, [2, 0], False),
    ],
)
def test_labels_with_names_in_the_data(features, mapping, expected, noted):
    found, notes = _read(THREE, [0, 1, -1], mapping, features)
    assert found == [*expected, None]  # -1: withheld
    assert any("by number" in note for note in notes) == noted
    assert "1 of 3 texts have no label." in notes
    stream = Dataset.from_dict({"text": ["a", "b"], "label": [0, 1]}, Features(text=Value("string"), label=features))
    rows = _rows(open_data(stream.to_iterable_dataset(), labels=THREE, label_mapping=mapping))
    assert [row.label for row in rows] == expected


def test_lists_of_labels_with_names_in_the_data():
    found, _ = _read(MANY, [[0], [0, 1]], None, List(ClassLabel(names=["good", "bad"])))
    assert found == [(2,), (0, 2)]


@pytest.mark.parametrize(
    ("space", "labels", "mapping", "row", "said"),
    [
        (THREE, [0, 1, 3], None, 2, "label 3: the model does not have it.*bad, so-so, good.*label_mapping="),
        (THREE, [0, -1], None, 1, "label -1"),
        (THREE, ["bad", "Excellent"], None, 1, "label 'Excellent'"),
        (THREE, [0.5], None, 0, "label 0.5"),
        (THREE, [[1]], None, 0, "not several"),
        (THREE, [{"a": 1}], None, 0, "not several"),
        (THREE, ["neg", "neu"], {"neg": 0, "pos": 2}, 1, "label_mapping does not speak of it"),
        (THREE, [1, 2, 3], {"bad": 1, "good": 2}, 2, "label_mapping does not speak of it"),
        (STARS, [1, 2], None, 0, "names are numbers"),
        (STARS, ["1", "0"], None, 1, "label '0'"),
        (LabelSpace("sigmoid", (), 1), [2], None, 0, "label 2"),
        (NUMBER, [1.0, "high"], None, 1, "a number is expected"),
        (NUMBER, [float("inf")], None, 0, "finite"),
        (MANY, [1], None, 0, "a list is expected"),
        (MANY, ["bad"], None, 0, "a list is expected"),
        (MANY, [[0], [0, 7]], None, 1, "label 7"),
        (MANY, [[0, None]], None, 0, "missing"),
        (LabelSpace("multilabel", ("a", "b"), 2), [[1], [0, 1]], None, 1, "list of label numbers"),
    ],
)
def test_labels_that_the_model_does_not_have(space, labels, mapping, row, said):
    with pytest.raises(InputError, match=f"(?i)row {row} .*{said}"):
        _read(space, labels, mapping)


@pytest.mark.parametrize(
    ("mapping", "said"),
    [
        ({"neg": 3}, "class 3"),
        ({"neg": "worst"}, "class 'worst'"),
        ({"bad": 1, "good": 1}, "the label 1 to two classes"),
        ({"1": 0, 1: 2}, "to two classes"),
        ({}, "to be a dict"),
        (["bad"], "to be a dict"),
    ],
)
def test_mappings_that_make_no_sense(mapping, said):
    with pytest.raises(InputError, match=said):
        Labels(THREE, mapping)


def test_a_mapping_for_a_regression():
    with pytest.raises(InputError, match="is a regression"):
        Labels(NUMBER, {"a": 1})


def test_names_that_differ_in_case_only_are_told_apart():
    space = LabelSpace("multiclass", ("A", "a"), 2)
    assert _read(space, ["a", "A"])[0] == [1, 0]
    with pytest.raises(InputError, match="label 'À'"):
        _read(space, ["À"])


def test_all_labels_are_checked_at_the_door():
    with pytest.raises(InputError, match=r"Row 4999"):
        open_data(Dataset.from_dict({"text": ["a"] * 5000, "label": [0] * 4999 + [9]}), labels=THREE)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_data(tmp_path):
    """A file ten times as long takes hardly more memory to open and to go through."""
    program = (
        "import resource, sys; from attnfaith.evaluation.data import LabelSpace, open_data\n"
        "source = open_data(sys.argv[1], labels=LabelSpace('multiclass', (), 3))\n"
        "assert sum(len(rows) for _, rows in source.shards(256)) == source.rows\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)"
    )
    peaks = []
    for rows in (10_000, 100_000):
        path = tmp_path / f"{rows}.csv"
        path.write_text("text,label\n" + "".join(f"a short text of number {n} {'x' * 200},1\n" for n in range(rows)))
        peaks.append(int(subprocess.check_output([sys.executable, "-c", program, str(path)], text=True)))
    assert peaks[1] - peaks[0] < 60
