"""Figures as files: PNG, SVG and PDF, whole or absent."""

from __future__ import annotations

import os
from io import BytesIO
from pathlib import Path

from matplotlib.figure import Figure

from attnfaith import validation
from attnfaith.errors import InputError
from attnfaith.parameter_names import parameter
from attnfaith.storage.atomic_files import probe, put

FORMATS = ("png", "svg", "pdf")


def check_path(path: object) -> Path:
    """Refuse a path that no figure can be written to, before anything is drawn.

    Example:
        >>> check_path("figure.jpg")
        Traceback (most recent call last):
        attnfaith.errors.InputError: Expected path to end in .png, .svg or .pdf; got 'figure.jpg'.
    """
    result = Path(validation.path(path, "path")).expanduser()
    if result.suffix.lower().removeprefix(".") not in FORMATS:
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
    """Write a figure to a file; it is the same file whenever the figure is the same."""
    target, buffer = check_path(path), BytesIO()
    figure.savefig(buffer, format=target.suffix.lower().removeprefix("."))
    try:
        put(target, buffer.getvalue())
    except OSError as error:
        raise _refusal(target, error) from error


def _refusal(path: Path, error: OSError) -> InputError:
    return InputError(f"The figure cannot be written to {str(path)!r}: {error.strerror or error}. Give another path.")
