"""Files that are there whole or not at all, and what the disk says told as ours."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attnfaith.errors import AttnFaithError, InputError, StorageError

LEFTOVER = re.compile(r"\.(.+)~(.+)~(\d+)")
"""A file while it is being written: ``.name~host~process``."""


def put(path: Path, content: Any) -> None:
    """Write bytes to a file: whoever looks, whenever the writer is killed, finds all of them or none."""
    passing = path.with_name(f".{path.name}~{socket.gethostname()}~{os.getpid()}")
    try:
        with passing.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(passing, path)
    except BaseException:
        with contextlib.suppress(OSError):
            passing.unlink(missing_ok=True)
        raise
    with contextlib.suppress(OSError):  # not every system can
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def remove_leftovers(folder: Path, *, everyone: bool) -> None:
    """Remove what killed writers left half written; also what living ones have, when all are known to be done."""
    for entry in list(os.scandir(folder)):
        match = LEFTOVER.fullmatch(entry.name)
        if match and (everyone or _is_abandoned(match[2], int(match[3]))):
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


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Name the file that is corrupt or gone, and what heals it."""
    try:
        yield
    except (OSError, ValueError, EOFError) as error:  # pyarrow's errors are ValueErrors or OSErrors
        raise InputError(
            f"{str(path)!r} cannot be read: {error}. Delete the files {path.name} in all folders of "
            f"{str(path.parent.parent)!r}, and the same command makes them again."
        ) from error


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
