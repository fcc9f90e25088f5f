"""Copies of data in temporary folders: of rows as a data set, and of files at addresses."""

from __future__ import annotations

import atexit
import errno
import glob
import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn

import datasets
import pyarrow as pa

from attnfaith.addresses import file_system, is_address, reaching
from attnfaith.errors import InputError, StorageError
from attnfaith.validation import short_repr

_BLOCK = 1000  # rows in memory at a time
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def temporary_copy(
    rows: Iterator[dict[str, Any]], needed: Sequence[str], *, as_json: bool
) -> tuple[Any, tuple[str, ...]]:
    """Copy the needed columns of rows to a data set on disk; returns it with the names of all columns.

    A cell is stored as text; cells from JSON are stored as JSON, so that numbers and texts stay distinct.
    """
    schema = pa.schema([(name, pa.large_string()) for name in needed])
    columns: dict[str, None] = {}
    with temporary_cache() as cache:
        path = Path(cache) / "rows.arrow"
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, schema) as writer:
            while block := list(islice(rows, _BLOCK)):
                for row in block:
                    if not row.keys() <= columns.keys():
                        columns |= dict.fromkeys(row)
                cells = [[row.get(name) for row in block] for name in needed]
                if as_json:
                    cells = [[None if cell is None else json.dumps(cell) for cell in column] for column in cells]
                writer.write_batch(
                    pa.record_batch([pa.array(column, pa.large_string()) for column in cells], schema=schema)
                )
        return datasets.Dataset.from_file(str(path)), tuple(columns)


@contextmanager
def fetched(names: Sequence[Any]) -> Iterator[list[Path]]:
    """Copies of files or folders at addresses; errors name the address where they would name the copy."""
    with temporary_cache() as folder:
        copies: dict[Path, str] = {}
        for number, name in enumerate(names):
            if not is_address(name):
                raise InputError(
                    f"Some of the data are at addresses and {short_repr(str(name))} is not. Give one kind."
                )
            copies |= _copy(name, Path(folder) / str(number))
        try:
            yield list(copies)
        except InputError as error:
            message = error.message
            for copy, address in copies.items():
                message = message.replace(str(copy), address)
            raise InputError(message, code=error.code) from error


def _copy(name: str, folder: Path) -> dict[Path, str]:
    """Copy the file, the folder or the files of a pattern at an address into a folder; their addresses by copy."""
    address = name.rstrip("/")
    folder.mkdir()
    system, path = file_system(address)
    scheme = address[: address.index("://") + len("://")]
    with reaching(address, InputError, "Check the address and your access to it."):
        try:
            matches = sorted(system.glob(path)) if glob.has_magic(path) else [path]
            if not matches:
                raise InputError(f"There is no file {short_repr(address, 200)}.", code="data-not-found")
            copies = {}
            for match in matches:
                copy = folder / match.rstrip("/").rpartition("/")[2]
                system.get(match, str(copy), recursive=system.isdir(match))
                copies[copy] = address if match == path else f"{scheme}{match.lstrip('/')}"
        except FileNotFoundError as error:
            raise InputError(f"There is no file {short_repr(address, 200)}.", code="data-not-found") from error
    return copies


@contextmanager
def temporary_cache() -> Iterator[str]:
    """A folder for the files that `datasets` writes, removed at once: an open data set keeps its (mapped) files.

    So a file that was changed is read again, and two processes never share a cache.
    """
    before = datasets.are_progress_bars_disabled(), datasets.logging.get_verbosity()
    try:
        folder = tempfile.mkdtemp(prefix="attnfaith-")
    except OSError as error:
        _disk_full(error)
    try:
        if not before[0] and datasets.config.HF_DATASETS_DISABLE_PROGRESS_BARS is None:
            datasets.disable_progress_bars()
        datasets.logging.set_verbosity(datasets.logging.CRITICAL)
        yield folder
    except (OSError, datasets.exceptions.DatasetGenerationError) as error:
        cause = error if isinstance(error, OSError) else error.__cause__
        if getattr(cause, "errno", None) not in _DISK_FULL:
            raise
        _disk_full(cause)
    finally:
        if not before[0] and datasets.are_progress_bars_disabled():
            datasets.enable_progress_bars()
        datasets.logging.set_verbosity(before[1])
        shutil.rmtree(folder, ignore_errors=True)
        if Path(folder).exists():  # some systems cannot remove open files: try again at exit
            atexit.register(shutil.rmtree, folder, ignore_errors=True)


def _disk_full(error: Any) -> NoReturn:
    raise StorageError(
        f"Cannot write a temporary copy of the data: {error}. Free some space, or name another folder in the "
        "environment variable TMPDIR."
    ) from error
