"""The folder of a demo: made, made anew, gone on with, or refused."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attnfaith.errors import InputError
from attnfaith.storage.atomic_files import put, storing

MARKER = "demo.json"
MADE = ("report.md", "figures", "tables", "models", "data", "runs")
"""What a demo makes in its folder, and may remove; anything else there is left alone."""
_EARLIER = ".earlier"
"""Where what is replaced waits until it is known that the new demo can be made."""


@contextmanager
def demo_folder(output: str | os.PathLike[str], settings: Mapping[str, Any], *, resume: bool = False) -> Iterator[Path]:
    """The folder in which a demo is made; an earlier demo in it is replaced, a foreign folder refused.

    What was there comes back where the new demo turns out to be asked for with the wrong arguments or data.

    Args:
        output: the folder.
        settings: JSON; what the demo is made of.
        resume: keep the runs of the same demo if it was interrupted, to go on with them.
    """
    path = Path(output).expanduser()
    asked = json.loads(json.dumps(settings))
    with storing(path):
        if path.exists() and not path.is_dir():
            raise InputError(f"{str(path)!r} is a file. Give a folder for the demo, as output.")
        path.mkdir(parents=True, exist_ok=True)
        there = _read(path)
        if there is None and (present := sorted(entry.name for entry in path.iterdir())):
            raise InputError(
                f"{str(path)!r} holds other files ({present[0]!r}) and no demo of attnfaith. Give another output, new "
                "or empty."
            )
        going_on = resume and there == {"settings": asked, "finished": False}
        replaced = [name for name in MADE if not (going_on and name == "runs")]
        _move(path, path / _EARLIER, replaced)
        try:
            _mark(path, asked, finished=False)
            for name in MADE[1:]:
                (path / name).mkdir(exist_ok=True)
            yield path
        except InputError:  # nothing was made, so nothing is lost
            _move(path / _EARLIER, path, replaced)
            if there is None:
                _remove(path / MARKER)
            else:
                _mark(path, there["settings"], finished=there["finished"])
            raise
        finally:
            _remove(path / _EARLIER)
        for name in MADE[1:]:
            if not any((path / name).iterdir()):
                (path / name).rmdir()
        _mark(path, asked, finished=True)


def _read(path: Path) -> Any:
    """What the marker says, None where there is none; a marker that was not written by a demo marks nothing."""
    try:
        found = json.loads((path / MARKER).read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    return found.get("attnfaith demo") if isinstance(found, dict) else None


def _mark(path: Path, settings: Any, *, finished: bool) -> None:
    content = {"attnfaith demo": {"settings": settings, "finished": finished}}
    put(path / MARKER, (json.dumps(content, indent=2) + "\n").encode())


def _move(source: Path, target: Path, names: Sequence[str]) -> None:
    """Put what a demo made elsewhere, in the place of what is there."""
    target.mkdir(exist_ok=True)
    for name in names:
        _remove(target / name)
        if (source / name).exists() or (source / name).is_symlink():
            (source / name).rename(target / name)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
