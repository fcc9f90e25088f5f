"""Parse csv and JSON files strictly: bad rows are refused by their lines."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from attnfaith.errors import InputError

SEPARATORS = {".csv": ",", ".tsv": "\t"}
JSON_LINES = (".json", ".jsonl", ".ndjson")
_MAX_NAMED = 10  # bad rows that a message names


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
