"""Open data files, folders and names on the hub as data sets of the `datasets` library.

Parquet, saved data sets and the hub are left to ``datasets``. Files of csv and JSON are parsed here, strictly, so that
bad rows are refused by their lines.
"""

from __future__ import annotations

import atexit
import csv
import errno
import glob
import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn

import datasets
import pyarrow as pa
import pyarrow.parquet as pq

from attnfaith.addresses import file_system, is_address, local_path, reaching
from attnfaith.errors import InputError, StorageError
from attnfaith.parameter_names import parameter
from attnfaith.validation import did_you_mean, short_repr

SEPARATORS = {".csv": ",", ".tsv": "\t"}
JSON_LINES = (".json", ".jsonl", ".ndjson")
SUFFIXES = (*SEPARATORS, *JSON_LINES, ".parquet")
_MAX_NAMED = 10  # bad rows that a message names
_BLOCK = 1000  # rows in memory at a time
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def csv_rows(file: Path) -> Iterator[dict[str, str | None]]:
    """The rows of a csv or tsv file by column; bad rows are collected and refused together, at the end."""
    header: list[str] | None = None
    bad = _BadRows(file, 'Put texts that hold separators, quotes or line breaks in double quotes ("" for a quote).')
    with _text_of(file, newline=_newline_of(file)) as stream:
        _check_separator(file, stream)
        reader = csv.reader(stream, delimiter=SEPARATORS[file.suffix.lower()], strict=True)
        while True:
            line = reader.line_num + 1
            try:
                cells = next(reader)
            except StopIteration:
                break
            except csv.Error as error:
                carriage_return = "new-line" in str(error)
                reason = ": it holds a carriage return outside quotes" if carriage_return else f" ({error})"
                bad.add(line, f"cannot be read{reason}")
                continue
            if not any(cells) and len(cells) <= 1 and (header is None or len(header) > 1 or not cells):
                continue
            if header is None:
                header = cells
                if len({*header}) < len(header):
                    repeated = next(name for name in header if header.count(name) > 1)
                    raise InputError(
                        f"{str(file)!r} has two columns called {repeated!r}. Rename one.", code="unreadable-data"
                    )
            elif len(cells) != len(header):
                start = ", ".join(cells)[:40]
                bad.add(line, f"has {len(cells)} fields where the header has {len(header)} ({start!r})")
            elif not bad.count:
                yield {name: cell or None for name, cell in zip(header, cells, strict=True)}
    bad.refuse()


def _check_separator(file: Path, stream: Any) -> None:
    """Refuse a file whose header is not separated as its suffix says, before every line gives a parse error."""
    expected = SEPARATORS[file.suffix.lower()]
    header = next((line for line in stream if line.strip()), "")
    separator = None if expected in header else next((sign for sign in (";", "\t", "|", ",") if sign in header), None)
    if separator is not None:
        raise InputError(
            f"{str(file)!r}: the header looks separated by {separator!r}, but a {file.suffix.lower()} file is read as "
            f"separated by {expected!r}. Save it with that separator (or, in Python, read it with pandas and give the "
            "DataFrame).",
            code="unreadable-data",
        )
    stream.seek(0)


def json_rows(file: Path) -> Iterator[dict[str, Any]]:
    """The objects of a file of JSON lines, or of a file that is one JSON list."""
    bad = _BadRows(file, 'Expected one JSON object on each line, such as {"text": "...", "label": 0}.')
    with _text_of(file, newline="\n") as stream:
        for number, line in enumerate(stream, 1):
            if not line.strip():
                continue
            if line.lstrip().startswith("[") and not bad.count:
                yield from _json_list(file, line + stream.read(), number - 1)
                return
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                bad.add(number, f"is not JSON ({error})")
                continue
            if not isinstance(row, dict):
                bad.add(number, f"is a {type(row).__name__}, not an object")
            elif not bad.count:
                yield row
    bad.refuse()


def _json_list(file: Path, text: str, before: int) -> Iterator[dict[str, Any]]:
    try:
        rows = json.loads(text)
    except (ValueError, RecursionError) as error:
        line = before + getattr(error, "lineno", 1)
        raise InputError(f"{str(file)!r} is not JSON: line {line}: {error}.", code="unreadable-data") from error
    for number, row in enumerate(rows):
        if not isinstance(row, dict):
            raise InputError(
                f"{str(file)!r}: entry {number} of its list is a {type(row).__name__}, not an object.",
                code="unreadable-data",
            )
        yield row


class _BadRows:
    """Collects the bad rows of a file: the reasons of the first few, and the count."""

    def __init__(self, file: Path, advice: str) -> None:
        self.file, self.advice = file, advice
        self.count = 0
        self._reasons: list[str] = []

    def add(self, line: int, reason: str) -> None:
        self.count += 1
        if self.count <= _MAX_NAMED:
            self._reasons.append(f"line {line} {reason}")

    def refuse(self) -> None:
        if self.count:
            which = f"{self.count} bad row{'s' * (self.count > 1)}"
            which += f", the first {_MAX_NAMED}" if self.count > _MAX_NAMED else ""
            raise InputError(
                f"{str(self.file)!r} has {which}: {'; '.join(self._reasons)}. {self.advice}", code="unreadable-data"
            )


@contextmanager
def _text_of(file: Path, *, newline: str) -> Iterator[Any]:
    """Open a file as UTF-8 with no limit on the length of a cell; errors become `InputError`."""
    before = csv.field_size_limit(2**31 - 1)
    try:
        with file.open(encoding="utf-8-sig", newline=newline) as stream:
            yield stream
    except UnicodeDecodeError as error:
        raise InputError(
            f"{str(file)!r} is not UTF-8: {_first_undecodable(file)}. Save it as UTF-8.", code="unreadable-data"
        ) from error
    except OSError as error:
        raise InputError(f"{str(file)!r} cannot be read: {error.strerror or error}.", code="unreadable-data") from error
    finally:
        csv.field_size_limit(before)


def _newline_of(file: Path) -> str:
    """The ``newline`` argument for a csv: lines end with a line feed or (in files of old Macs) a carriage return.

    If lines end with a line feed, a carriage return is a character of the text. With ``newline=""`` Python would end
    the line there, and silently drop the character or the second half of the row.
    """
    with suppress(OSError), file.open("rb") as stream:
        while block := stream.read(2**16):
            if b"\n" in block:
                return "\n"
    return ""


def _first_undecodable(file: Path) -> str:
    with file.open("rb") as stream:
        for number, line in enumerate(stream, 1):
            try:
                line.decode()
            except UnicodeDecodeError as error:
                return f"line {number} holds the byte 0x{line[error.start]:02x} at position {error.start}"
    return "it cannot be decoded"


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
        with _fetched(names if isinstance(names, list) else [names]) as copies:
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
    data, columns = _temporary_copy(rows, needed, as_json=suffix in JSON_LINES)
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
    try:
        if any((path / name).exists() for name in ("state.json", "dataset_dict.json")):
            return OpenedData(datasets.load_from_disk(str(path)))
    except (OSError, ValueError, KeyError, pa.ArrowException) as error:
        raise InputError(
            f"The data set saved in {str(path)!r} cannot be read: {error}", code="unreadable-data"
        ) from error
    return _load(str(path), subset, local=True)


def _load(name: str, subset: str | None, *, local: bool = False) -> OpenedData:
    try:
        if not local:
            return OpenedData(datasets.load_dataset(name, subset))
        with _temporary_cache() as cache:
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
        with _temporary_cache() as cache:
            names = [str(file.resolve()) for file in files]
            return OpenedData(datasets.load_dataset("parquet", data_files=names, split="train", cache_dir=cache))
    except StorageError:
        raise
    except (OSError, ValueError, datasets.exceptions.DatasetsError, pa.ArrowException) as error:
        raise InputError(
            f"{_names(files)} cannot be read as parquet: {error.__cause__ or error}", code="unreadable-data"
        ) from error


def _temporary_copy(
    rows: Iterator[dict[str, Any]], needed: Sequence[str], *, as_json: bool
) -> tuple[Any, tuple[str, ...]]:
    """Copy the needed columns of rows to a data set on disk; returns it with the names of all columns.

    A cell is stored as text; cells from JSON are stored as JSON, so that numbers and texts stay distinct.
    """
    schema = pa.schema([(name, pa.large_string()) for name in needed])
    columns: dict[str, None] = {}
    with _temporary_cache() as cache:
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
def _fetched(names: Sequence[Any]) -> Iterator[list[Path]]:
    """Copies of files or folders at addresses; errors name the address where they would name the copy."""
    with _temporary_cache() as folder:
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
def _temporary_cache() -> Iterator[str]:
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


def _names(files: Sequence[Path]) -> str:
    return ", ".join(repr(str(file)) for file in files[:3]) + (f" and {len(files) - 3} more" if len(files) > 3 else "")
