"""What a part of the fault suite is, and how it counts."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

SHOWN = 600
"""Characters of a problem that are kept."""


@dataclass
class Tally:
    """The counts of one part: for each kind of trial how many were made and how many held; and every failure.

    Example:
        >>> tally = Tally()
        >>> with tally.trial("a sum"):
        ...     assert 1 + 1 == 2
        >>> with tally.trial("a sum"):
        ...     assert 1 + 1 == 3, "arithmetic"
        >>> tally.rows, tally.failures
        ({'a sum': [2, 1]}, [('a sum', 'AssertionError: arithmetic')])
    """

    rows: dict[str, list[int]] = field(default_factory=dict)
    failures: list[tuple[str, str]] = field(default_factory=list)
    measures: dict[str, str] = field(default_factory=dict)

    def record(self, what: str, problem: str = "") -> None:
        """Count a trial; with a problem, it did not hold."""
        row = self.rows.setdefault(what, [0, 0])
        row[0] += 1
        row[1] += not problem
        if problem:
            self.failures.append((what, problem[:SHOWN]))

    @contextmanager
    def trial(self, what: str, about: Any = "") -> Iterator[None]:
        """A trial that holds unless its block raises."""
        try:
            yield
        except Exception as error:
            self.record(what, problem_of(error, about))
        else:
            self.record(what)

    @property
    def tried(self) -> int:
        """All trials."""
        return sum(tried for tried, _ in self.rows.values())


def problem_of(error: BaseException, about: Any = "") -> str:
    """An error in a line: its type, message, innermost line of code, and the input that it is about."""
    message = "".join(traceback.format_exception_only(error)).strip().replace("\n", " ")[:400]
    if isinstance(error, AssertionError):
        return f"{message} {_short(about)}".strip()
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{message} [{'/'.join(frame.filename.split('/')[-2:])}:{frame.lineno}] {_short(about)}".strip()


def _short(about: Any) -> str:
    text = about if isinstance(about, str) else repr(about)
    return text.encode("unicode_escape").decode()[:200]


@dataclass(frozen=True)
class Part:
    """One part of the suite: a module in ``tests/faults/parts`` has one, under the name ``PART``.

    Attributes:
        title: a heading of the page.
        promise: what a user gets, in a sentence or two.
        run: from a scale (1 is the long form) and a seed to a `Tally`.
        short: the scale of the short form.
        slow: whether the short form, too, takes more than a few seconds.
    """

    title: str
    promise: str
    run: Callable[[float, int], Tally]
    short: float = 0.02
    slow: bool = False


def times(number: float, scale: float, least: int = 1) -> int:
    """How often to try what the long form tries ``number`` times."""
    return max(least, round(number * scale))
