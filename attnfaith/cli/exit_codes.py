"""Exit codes and error messages of all commands."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperGroup

from attnfaith.cli.terminal import print_lines, usable_size, visible_logs
from attnfaith.errors import AttnFaithError, InputError, StorageError
from attnfaith.escaping import visible
from attnfaith.interrupts import INTERRUPTED, raising
from attnfaith.option_names import OPTIONS
from attnfaith.parameter_names import option_names

FAILED, WRONG, STORAGE = 1, 2, 3
"""0 is for what went well; usage errors are 2 too."""
OTHER_NAMES = dict.fromkeys(("--limit", "--max-samples", "--num-samples", "--sample"), "--max-texts")
"""Options of other tools, and the option of attnfaith that does the same."""


class ErrorReportingGroup(TyperGroup):
    """The group of commands, which turns the errors of attnfaith into one message and an exit code.

    Anything else is a mistake of ours and keeps its traceback; Python then ends with 1.
    """

    def main(self, *arguments: Any, **options: Any) -> Any:
        """Run the application, with a usable terminal size."""
        with usable_size(), visible_logs():
            return super().main(*arguments, **options)

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """Parse the arguments."""
        with _visible_refusals():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            with raising(), option_names(OPTIONS), _plain_warnings(), _visible_refusals():
                return super().invoke(ctx)
        except KeyboardInterrupt as stopped:
            _say(str(stopped) or "Interrupted.")
            # An interrupt inside exec() of a string, as dataclasses and namedtuples use it at import, leaves a mark in
            # the interpreter, which then ends itself by SIGINT whatever the exit code. The next exec() clears the mark.
            exec("")
            raise typer.Exit(INTERRUPTED) from stopped
        except AttnFaithError as error:
            _say(f"Error: {' '.join(str(error).split())}")
            code = STORAGE if isinstance(error, StorageError) else WRONG if isinstance(error, InputError) else FAILED
            raise typer.Exit(code) from error


@contextmanager
def _visible_refusals() -> Iterator[None]:
    """Escape control characters in the messages of typer, which repeat the input, and name the option that is meant."""
    try:
        yield
    except Exception as error:
        meant = OTHER_NAMES.get(getattr(error, "option_name", ""))
        command = getattr(getattr(error, "ctx", None), "command", None)
        if meant and any(meant in parameter.opts for parameter in getattr(command, "params", ())):
            error.possibilities = [meant]  # type: ignore[attr-defined]
        if hasattr(error, "format_message") and isinstance(getattr(error, "message", None), str):
            error.message = visible(error.message, "\n")  # type: ignore[attr-defined]
        raise


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Print warnings of attnfaith as one line, without file and line number."""
    with warnings.catch_warnings():
        original = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *location: Any, **options: Any) -> None:
            if category is UserWarning:
                _say(f"Warning: {' '.join(str(message).split())}")
            else:
                original(message, category, *location, **options)

        warnings.showwarning = show
        yield


def process_number() -> int:
    """The number of this process among those of ``torchrun``; 0 for a single process."""
    return int(os.environ.get("RANK", "0"))


def _say(message: str) -> None:
    number = process_number()
    print_lines(message if number == 0 else f"(process {number}) {message}", err=True)
