"""The names of parameters in messages: Python's names, or the options of the command line while a command runs.

A message names a parameter by `parameter`, and never in plain text (tests/contracts/test_parameter_names.py), so that
whoever uses the command line reads the name of an option that can be typed.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_OPTIONS: ContextVar[Mapping[str, str] | None] = ContextVar("_OPTIONS", default=None)


def parameter(name: str, value: Any = ...) -> str:
    """Return the name by which the user gives a parameter: its own, or that of its option on the command line.

    Args:
        name: Python's name.
        value: to be shown with the name.

    Example:
        >>> parameter("level"), parameter("level", "input"), parameter("label_column", None)
        ('level', "level='input'", 'label_column=None')
        >>> with option_names({"level": "--level", "label_column=None": "--no-labels"}):
        ...     parameter("level"), parameter("level", "input"), parameter("label_column", None), parameter("epsilon")
        ('--level', '--level input', '--no-labels', 'epsilon')
    """
    options = _OPTIONS.get() or {}
    written = name if value is ... else f"{name}={value!r}"
    if written in options:  # some options stand for a name and a value
        return options[written]
    if name not in options:
        return written
    listed = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    return f"{options[name]} {shlex.quote(listed)}"


@contextmanager
def option_names(options: Mapping[str, str]) -> Iterator[None]:
    """Inside, `parameter` returns the options of the command line."""
    before = _OPTIONS.set(options)
    try:
        yield
    finally:
        _OPTIONS.reset(before)
