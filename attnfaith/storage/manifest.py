"""Read, write, check and compare the manifest of a run."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from attnfaith.errors import InputError, StorageError
from attnfaith.functional.keyed_order import rows_at
from attnfaith.parameter_names import parameter
from attnfaith.storage.atomic_files import read_regular
from attnfaith.storage.sealed_table import short_reason
from attnfaith.validation import short_repr

NAME = "manifest.json"
LAYOUT = 2
"""The version of the file layout; an earlier layout had no checksums."""
MAX_BYTES = 2**24
"""The largest size of a manifest."""
MAX_ROWS = 2**48
_SHARD_SIZES = range(1, 2**20 + 1)
_MAX_DEPTH = 30
_HEX = frozenset("0123456789abcdef")
_FINISHED = ("shards", "counts", "digests")  # the entries of a finished run
SAMPLE = "sample"
"""The entry of a finished run in the keyed order: what was asked for, and the number of "texts" that were read."""


def read_manifest(directory: Path) -> dict[str, Any]:
    """Read the manifest of a run; a damaged one, or one of another layout, is refused.

    The entries that every run has are checked here; the others by `attnfaith.evaluation.manifest_schema`.
    """
    path = directory / NAME
    try:
        content = read_regular(path, MAX_BYTES)
        manifest = json.loads(content.decode("utf-8"), object_pairs_hook=_once)
        _refuse_deep(manifest)
    except (ValueError, RecursionError, MemoryError, OSError) as error:
        refuse(path, error.strerror if isinstance(error, OSError) and error.strerror else short_reason(error))
    if not isinstance(manifest, dict):
        refuse(path, f"it holds {short_repr(manifest)}; expected a JSON object")
    if "layout" not in manifest and isinstance(manifest.get("run"), dict):
        raise StorageError(
            f"The run in {str(directory)!r} was written by an earlier attnfaith, whose files have no checksums. Give "
            f"another {parameter('output_dir')} and run again, or read it with the attnfaith that wrote it.",
            code="other-version",
        )
    layout, digest = manifest.pop("layout", None), manifest.pop("digest", None)
    if type(layout) is int and layout > LAYOUT:
        raise StorageError(
            f"The run in {str(directory)!r} was written by a newer attnfaith (layout {short_repr(layout)}; this reads "
            f"{LAYOUT}). Read it with a newer version.",
            code="other-version",
        )
    if type(layout) is not int or layout != LAYOUT:
        refuse(path, f"layout is {short_repr(layout)}; expected {LAYOUT}")
    if digest != _digest(manifest):
        refuse(path, f"its checksum is wrong ({short_repr(digest)}), so it has changed since it was written")
    _check(path, manifest)
    if content != to_bytes(manifest):
        refuse(path, "its content is right, but it is not written in the bytes that attnfaith writes")
    return manifest


def to_bytes(manifest: Mapping[str, Any]) -> bytes:
    """The bytes of a manifest, with its layout and digest; the same manifest gives the same bytes."""
    document = {"layout": LAYOUT, **manifest, "digest": _digest(manifest)}
    content = (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace")
    if len(content) > MAX_BYTES:
        raise StorageError(f"The manifest of this run takes {len(content):,} bytes; expected at most {MAX_BYTES:,}.")
    return content


def run_digest(manifest: Mapping[str, Any]) -> str:
    """The digest that ties files to a run: of all entries that must be equal for the run to be continued."""
    return _digest({name: manifest.get(name) for name in ("run", "shard_size", "rows")})


def part_of(manifest: Mapping[str, Any]) -> tuple[int, int] | None:
    """The number of the part that a run is, from 1, and the number of all parts; None for a whole run.

    Example:
        >>> part_of({"part": {"number": 3, "of": 16}}), part_of({})
        ((3, 16), None)
    """
    part = manifest.get("part")
    return None if part is None else (part["number"], part["of"])


def shards_of(manifest: Mapping[str, Any]) -> range | None:
    """The numbers of the shards of a run, or of its part; None for a stream that has not been read to its end.

    Example:
        >>> list(shards_of({"rows": 22, "shard_size": 4, "part": {"number": 2, "of": 3}}))
        [1, 4]
    """
    (number, count), rows = part_of(manifest) or (1, 1), _rows_in_all(manifest)
    if rows is not None:
        return range(number - 1, -(-rows // manifest["shard_size"]), count)
    return range(number - 1, number - 1 + manifest["shards"] * count, count) if "shards" in manifest else None


def rows_of(manifest: Mapping[str, Any]) -> int | None:
    """The number of rows that a run reads, or its part, or that its sample has; None for a stream.

    Example:
        >>> rows_of({"rows": 22, "shard_size": 4, "part": {"number": 3, "of": 3}})
        6
    """
    rows, size = _rows_in_all(manifest), manifest["shard_size"]
    if rows is None:
        return None
    numbers = shards_of(manifest) or range(0)
    short = len(numbers) and numbers[-1] == -(-rows // size) - 1  # the last shard of all may hold fewer rows
    return len(numbers) * size - (-rows % size if short else 0)


def text_ids(manifest: Mapping[str, Any], shard: int, rows: int | None = None) -> NDArray[np.int64]:
    """The row numbers of the texts in a shard, ascending; of so many, where it has fewer than others.

    Example:
        >>> text_ids({"run": {}, "shard_size": 4}, 2)
        array([ 8,  9, 10, 11])
    """
    size = manifest["shard_size"]
    start = shard * size
    stop = start + (size if rows is None else rows)
    if not is_keyed(manifest):
        return np.arange(start, stop)
    count, seed = manifest["rows"], manifest["run"]["seed"]
    return np.sort(rows_at(np.arange(start, min(stop, count)), count, seed))


def unfinished(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest without the entries of a finished run."""
    return {name: value for name, value in manifest.items() if name not in (*_FINISHED, SAMPLE)}


def is_keyed(manifest: Mapping[str, Any]) -> bool:
    """True for a run that reads its rows in a random order (`attnfaith.functional.keyed_order`), and need not read all.

    Example:
        >>> is_keyed({"run": {"order": "keyed", "seed": 0}}), is_keyed({"run": {"seed": 0}})
        (True, False)
    """
    return bool(manifest["run"].get("order") == "keyed")


def _rows_in_all(manifest: Mapping[str, Any]) -> int | None:
    """The rows of all parts, or of the sample that was read; None for a stream."""
    rows: int | None = manifest.get(SAMPLE, {}).get("texts", manifest.get("rows"))
    return rows


def is_name(name: object) -> bool:
    """True for a valid name of a table: one whose files stay in the folder of the run.

    Example:
        >>> [is_name(name) for name in ("erasure", "../erasure", "", ".hidden", 5)]
        [True, False, False, False, False]
    """
    return (
        isinstance(name, str)
        and 0 < len(name) <= 100
        and name.isprintable()
        and name[0] != "."
        and not set(name) & set('/\\:*?"<>|')
        and name != NAME
    )


def refuse(path: Path, reason: str) -> NoReturn:
    """Raise a `StorageError` that says what is wrong with a manifest and how to repair it."""
    raise StorageError(
        f"{str(path)!r} is damaged, or not of attnfaith: {reason}. Delete this file; the command that made the run, "
        f"with the same {parameter('output_dir')}, makes it again and keeps the tables. Or give another "
        f"{parameter('output_dir')}.",
        code="damaged-run",
    )


def refuse_another(directory: Path, stored: Mapping[str, Any], requested: Mapping[str, Any]) -> None:
    """Refuse to continue a stored run with other arguments or data."""
    there, here = (
        {name: manifest.get(name) for name in ("shard_size", "rows", "part")} for manifest in (stored, requested)
    )
    changed = difference(stored["run"], requested["run"]) or difference(there, here)
    if changed is not None and changed[0] == "order":
        raise InputError(
            f"The run in {str(directory)!r} reads the texts in the order of the data, so the texts that it has read "
            f"are no random sample. Give another {parameter('output_dir')}, or leave out {parameter('precision')} and "
            f"{parameter('max_texts')}.",
            code="other-run",
        )
    if changed is not None:
        name, stored_value, requested_value = changed
        raise InputError(
            f"The run in {str(directory)!r} was made with other arguments: {name} is {short_repr(stored_value)} there "
            f"and {short_repr(requested_value)} here. Give another {parameter('output_dir')}, or the same arguments.",
            code="other-run",
        )


def difference(first: Any, second: Any, path: str = "") -> tuple[str, Any, Any] | None:
    """The first difference between two nested dicts, in the order of the second: its path, and both values.

    Example:
        >>> difference({"model": {"name": "a", "layers": 2}}, {"model": {"name": "a", "layers": 3}})
        ('model.layers', 2, 3)
    """
    if isinstance(first, dict) and isinstance(second, dict):
        for key in dict.fromkeys((*second, *first)):
            inner = f"{path}.{key}" if path else str(key)
            if key not in first or key not in second:
                return inner, first.get(key, ABSENT), second.get(key, ABSENT)
            if (result := difference(first[key], second[key], inner)) is not None:
                return result
        return None
    if isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        for index, pair in enumerate(zip(first, second, strict=True)):
            if (result := difference(*pair, f"{path}[{index}]")) is not None:
                return result
        return None
    return None if _same(first, second) else (path, first, second)


class _Absent:
    def __repr__(self) -> str:
        return "absent"


ABSENT = _Absent()


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b):
        return True
    return isinstance(a, bool) == isinstance(b, bool) and bool(a == b)


def _digest(manifest: Mapping[str, Any]) -> str:
    """The digest of the content in its order; white space does not count."""
    return hashlib.sha256(json.dumps(manifest, separators=(",", ":")).encode()).hexdigest()


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object without repeated keys, of which readers would take different values."""
    entries = dict(pairs)
    if len(entries) < len(pairs):
        repeated = next(name for index, (name, _) in enumerate(pairs) if name in dict(pairs[:index]))
        raise ValueError(f"it has the key {short_repr(repeated)} twice")
    return entries


def _refuse_deep(value: Any, depth: int = 0) -> None:
    if depth > _MAX_DEPTH:
        raise ValueError(f"it is nested more than {_MAX_DEPTH} levels deep")
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _refuse_deep(part, depth + 1)


def _check(path: Path, manifest: Mapping[str, Any]) -> None:
    """Check the entries that a run of any kind has."""
    rows, size, shards = (manifest.get(name) for name in ("rows", "shard_size", "shards"))
    if not isinstance(manifest.get("run"), dict):
        refuse(path, f"run is {short_repr(manifest.get('run', ABSENT))}; expected an object")
    if type(size) is not int or size not in _SHARD_SIZES:
        actual = short_repr(manifest.get("shard_size", ABSENT))
        refuse(path, f"shard_size is {actual}; expected a whole number from 1 to {_SHARD_SIZES[-1]}")
    if rows is not None and (type(rows) is not int or not 0 <= rows <= MAX_ROWS):
        refuse(path, f"rows is {short_repr(rows)}; expected a whole number from 0 to {MAX_ROWS}, or null")
    _check_part(path, manifest)
    present = [name for name in _FINISHED if name in manifest]
    if not present:
        return
    if len(present) < len(_FINISHED):
        lacking = next(name for name in _FINISHED if name not in present)
        refuse(path, f"it has {present[0]} and no {lacking}; expected all of {', '.join(_FINISHED)}, or none")
    _check_order(path, manifest)
    expected = MAX_ROWS if rows is None else len(shards_of(manifest) or ())
    if type(shards) is not int or not 0 <= shards <= expected or (rows is not None and shards != expected):
        part = "" if "part" not in manifest else f"part {manifest['part']['number']} of {manifest['part']['of']} of "
        many = f"up to {expected}" if rows is None else f"{expected}, for {part}{rows} rows in shards of {size}"
        refuse(path, f"shards is {short_repr(shards)}; expected {many}")
    if not isinstance(manifest["counts"], dict):
        refuse(path, f"counts is {short_repr(manifest['counts'])}; expected an object")
    digests = manifest["digests"]
    if not isinstance(digests, dict) or list(digests) != ["shards", "concluded"]:
        refuse(path, f"digests is {short_repr(digests)}; expected an object of 'shards' and 'concluded'")
    for kind, tables in digests.items():
        if not isinstance(tables, dict):
            refuse(path, f"digests.{kind} is {short_repr(tables)}; expected an object")
        for name, digest in tables.items():
            if not is_name(name):
                refuse(path, f"digests.{kind} has the table {short_repr(name)}; expected a plain name")
            if not is_digest(digest):
                refuse(path, f"digests.{kind}.{name} is {short_repr(digest)}; expected 64 hexadecimal digits")


def _check_order(path: Path, manifest: Mapping[str, Any]) -> None:
    """Check the entries of a run that need not have read all rows."""
    rows, seed, sample = manifest.get("rows"), manifest["run"].get("seed"), manifest.get(SAMPLE)
    if is_keyed(manifest) is not (SAMPLE in manifest):
        refuse(path, f"it has {'no ' * (sample is None)}{SAMPLE} and the order of rows of another run")
    if not is_keyed(manifest):
        return
    if type(rows) is not int or type(seed) is not int or not 0 <= seed < 2**64:
        refuse(path, f"rows is {short_repr(rows)} and the seed {short_repr(seed)}; expected numbers for a random order")
    texts = sample.get("texts") if isinstance(sample, dict) else None
    if type(texts) is not int or not 0 < texts <= rows:
        refuse(path, f"{SAMPLE}.texts is {short_repr(texts)}; expected a whole number from 1 to {rows}")


def _check_part(path: Path, manifest: Mapping[str, Any]) -> None:
    """Check the entry of a run that is a part of another."""
    if "part" not in manifest:
        return
    part = manifest["part"]
    fits = isinstance(part, dict) and list(part) == ["number", "of", "data"] and is_digest(part["data"])
    fits = fits and type(part["number"]) is type(part["of"]) is int and 1 <= part["number"] <= part["of"] <= MAX_ROWS
    if not fits:
        refuse(path, f"part is {short_repr(part)}; expected its number, of how many, and a digest")


def is_digest(value: object) -> bool:
    """True for a text that looks like a sha256."""
    return isinstance(value, str) and len(value) == 64 and set(value) <= _HEX
