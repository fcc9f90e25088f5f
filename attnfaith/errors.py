"""The errors of attnfaith. Each message says what was passed, what was expected, and what to do."""

from typing import Any

from attnfaith.escaping import visible


class AttnFaithError(Exception):
    r"""Base of every error that attnfaith raises on purpose.

    Messages name labels, columns and paths, which may hold anything: what a terminal would obey is escaped.

    Example:
        >>> print(AttnFaithError("There is no class 'good\x1b[2J'."))
        There is no class 'good\x1b[2J'.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*(visible(part, "\n\t") if isinstance(part, str) else part for part in args))


class UnsupportedModelError(AttnFaithError):
    """The model cannot be cut faithfully; the message says what failed, and what would help."""


class InputError(AttnFaithError, ValueError):
    """An argument is invalid; raised where user input enters, before any work is done."""


class StorageError(AttnFaithError, OSError):
    """Results cannot be written or read: no space, no permission, damaged files."""


class NumericalError(AttnFaithError, ArithmeticError):
    """The model produced NaN or infinity, or a fast path no longer agrees with the model on this batch."""
