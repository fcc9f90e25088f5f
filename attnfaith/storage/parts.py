"""Join the parts of a run, each stored in its own folder, to one run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import PurePath, PurePosixPath
from typing import Any

from attnfaith.addresses import is_address
from attnfaith.errors import InputError
from attnfaith.parameter_names import parameter
from attnfaith.storage import manifest as manifests
from attnfaith.storage.atomic_files import folder_of
from attnfaith.storage.run_store import Check, Store
from attnfaith.validation import short_repr

_EQUAL = ("attnfaith", "run", "shard_size", "rows", "statistics")
_NAMED = 10  # missing parts that a message names


def join(
    folders: Sequence[str | os.PathLike[str]], output: str | os.PathLike[str], check: Check | None = None
) -> Store:
    """Copy the shards of all parts into one run. It is not finished: tables made of all shards are still missing.

    Args:
        folders: the folders of the parts, in any order.
        output: a folder that is new, empty, or holds what an interrupted call has copied.
        check: checks the manifest of this kind of run, see `Store.load`.
    """
    _refuse_nested(folders, output)
    parts = sorted((_load(folder, check) for folder in folders), key=_number)
    _refuse_incomplete(parts)
    for other in parts[1:]:
        _refuse_difference(parts[0], other)
    joined = Store.open(output, _manifest(parts))
    for part in parts:
        part.copy_shards_to(joined)
    return joined


def _load(folder: str | os.PathLike[str], check: Check | None) -> Store:
    store = Store.load(folder, check)
    if "part" not in store.manifest:
        raise InputError(
            f"The run in {store.location!r} is not a part: it was made without {parameter('part')}. Give the folders "
            f"of runs that were made with {parameter('part')}.",
            code="mismatched-parts",
        )
    return store


def _number(part: Store) -> int:
    return int(part.manifest["part"]["number"])


def _refuse_incomplete(parts: Sequence[Store]) -> None:
    """Refuse parts of runs with different numbers of parts, a part that is given twice, and missing parts."""
    first = parts[0]
    total = first.manifest["part"]["of"]
    by_number: dict[int, Store] = {}
    for part in parts:
        number, count = part.manifest["part"]["number"], part.manifest["part"]["of"]
        if count != total:
            raise InputError(
                f"{first.location!r} is one of {total} parts and {part.location!r} one of {count}. Give "
                "parts that were made with the same number of parts.",
                code="mismatched-parts",
            )
        if number in by_number:
            raise InputError(
                f"Part {number} of {total} is given twice: {by_number[number].location!r} and {part.location!r}. "
                "Leave one out.",
                code="mismatched-parts",
            )
        by_number[number] = part
    missing = [str(number) for number in range(1, total + 1) if number not in by_number]
    if missing:
        remaining = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
        which = f"Part {missing[0]}" if len(missing) == 1 else f"Parts {', '.join(missing[:_NAMED])}{remaining}"
        verb = "is" if len(missing) == 1 else "are"
        raise InputError(f"{which} of {total} {verb} missing. Give the folder of each part.", code="mismatched-parts")


def _refuse_difference(first: Store, other: Store) -> None:
    """Refuse a part of another model, of other data or settings, or from another attnfaith."""
    first_entries, other_entries = ({name: part.manifest.get(name) for name in _EQUAL} for part in (first, other))
    difference = manifests.difference(first_entries, other_entries)
    if difference is not None:
        name, there_value, here_value = difference
        raise InputError(
            f"The parts are not of one run: {name.removeprefix('run.')} is {short_repr(there_value)} in "
            f"{first.location!r} and {short_repr(here_value)} in {other.location!r}. Run one of them again.",
            code="mismatched-parts",
        )
    if first.manifest["part"]["data"] != other.manifest["part"]["data"]:
        raise InputError(
            f"The parts are not of one run: {first.location!r} and {other.location!r} were made from other data. Run "
            "one of them again.",
            code="mismatched-parts",
        )


def _manifest(parts: Sequence[Store]) -> dict[str, Any]:
    """The manifest of the whole run; a note says if parts ran with different versions of other packages."""
    manifest = manifests.unfinished(parts[0].manifest)
    del manifest["part"]
    notes = [
        f"The parts were run with different versions of {name}: {', '.join(versions)}."
        for name, versions in _versions(part.manifest.get("versions", {}) for part in parts).items()
        if len(versions) > 1
    ]
    return {**manifest, "notes": [*manifest["notes"], *notes]} if notes else manifest


def _versions(listed: Any) -> dict[str, list[str]]:
    """The versions of each package, each once, in the order of the parts."""
    versions: dict[str, dict[str, None]] = {}
    for of_part in listed:
        for name, version in of_part.items():
            versions.setdefault(name, {})[version] = None
    return {name: list(values) for name, values in versions.items()}


def _refuse_nested(folders: Sequence[str | os.PathLike[str]], output: str | os.PathLike[str]) -> None:
    """Refuse an output that is a part, or inside one: a part must not change while it is read."""
    target = _place(output)
    for folder in folders:
        path = _place(folder)
        if target == path or path in target.parents:
            where = "is" if target == path else "is inside"
            raise InputError(
                f"The output {str(output)!r} {where} the part {str(folder)!r}. Give another folder.",
                code="mismatched-parts",
            )


def _place(folder: str | os.PathLike[str]) -> PurePath:
    """A folder or an address in one form, whichever way it was written."""
    return PurePosixPath(str(folder)) if is_address(folder) else folder_of(folder).resolve()
