"""Places where a run cannot be written or read: no directory, no permission, no room."""

import os
import resource
import stat
import subprocess
from pathlib import Path

import pytest

from attnfaith.errors import AttnFaithError, InputError, StorageError
from attnfaith.evaluation.store import Store
from tests.evaluation.stored import MANIFEST, bytes_of, command, finished, tables_of


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


def test_a_full_disk(tmp_path):
    """A limit on the size of a file, in a process of its own; lifted, the run goes on to the same files."""
    finished(tmp_path / "calm")
    program = (
        f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1500, {resource.RLIM_INFINITY}))\n"
        "stored.finished(sys.argv[1])"
    )
    done = subprocess.run(command(program, tmp_path / "run"), capture_output=True, text=True)
    assert done.returncode == 1
    assert "StorageError: The directory" in done.stderr.splitlines()[-1]
    assert "cannot hold the results: File too large" in done.stderr.splitlines()[-1]
    assert list(bytes_of(tmp_path / "run")) == ["manifest.json"]
    finished(tmp_path / "run")
    assert bytes_of(tmp_path / "run") == bytes_of(tmp_path / "calm")
