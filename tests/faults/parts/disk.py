"""Disks that are full, folders that may not be written or vanish, and several writers of one folder."""

from __future__ import annotations

import builtins
import ctypes
import errno
import functools
import io
import os
import random
import resource
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attnfaith as af
from attnfaith.storage import sealed_table
from attnfaith.storage.pieces import FOLDER
from tests.faults import children, material
from tests.faults.children import Fork, forked
from tests.faults.tally import Part, Tally, times
from tests.helpers.commands import files

TEXTS = 300
"""Two shards."""


def run(scale: float, seed: int) -> Tally:
    """A full disk at every operation that needs room; limits on file sizes; folders; writers."""
    tally, draw = Tally(), random.Random(seed)
    count = operations()
    tally.measures["operations on files of one small evaluation, each of them refused once"] = f"{count}"
    chosen = range(count) if scale >= 0.3 else sorted(draw.sample(range(count), min(count, times(60, scale, 3))))
    for number in chosen:
        for stays in (False, True) if scale >= 0.3 else (number % 2 == 0,):
            what = "disk full from this operation on" if stays else "one operation refused (no space left)"
            with tally.trial(what, f"operation {number} of {count}"):
                full_disk(number, stays=stays)
    sizes = sorted({len(content) for content in calm()[0].values()})
    limits = sorted({0, 1, *(size - 1 for size in sizes), *(draw.randrange(sizes[-1]) for _ in range(100))})
    for limit in draw.sample(limits, min(len(limits), times(60, scale, 2))):
        with tally.trial("a limit of the system on the size of a file", f"limit {limit}"):
            limited(limit)
    for name, trial in (*READ_ONLY.items(), *REMOVED.items()):
        for _ in range(times(3, scale)):
            with tally.trial(name):
                trial(draw)
    for number in range(times(20, scale)):
        with tally.trial("two to four processes write one run"):
            several_processes(2 + number % 3)
    for number in range(times(20, scale)):
        with tally.trial("two to four threads write one run"):
            several_threads(2 + number % 3)
    return tally


def _asked(folder: Path) -> list[str]:
    run = str(folder / "run")
    return ["evaluate", str(material.flan_folder()), material.reviews(TEXTS), "--output", run, *material.SHORT_RUN]


@functools.cache
def calm() -> tuple[dict[str, bytes], int]:
    """The files of a run on a good disk, and how many operations it made on files."""
    folder = material.fresh("calm")
    ended = forked(_evaluate_on_bad_disk, _asked(folder), str(folder), None, False)
    assert ended.code == 0, ended.stderr
    return files(folder / "run"), int((folder / "operations").read_text())


def operations() -> int:
    """How many operations on files a run makes that a full disk could refuse."""
    return calm()[1]


class BadDisk:
    """Refuses operations on files below a folder: the one of a number, or all from there on.

    Counted is what needs room: making folders, opening for writing, writing, flushing, syncing and renaming. Of a write
    that is refused, the first half is written, as a full disk does it.
    """

    def __init__(self, folder: str, fails_at: int | None, stays: bool, act: Callable[[], None] | None = None) -> None:
        self.folder, self.fails_at, self.stays, self.act = os.path.abspath(folder), fails_at, stays, act
        self.count = 0
        self._open, self._write = io.open, os.write
        self._files: dict[int, str] = {}

    def step(self, half: Callable[[], Any] = lambda: None) -> None:
        """Count an operation; refuse it if it is its turn."""
        number, self.count = self.count, self.count + 1
        if self.fails_at is None or number < self.fails_at or (number > self.fails_at and not self.stays):
            return
        if self.act is not None:
            if number == self.fails_at:
                self.act()
            return
        half()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def concerns(self, path: Any) -> bool:
        """Is this a path below the folder?"""
        return not isinstance(path, int) and os.path.abspath(os.fsdecode(path)).startswith(self.folder)

    def install(self) -> None:
        """Put it between Python and the system; for a process that ends afterwards."""
        disk, fsync, os_open, os_close = self, os.fsync, os.open, os.close

        class File:
            """A file open for writing."""

            def __init__(self, file: Any) -> None:
                self._file = file

            def write(self, content: Any) -> int:
                view = memoryview(content if not isinstance(content, str) else content.encode()).cast("B")
                disk.step(lambda: (self._file.write(_like(content, view)), self._file.flush()))
                return self._file.write(content)

            def flush(self) -> None:
                disk.step()
                self._file.flush()

            def __enter__(self) -> File:
                return self

            def __exit__(self, *error: Any) -> None:
                self._file.close()

            def __getattr__(self, name: str) -> Any:
                return getattr(self._file, name)

        def opened(path: Any, mode: str = "r", *rest: Any, **more: Any) -> Any:
            if not (set(mode) & set("wax+") and disk.concerns(path)):
                return disk._open(path, mode, *rest, **more)
            disk.step()
            return File(disk._open(path, mode, *rest, **more))

        def opened_low(path: Any, flags: int, *rest: Any, **more: Any) -> int:
            writes = bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)) and disk.concerns(path)
            if writes:
                disk.step()
            number = os_open(path, flags, *rest, **more)
            if writes:
                disk._files[number] = os.fsdecode(path)
            return number

        def closed(number: int) -> None:
            disk._files.pop(number, None)
            os_close(number)

        def written(number: int, content: Any) -> int:
            if number in disk._files:
                disk.step(lambda: disk._write(number, bytes(content)[: len(content) // 2]))
            return disk._write(number, content)

        def synced(number: Any) -> None:
            disk.step()
            fsync(number)

        def on_paths(call: Callable[..., Any]) -> Callable[..., Any]:
            def checked(*paths: Any, **more: Any) -> Any:
                if any(disk.concerns(path) for path in paths if isinstance(path, str | bytes | os.PathLike)):
                    disk.step()
                return call(*paths, **more)

            return checked

        io.open = builtins.open = opened  # type: ignore[assignment]
        os.open, os.close, os.write, os.fsync = opened_low, closed, written, synced  # type: ignore[assignment]
        for name in ("mkdir", "replace", "rename", "link"):
            setattr(os, name, on_paths(getattr(os, name)))


def _like(content: Any, view: memoryview) -> Any:
    half = bytes(view[: len(view) // 2])
    return half if not isinstance(content, str) else half.decode("utf-8", "ignore")


def _evaluate_on_bad_disk(arguments: list[str], folder: str, fails_at: int | None, stays: bool) -> None:
    disk = BadDisk(os.path.join(folder, "run"), fails_at, stays)
    disk.install()
    try:
        children.evaluate(*arguments)
    finally:
        with disk._open(os.path.join(folder, "operations"), "w") as file:
            file.write(str(disk.count))


def full_disk(number: int, *, stays: bool) -> None:
    """A documented error, nothing half written under a final name, and the same bytes once there is room."""
    folder = material.fresh("full")
    ended = forked(_evaluate_on_bad_disk, _asked(folder), str(folder), number, stays)
    ended.assert_plain()
    if ended.code == 0:  # an operation that may fail, such as syncing a folder
        assert files(folder / "run") == calm()[0]
    else:
        assert ended.code == 3, f"exit code {ended.code}: {ended.stderr[-300:]}"
        assert "cannot hold the results: No space left on device" in ended.stderr, ended.stderr[-300:]
    _heals(folder)


def _heals(folder: Path) -> None:
    """Every shard that is there is whole; and the same command, with nothing in its way, ends with the right bytes."""
    run, expected = folder / "run", calm()[0]
    for name, content in (files(run) if run.is_dir() else {}).items():
        if Path(name).parent.name == FOLDER:
            sealed_table.prove(run / name)  # a piece of a shard: whole, and gone once the shard is written
        elif name.endswith(".parquet") and not Path(name).name.startswith("."):
            assert expected.get(name) == content, f"{name} is there and not whole"
    ended = forked(children.evaluate, *_asked(folder))
    assert ended.code == 0, f"exit code {ended.code} when going on: {ended.stderr[-300:]}"
    ended.assert_plain()
    got = files(run)
    assert got == expected, f"other files than on a good disk: {[n for n in expected if got.get(n) != expected[n]]}"
    shutil.rmtree(folder)


def _evaluate_limited(arguments: list[str], limit: int) -> None:
    import signal

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    # What a command says must fit: standard output and error are files here. They are pipes or terminals elsewhere.
    reader, writer = os.pipe()
    saved = os.dup(2)
    os.dup2(writer, 1), os.dup2(writer, 2)
    os.close(writer)
    code: Any = 0
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        children.evaluate(*arguments)
    except SystemExit as left:
        code = left.code
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        os.dup2(saved, 1), os.dup2(saved, 2)
        with os.fdopen(reader, "rb") as message:
            os.write(2, message.read())
    raise SystemExit(code)


def limited(limit: int) -> None:
    """The system itself refuses, in the middle of a write."""
    folder = material.fresh("limited")
    ended = forked(_evaluate_limited, _asked(folder), limit)
    ended.assert_plain()
    assert ended.code == 3, f"exit code {ended.code}: {ended.stderr[-300:]}"
    assert "File too large" in ended.stderr, ended.stderr[-300:]  # the run, or the copy of the data beside it
    _heals(folder)


def _without_privileges(arguments: list[str]) -> None:
    if os.geteuid() == 0:
        # An administrator may write everywhere: give up all capabilities (Linux' capset), but not the user's number,
        # so that what this user owns stays readable.
        header = (ctypes.c_uint32 * 2)(0x20080522, 0)
        assert ctypes.CDLL(None, use_errno=True).capset(header, (ctypes.c_uint32 * 6)()) == 0
    children.evaluate(*arguments)


def _locked(folder: Path, *, locks: Path) -> None:
    """Run while a folder may be read and not be written."""
    modes = {path: path.stat().st_mode for path in (locks, *locks.rglob("*"))}
    try:
        for path in modes:
            path.chmod(0o555 if path.is_dir() else 0o444)
        ended = forked(_without_privileges, _asked(folder))
    finally:
        for path, mode in modes.items():
            path.chmod(mode)
    ended.assert_plain()
    assert ended.code == 3, f"exit code {ended.code}: {ended.stderr[-300:]}"
    assert "cannot hold the results: Permission denied" in ended.stderr, ended.stderr[-300:]
    _heals(folder)


def parent_read_only(draw: random.Random) -> None:
    """No folder can be made."""
    folder = material.fresh("locked")
    _locked(folder, locks=folder)


def folder_read_only(draw: random.Random) -> None:
    """The folder is there, empty, and cannot be written."""
    folder = material.fresh("locked")
    (folder / "run").mkdir()
    _locked(folder, locks=folder / "run")


def half_done_read_only(draw: random.Random) -> None:
    """A run is half done when its folder may no longer be written."""
    folder = material.fresh("locked")
    first = draw.randrange(operations() // 2, operations() - 4)  # by then the manifest is there
    forked(_evaluate_on_bad_disk, _asked(folder), str(folder), first, True)
    assert (folder / "run" / "manifest.json").exists(), f"no manifest before operation {first}"
    _locked(folder, locks=folder / "run")


READ_ONLY: dict[str, Callable[[random.Random], None]] = {
    "the parent folder is read-only": parent_read_only,
    "the output folder is read-only": folder_read_only,
    "a half-done run becomes read-only": half_done_read_only,
}


def _evaluate_while_removed(arguments: list[str], folder: str, number: int, removed: str) -> None:
    disk = BadDisk(os.path.join(folder, "run"), number, False, act=lambda: shutil.rmtree(Path(folder) / removed, True))
    disk.install()
    children.evaluate(*arguments)


def _removed(draw: random.Random, what: str) -> None:
    folder = material.fresh("removed")
    number = draw.randrange(3, operations())
    ended = forked(_evaluate_while_removed, _asked(folder), str(folder), number, what)
    ended.assert_plain()
    assert ended.code in (0, 2, 3), f"operation {number}: exit code {ended.code}: {ended.stderr[-300:]}"
    if ended.code == 0 and (folder / "run" / "manifest.json").exists():
        # It ended before anything was missed, or made again what was gone; never is a part less taken for the whole.
        try:
            results = af.load_results(folder / "run")
            str(results), [results.table(name) for name in results.tables]
        except af.AttnFaithError:
            pass
        else:
            assert files(folder / "run") == calm()[0], f"operation {number}: a run that lacks files is taken for whole"
            return
    shutil.rmtree(folder / "run", ignore_errors=True)
    _heals(folder)


REMOVED: dict[str, Callable[[random.Random], None]] = {
    "the run's folder is removed meanwhile": functools.partial(_removed, what="run"),
    "a table's folder is removed meanwhile": functools.partial(_removed, what="run/erasure"),
    "the manifest is removed meanwhile": functools.partial(_removed, what="run/manifest.json"),
}


def several_processes(count: int) -> None:
    """Each of them ends well, or with a documented error; the folder is right in the end."""
    folder = material.fresh("writers")
    for ended in [fork.ended() for fork in [Fork(children.evaluate, *_asked(folder)) for _ in range(count)]]:
        ended.assert_plain()
        assert ended.code == 0, f"exit code {ended.code}: {ended.stderr[-300:]}"
    _heals(folder)


def several_threads(count: int) -> None:
    """Evaluators in threads of one process, into one folder."""
    folder = material.fresh("threads")
    given = (str(material.flan_folder()), material.reviews(TEXTS))
    ended = forked(_evaluate_in_threads, str(folder / "run"), count, *given)
    assert not ended.hung
    assert ended.code == 0, ended.stderr[-500:]
    assert forked(_evaluate_in_threads, str(folder / "calm"), 1, *given).code == 0
    got, expected = files(folder / "run"), files(folder / "calm")
    assert got == expected, f"other files than one thread writes: {[n for n in expected if got.get(n) != expected[n]]}"
    shutil.rmtree(folder)


def _evaluate_in_threads(folder: str, count: int, model: str, data: str) -> None:
    evaluators = [af.Evaluator(*material.loaded(Path(model))) for _ in range(count)]
    errors: list[str] = []
    together = threading.Barrier(count)

    def work(evaluator: af.Evaluator) -> None:
        together.wait()
        try:
            evaluator.compute(
                data, rankings=["attention"], level="attention", n_resamples=20, output_dir=folder, quiet=True
            )
        except BaseException as error:
            errors.append(repr(error))

    workers = [threading.Thread(target=work, args=(evaluator,)) for evaluator in evaluators]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if errors:
        raise SystemExit("; ".join(errors))


PART = Part(
    title="Disks and folders",
    promise="Whatever the disk refuses, and whenever, ends with a message and exit code 3. A file under its final "
    "name is whole. When the disk is mended the same command goes on, to the same bytes. Several "
    "processes or threads may write one run.",
    run=run,
    slow=True,
)
