"""Data from paths and names, opened as data sets of the `datasets` library.

Parquet, saved data sets and the hub are left to ``datasets`` altogether; text comes row by row from `textfiles`.
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

from attnfaith.errors import InputError, StorageError
from attnfaith.validation import did_you_mean, short_repr

SEPARATORS = {".csv": ",", ".tsv": "\t"}
JSON_LINES = (".json", ".jsonl", ".ndjson")
_MOST = 10  # bad rows that a message names


def csv_rows(file: Path) -> Iterator[dict[str, str | None]]:
    """The rows of a csv under their columns; rows that do not fit are named all together, at the end."""
    header: list[str] | None = None
    bad = _BadRows(file, 'Put texts that hold separators, quotes or line breaks in double quotes ("" for a quote).')
    with _text_of(file, newline=_newline_of(file)) as stream:
        reader = csv.reader(stream, delimiter=SEPARATORS[file.suffix.lower()], strict=True)
        while True:
            line = reader.line_num + 1
            try:
                cells = next(reader)
            except StopIteration:
                break
            except csv.Error as error:
                found = "holds a carriage return outside quotes" if "new-line" in str(error) else f"({error})"
                bad.add(line, f"cannot be read: it {found}" if found[0] == "h" else f"cannot be read {found}")
                continue
            if not any(cells) and len(cells) <= 1 and (header is None or len(header) > 1 or not cells):
                continue
            if header is None:
                header = cells
                if len({*header}) < len(header):
                    twice = next(name for name in header if header.count(name) > 1)
                    raise InputError(f"{str(file)!r} has two columns called {twice!r}. Rename one.")
            elif len(cells) != len(header):
                start = ", ".join(cells)[:40]
                bad.add(line, f"has {len(cells)} fields where the header has {len(header)} ({start!r})")
            elif not bad.count:
                yield {name: cell or None for name, cell in zip(header, cells, strict=True)}
    bad.refuse()


def json_rows(file: Path) -> Iterator[dict[str, Any]]:
    """The objects of a file of JSON lines, or of one JSON list."""
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
        raise InputError(f"{str(file)!r} is not JSON: line {line}: {error}.") from error
    for number, row in enumerate(rows):
        if not isinstance(row, dict):
            raise InputError(f"{str(file)!r}: entry {number} of its list is a {type(row).__name__}, not an object.")
        yield row


class _BadRows:
    """Bad rows of a file: the first few, and how many there are."""

    def __init__(self, file: Path, advice: str) -> None:
        self.file, self.advice = file, advice
        self.count = 0
        self._told: list[str] = []

    def add(self, line: int, what: str) -> None:
        self.count += 1
        if self.count <= _MOST:
            self._told.append(f"line {line} {what}")

    def refuse(self) -> None:
        if self.count:
            which = f"{self.count} bad row{'s' * (self.count > 1)}"
            which += f", the first {_MOST}" if self.count > _MOST else ""
            raise InputError(f"{str(self.file)!r} has {which}: {'; '.join(self._told)}. {self.advice}")


@contextmanager
def _text_of(file: Path, *, newline: str) -> Iterator[Any]:
    """An open file of UTF-8, its faults told as ours; a cell of it may be long."""
    before = csv.field_size_limit(2**31 - 1)
    try:
        with file.open(encoding="utf-8-sig", newline=newline) as stream:
            yield stream
    except UnicodeDecodeError as error:
        raise InputError(f"{str(file)!r} is not UTF-8: {_first_undecodable(file)}. Save it as UTF-8.") from error
    except OSError as error:
        raise InputError(f"{str(file)!r} cannot be read: {error.strerror or error}.") from error
    finally:
        csv.field_size_limit(before)


def _newline_of(file: Path) -> str:
    """What ends the lines of a csv for Python: a line feed, or (in files of old Macs) a carriage return.

    Where a line feed does, a carriage return is a character of the text. Python would take it for the end of a line
    too, and lose it, or lose the row's other half, in silence.
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
                return f"line {number} holds the byte 0x{line[error.start]:02x} at place {error.start}"
    return "it cannot be decoded"


SUFFIXES = (*SEPARATORS, *JSON_LINES, ".parquet")
_BLOCK = 1000  # rows in memory at a time
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@dataclass(frozen=True)
class OpenedData:
    """What a path or name led to.

    Attributes:
        data: a data set, or several by the names of their splits.
        columns: in the data; the data set itself may hold only those that were wanted.
        cells: what a cell holds: "values", "text" (a csv has nothing else), or "json".
    """

    data: Any
    columns: tuple[str, ...] | None = None
    cells: str = "values"


def open_path(name: Any, *, subset: str | None = None, wanted: Sequence[str] = ()) -> OpenedData:
    """Open a file, several, a pattern, a folder, or a data set of the hub by its name.

    Args:
        name: a path, a list of paths, or a name.
        subset: of a data set that has several (its configuration), in a folder or on the hub.
        wanted: the columns that will be read; those of text files are copied aside, the others are not.
    """
    files = _files(name)
    if files is None:
        return _load(str(name), subset)
    if subset is not None and not files[0].is_dir():
        raise InputError(f"subset={subset!r} is for data sets that have several; {files[0].name} is a file.")
    if len(files) == 1 and files[0].is_dir():
        return _folder(files[0], subset)
    suffixes = {file.suffix.lower() for file in files}
    if len(suffixes) > 1 or not suffixes <= {*SUFFIXES}:
        raise InputError(
            f"{_names(files)}: expected files of one kind, out of {', '.join(SUFFIXES)}. Open others yourself and give "
            "a DataFrame or a datasets.Dataset."
        )
    suffix = suffixes.pop()
    if suffix == ".parquet":
        return _parquet(files)
    read = json_rows if suffix in JSON_LINES else csv_rows
    rows = (row for file in files for row in read(file))
    data, columns = _copy_aside(rows, wanted, as_json=suffix in JSON_LINES)
    return OpenedData(data, columns, "json" if suffix in JSON_LINES else "text")


def _files(name: Any) -> list[Path] | None:
    """The files that are meant; None for a name that can only be one on the hub."""
    if isinstance(name, list | tuple):
        if all(isinstance(entry, str) and not _looks_like_file(entry) for entry in name):
            raise InputError("Got a list of strings that are no files. Texts are given as [{'text': ...}, ...].")
        return [file for entry in name for file in _files(entry) or [_no_such(Path(entry))]]
    path = Path(name).expanduser()
    try:
        if path.exists():
            return [path]
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{short_repr(str(name), 80)} cannot be reached: {reason}.") from error
    if found := sorted(glob.glob(str(path), recursive=True)):
        return [Path(file) for file in found]
    if _looks_like_file(name):
        _no_such(path)
    return None


def _looks_like_file(name: Any) -> bool:
    text = str(name)
    try:
        there = Path(text).exists()
    except (OSError, ValueError):  # too long for a name, or with NUL in it
        there = False
    return (
        not isinstance(name, str)
        or there
        or Path(text).suffix.lower() in SUFFIXES
        or text.startswith((".", "/", "~"))
        or text.count("/") > 1
        or any(sign in text for sign in "*?[\\:")
    )


def _no_such(path: Path) -> Path:
    folder = path.parent
    names = [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
    hint = did_you_mean(path.name, names, lambda name: repr(str(folder / name)))
    raise InputError(f"There is no file {short_repr(str(path), 400)}.{hint}")


def _folder(path: Path, subset: str | None) -> OpenedData:
    try:
        if any((path / name).exists() for name in ("state.json", "dataset_dict.json")):
            return OpenedData(datasets.load_from_disk(str(path)))
    except (OSError, ValueError, KeyError, pa.ArrowException) as error:
        raise InputError(f"The data set saved in {str(path)!r} cannot be read: {error}") from error
    return _load(str(path), subset, local=True)


def _load(name: str, subset: str | None, *, local: bool = False) -> OpenedData:
    try:
        if not local:
            return OpenedData(datasets.load_dataset(name, subset))
        with _passing_cache() as cache:
            return OpenedData(datasets.load_dataset(name, subset, cache_dir=cache))
    except StorageError:
        raise
    except (OSError, ValueError, RuntimeError, datasets.exceptions.DatasetsError, pa.ArrowException) as error:
        # a RuntimeError: it refuses to run a script that lies beside the data
        reason = f"{error} {error.__cause__ or ''}".strip()
        if local:
            raise InputError(f"The folder {name!r} holds no data that `datasets` can read: {reason}") from error
        raise InputError(
            f"There is no file or folder {short_repr(name)}, and no data set of that name was found on the Hugging "
            f"Face hub: {reason[:600]}. Check the name, or give a path."
        ) from error


def _parquet(files: Sequence[Path]) -> OpenedData:
    for file in files:
        try:
            pq.read_metadata(file)
        except (OSError, pa.ArrowException) as error:
            raise InputError(f"{str(file)!r} cannot be read as parquet: {error}") from error
    try:
        with _passing_cache() as cache:
            names = [str(file.resolve()) for file in files]
            return OpenedData(datasets.load_dataset("parquet", data_files=names, split="train", cache_dir=cache))
    except StorageError:
        raise
    except (OSError, ValueError, datasets.exceptions.DatasetsError, pa.ArrowException) as error:
        raise InputError(f"{_names(files)} cannot be read as parquet: {error.__cause__ or error}") from error


def _copy_aside(rows: Iterator[dict[str, Any]], wanted: Sequence[str], *, as_json: bool) -> tuple[Any, tuple[str, ...]]:
    """Rows as a data set that lies on disk, with the wanted columns, and all columns there are.

    A cell is text; where the rows come from JSON it is JSON, so that a number is told from a text later on.
    """
    schema = pa.schema([(name, pa.large_string()) for name in wanted])
    columns: dict[str, None] = {}
    with _passing_cache() as cache:
        path = Path(cache) / "rows.arrow"
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, schema) as writer:
            while block := list(islice(rows, _BLOCK)):
                for row in block:
                    if not row.keys() <= columns.keys():
                        columns |= dict.fromkeys(row)
                cells = [[row.get(name) for row in block] for name in wanted]
                if as_json:
                    cells = [[None if cell is None else json.dumps(cell) for cell in column] for column in cells]
                writer.write_batch(
                    pa.record_batch([pa.array(column, pa.large_string()) for column in cells], schema=schema)
                )
        return datasets.Dataset.from_file(str(path)), tuple(columns)


@contextmanager
def _passing_cache() -> Iterator[str]:
    """A folder for what `datasets` writes, gone again at once: an open data set holds on to its (mapped) files.

    So a file that changes under its name is read anew, and two processes never meet in a cache.
    """
    before = datasets.are_progress_bars_disabled(), datasets.logging.get_verbosity()
    try:
        folder = tempfile.mkdtemp(prefix="attnfaith-")
    except OSError as error:
        _no_room(error)
    try:
        if not before[0] and datasets.config.HF_DATASETS_DISABLE_PROGRESS_BARS is None:
            datasets.disable_progress_bars()
        datasets.logging.set_verbosity(datasets.logging.CRITICAL)
        yield folder
    except (OSError, datasets.exceptions.DatasetGenerationError) as error:
        cause = error if isinstance(error, OSError) else error.__cause__
        if getattr(cause, "errno", None) not in _FULL:
            raise
        _no_room(cause)
    finally:
        if not before[0] and datasets.are_progress_bars_disabled():
            datasets.enable_progress_bars()
        datasets.logging.set_verbosity(before[1])
        shutil.rmtree(folder, ignore_errors=True)
        if Path(folder).exists():  # where open files cannot be removed: at the end
            atexit.register(shutil.rmtree, folder, ignore_errors=True)


def _no_room(error: Any) -> NoReturn:
    raise StorageError(
        f"No copy of the data can be laid aside for temporary files: {error}. Make room there, or name another folder "
        "in the environment variable TMPDIR."
    ) from error


def _names(files: Sequence[Path]) -> str:
    return ", ".join(repr(str(file)) for file in files[:3]) + (f" and {len(files) - 3} more" if len(files) > 3 else "")
