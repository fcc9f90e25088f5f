"""What a user gives, checked where it enters: the kinds of arguments that many calls have in common.

Every function returns the value, or raises an `InputError` that says what was expected, what was got (shortened), and
under which name. An odd value may be anything, also one whose ``==`` or ``repr`` raises.
"""

from __future__ import annotations

import math
import numbers
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from attnfaith.errors import InputError

LARGEST = 2**63 - 1


def short_repr(value: Any, length: int = 60) -> str:
    """A value as a message shows it: in one line, and not whole where it is long.

    Example:
        >>> short_repr("a" * 100, 20)
        "'aaaaaaaaaaaaaaaa..."
    """
    try:
        shown = repr(value[: length + 1] if isinstance(value, str | bytes) else value)
    except Exception:  # a repr of somebody else's may raise anything; an integer of 5,000 digits has none
        return f"a value of type {type(value).__name__}"
    shown = " ".join(shown.split())
    return shown if len(shown) <= length else shown[: length - 3] + "..."


def whole_number(value: Any, name: str, *, least: int = -LARGEST, most: int = LARGEST) -> int:
    """A whole number; True and False are none.

    Example:
        >>> whole_number(3, "steps", least=1)
        3
        >>> whole_number(0, "steps", least=1)
        Traceback (most recent call last):
        attnfaith.errors.InputError: Expected steps to be a whole number of at least 1, got 0.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or not least <= int(value) <= most:
        wanted = "a whole number"
        wanted += f" of at least {least:,}" if least > -LARGEST else ""
        wanted += f"{' and' if least > -LARGEST else ' of'} at most {most:,}" if most < LARGEST else ""
        raise InputError(f"Expected {name} to be {wanted}, got {short_repr(value)}.")
    return int(value)


def number(value: Any, name: str, *, above: float = -math.inf, least: float = -math.inf) -> float:
    """A finite number, above a limit, or at least as large as one."""
    real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    try:
        fits = real and math.isfinite(value) and above < value and least <= value
    except OverflowError:  # a whole number that is no float
        fits = False
    if not fits:
        limits = [f"above {above:g}"] if above > -math.inf else []
        limits += [f"of at least {least:g}"] if least > -math.inf else []
        wanted = " ".join(["a finite number", " and ".join(limits)]).strip()
        raise InputError(f"Expected {name} to be {wanted}, got {short_repr(value)}.")
    return float(value)


def share(value: Any, name: str, *, one: bool = False) -> float:
    """A number above 0 and below 1 (or 1 itself).

    Example:
        >>> share(0.95, "confidence_level")
        0.95
    """
    real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    found = float(value) if real and 0 < value <= 1 else math.nan
    if not (found < 1 or (one and found == 1)):
        wanted = "above 0 and at most 1" if one else "between 0 and 1, such as 0.95"
        raise InputError(f"Expected {name} {wanted}; got {short_repr(value)}.")
    return found


def flag(value: Any, name: str) -> bool:
    """True or False."""
    if not isinstance(value, bool):
        raise InputError(f"Expected {name} to be True or False, got {short_repr(value)}.")
    return value


def one_of(value: Any, known: Iterable[str | int | None], name: str) -> Any:
    """One of some names or numbers, or None where that is among them.

    Example:
        >>> one_of("logit", ("probability", "logit"), "output")
        'logit'
    """
    known = list(known)
    if isinstance(value, bool) or not (value is None or isinstance(value, str | int)) or value not in known:
        listed = ", ".join(map(repr, known))
        raise InputError(f"Expected {name} to be one of {listed}; got {short_repr(value)}.")
    return value


def text(value: Any, name: str, what: str = "a name") -> str:
    """A string that is not empty."""
    if not isinstance(value, str) or not value:
        raise InputError(f"Expected {name} to be {what} (a str), got {short_repr(value)}.")
    return value


def column(value: Any, name: str) -> Any:
    """The name of a column; tables may have numbers for names."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise InputError(f"Expected {name} to be the name of a column, got {short_repr(value)}.")
    return value


def several(value: Any, name: str) -> str | list[Any]:
    """The word "all", or a list.

    Example:
        >>> several("all", "tests"), several(("erasure",), "tests")
        ('all', ['erasure'])
    """
    if isinstance(value, str) and value == "all":
        return value
    if isinstance(value, str):
        raise InputError(
            f"Expected {name} to be 'all' or a list, got {short_repr(value)}. Use {name}=[{short_repr(value)}]."
        )
    if not isinstance(value, Sequence | set | frozenset) or isinstance(value, bytes | bytearray | memoryview):
        raise InputError(f"Expected {name} to be 'all' or a list, got {short_repr(value)}.")
    return list(value)


def mapping(value: Any, name: str, fits: Callable[[Any], bool], wanted: str) -> dict[Any, Any] | None:
    """A dict from names (or numbers) to what fits; None for None."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise InputError(f"Expected {name} to be a dict, got {short_repr(value)}.")
    for key, inner in value.items():
        if not isinstance(key, str | numbers.Real) or not fits(inner):
            raise InputError(f"Expected {name} to be a dict of {wanted}; got {short_repr(key)}: {short_repr(inner)}.")
    return dict(value)


def path(value: Any, name: str) -> str | os.PathLike[str]:
    """A path of a file or folder."""
    if not isinstance(value, str | os.PathLike) or not (raw := os.fspath(value)) or isinstance(raw, bytes):
        raise InputError(f"Expected {name} to be a path (a str or Path), got {short_repr(value)}.")
    if "\0" in raw:
        raise InputError(f"Expected {name} to be a path; {short_repr(raw)} holds the character NUL, which no path can.")
    return value
