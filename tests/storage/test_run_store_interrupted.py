"""A run on disk is whole or absent, whenever its writers were killed: in the end, the same bytes."""

import os
import subprocess
import sys

import pyarrow as pa
import pytest

from attnfaith.errors import InputError, StorageError
from attnfaith.storage.run_store import Store
from tests.faults.children import Fork, run_program
from tests.helpers.stored_runs import COUNTS, MANIFEST, bytes_of, command, finished, tables_of

# Starts writers and kills them, each at a moment of its own, until one comes to the end. What changes files is
# stretched, so that many are killed in between.
KILLER = """
import os, random, signal, sys, time
from pathlib import Path

def stretched(call):
    def slow(*args):
        time.sleep(random.random() * 0.01)
        call(*args)
        time.sleep(random.random() * 0.01)
    return slow

kills = cut = 0
for attempt in range(int(sys.argv[2])):
    directory = Path(sys.argv[1]) / str(attempt)
    while True:
        writer = os.fork()
        if not writer:
            try:
                random.seed(os.getpid())
                os.fsync, os.replace = stretched(os.fsync), stretched(os.replace)
                stored_runs.finished(directory)
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


def test_the_same_bytes_in_any_order_and_after_any_rest(tmp_path):
    finished(tmp_path / "one")
    finished(tmp_path / "two", order=[5, 3, 0, 1, 4, 2])
    half = Store.open(tmp_path / "three", MANIFEST)
    half.write(2, tables_of(2), "rows 2")
    (tmp_path / "three" / "texts" / "00002.parquet").unlink()  # killed before the texts
    half.write(4, {n: pa.concat_tables([t.slice(0, 1), t.slice(1)]) for n, t in tables_of(4).items()}, "rows 4")
    assert not half.done(2)
    assert half.done(4)
    store = finished(tmp_path / "three")
    store.finish(COUNTS)  # once more
    finished(tmp_path / "three")
    assert bytes_of(tmp_path / "one") == bytes_of(tmp_path / "two") == bytes_of(tmp_path / "three")


@pytest.mark.examples
def test_killed_at_any_moment_the_run_ends_with_the_same_files(tmp_path):
    finished(tmp_path / "calm")
    kills, cut = map(int, subprocess.check_output(command(KILLER, tmp_path / "killed", 6), text=True).split())
    for attempt in range(6):
        assert bytes_of(tmp_path / "killed" / str(attempt)) == bytes_of(tmp_path / "calm")
    assert kills >= 12  # else nothing was tested
    assert cut >= 4  # while a file was half written


def test_leftovers_are_removed_but_not_a_living_writers(tmp_path):
    store = Store.open(tmp_path / "run", MANIFEST)
    store.write(0, tables_of(0), "")
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
            store.write(shard, tables_of(shard), "")
        store.finish({})
        assert not any(path.exists() for path in names.values())
    finally:
        living.kill()
        living.wait()


def test_two_processes_write_one_run(tmp_path):
    finished(tmp_path / "calm")
    program = (
        "from tests.helpers import stored_runs\n"
        "store = stored_runs.Store.open(sys.argv[1], stored_runs.MANIFEST)\n"
        "for shard in range(int(sys.argv[2]), 6, 2):\n"
        "    store.write(shard, stored_runs.tables_of(shard), f'rows {shard}')"
    )
    running = [Fork(run_program, program, tmp_path / "run", index) for index in range(2)]
    assert [fork.ended().code for fork in running] == [0, 0]
    finished(tmp_path / "run")
    assert bytes_of(tmp_path / "run") == bytes_of(tmp_path / "calm")


def test_a_write_that_is_interrupted_leaves_nothing(tmp_path, monkeypatch):
    store = Store.open(tmp_path / "run", MANIFEST)

    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        store.write(0, tables_of(0), "")
    assert list(bytes_of(tmp_path / "run")) == ["manifest.json"]
    assert not store.done(0)


def test_a_shard_that_was_deleted_is_made_again(tmp_path):
    finished(tmp_path / "calm")
    finished(tmp_path / "run")
    for name in ("texts", "erasure"):
        (tmp_path / "run" / name / "00003.parquet").unlink()
    with pytest.raises(InputError, match="not complete: 5 of 6"):
        Store.load(tmp_path / "run")
    assert not Store.open(tmp_path / "run", MANIFEST).complete
    finished(tmp_path / "run")
    assert bytes_of(tmp_path / "run") == bytes_of(tmp_path / "calm")


def test_finishing_what_is_not_done(tmp_path):
    store = Store.open(tmp_path / "run", MANIFEST)
    for shard in (0, 1, 3, 4, 5):
        store.write(shard, tables_of(shard), "")
    with pytest.raises(StorageError, match=r"the shards \[2\] are missing"):
        store.finish({})
    stream = Store.open(tmp_path / "stream", {**MANIFEST, "rows": None})
    stream.write(1, tables_of(1), "")
    with pytest.raises(StorageError, match=r"the shards"):
        stream.finish({})
    with pytest.raises(InputError, match=r"not complete: 1 shards are stored"):
        Store.load(tmp_path / "stream")
