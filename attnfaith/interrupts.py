"""Handling interrupts (Ctrl-C) on the command line, from the first import of attnfaith until the process ends.

Python's own handler raises `KeyboardInterrupt` at any point of the program. While modules are imported and while the
interpreter shuts down nothing catches it, and the user gets a traceback of torch or Transformers. So the command line
installs its own handler: outside a command it prints "Interrupted." and ends the process at once; inside a command the
first interrupt raises `KeyboardInterrupt` as usual, and the second one ends the process.

This module imports nothing that takes time, because `attnfaith/__init__.py` imports it before everything else.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED = 130
"""The exit code after an interrupt: 128 + SIGINT, by the convention of shells."""

_raises = False
"""Whether the next interrupt raises `KeyboardInterrupt`."""


def install_for_command() -> None:
    """Install the handler if this process was started as the command; a program that imports attnfaith keeps its own.

    A handler other than Python's default was set on purpose (``nohup`` and background jobs ignore interrupts), and
    stays.
    """
    if threading.current_thread() is not threading.main_thread() or not started_as_command():
        return
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupted)
        # While the interpreter shuts down, Python resets handlers, and an interrupt would end the process by the signal
        # although everything is done. An ignored signal stays ignored.
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)


@contextmanager
def raising() -> Iterator[None]:
    """A context in which the first interrupt raises `KeyboardInterrupt`, so that a command can clean up and report."""
    global _raises
    _raises = True
    try:
        yield
    finally:
        _raises = False


def _interrupted(signum: int, frame: FrameType | None) -> None:
    global _raises
    if _raises:
        _raises = False
        raise KeyboardInterrupt
    # os._exit: an exception would be caught or printed by the code that is importing or shutting down at this moment.
    os.write(2, b"Interrupted.\n")
    os._exit(INTERRUPTED)


def started_as_command() -> bool:
    """True if this process is the command line, and not a program that imports attnfaith."""
    return _is_command(sys.argv, sys.orig_argv)


def _is_command(argv: list[str], original: list[str]) -> bool:
    """Whether the process was started as ``attnfaith ...`` or ``python -m attnfaith ...``.

    Example:
        >>> _is_command(["/usr/bin/attnfaith", "models"], ["python", "/usr/bin/attnfaith", "models"])
        True
        >>> _is_command(["-m", "models"], ["python", "-X", "dev", "-m", "attnfaith", "models"])
        True
        >>> _is_command(["-m", "attnfaith"], ["python", "-m", "pytest", "attnfaith"])
        False
    """
    if not argv:
        return False
    if argv[0] == "-m":  # its value while Python looks for the module, and imports the package that contains it
        module = original[len(original) - len(argv)].removeprefix("-m")
        return module == "attnfaith" or module.startswith("attnfaith.")
    return os.path.splitext(os.path.basename(argv[0]))[0] == "attnfaith"
