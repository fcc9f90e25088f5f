"""Check the path of a report before the work, and write the file atomically."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from attnfaith.addresses import is_address
from attnfaith.errors import AttnFaithError, InputError, StorageError
from attnfaith.storage.atomic_files import folder_of, probe, put

EXTENSIONS = (".html", ".htm")


def check_report_path(path: Any) -> Path:
    """The path of a report to be written; a folder, another extension and a place that cannot be written are refused.

    Example:
        >>> check_report_path("report.pdf")
        Traceback (most recent call last):
        attnfaith.errors.InputError: 'report.pdf' is no name for a report: ... [invalid-argument]
    """
    if is_address(path):
        raise InputError(f"{path!r} is an address, and a report is written to a local file. Give a path.")
    target = folder_of(path)
    if target.is_dir():
        raise InputError(f"{str(path)!r} is a folder. Give a file, such as {str(target / 'report.html')!r}.")
    if target.suffix.lower() not in EXTENSIONS:
        raise InputError(f"{str(path)!r} is no name for a report: expected one that ends in .html or .htm.")
    if not target.parent.is_dir():
        raise InputError(f"There is no folder {str(target.parent)!r} for the report. Create it, or give another path.")
    try:
        probe(target.parent)
    except OSError as error:
        raise _unwritable(target, error) from error
    return target


def write_page(path: Path, page: str) -> Path:
    """Write a page; an existing file is replaced atomically."""
    try:
        put(path, page.encode("utf-8"))
    except OSError as error:
        raise _unwritable(path, error) from error
    return path


def _unwritable(path: Path, error: OSError) -> AttnFaithError:
    reason = error.strerror or os.strerror(error.errno or 0)
    return StorageError(f"The report cannot be written to {str(path)!r}: {reason}. Give another path.")
