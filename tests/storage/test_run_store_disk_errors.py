"""Places where a run cannot be written or read: no directory, no permission, no room."""

import os
import shutil
import stat
import tempfile
from pathlib import Path

import pytest

from attnfaith.errors import AttnFaithError, InputError, StorageError
from attnfaith.storage.run_folder import RunFolder
from attnfaith.storage.run_store import Store
from tests.faults.children import forked, run_program
from tests.helpers.stored_runs import MANIFEST, bytes_of, finished, tables_of


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
    store.write(0, tables_of(0), "")
    calls = {
        "open": lambda: Store.open(tmp_path / "another" / "run", MANIFEST),
        "load": lambda: Store.load(tmp_path / "run"),
        "write": lambda: store.write(1, {"new": tables_of(1)["texts"], **tables_of(1)}, ""),
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


LIMITED = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, resource.RLIM_INFINITY))\n"
"""A limit on the size of a file stands for a full disk; in a process of its own."""
PROGRAM = "from tests.helpers import stored_runs\n"


def test_a_disk_that_is_full_from_the_start(tmp_path):
    """Nothing is computed: it is the opening that fails, of a new run as of one that was begun."""
    program = LIMITED.format(limit=1500) + "stored_runs.Store.open(sys.argv[1], stored_runs.MANIFEST)"
    begun = Store.open(tmp_path / "begun", MANIFEST)
    begun.write(0, tables_of(0), "rows 0")
    before = bytes_of(tmp_path / "begun")
    for name in ("new", "begun"):
        done = forked(run_program, PROGRAM + program, tmp_path / name)
        assert done.code == 1
        assert "cannot hold the results: File too large" in done.stderr.splitlines()[-1]
    assert bytes_of(tmp_path / "new") == {}
    assert bytes_of(tmp_path / "begun") == before
    finished(tmp_path / "new")


@pytest.mark.parametrize("limit", [100, 1970, 2060])
def test_a_disk_that_fills_up_on_the_way(limit, tmp_path):
    """Made room for, the run goes on to the same files."""
    finished(tmp_path / "calm")
    program = (
        "store = stored_runs.Store.open(sys.argv[1], stored_runs.MANIFEST)\n"
        + LIMITED.format(limit=limit)
        + "for shard in range(6):\n    store.write(shard, stored_runs.tables_of(shard), f'rows {shard}')\n"
        "store.finish(stored_runs.COUNTS)"
    )
    done = forked(run_program, PROGRAM + program, tmp_path / "run")
    assert done.code == 1
    assert "StorageError: The directory" in done.stderr.splitlines()[-1]
    assert "cannot hold the results: File too large" in done.stderr.splitlines()[-1]
    there, calm = bytes_of(tmp_path / "run"), bytes_of(tmp_path / "calm")
    assert "manifest.json" in there
    assert all(content == calm[name] for name, content in there.items() if name != "manifest.json")
    finished(tmp_path / "run")
    assert bytes_of(tmp_path / "run") == calm


def test_a_folder_that_is_checked_before_the_work(tmp_path):
    """What cannot be written is refused, what can is left as it was."""
    (tmp_path / "file").write_text("mine")
    for path in (tmp_path / "new" / "run", tmp_path):
        RunFolder(path).refuse_unusable()
    assert bytes_of(tmp_path) == {"file": b"mine"}
    with pytest.raises(StorageError, match="is a file"):
        RunFolder(tmp_path / "file" / "run").refuse_unusable()
    for given in (3, None, {}, ["run"]):
        with pytest.raises(InputError, match="Expected the path of a folder, got"):
            RunFolder(given).refuse_unusable()
    with pytest.raises(InputError, match="NUL character"):
        RunFolder("a\0b").refuse_unusable()
    call = "from attnfaith.storage.run_folder import RunFolder; RunFolder(sys.argv[1]).refuse_unusable()"
    program = LIMITED.format(limit=1500) + call
    done = forked(run_program, PROGRAM + program, tmp_path / "new" / "run")
    assert "cannot hold the results: File too large" in done.stderr.splitlines()[-1]
    assert bytes_of(tmp_path) == {"file": b"mine"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only an administrator can become somebody else")
def test_a_read_only_folder_as_somebody_else():
    """A finished run is loaded and gone on with; one that is not finished is refused before any work."""
    folder = Path(tempfile.mkdtemp())
    try:
        finished(folder / "run")
        Store.open(folder / "begun", MANIFEST).write(0, tables_of(0), "rows 0")
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o555 if path.is_dir() else 0o444)
        before = bytes_of(folder)
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            message = []
            try:
                os.seteuid(65534)
                message.append(str(len(Store.load(folder / "run").table("erasure"))))
                message.append(str(Store.open(folder / "run", MANIFEST).complete))
                for path in (folder / "begun", folder / "new"):
                    try:
                        Store.open(path, MANIFEST)
                    except StorageError as error:
                        message.append(str(error).partition(": ")[2].partition(".")[0])
                    try:
                        RunFolder(path).refuse_unusable()
                    except StorageError as error:
                        message.append(str(error).partition(": ")[2].partition(".")[0])
            finally:
                os.write(writing, "|".join(message).encode())
                os._exit(0)
        os.waitpid(child, 0)
        os.close(writing)
        with open(reading) as pipe:
            assert pipe.read() == "36|True|Permission denied|Permission denied|Permission denied|Permission denied"
        assert bytes_of(folder) == before
    finally:
        shutil.rmtree(folder)
