"""Figures as files: PNG, SVG and PDF, whole or absent."""

from __future__ import annotations

import os
from io import BytesIO
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

from attnfaith import validation
from attnfaith.errors import InputError, StorageError
from attnfaith.parameter_names import parameter
from attnfaith.storage.atomic_files import probe, put

FORMATS = ("png", "svg", "pdf")
# Text that can be searched and edited; ids and metadata without a random part, and without the time.
_SETTINGS: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": "attnfaith", "pdf.fonttype": 42}
_DATES = {"svg": "Date", "pdf": "CreationDate"}


def check_path(path: object) -> Path:
    """Refuse a path that no figure can be written to, before anything is drawn.

    Example:
        >>> check_path("figure.jpg")
        Traceback (most recent call last):
        attnfaith.errors.InputError: Expected path to end in .png, .svg or .pdf; got 'figure.jpg'. [invalid-argument]
    """
    result = Path(validation.path(path, "path")).expanduser()
    if _format(result) not in FORMATS:
        given = validation.short_repr(os.fspath(result))
        raise InputError(f"Expected {parameter('path')} to end in .png, .svg or .pdf; got {given}.")
    if result.is_dir():
        raise InputError(f"{str(result)!r} is a folder. Give the path of a file.")
    if not result.parent.is_dir():
        raise InputError(f"There is no folder {str(result.parent)!r} to write the figure to. Make it first.")
    try:
        probe(result.parent)
    except OSError as error:
        raise _refusal(result, error) from error
    return result


def write_figure(figure: Figure, path: object) -> None:
    """Write a figure to a file: text stays text, and the same figure is the same file."""
    target, buffer = check_path(path), BytesIO()
    kind = _format(target)
    with rc_context(_SETTINGS):
        figure.savefig(buffer, format=kind, metadata={_DATES[kind]: None} if kind in _DATES else None)
    try:
        put(target, buffer.getvalue())
    except OSError as error:
        raise _refusal(target, error) from error


def _format(path: Path) -> str:
    return path.suffix.lower().removeprefix(".")


def _refusal(path: Path, error: OSError) -> StorageError:
    return StorageError(f"The figure cannot be written to {str(path)!r}: {error.strerror or error}. Give another path.")
