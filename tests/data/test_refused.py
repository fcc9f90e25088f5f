"""What is no data: nothing at all, objects and files of another kind, names that lead nowhere."""

import pandas as pd
import pytest
from datasets import Dataset, IterableDataset

from attnfaith.data.source import open_data
from attnfaith.errors import InputError
from tests.helpers.data_forms import records, write_csv, write_lines


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
    ("data", "message"),
    [
        (5, "got int"),
        (None, "got NoneType"),
        ({"text": ["a"]}, "from_dict"),
        (iter([{"text": "a"}]), "got list_iterator"),
        (["I liked it.", "reviews.csv"], "no file 'I liked it.'"),
        ([{"text": "a"}, "b"], "Entry 1 of the list is of type str"),
        ("no/such/file.csv", "no file 'no/such/file.csv'"),
        ("./nothing", "no file"),
        ("*.csv", "no file"),
        ("x" * 5000, "cannot be reached|no file"),
    ],
)
def test_no_data(data, message):
    with pytest.raises(InputError, match=message):
        open_data(data)


def test_a_name_that_is_nowhere():
    with pytest.raises(InputError, match=r"no file or folder 'no-such-set', and no data set .* Hugging Face hub: .+"):
        open_data("no-such-set", subset="a", split="test")


def test_a_misspelt_file(tmp_path):
    write_csv(tmp_path / "reviews.csv")
    with pytest.raises(InputError, match=r"Did you mean '.*reviews\.csv'"):
        open_data(tmp_path / "review.csv")


@pytest.mark.parametrize("name", ["a.txt", "a.xlsx", "a.csv.gz", "a"])
def test_files_of_another_kind(name, tmp_path):
    (tmp_path / name).write_text("text\na\n")
    with pytest.raises(InputError, match=r"expected files of one kind, out of \.csv"):
        open_data(tmp_path / name)


def test_files_of_several_kinds(tmp_path):
    write_csv(tmp_path / "a.csv")
    write_lines(tmp_path / "a.jsonl")
    with pytest.raises(InputError, match="of one kind"):
        open_data([tmp_path / "a.csv", tmp_path / "a.jsonl"])


def test_a_subset_of_a_file(tmp_path):
    write_csv(tmp_path / "a.csv")
    with pytest.raises(InputError, match="subset='b'"):
        open_data(tmp_path / "a.csv", subset="b")
    with pytest.raises(InputError, match="subset='b'"):
        open_data(records(), subset="b")


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
        open_data(Dataset.from_list(records()).with_transform(lambda batch: batch))


def test_a_folder_of_very_many_files_is_not_searched(tmp_path, monkeypatch):
    """`datasets` would look at every file below it; the root of the disk takes minutes."""
    (tmp_path / "part").mkdir()
    for number in range(3):
        write_csv(tmp_path / "part" / f"train-{number}.csv")
    monkeypatch.setattr("attnfaith.data.files.MOST_FILES", 4)
    rows = open_data(tmp_path).rows
    monkeypatch.setattr("attnfaith.data.files.MOST_FILES", 3)
    with pytest.raises(InputError, match=r"holds more than 3 files and folders\. Give the folder of the data alone"):
        open_data(tmp_path)
    assert rows == 3 * len(records())
    monkeypatch.undo()
    monkeypatch.setattr("datasets.load_dataset", lambda *_, **__: pytest.fail("the disk is searched"))
    with pytest.raises(InputError, match="The folder '/' holds more than 10,000 files"):
        open_data("/")
