"""A progress bar for long work, for people only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

Thing = TypeVar("Thing")


def progress(things: Sequence[Thing] | Iterable[Thing], what: str, *, quiet: bool = False) -> Iterator[Thing]:
    """Go through things, with a bar on standard error if that is a terminal; silent otherwise.

    Example:
        >>> list(progress([1, 2], "progress_bar"))
        [1, 2]
    """
    if quiet or not sys.stderr.isatty():
        yield from things
        return
    from rich.console import Console
    from rich.progress import track

    yield from track(things, description=what, console=Console(stderr=True), transient=True)


@contextmanager
def progress_bar(what: str, total: int | None, *, quiet: bool = False) -> Iterator[Callable[[int], None]]:
    """A bar with an estimate of the time left, moved on by calling what is yielded; silent away from a terminal.

    Args:
        what: is being done.
        total: how much there is; None where that is not known.
        quiet: show nothing.

    Example:
        >>> with progress_bar("texts", 10) as advance:
        ...     advance(4)
    """
    if quiet or not sys.stderr.isatty():
        yield lambda amount: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    left = (TextColumn("left"), TimeRemainingColumn())
    with Progress(*columns, *left, console=Console(stderr=True), transient=True, speed_estimate_period=300) as bar:
        task = bar.add_task(what, total=total)
        yield lambda amount: bar.advance(task, amount)
