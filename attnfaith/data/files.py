"""Open data files, folders and names on the hub as data sets of the `datasets` library.

Parquet, saved data sets and the hub are left to ``datasets``. Files of csv and JSON are parsed by `strict_parsing`.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq

from attnfaith.addresses import is_address, local_path
from attnfaith.data.strict_parsing import JSON_LINES, SEPARATORS, csv_rows, json_rows
from attnfaith.data.temporary_copies import fetched, temporary_cache, temporary_copy
from attnfaith.errors import InputError, StorageError
from attnfaith.parameter_names import parameter
from attnfaith.validation import did_you_mean, short_repr

SUFFIXES = (*SEPARATORS, *JSON_LINES, ".parquet")
MOST_FILES = 10_000
"""The most files, and folders inside, of a folder that is read as data."""


@dataclass(frozen=True)
class OpenedData:
    """The data behind a path or name.

    Attributes:
        data: a data set, or several by split name.
        columns: the columns of the file; the data set itself may hold only the needed ones.
        cells: the content of cells: "values", "text" (csv cells have no other type), or "json".
    """

    data: Any
    columns: tuple[str, ...] | None = None
    cells: str = "values"


def open_path(name: Any, *, subset: str | None = None, needed: Sequence[str] = ()) -> OpenedData:
    """Open a file, several files, a pattern, a folder, or a data set of the hub.

    Args:
        name: a path, an address such as ``s3://bucket/reviews.csv``, a list of them, or a name on the hub.
        subset: the subset of a data set that has several (its configuration), in a folder or on the hub.
        needed: the columns that will be read; only these are copied from text files.
    """
    names = [local_path(entry) for entry in name] if isinstance(name, list | tuple) else local_path(name)
    if any(map(is_address, names if isinstance(names, list) else [names])):
        with fetched(names if isinstance(names, list) else [names]) as copies:
            return _open_local(copies[0] if len(copies) == 1 else copies, subset, needed)
    return _open_local(names, subset, needed)


def _open_local(name: Any, subset: str | None, needed: Sequence[str]) -> OpenedData:
    files = _files(name)
    if files is None:
        return _load(str(name), subset)
    if subset is not None and not files[0].is_dir():
        raise InputError(
            f"{parameter('subset', subset)} is for data sets that have several subsets; {files[0].name} is a file. "
            f"Leave {parameter('subset')} out."
        )
    if len(files) == 1 and files[0].is_dir():
        return _folder(files[0], subset)
    suffixes = {file.suffix.lower() for file in files}
    if len(suffixes) > 1 or not suffixes <= {*SUFFIXES}:
        raise InputError(
            f"{_names(files)}: expected files of one kind, out of {', '.join(SUFFIXES)}. Save the data as one of "
            "these (or, in Python, give a DataFrame or a datasets.Dataset).",
            code="unreadable-data",
        )
    suffix = suffixes.pop()
    if suffix == ".parquet":
        return _parquet(files)
    read_rows = json_rows if suffix in JSON_LINES else csv_rows
    rows = (row for file in files for row in read_rows(file))
    data, columns = temporary_copy(rows, needed, as_json=suffix in JSON_LINES)
    return OpenedData(data, columns, "json" if suffix in JSON_LINES else "text")


def _files(name: Any) -> list[Path] | None:
    """The files behind a path, list or pattern; None for a name on the hub."""
    if isinstance(name, list | tuple):
        return [file for entry in name for file in _files(entry) or [_no_such(Path(entry))]]
    path = Path(name).expanduser()
    try:
        if path.exists():
            return [path]
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{short_repr(str(name), 80)} cannot be reached: {reason}.", code="data-not-found") from error
    if matches := sorted(glob.glob(str(path), recursive=True)):
        return [Path(file) for file in matches]
    if _looks_like_path(name):
        _no_such(path)
    return None


def is_file_name(entry: str) -> bool:
    """True for an existing file and for a name with the suffix of a data file; False for a text.

    Example:
        >>> is_file_name("reviews.csv"), is_file_name("Is it good? 10/10.")
        (True, False)
    """
    try:
        exists = Path(entry).is_file()
    except (OSError, ValueError):  # too long for a name, or with NUL in it
        return False
    return bool(entry) and (exists or Path(entry).suffix.lower() in SUFFIXES)


def _looks_like_path(name: Any) -> bool:
    text = str(name)
    return (
        not isinstance(name, str)
        or is_file_name(text)
        or text.startswith((".", "/", "~"))
        or text.count("/") > 1
        or any(sign in text for sign in "*?[\\:")
    )


def _no_such(path: Path) -> Path:
    folder = path.parent
    names = [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
    hint = did_you_mean(path.name, names, lambda name: repr(str(folder / name)))
    raise InputError(f"There is no file {short_repr(str(path), 400)}.{hint}", code="data-not-found")


def _folder(path: Path, subset: str | None) -> OpenedData:
    _check_number_of_files(path)
    try:
        if any((path / name).exists() for name in ("state.json", "dataset_dict.json")):
            return OpenedData(datasets.load_from_disk(str(path)))
    except (OSError, ValueError, KeyError, pa.ArrowException) as error:
        raise InputError(
            f"The data set saved in {str(path)!r} cannot be read: {error}", code="unreadable-data"
        ) from error
    return _load(str(path), subset, local=True)


def _check_number_of_files(path: Path) -> None:
    """Refuse a home folder, or another with very many files: `datasets` would search all of it, for minutes."""
    found = 0
    for _, folders, files in os.walk(path):
        found += len(folders) + len(files)
        if found > MOST_FILES:
            raise InputError(
                f"The folder {short_repr(str(path), 400)} holds more than {MOST_FILES:,} files and folders. Give the "
                "folder of the data alone, or its files by a pattern such as 'reviews/*.parquet'.",
                code="data-not-found",
            )


def _load(name: str, subset: str | None, *, local: bool = False) -> OpenedData:
    try:
        if not local:
            return OpenedData(datasets.load_dataset(name, subset))
        with temporary_cache() as cache:
            return OpenedData(datasets.load_dataset(name, subset, cache_dir=cache))
    except StorageError:
        raise
    except (OSError, ValueError, RuntimeError, datasets.exceptions.DatasetsError, pa.ArrowException) as error:
        # `datasets` raises RuntimeError when it refuses to run a script beside the data
        reason = f"{error} {error.__cause__ or ''}".strip()
        if local:
            raise InputError(
                f"The folder {name!r} holds no data that `datasets` can read: {reason}", code="data-not-found"
            ) from error
        raise InputError(
            f"There is no file or folder {short_repr(name)}, and no data set of that name was found on the Hugging "
            f"Face hub: {reason[:600]}. Check the name, or give a path.",
            code="data-not-found",
        ) from error


def _parquet(files: Sequence[Path]) -> OpenedData:
    for file in files:
        try:
            pq.read_metadata(file)
        except (OSError, pa.ArrowException) as error:
            raise InputError(f"{str(file)!r} cannot be read as parquet: {error}", code="unreadable-data") from error
    try:
        with temporary_cache() as cache:
            names = [str(file.resolve()) for file in files]
            return OpenedData(datasets.load_dataset("parquet", data_files=names, split="train", cache_dir=cache))
    except StorageError:
        raise
    except (OSError, ValueError, datasets.exceptions.DatasetsError, pa.ArrowException) as error:
        raise InputError(
            f"{_names(files)} cannot be read as parquet: {error.__cause__ or error}", code="unreadable-data"
        ) from error


def _names(files: Sequence[Path]) -> str:
    return ", ".join(repr(str(file)) for file in files[:3]) + (f" and {len(files) - 3} more" if len(files) > 3 else "")
