"""The errors a user can meet. Each message says what was got, what was expected, and what to do."""


class AttnFaithError(Exception):
    """Base of every error that attnfaith raises on purpose."""


class UnsupportedModelError(AttnFaithError):
    """The model cannot be cut faithfully; the message says what failed and what would help."""


class InputError(AttnFaithError, ValueError):
    """An argument is not what the call can use; raised where user input enters, before any work is done."""


class StorageError(AttnFaithError, OSError):
    """Results cannot be written or read where they were to be kept: no room, no permission, damaged files."""


class NumericalError(AttnFaithError, ArithmeticError):
    """The model produced NaN or infinity, or a fast path stopped agreeing with the model on this very batch."""
