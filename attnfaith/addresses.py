"""Addresses such as ``s3://bucket/reviews.csv``: files on other file systems, which `fsspec` reaches.

`fsspec` comes with `datasets`. Each kind of address has a package of its own, which the user installs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from attnfaith.errors import AttnFaithError, InputError
from attnfaith.validation import short_repr

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+(::[^:/]+)*://")  # two letters at least: "C:" is a drive
_LOCAL = ("file://", "local://")
_LONGEST = 300


def is_address(path: Any) -> bool:
    """True for an address on another file system.

    Example:
        >>> [
        ...     is_address(path)
        ...     for path in ("s3://bucket/run", "hf://datasets/me/run", "run/", "file:///tmp/run", "C:/run")
        ... ]
        [True, True, False, False, False]
    """
    return isinstance(path, str) and not path.startswith(_LOCAL) and _ADDRESS.match(path) is not None


def local_path(path: Any) -> Any:
    """A local file's address as a path; anything else as it is.

    Example:
        >>> local_path("file:///tmp/run"), local_path("run/")
        ('/tmp/run', 'run/')
    """
    prefix = next((prefix for prefix in _LOCAL if isinstance(path, str) and path.startswith(prefix)), "")
    return path[len(prefix) :] if prefix else path


def file_system(address: str) -> tuple[Any, str]:
    """The file system of an address, and the path there.

    Raises:
        InputError: no file system is known by that name, or its package is not installed.
    """
    from fsspec.core import url_to_fs
    from fsspec.registry import known_implementations

    protocol = re.split(r"::|://", address, maxsplit=1)[0]
    try:
        return url_to_fs(address)
    except ImportError as error:
        implementation = known_implementations.get(protocol, {})
        package = implementation.get("class", "").partition(".")[0].replace("_", "-")
        advice = f"pip install {package}" if package not in ("", "fsspec") else one_line(error)
        raise InputError(
            f"{short_repr(address, 200)} is on a file system whose package is not installed: {advice}.",
            code="data-not-found",
        ) from error
    except Exception as error:  # what a file system of somebody else raises is not known
        raise InputError(
            f"{short_repr(address, 200)} cannot be reached: {one_line(error)}.", code="data-not-found"
        ) from error


@contextmanager
def reaching(address: str, kind: type[AttnFaithError], advice: str = "") -> Iterator[None]:
    """Raise one error in one line for whatever a file system raises: no credentials, no such bucket, no network.

    Args:
        address: for the message.
        kind: the kind of the error to raise.
        advice: what the user can do.
    """
    try:
        yield
    except AttnFaithError:
        raise
    except Exception as error:  # botocore, google.auth, httpx and others have exceptions of their own
        code = "data-not-found" if issubclass(kind, InputError) else None
        message = f"{short_repr(address, 200)} cannot be reached: {one_line(error)}. {advice}".strip()
        raise kind(message, code=code) from error


def one_line(error: BaseException) -> str:
    """The message of an error in one line, without its full stop, and with the type where it says too little.

    Example:
        >>> one_line(FileNotFoundError("bucket")), one_line(TimeoutError())
        ('FileNotFoundError: bucket', 'TimeoutError')
    """
    text = " ".join(str(error).split()).removesuffix(".")
    if isinstance(error, OSError) and error.strerror and text.startswith("[Errno"):
        text = f"{error.strerror}{f': {os.fspath(error.filename)}' if error.filename else ''}"
    message = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return message if len(message) <= _LONGEST else message[: _LONGEST - 3] + "..."
