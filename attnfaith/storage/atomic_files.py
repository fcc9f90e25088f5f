"""Write files atomically, read untrusted files safely, and turn errors of the disk into `StorageError`."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import re
import socket
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from attnfaith.addresses import local_path
from attnfaith.errors import AttnFaithError, InputError, StorageError
from attnfaith.parameter_names import parameter

if sys.platform != "win32":
    import fcntl

LEFTOVER = re.compile(r"\.(.+)~([^~]+)~([0-9]+)(~[0-9]+)?")
"""The name of a temporary file while it is written: ``.name~host~process~number``."""
PROBE = 64 * 1024
"""Bytes that are written to a folder and removed again, to check before the work that it can be written."""
_ATTEMPTS = 5
_NUMBERS = itertools.count()  # two threads of a process never share a temporary file
_WRITING: set[str] = set()  # the temporary files of this process that are in use now
# Never follow a link to another place, never wait for the writer of a pipe, never hand a file to a child.
_OPEN = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def put(path: Path, content: Any) -> None:
    """Write bytes to a file atomically: readers see all of them or none, also if the writer is killed."""
    _write(path, content, os.replace)


def put_new(path: Path, content: Any) -> bool:
    """Like `put`, but never replaces a file; False if there is one."""
    try:
        _write(path, content, _link)
    except FileExistsError:
        return False
    return True


def probe(folder: Path) -> None:
    """Raise the `OSError` that writing into a folder would raise: no permission, no room, read-only."""
    with _temporary(folder / "probe", bytes(PROBE)):
        pass


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a lock on a folder, for one thread of one process at a time; no lock on file systems without locking."""
    if sys.platform == "win32":
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def open_regular(path: Path, limit: int) -> Iterator[tuple[BinaryIO, os.stat_result]]:
    """Open a file, with its `stat`; raises `ValueError` for a link, a pipe, a device, or more than ``limit`` bytes."""
    try:
        descriptor = os.open(path, _OPEN)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ValueError("it is a symbolic link; expected a file") from error
        raise
    with open(descriptor, "rb", buffering=0) as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("it is not a regular file")
        if status.st_size > limit:
            raise ValueError(f"it has {status.st_size:,} bytes; expected at most {limit:,}")
        yield file, status


def read_regular(path: Path, limit: int) -> bytes:
    """Read the bytes of a file; see `open_regular` for what is refused."""
    with open_regular(path, limit) as (file, status):
        return read_exactly(file, status.st_size)


def read_exactly(file: BinaryIO, size: int) -> bytes:
    """Read exactly ``size`` bytes; raises `ValueError` if the file is shorter."""
    parts = []
    while size and (part := file.read(size)):
        parts.append(part)
        size -= len(part)
    if size:
        raise ValueError(f"it ends {size:,} bytes too early")
    return parts[0] if len(parts) == 1 else b"".join(parts)


def is_folder(path: Path) -> bool:
    """True for a folder, and False for a link to one."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def entries_of(folder: Path) -> list[os.DirEntry[str]]:
    """What a folder holds; nothing if another writer has removed it."""
    try:
        return list(os.scandir(folder))
    except FileNotFoundError:
        return []


def make_folder(path: Path) -> None:
    """Make a folder if there is none; a link is refused, because files would be written elsewhere."""
    mode = None
    while mode is None:
        with contextlib.suppress(FileExistsError):
            path.mkdir()
        with contextlib.suppress(FileNotFoundError):  # another writer removed it in between
            mode = os.lstat(path).st_mode
    if stat.S_ISLNK(mode):
        raise StorageError(f"{str(path)!r} is a symbolic link; expected a folder. Remove the link.")
    if not stat.S_ISDIR(mode):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))


def remove_leftovers(folder: Path, *, include_live_writers: bool) -> None:
    """Remove temporary files of killed writers, and with ``include_live_writers`` those of living ones too.

    A writer that loses its temporary file writes it again. A file that cannot be removed stays and does no harm.
    """
    for entry in entries_of(folder):
        match = LEFTOVER.fullmatch(entry.name)
        if match is None or entry.path in _WRITING:
            continue
        if include_live_writers or _is_abandoned(match[2], int(match[3])):
            with contextlib.suppress(OSError):
                Path(entry.path).unlink(missing_ok=True)


@contextlib.contextmanager
def storing(directory: Path) -> Iterator[None]:
    """Raise a `StorageError` for a full disk, a missing permission and other errors of the disk."""
    try:
        yield
    except AttnFaithError:
        raise
    except OSError as error:
        raise StorageError(
            f"The directory {str(directory)!r} cannot hold the results: {error.strerror or error}. Finished work is "
            f"kept: once this is repaired, the same command continues. Or give another {parameter('output_dir')}."
        ) from error


def folder_of(directory: Any) -> Path:
    """A user's directory as a `Path`; anything that is no path is refused."""
    try:
        path = Path(os.fsdecode(local_path(directory))).expanduser()
    except (TypeError, RuntimeError) as error:
        raise InputError(
            f"Expected the path of a folder, got {type(directory).__name__}: {error}. Give a path, such as 'run/'."
        ) from error
    if "\0" in str(path):
        raise InputError("The path of the folder holds a NUL character, which no file system takes. Give another.")
    return path


def _write(path: Path, content: Any, move: Callable[[Path, Path], None]) -> None:
    """Write a temporary file and move it to its name; again if another process removed the temporary file."""
    for attempt in range(_ATTEMPTS):
        try:
            with _temporary(path, content) as temporary:
                move(temporary, path)
            break
        except FileNotFoundError:
            # The process that finishes the run removes all temporary files, also those of a second writer.
            if attempt == _ATTEMPTS - 1 or not path.parent.is_dir():
                raise
    _sync_folder(path.parent)


def _link(temporary: Path, path: Path) -> None:
    try:
        os.link(temporary, path)
    except (FileExistsError, FileNotFoundError):
        raise
    except OSError as error:  # a file system without hard links
        if path.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from error
        os.replace(temporary, path)


@contextlib.contextmanager
def _temporary(path: Path, content: Any) -> Iterator[Path]:
    """A new file with these bytes beside a path; it is removed at the end if it still exists."""
    temporary = path.with_name(f".{path.name}~{socket.gethostname()}~{os.getpid()}~{next(_NUMBERS)}")
    _WRITING.add(str(temporary))
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        yield temporary
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        _WRITING.discard(str(temporary))


def _sync_folder(path: Path) -> None:
    with contextlib.suppress(OSError):  # some systems cannot sync a folder
        folder = os.open(path, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _is_abandoned(host: str, process: int) -> bool:
    if host != socket.gethostname() or sys.platform == "win32":  # on Windows os.kill would end the process
        return False
    if process == os.getpid():
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        pass
    return False
