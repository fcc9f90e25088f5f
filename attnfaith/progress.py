"""Progress of long work on standard error: bars on a terminal, and lines elsewhere for what may take hours."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, TextIO, TypeVar

LINE_SECONDS = 60.0
"""The time between two lines of `ProgressLog` where there is no terminal."""
_REDRAW_SECONDS = 0.2

Item = TypeVar("Item")


def progress(items: Sequence[Item] | Iterable[Item], description: str, *, quiet: bool = False) -> Iterator[Item]:
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

    yield from track(items, description=description, console=Console(stderr=True), transient=True)


@contextmanager
def progress_bar(description: str, total: int | None, *, quiet: bool = False) -> Iterator[Callable[[int], None]]:
    """A progress bar with an estimate of the time left; yields a function that advances it. Shown on a terminal only.

    Args:
        description: the description of the work.
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
    time_left = (TextColumn("left"), TimeRemainingColumn())
    with Progress(*columns, *time_left, console=Console(stderr=True), transient=True, speed_estimate_period=300) as bar:
        task = bar.add_task(description, total=total)
        yield lambda amount: bar.advance(task, amount)


class ProgressLog:
    """Shows how far a run is: a bar on a terminal, elsewhere a line a minute.

    The estimate of the time left is made by the caller, who knows what is left to do.

    Args:
        description: the description of the work.
        quiet: show nothing.
        clock: the time in seconds.
        stream: where it is shown; standard error by default.

    Example:
        >>> log = ProgressLog("evaluating", stream=sys.stdout, clock=iter([0.0, 61.0]).__next__)
        >>> log.show(0.25, "16 of 64 texts", 183.0)
        evaluating: 25 %, 16 of 64 texts, after 1 min 1 s, about 3 min left
    """

    def __init__(
        self,
        description: str,
        *,
        quiet: bool = False,
        clock: Callable[[], float] = time.monotonic,
        stream: TextIO | None = None,
    ) -> None:
        self._description, self._quiet, self._clock = description, quiet, clock
        self._stream = sys.stderr if stream is None else stream
        self._start = self._shown = clock()
        self._bar: Any = None

    def __enter__(self) -> ProgressLog:
        if not self._quiet and self._stream.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.percentage:.0f} %"),
                TextColumn("{task.fields[count]}"),
                TimeElapsedColumn(),
                TextColumn("{task.fields[left]}"),
                console=Console(file=self._stream),
                transient=True,
            )
            self._task = self._bar.add_task(self._description, total=None, count="", left="")
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, share: float | None, count: str, left: float | None) -> None:
        """Show how far the work is; seldom enough that it can be called at every step.

        Args:
            share: the share of the work that is done, in [0, 1]; None if it is not known.
            count: what is done, in words.
            left: the seconds that are left; None if they are not known.
        """
        now = self._clock()
        if self._quiet or now - self._shown < (LINE_SECONDS if self._bar is None else _REDRAW_SECONDS):
            return
        self._shown = now
        time_left = "" if left is None else f"about {duration(left)} left"
        if self._bar is not None:
            total = None if share is None else 1.0
            self._bar.update(self._task, completed=share or 0.0, total=total, count=count, left=time_left)
            return
        parts = ["" if share is None else f"{share:.0%}".replace("%", " %"), count]
        parts += [f"after {duration(now - self._start, seconds_too=True)}", time_left]
        self._print(f"{self._description}: {', '.join(part for part in parts if part)}")

    def say(self, line: str) -> None:
        """Write a line that stays."""
        if self._quiet:
            return
        if self._bar is not None:
            self._bar.console.print(line, markup=False, highlight=False)
        else:
            self._print(line)

    def _print(self, line: str) -> None:
        print(line, file=self._stream, flush=True)


def duration(seconds: float, *, seconds_too: bool = False) -> str:
    """A duration in words, as exact as an estimate is; with ``seconds_too`` exact to the second.

    Example:
        >>> [duration(value) for value in (0.4, 42.0, 200.0, 1500.0, 5000.0, 200_000.0)]
        ['1 s', '42 s', '3 min', '25 min', '1 h 23 min', '2 days 8 h']
        >>> duration(200.0, seconds_too=True)
        '3 min 20 s'
    """
    rounded = max(1, round(seconds))
    if rounded < 60:
        return f"{rounded} s"
    if seconds_too and rounded < 3600:
        return f"{rounded // 60} min {rounded % 60} s"
    minutes = round(rounded / 60)
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 24 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    days, hours = divmod(round(minutes / 60), 24)
    return f"{days} day{'s' if days > 1 else ''} {hours} h"
