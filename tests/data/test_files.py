"""Data files that change, that two processes read, or that are large; and their temporary copies."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from datasets import Dataset

from attnfaith.data.files import is_file_name
from attnfaith.data.source import open_data
from attnfaith.errors import InputError, StorageError
from tests.faults.children import Fork, forked
from tests.helpers.data_forms import rows_of, write_csv


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.parquet"])
def test_a_changed_file_is_read_again_and_an_open_one_stays(name, tmp_path):
    def write(word):
        data = Dataset.from_dict({"text": [word] * 3})
        {".csv": data.to_csv, ".jsonl": data.to_json, ".parquet": data.to_parquet}[path.suffix](path)
        os.utime(path, (10**9, 10**9))  # the same size, the same time

    path = tmp_path / name
    write("old")
    first = open_data(path)
    write("new")
    second = open_data(path)
    assert [row.text for row in rows_of(first)] == ["old"] * 3
    assert [row.text for row in rows_of(second)] == ["new"] * 3


def count_three_times(path):
    for _ in range(3):
        sys.stdout.write(f"{sum(len(rows) for _, rows in open_data(path).shards(100))}\n")


def test_two_processes_read_one_file(tmp_path):
    Dataset.from_dict({"text": [f"text {n}" for n in range(5000)]}).to_parquet(tmp_path / "a.parquet")
    running = [Fork(count_three_times, str(tmp_path / "a.parquet")) for _ in range(2)]
    assert [fork.ended().stdout.split() for fork in running] == [["5000"] * 3] * 2


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_nothing_is_left_in_the_folder_for_temporary_files(name, tmp_path, monkeypatch):
    (tmp_path / "passing").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "passing"))
    Dataset.from_dict({"text": ["a", "b"]}).to_parquet(tmp_path / "a.parquet")
    write_csv(tmp_path / "a.csv")
    source = open_data(tmp_path / name)
    assert list((tmp_path / "passing").iterdir()) == []
    assert len(rows_of(source)) == source.rows
    (tmp_path / "bad.csv").write_text("text\na,b\n")
    with pytest.raises(InputError):
        open_data(tmp_path / "bad.csv")
    assert list((tmp_path / "passing").iterdir()) == []


def test_no_room_for_temporary_files(tmp_path, monkeypatch):
    write_csv(tmp_path / "a.csv")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(StorageError, match="TMPDIR"):
        open_data(tmp_path / "a.csv")


def open_on_a_full_disk(path):
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    open_data(path)


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_a_full_disk_for_temporary_files(name, tmp_path):
    text = "much to say " * 1000
    Dataset.from_dict({"text": [text] * 100}).to_parquet(tmp_path / "a.parquet")
    Dataset.from_dict({"text": [text] * 100}).to_csv(tmp_path / "a.csv")
    done = forked(open_on_a_full_disk, str(tmp_path / name))
    assert done.code == 1
    assert "StorageError: Cannot write a temporary copy of the data" in done.stderr.splitlines()[-1]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of a process is read from /proc")
def test_memory_does_not_grow_with_the_data(tmp_path):
    """A file ten times as long takes hardly more memory to open and to go through."""
    program = (
        "import re, sys; from pathlib import Path; from attnfaith.data.source import ModelLabels, open_data\n"
        "source = open_data(sys.argv[1], labels=ModelLabels('multiclass', (), 3))\n"
        "assert sum(len(rows) for _, rows in source.shards(256)) == source.rows\n"
        "print(int(re.search(r'VmHWM:\\s+(\\d+)', Path('/proc/self/status').read_text())[1]) // 1024)"
    )
    peaks = []
    for rows in (10_000, 100_000):
        path = tmp_path / f"{rows}.csv"
        path.write_text("text,label\n" + "".join(f"a short text of number {n} {'x' * 200},1\n" for n in range(rows)))
        peaks.append(int(subprocess.check_output([sys.executable, "-c", program, str(path)], text=True)))
    assert peaks[0] > 50  # it was read
    assert peaks[1] - peaks[0] < 45  # 22; 62 if the rows were kept


@pytest.mark.parametrize("entry", ["a fine film " * 1000, "a fine\0film", "", "Is it good? 10/10."])
def test_texts_are_no_names_of_files(entry):
    """Nor where the file system refuses to look for such a name."""
    assert not is_file_name(entry)


def test_names_of_files(tmp_path):
    (tmp_path / "reviews").write_text("text\na fine film\n")
    assert is_file_name(str(tmp_path / "reviews"))
    assert is_file_name("not there.CSV")
