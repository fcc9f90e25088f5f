"""A run on disk: whole or absent, whatever happens to its writer; and never mixed with another."""

import json
import os
import resource
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from attnfaith.errors import AttnFaithError, InputError, StorageError
from attnfaith.evaluation.store import Store

SIZE = 4
MANIFEST = {
    "run": {
        "model": {"fingerprint": "ab", "labels": ["bad", "good"]},
        "seed": 0,
        "threshold": float("nan"),
        "top": None,
    },
    "shard_size": SIZE,
    "rows": 22,
    "versions": {"torch": "2"},
}
TEXTS = pa.schema(
    [
        pa.field("text_id", pa.int64(), nullable=False),
        pa.field("prediction", pa.list_(pa.int64())),
        pa.field("correct", pa.bool_()),
        pa.field("aside", pa.string()),
    ]
)
ERASURE = pa.schema(
    [
        pa.field("text_id", pa.int64(), nullable=False),
        pa.field("ranking", pa.string()),
        pa.field("removed", pa.int64()),
        pa.field("fraction", pa.float64()),
    ]
)


def _tables(shard, rows=22):
    """Made-up results of a shard; its columns are all null in one, and its erasure is empty in another."""
    ids = range(shard * SIZE, min(shard * SIZE + SIZE, rows))
    texts = [
        {"text_id": i, "prediction": [i, 2], "correct": None if shard == 1 else i % 2 == 0, "aside": None if i else "é"}
        for i in ids
    ]
    erasure = [
        {"text_id": i, "ranking": ranking, "removed": None if shard == 2 else i * 2**40, "fraction": i / 3}
        for i in ids
        for ranking in ("attention", "random")
        if shard != 3
    ]
    return {"texts": pa.Table.from_pylist(texts, TEXTS), "erasure": pa.Table.from_pylist(erasure, ERASURE)}


def _finished(directory, manifest=MANIFEST, order=None):
    store = Store.open(directory, manifest)
    for shard in order or range(6):
        if not store.done(shard):
            store.write(shard, _tables(shard), f"rows {shard}")
    store.finish({"texts": 22, "by reason": {"empty": 1}})
    return store


def _bytes(directory):
    return {str(p.relative_to(directory)): p.read_bytes() for p in sorted(Path(directory).rglob("*")) if p.is_file()}


# Writing and reading


def test_what_is_written_is_read(tmp_path):
    store = _finished(tmp_path / "a" / "run")
    assert store.complete
    assert Store.load(tmp_path / "a" / "run").tables == ["texts", "erasure"]
    texts, erasure = store.table("texts"), store.table("erasure")
    assert texts["text_id"].tolist() == list(range(22))
    assert [list(one) for one in texts["prediction"]] == [[i, 2] for i in range(22)]
    assert texts["correct"].isna().tolist() == [i // SIZE == 1 for i in range(22)]
    assert texts["aside"][0] == "é"
    assert texts["aside"].isna().sum() == 21
    kept = [i for i in range(22) for _ in range(2) if i // SIZE != 3]
    assert erasure["text_id"].tolist() == kept
    assert erasure["ranking"].tolist() == ["attention", "random"] * (len(kept) // 2)
    assert [None if pd.isna(n) else n for n in erasure["removed"]] == [
        None if i // SIZE == 2 else i * 2**40 for i in kept
    ]
    np.testing.assert_array_equal(erasure["fraction"], [i / 3 for i in kept])
    assert [str(kind) for kind in erasure.dtypes] == ["int64", "str", "Int64", "float64"]
    assert str(texts["correct"].dtype) == "boolean"


def test_types_do_not_depend_on_what_is_missing(tmp_path):
    """A table whose column happens to be whole, or to be all null, has the same types."""
    types = []
    for name, shard in (("whole", 0), ("null", 2)):
        store = Store.open(tmp_path / name, {**MANIFEST, "rows": None})
        store.write(0, _tables(shard), "")
        store.finish({})
        types.append(store.table("erasure").dtypes.to_dict())
    assert types[0] == types[1]


def test_batches_are_the_table_in_parts(tmp_path):
    store = _finished(tmp_path / "run")
    for name in ("texts", "erasure"):
        pd.testing.assert_frame_equal(pd.concat(store.batches(name), ignore_index=True), store.table(name))
    assert len(list(store.batches("texts"))) == 6
    assert next(store.batches("erasure", ["fraction", "text_id"])).columns.tolist() == ["fraction", "text_id"]
    assert store.table("erasure", ["removed"]).columns.tolist() == ["removed"]
    with pytest.raises(InputError, match="no table 'erasures' in this run; there are texts, erasure"):
        store.table("erasures")


def test_many_shards(tmp_path):
    """A thousand shards in their order, also beyond the digits of their names; in seconds."""
    store = Store.open(tmp_path / "run", {"run": {}, "shard_size": 1, "rows": None})
    numbers = [*range(1000), 99_999, 100_000, 100_001]
    table = pa.table({"text_id": [0]})
    for number in numbers:
        store.write(number, {"texts": table.set_column(0, "text_id", [[number]])}, "")
    start = time.perf_counter()
    assert Store.open(tmp_path / "run", {"run": {}, "shard_size": 1, "rows": None}).shards() == numbers
    assert store.table("texts")["text_id"].tolist() == numbers
    assert time.perf_counter() - start < 10


def test_a_column_must_have_a_type_and_keep_it(tmp_path):
    store = Store.open(tmp_path / "run", MANIFEST)
    with pytest.raises(ValueError, match="column of no type"):
        store.write(0, {"texts": pa.table({"text_id": [None]})}, "")
    store.write(0, _tables(0), "")
    again = Store.open(tmp_path / "run", MANIFEST)
    with pytest.raises(InputError, match=r"'texts' in .* has other columns"):
        again.write(1, {"texts": pa.table({"text_id": [1]})}, "")


# The same files


def test_the_same_bytes_in_any_order_and_after_any_rest(tmp_path):
    _finished(tmp_path / "one")
    _finished(tmp_path / "two", order=[5, 3, 0, 1, 4, 2])
    half = Store.open(tmp_path / "three", MANIFEST)
    half.write(2, _tables(2), "rows 2")
    (tmp_path / "three" / "texts" / "00002.parquet").unlink()  # killed before the texts
    half.write(4, {n: pa.concat_tables([t.slice(0, 1), t.slice(1)]) for n, t in _tables(4).items()}, "rows 4")
    assert not half.done(2)
    assert half.done(4)
    store = _finished(tmp_path / "three")
    store.finish({"texts": 22, "by reason": {"empty": 1}})  # once more
    _finished(tmp_path / "three")
    assert _bytes(tmp_path / "one") == _bytes(tmp_path / "two") == _bytes(tmp_path / "three")


WRITER = """
import sys
sys.path.insert(0, sys.argv[1])
import test_store as t
store = t.Store.open(sys.argv[2], t.MANIFEST)
for shard in range(6):
    if not store.done(shard):
        store.write(shard, t._tables(shard), f"rows {shard}")
store.finish({"texts": 22, "by reason": {"empty": 1}})
"""
# Starts writers and kills them, each at a moment of its own, until one comes to the end. What changes files is
# stretched, so that many are killed in between.
KILLER = """
import os, random, signal, sys, time
sys.path.insert(0, sys.argv[1])
import test_store as t

def stretched(call):
    def slow(*args):
        time.sleep(random.random() * 0.01)
        call(*args)
        time.sleep(random.random() * 0.01)
    return slow

kills = cut = 0
for attempt in range(int(sys.argv[3])):
    directory = t.Path(sys.argv[2]) / str(attempt)
    while True:
        writer = os.fork()
        if not writer:
            try:
                random.seed(os.getpid())
                os.fsync, os.replace = stretched(os.fsync), stretched(os.replace)
                t._finished(directory)
                os._exit(0)
            finally:
                os._exit(1)
        time.sleep(random.random() * 0.15)
        os.kill(writer, signal.SIGKILL)
        status = os.waitpid(writer, 0)[1]
        if status != signal.SIGKILL:
            assert status == 0
            break
        kills += 1
        cut += any(directory.rglob(".*"))
print(kills, cut)
"""


def test_killed_at_any_moment_the_run_ends_with_the_same_files(tmp_path):
    _finished(tmp_path / "calm")
    command = [sys.executable, "-c", KILLER, str(Path(__file__).parent), str(tmp_path / "killed"), "6"]
    kills, cut = map(int, subprocess.check_output(command, text=True).split())
    for attempt in range(6):
        assert _bytes(tmp_path / "killed" / str(attempt)) == _bytes(tmp_path / "calm")
    assert kills >= 12  # else nothing was tested
    assert cut >= 4  # while a file was half written


def test_leftovers_are_removed_but_not_a_living_writers(tmp_path):
    store = Store.open(tmp_path / "run", MANIFEST)
    store.write(0, _tables(0), "")
    host = os.uname().nodename
    with subprocess.Popen([sys.executable, "-c", "pass"]) as process:
        pass
    living = subprocess.Popen(["sleep", "60"])
    try:
        (tmp_path / "run" / "single").mkdir()
        names = {
            "gone": tmp_path / "run" / "single" / f".00001.parquet~{host}~{process.pid}",
            "gone too": tmp_path / "run" / f".manifest.json~{host}~{process.pid}",
            "mine": tmp_path / "run" / "texts" / f".00001.parquet~{host}~{os.getpid()}",
            "living": tmp_path / "run" / "texts" / f".00001.parquet~{host}~{living.pid}",
            "elsewhere": tmp_path / "run" / "texts" / f".00001.parquet~far-away~{process.pid}",
        }
        for path in names.values():
            path.write_bytes(b"half")
        store = Store.open(tmp_path / "run", MANIFEST)
        assert store.tables == ["texts", "erasure"]
        assert store.shards() == [0]
        assert {name for name, path in names.items() if path.exists()} == {"living", "elsewhere"}
        for shard in range(1, 6):
            store.write(shard, _tables(shard), "")
        store.finish({})
        assert not any(path.exists() for path in names.values())
    finally:
        living.kill()
        living.wait()


def test_two_processes_write_one_run(tmp_path):
    _finished(tmp_path / "calm")
    program = WRITER.replace("if not store.done(shard)", "if shard % 2 == int(sys.argv[3])").partition("store.finish")[
        0
    ]
    command = [sys.executable, "-c", program, str(Path(__file__).parent), str(tmp_path / "run")]
    running = [subprocess.Popen([*command, str(index)], stdout=subprocess.DEVNULL) for index in range(2)]
    assert [process.wait() for process in running] == [0, 0]
    _finished(tmp_path / "run")
    assert _bytes(tmp_path / "run") == _bytes(tmp_path / "calm")


def test_a_write_that_is_interrupted_leaves_nothing(tmp_path, monkeypatch):
    store = Store.open(tmp_path / "run", MANIFEST)

    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        store.write(0, _tables(0), "")
    assert list(_bytes(tmp_path / "run")) == ["manifest.json"]
    assert not store.done(0)


def test_a_shard_that_was_deleted_is_made_again(tmp_path):
    _finished(tmp_path / "calm")
    _finished(tmp_path / "run")
    for name in ("texts", "erasure"):
        (tmp_path / "run" / name / "00003.parquet").unlink()
    with pytest.raises(InputError, match="not complete: 5 of 6"):
        Store.load(tmp_path / "run")
    assert not Store.open(tmp_path / "run", MANIFEST).complete
    _finished(tmp_path / "run")
    assert _bytes(tmp_path / "run") == _bytes(tmp_path / "calm")


def test_finishing_what_is_not_done(tmp_path):
    store = Store.open(tmp_path / "run", MANIFEST)
    for shard in (0, 1, 3, 4, 5):
        store.write(shard, _tables(shard), "")
    with pytest.raises(StorageError, match=r"the shards \[2\] are missing"):
        store.finish({})
    stream = Store.open(tmp_path / "stream", {**MANIFEST, "rows": None})
    stream.write(1, _tables(1), "")
    with pytest.raises(StorageError, match=r"the shards"):
        stream.finish({})
    with pytest.raises(InputError, match=r"not complete: 1 shards are there"):
        Store.load(tmp_path / "stream")


# Not the same run


def _with(path, value):
    manifest = json.loads(json.dumps(MANIFEST))
    *parents, last = path
    part = manifest
    for name in parents:
        part = part[name]
    if value is ...:
        del part[last]
    else:
        part[last] = value
    return manifest


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("run", "seed"), 1, "seed is 0 there and 1 here"),
        (("run", "seed"), 0.5, "seed is 0 there and 0.5 here"),
        (("run", "seed"), False, "seed is 0 there and False here"),
        (("run", "seed"), None, "seed is 0 there and None here"),
        (("run", "seed"), ..., "seed is 0 there and absent here"),
        (("run", "new"), {"a": 1}, "new is absent there and {'a': 1} here"),
        (("run", "model", "fingerprint"), "cd", "model.fingerprint is 'ab' there and 'cd' here"),
        (("run", "model", "labels"), ["bad", "fine"], r"model.labels\[1\] is 'good' there and 'fine' here"),
        (("run", "model", "labels"), ["bad"], r"model.labels is \['bad', 'good'\] there and \['bad'\] here"),
        (("run", "model"), "ab", "model is {.*} there and 'ab' here"),
        (("shard_size",), 5, "shard_size is 4 there and 5 here"),
        (("rows",), 23, "rows is 22 there and 23 here"),
        (("rows",), None, "rows is 22 there and None here"),
    ],
)
def test_another_run_is_refused(path, value, said, tmp_path):
    _finished(tmp_path / "run")
    before = _bytes(tmp_path / "run")
    with pytest.raises(InputError, match=rf"made with other arguments: {said}\. Give another output_dir"):
        Store.open(tmp_path / "run", _with(path, value))
    assert _bytes(tmp_path / "run") == before


def test_the_first_difference_is_named(tmp_path):
    Store.open(tmp_path / "run", MANIFEST)
    other = {**MANIFEST, "run": {**MANIFEST["run"], "model": {"fingerprint": "cd", "labels": []}, "seed": 1}}
    with pytest.raises(InputError, match=r"model\.fingerprint is") as caught:
        Store.open(tmp_path / "run", other)
    assert "seed" not in str(caught.value)


@pytest.mark.parametrize(
    ("path", "value"), [(("versions", "torch"), "3"), (("run", "seed"), 0.0), (("versions",), ...)]
)
def test_what_may_differ(path, value, tmp_path):
    _finished(tmp_path / "run")
    before = _bytes(tmp_path / "run")
    assert Store.open(tmp_path / "run", _with(path, value)).complete
    assert _bytes(tmp_path / "run") == before


def test_data_that_have_changed(tmp_path):
    store = Store.open(tmp_path / "run", MANIFEST)
    for shard in (1, 5):
        store.write(shard, _tables(shard), f"rows {shard}")
        store.check(shard, f"rows {shard}")
    with pytest.raises(InputError, match=r"rows 4 to 7 \(counted from 0\) are not those"):
        store.check(1, "rows 5")
    with pytest.raises(InputError, match="rows 20 to 21 "):
        store.check(5, "rows 1")


# Directories that are no run, or a broken one


@pytest.mark.parametrize("name", ["notes.txt", ".hidden", "texts/00000.parquet", "a folder/x"])
def test_a_foreign_directory(name, tmp_path):
    path = tmp_path / "run" / name
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    with pytest.raises(InputError, match=f"holds other files \\('{name.partition('/')[0]}'\\) and no manifest.json"):
        Store.open(tmp_path / "run", MANIFEST)
    with pytest.raises(InputError, match="is no run of attnfaith"):
        Store.load(tmp_path / "run")
    assert _bytes(tmp_path / "run") == {name: b"mine"}


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"{", b"[]", b"5", b"\xff", b"{}"),
        b'{"run": 1, "shard_size": 2}',
        b'{"run": {}}',
        b'{"run": {}, "shard_size": "a"}',
        b'{"run": {}, "shard_size": 1, "counts": {}}',
        b'{"run": {}, "shard_size": 1, "rows": "a"}',
    ],
)
def test_a_corrupt_manifest(content, tmp_path):
    (tmp_path / "manifest.json").write_bytes(content)
    for call in (lambda: Store.open(tmp_path, MANIFEST), lambda: Store.load(tmp_path)):
        with pytest.raises(InputError, match=r"manifest\.json' is corrupt"):
            call()


@pytest.mark.parametrize("name", ["texts", "erasure"])
@pytest.mark.parametrize("damage", ["empty", "cut", "nonsense", "gone"])
def test_an_unreadable_shard(name, damage, tmp_path):
    _finished(tmp_path / "run")
    path = tmp_path / "run" / name / "00002.parquet"
    content = {"empty": b"", "cut": path.read_bytes()[:-20], "nonsense": b"what?" * 99, "gone": None}[damage]
    if content is None:
        path.unlink()
        if name == "texts":
            return  # then the shard is not done, and made again
    else:
        path.write_bytes(content)
    with pytest.raises(
        InputError, match=rf"{name}/00002.parquet' cannot be read.* Delete the files 00002.parquet in all"
    ):
        Store.open(tmp_path / "run", MANIFEST)
    for folder in ("texts", "erasure"):  # as told
        (tmp_path / "run" / folder / "00002.parquet").unlink(missing_ok=True)
    _finished(tmp_path / "run")


def test_a_bit_that_has_flipped_is_seen_when_it_is_read(tmp_path):
    _finished(tmp_path / "run")
    path = tmp_path / "run" / "erasure" / "00001.parquet"
    content = bytearray(path.read_bytes())
    content[40] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"erasure/00001\.parquet' cannot be read"):
        Store.load(tmp_path / "run").table("erasure")


def test_no_directory(tmp_path):
    with pytest.raises(InputError, match="no directory"):
        Store.load(tmp_path / "nowhere")


# Disks and permissions


def test_a_file_in_the_place_of_the_directory(tmp_path):
    (tmp_path / "run").write_text("mine")
    with pytest.raises(InputError, match="is a file"):
        Store.open(tmp_path / "run", MANIFEST)
    with pytest.raises(StorageError, match="Not a directory"):
        Store.open(tmp_path / "run" / "inside", MANIFEST)
    with pytest.raises(InputError, match="no directory"):
        Store.load(tmp_path / "run")
    with pytest.raises(StorageError, match="File name too long"):
        Store.open(tmp_path / ("x" * 500), MANIFEST)
    assert issubclass(StorageError, AttnFaithError)
    assert issubclass(StorageError, OSError)


@pytest.mark.parametrize("what", ["open", "load", "write", "finish"])
def test_no_permission(what, tmp_path, monkeypatch):
    """A system that refuses; by hand, since an administrator may do everything."""
    store = Store.open(tmp_path / "run", {**MANIFEST, "rows": None})
    store.write(0, _tables(0), "")
    calls = {
        "open": lambda: Store.open(tmp_path / "another" / "run", MANIFEST),
        "load": lambda: Store.load(tmp_path / "run"),
        "write": lambda: store.write(1, {"new": _tables(1)["texts"], **_tables(1)}, ""),
        "finish": lambda: store.finish({}),
    }

    def refuse(self, *args, **kwargs):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, {"load": "is_dir", "finish": "open"}.get(what, "mkdir"), refuse)
    with pytest.raises(StorageError, match=r"run' cannot hold the results: Permission denied"):
        calls[what]()


@pytest.mark.skipif(os.geteuid() == 0, reason="an administrator may do everything")
def test_a_directory_that_may_not_be_written(tmp_path):
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        with pytest.raises(StorageError, match="Permission denied"):
            Store.open(tmp_path / "run", MANIFEST)
    finally:
        tmp_path.chmod(stat.S_IRWXU)


def test_a_full_disk(tmp_path):
    """A limit on the size of a file, in a process of its own; lifted, the run goes on to the same files."""
    _finished(tmp_path / "calm")
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1500, {resource.RLIM_INFINITY}))\n"
    command = [sys.executable, "-c", limit + WRITER, str(Path(__file__).parent), str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert "StorageError: The directory" in done.stderr.splitlines()[-1]
    assert "cannot hold the results: File too large" in done.stderr.splitlines()[-1]
    assert list(_bytes(tmp_path / "run")) == ["manifest.json"]
    _finished(tmp_path / "run")
    assert _bytes(tmp_path / "run") == _bytes(tmp_path / "calm")


# Copies


def test_a_copy(tmp_path):
    store = _finished(tmp_path / "run")
    copy = store.copy_to(tmp_path / "copy")
    assert copy.complete
    assert _bytes(tmp_path / "copy") == _bytes(tmp_path / "run")
    assert store.copy_to(tmp_path / "run" / ".." / "run") is store
    assert store.copy_to(str(tmp_path / "copy")).complete  # once more
    shutil.rmtree(tmp_path / "run")
    assert len(copy.table("texts")) == 22


def test_a_copy_that_was_cut_short_goes_on(tmp_path):
    store = _finished(tmp_path / "run")
    part = Store.open(tmp_path / "copy", MANIFEST)
    part.write(1, _tables(1), "rows 1")
    store.copy_to(tmp_path / "copy")
    assert _bytes(tmp_path / "copy") == _bytes(tmp_path / "run")


def test_a_copy_onto_something_else(tmp_path):
    store = _finished(tmp_path / "run")
    _finished(tmp_path / "other", _with(("run", "seed"), 1))
    with pytest.raises(InputError, match="seed is 1 there and 0 here"):
        store.copy_to(tmp_path / "other")
    changed = Store.open(tmp_path / "changed", MANIFEST)
    changed.write(0, _tables(0), "other rows")
    with pytest.raises(InputError, match="rows 0 to 3"):
        store.copy_to(tmp_path / "changed")
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "thesis.tex").write_text("mine")
    with pytest.raises(InputError, match=r"thesis\.tex"):
        store.copy_to(tmp_path / "foreign")
