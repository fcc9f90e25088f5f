"""A progress bar for long work, for people only."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

Thing = TypeVar("Thing")


def progress(things: Sequence[Thing] | Iterable[Thing], what: str, *, quiet: bool = False) -> Iterator[Thing]:
    """Go through things, with a bar on standard error if that is a terminal; silent otherwise.

    Example:
        >>> list(progress([1, 2], "counting"))
        [1, 2]
    """
    if quiet or not sys.stderr.isatty():
        yield from things
        return
    from rich.console import Console
    from rich.progress import track

    yield from track(things, description=what, console=Console(stderr=True), transient=True)
