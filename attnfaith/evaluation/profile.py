"""`Profile`: what took the time of a run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Spent:
    """What was spent on one part of a run.

    Attributes:
        seconds: without those of parts inside of it.
        passes: texts in full forward passes.
        tokens: positions in these passes.
    """

    seconds: float = 0.0
    passes: int = 0
    tokens: int = 0


@dataclass
class Profile:
    """What a run spent on each part: on each ranking, on erasing at each level, and on the rest of each test.

    Example:
        >>> profile = Profile(clock=iter([0.0, 2.0, 5.0, 6.0]).__next__)
        >>> with profile.part("a test"):
        ...     with profile.part("a ranking"):
        ...         profile.note(rows=2, width=10)
        >>> profile.parts["a test"].seconds, profile.parts["a ranking"]
        (3.0, Spent(seconds=3.0, passes=2, tokens=20))

    Attributes:
        clock: the time in seconds.
        parts: by name.
    """

    clock: Callable[[], float] = time.monotonic
    parts: dict[str, Spent] = field(default_factory=dict)
    _open: list[str] = field(default_factory=list)
    _since: float = 0.0

    @property
    def current(self) -> str:
        """The innermost part that is open; empty if none is."""
        return self._open[-1] if self._open else ""

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Account for what happens inside, but for parts inside of it."""
        self._settle()
        self._open.append(name)
        try:
            yield
        finally:
            self._settle()
            self._open.pop()

    def note(self, rows: int, width: int) -> None:
        """Account for a forward pass."""
        spent = self.parts.setdefault(self.current, Spent())
        spent.passes += rows
        spent.tokens += rows * width

    def seconds_with_passes(self) -> float:
        """The seconds of those parts that had full forward passes."""
        self._settle()
        return sum(spent.seconds for spent in self.parts.values() if spent.passes)

    def _settle(self) -> None:
        now = self.clock()
        if self._open:
            self.parts.setdefault(self.current, Spent()).seconds += now - self._since
        self._since = now
