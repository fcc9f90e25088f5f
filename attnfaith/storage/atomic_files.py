"""Files that are there whole or not at all, files that are read with suspicion, and what the disk says told as ours."""

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

from attnfaith.errors import AttnFaithError, InputError, StorageError

if sys.platform != "win32":
    import fcntl

LEFTOVER = re.compile(r"\.(.+)~([^~]+)~([0-9]+)(~[0-9]+)?")
"""A file while it is being written: ``.name~host~process~number``."""
PROBE = 64 * 1024
"""Bytes that are written to a folder, and removed again, to learn before the work whether it takes any."""
_ATTEMPTS = 5
_NUMBERS = itertools.count()  # two threads of a process never share a temporary file
_WRITING: set[str] = set()  # the temporary files of this process that are in use now
# Never follow a link to another place, never wait for the writer of a pipe, never hand a file to a child.
_OPEN = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def put(path: Path, content: Any) -> None:
    """Write bytes to a file: whoever looks, whenever the writer is killed, finds all of them or none."""
    _place(path, content, os.replace)


def put_new(path: Path, content: Any) -> bool:
    """Like `put`, but never over a file that exists; False where there is one."""
    try:
        _place(path, content, _link)
    except FileExistsError:
        return False
    return True


def probe(folder: Path) -> None:
    """Raise the `OSError` that writing into a folder would raise: no permission, no room, read-only."""
    with _temporary(folder / "probe", bytes(PROBE)):
        pass


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One thread of one process at a time; file systems that cannot lock a folder do not, and leave no trace."""
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
    """A file and its `stat`; raises `ValueError` for a link, a pipe, a device, or more than ``limit`` bytes."""
    try:
        descriptor = os.open(path, _OPEN)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ValueError("it is a symbolic link; expected a file") from error
        raise
    with open(descriptor, "rb", buffering=0) as file:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            raise ValueError("it is not a regular file")
        if about.st_size > limit:
            raise ValueError(f"it has {about.st_size:,} bytes; expected at most {limit:,}")
        yield file, about


def read_regular(path: Path, limit: int) -> bytes:
    """The bytes of a file; see `open_regular` for what is refused."""
    with open_regular(path, limit) as (file, about):
        return read_exactly(file, about.st_size)


def read_exactly(file: BinaryIO, size: int) -> bytes:
    """So many bytes; a file may give them in parts, or turn out to be shorter."""
    parts = []
    while size and (part := file.read(size)):
        parts.append(part)
        size -= len(part)
    if size:
        raise ValueError(f"it ends {size:,} bytes too early")
    return parts[0] if len(parts) == 1 else b"".join(parts)


def is_folder(path: Path) -> bool:
    """Whether there is a folder of its own, not a link to one."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def make_folder(path: Path) -> None:
    """Make a folder where there is none; a link in its place is refused, or files would be written elsewhere."""
    path.mkdir(exist_ok=True)
    if not is_folder(path):
        raise StorageError(f"{str(path)!r} is a symbolic link; expected a folder. Remove the link.")


def remove_leftovers(folder: Path, *, everyone: bool) -> None:
    """Remove what killed writers left half written; also what other living ones have, when the work is done.

    A writer that loses a file so makes it again. Where removing is forbidden, a leftover stays and does no harm.
    """
    for entry in list(os.scandir(folder)):
        match = LEFTOVER.fullmatch(entry.name)
        if match is None or entry.path in _WRITING:
            continue
        if everyone or _is_abandoned(match[2], int(match[3])):
            with contextlib.suppress(OSError):
                Path(entry.path).unlink(missing_ok=True)


@contextlib.contextmanager
def storing(directory: Path) -> Iterator[None]:
    """Tell a full disk, a lacking permission and their like as a `StorageError`."""
    try:
        yield
    except AttnFaithError:
        raise
    except OSError as error:
        raise StorageError(
            f"The directory {str(directory)!r} cannot hold the results: {error.strerror or error}. What is done is "
            "kept: once this is mended, the same command goes on; or give another output_dir."
        ) from error


def folder_of(directory: Any) -> Path:
    """A directory as it was given by a user."""
    try:
        path = Path(os.fsdecode(directory)).expanduser()
    except (TypeError, RuntimeError) as error:
        raise InputError(
            f"Expected the path of a folder, got {type(directory).__name__}: {error}. Give a path, such as 'run/'."
        ) from error
    if "\0" in str(path):
        raise InputError("The path of the folder holds a NUL character, which no file system takes. Give another.")
    return path


def _place(path: Path, content: Any, move: Callable[[Path, Path], None]) -> None:
    for attempt in range(_ATTEMPTS):
        try:
            with _temporary(path, content) as made:
                move(made, path)
            break
        except FileNotFoundError:
            # Whoever finishes the run removes what looks half written; it may belong to a second writer.
            if attempt == _ATTEMPTS - 1 or not path.parent.is_dir():
                raise
    _sync_folder(path.parent)


def _link(made: Path, path: Path) -> None:
    try:
        os.link(made, path)
    except (FileExistsError, FileNotFoundError):
        raise
    except OSError as error:  # a file system without hard links
        if path.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from error
        os.replace(made, path)


@contextlib.contextmanager
def _temporary(path: Path, content: Any) -> Iterator[Path]:
    """A new file with these bytes beside a path; whatever is left of it in the end is removed."""
    made = path.with_name(f".{path.name}~{socket.gethostname()}~{os.getpid()}~{next(_NUMBERS)}")
    _WRITING.add(str(made))
    try:
        with made.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        yield made
    finally:
        with contextlib.suppress(OSError):
            made.unlink(missing_ok=True)
        _WRITING.discard(str(made))


def _sync_folder(path: Path) -> None:
    with contextlib.suppress(OSError):  # not every system can
        folder = os.open(path, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _is_abandoned(host: str, process: int) -> bool:
    if host != socket.gethostname() or sys.platform == "win32":  # where asking would kill it
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
