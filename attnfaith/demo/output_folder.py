"""Prepare the output folder of a demo: create it, replace an earlier demo, resume one, or refuse other files."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attnfaith.errors import InputError
from attnfaith.parameter_names import parameter
from attnfaith.storage.atomic_files import put, storing

MARKER = "demo.json"
REPORTS = ("report.html", "flan.html", "han.html")
FOLDERS = ("figures", "tables", "models", "data", "runs")
OUTPUTS = (*REPORTS, *FOLDERS)
"""The files and folders that a demo writes, and can remove; others in its folder are left alone."""
_EARLIER = ".earlier"
"""The folder for replaced files, until it is known that the new demo can run."""


@contextmanager
def demo_folder(output: str | os.PathLike[str], settings: Mapping[str, Any], *, resume: bool = False) -> Iterator[Path]:
    """Prepare the folder of a demo: an earlier demo is replaced, a folder with other files is refused.

    The earlier demo is restored if the new one has wrong arguments or data.

    Args:
        output: the folder.
        settings: the arguments of the demo, as JSON.
        resume: keep the runs of the same demo if it was interrupted, to continue them.
    """
    path = Path(output).expanduser()
    requested = json.loads(json.dumps(settings))
    with storing(path):
        if path.exists() and not path.is_dir():
            raise InputError(f"{str(path)!r} is a file. Give a folder for the demo, as {parameter('output')}.")
        path.mkdir(parents=True, exist_ok=True)
        earlier = _read_marker(path)
        if earlier is None and (present := sorted(entry.name for entry in path.iterdir())):
            raise InputError(
                f"{str(path)!r} holds other files ({present[0]!r}) and no demo of attnfaith. Give another "
                f"{parameter('output')}, new or empty.",
                code="not-a-run",
            )
        resumed = resume and earlier == {"settings": requested, "finished": False}
        replaced = [name for name in OUTPUTS if not (resumed and name == "runs")]
        _move(path, path / _EARLIER, replaced)
        try:
            _write_marker(path, requested, finished=False)
            for name in FOLDERS:
                (path / name).mkdir(exist_ok=True)
            yield path
        except InputError:  # raised before any output was written
            _move(path / _EARLIER, path, replaced)
            if earlier is None:
                _remove(path / MARKER)
            else:
                _write_marker(path, earlier["settings"], finished=earlier["finished"])
            raise
        finally:
            _remove(path / _EARLIER)
        for name in FOLDERS:
            if not any((path / name).iterdir()):
                (path / name).rmdir()
        _write_marker(path, requested, finished=True)


def _read_marker(path: Path) -> Any:
    """The content of the marker file; None if there is none, or if it was not written by a demo."""
    try:
        content = json.loads((path / MARKER).read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    return content.get("attnfaith demo") if isinstance(content, dict) else None


def _write_marker(path: Path, settings: Any, *, finished: bool) -> None:
    content = {"attnfaith demo": {"settings": settings, "finished": finished}}
    put(path / MARKER, (json.dumps(content, indent=2) + "\n").encode())


def _move(source: Path, target: Path, names: Sequence[str]) -> None:
    """Move the outputs of a demo to another folder, replacing what is there."""
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
