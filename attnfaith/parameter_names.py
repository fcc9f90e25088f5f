"""The names of parameters in messages: Python's names, or the options of the command line while a command runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

_OPTIONS: ContextVar[Mapping[str, str] | None] = ContextVar("_OPTIONS", default=None)


def parameter(name: str) -> str:
    """Return the name by which the user gives a parameter: its own, or that of its option on the command line.

    Args:
        name: Python's name; or a name with a value, where an option stands for both.

    Example:
        >>> parameter("input_column"), parameter("label_column=None")
        ('input_column', 'label_column=None')
        >>> with option_names({"input_column": "--text-column", "label_column=None": "--no-labels"}):
        ...     parameter("input_column"), parameter("label_column=None"), parameter("epsilon")
        ('--text-column', '--no-labels', 'epsilon')
    """
    return (_OPTIONS.get() or {}).get(name, name)


@contextmanager
def option_names(options: Mapping[str, str]) -> Iterator[None]:
    """Inside, `parameter` returns the options of the command line."""
    before = _OPTIONS.set(options)
    try:
        yield
    finally:
        _OPTIONS.reset(before)
