"""Progress bars, shown on a terminal only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

Item = TypeVar("Item")


def progress(items: Sequence[Item] | Iterable[Item], what: str, *, quiet: bool = False) -> Iterator[Item]:
    """Iterate over items, with a progress bar on standard error if that is a terminal.

    Example:
        >>> list(progress([1, 2], "progress_bar"))
        [1, 2]
    """
    if quiet or not sys.stderr.isatty():
        yield from items
        return
    from rich.console import Console
    from rich.progress import track

    yield from track(items, description=what, console=Console(stderr=True), transient=True)


@contextmanager
def progress_bar(what: str, total: int | None, *, quiet: bool = False) -> Iterator[Callable[[int], None]]:
    """A progress bar with an estimate of the time left; yields a function that advances it. Shown on a terminal only.

    Args:
        what: the description of the work.
        total: the amount of work; None if it is not known.
        quiet: show no bar.

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
