"""What a run is made of: read, written, and compared with another."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attnfaith.errors import InputError

NAME = "manifest.json"


def read_manifest(directory: Path) -> dict[str, Any]:
    """The manifest of a run; one that is no such thing is refused."""
    path = directory / NAME
    try:
        manifest = json.loads(path.read_bytes())
        numbers = [manifest["shard_size"], manifest.get("rows", 0) or 0, manifest.get("shards", 0)]
        finished = "counts" not in manifest or "shards" in manifest
        if not isinstance(manifest["run"], dict) or not all(isinstance(n, int) for n in numbers) or not finished:
            raise ValueError("it does not describe a run")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        reason = f"it says nothing of {error}" if isinstance(error, KeyError) else error
        raise InputError(
            f"{str(path)!r} is corrupt, or not of attnfaith: {reason}. Give another output_dir, or delete this one."
        ) from error
    return manifest


def written(manifest: Mapping[str, Any]) -> bytes:
    """A manifest as bytes, the same for the same manifest."""
    return (json.dumps(manifest, indent=2, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace")


def difference(there: Any, here: Any, path: str = "") -> tuple[str, Any, Any] | None:
    """The first difference between two nested dicts, in the order of the second: its path, and both values.

    Example:
        >>> difference({"model": {"name": "a", "layers": 2}}, {"model": {"name": "a", "layers": 3}})
        ('model.layers', 2, 3)
    """
    if isinstance(there, dict) and isinstance(here, dict):
        for key in dict.fromkeys((*here, *there)):
            inner = f"{path}.{key}" if path else str(key)
            if key not in there or key not in here:
                return inner, there.get(key, ABSENT), here.get(key, ABSENT)
            if (found := difference(there[key], here[key], inner)) is not None:
                return found
        return None
    if isinstance(there, list) and isinstance(here, list) and len(there) == len(here):
        for place, pair in enumerate(zip(there, here, strict=True)):
            if (found := difference(*pair, f"{path}[{place}]")) is not None:
                return found
        return None
    return None if _same(there, here) else (path, there, here)


class _Absent:
    def __repr__(self) -> str:
        return "absent"


ABSENT = _Absent()


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one) and math.isnan(other):
        return True
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)
