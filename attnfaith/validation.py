"""What a user gives, checked where it enters: the kinds of arguments that many calls have in common.

Every function returns the value, or raises an `InputError` that says what was expected, what was got (shortened), and
under which name. An odd value may be anything, also one whose ``==`` or ``repr`` raises.
"""

from __future__ import annotations

import difflib
import math
import numbers
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from attnfaith.errors import InputError
from attnfaith.parameter_names import parameter

LARGEST = 2**63 - 1
PRECISIONS = (0.001, 0.5)
"""The finest precision that can be asked for, and the one from which on any interval of a share would do."""


def short_repr(value: Any, length: int = 60) -> str:
    """A value as a message shows it: in one line, and not whole where it is long.

    Example:
        >>> short_repr("a" * 100, 20)
        "'aaaaaaaaaaaaaaaa..."
    """
    try:
        short = repr(value[: length + 1] if isinstance(value, str | bytes) else value)
    except Exception:  # a repr of somebody else's may raise anything; an integer of 5,000 digits has none
        return f"a value of type {type(value).__name__}"
    short = " ".join(short.split())
    return short if len(short) <= length else short[: length - 3] + "..."


def did_you_mean(value: Any, known: Iterable[Any], shown: Callable[[str], str] = repr) -> str:
    """A question that names what looks like a misspelt name, to stand after a sentence; empty where nothing does.

    Args:
        value: what was given.
        known: what could be given.
        shown: how a known name is written.

    Example:
        >>> did_you_mean("Atention", ["attention", "input"])
        " Did you mean 'attention'?"
        >>> did_you_mean("weights", ["attention", "input"])
        ''
    """
    folded = {name.strip().casefold(): name for name in reversed([str(name) for name in known])}
    near = difflib.get_close_matches(str(value)[:100].strip().casefold(), folded, n=3)
    return f" Did you mean {' or '.join(shown(folded[name]) for name in near)}?" if near else ""


def whole_number(value: Any, name: str, *, least: int = -LARGEST, most: int = LARGEST, also: str = "") -> int:
    """A whole number; True and False are none.

    Args:
        value: what was given.
        name: the name of the parameter.
        least: the smallest that fits.
        most: the largest that fits.
        also: what else can be given, for the message.

    Example:
        >>> whole_number(3, "steps", least=1)
        3
        >>> whole_number(0, "steps", least=1)
        Traceback (most recent call last):
        attnfaith.errors.InputError: Expected steps to be a whole number of at least 1, got 0. [invalid-argument]
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or not least <= int(value) <= most:
        expected = f"{also} or a whole number" if also else "a whole number"
        expected += f" of at least {least:,}" if least > -LARGEST else ""
        expected += f"{' and' if least > -LARGEST else ' of'} at most {most:,}" if most < LARGEST else ""
        raise InputError(f"Expected {parameter(name)} to be {expected}, got {short_repr(value)}.")
    return int(value)


def positive_int(value: Any, name: str, *, most: int = LARGEST) -> int | None:
    """A whole number of at least 1, or None."""
    return None if value is None else whole_number(value, name, least=1, most=most)


def number(
    value: Any, name: str, *, above: float = -math.inf, least: float = -math.inf, most: float = math.inf
) -> float:
    """A finite number, above a limit, or at least or at most as large as one."""
    if not is_number(value) or not (above < value and least <= value <= most):
        limits = [f"above {above:g}"] if above > -math.inf else []
        limits += [f"of at least {least:g}"] if least > -math.inf else []
        limits += [f"of at most {most:g}"] if most < math.inf else []
        expected = " ".join(["a finite number", " and ".join(limits)]).strip()
        raise InputError(f"Expected {parameter(name)} to be {expected}, got {short_repr(value)}.")
    return float(value)


def share(value: Any, name: str, *, zero: bool = False, one: bool = False) -> float:
    """A number between 0 and 1; 0 and 1 themselves only where it is said.

    Example:
        >>> share(0.95, "confidence_level")
        0.95
    """
    if not is_share(value, zero=zero, one=one):
        if zero or one:
            expected = f"to be {'at least' if zero else 'above'} 0 and {'at most' if one else 'below'} 1"
        else:
            expected = "to be between 0 and 1"
        raise InputError(f"Expected {parameter(name)} {expected}; got {short_repr(value)}.")
    return float(value)


def is_number(value: Any) -> bool:
    """True for a finite number; True and False are none, and neither is a whole number that no float can hold."""
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def is_share(value: Any, *, zero: bool = False, one: bool = False) -> bool:
    """True for a number between 0 and 1, or one of the ends where it is allowed.

    Example:
        >>> is_share(1), is_share(1, one=True), is_share(True, one=True)
        (False, True, False)
    """
    return is_number(value) and (0 < value < 1 or (zero and value == 0) or (one and value == 1))


def flag(value: Any, name: str) -> bool:
    """True or False."""
    if not isinstance(value, bool):
        raise InputError(f"Expected {parameter(name)} to be True or False, got {short_repr(value)}.")
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
        raise InputError(f"Expected {parameter(name)} to be one of {listed}; got {short_repr(value)}.")
    return value


def text(value: Any, name: str, what: str = "a name") -> str:
    """A string that is not empty."""
    if not isinstance(value, str) or not value:
        raise InputError(f"Expected {parameter(name)} to be {what} (a str), got {short_repr(value)}.")
    return value


def column(value: Any, name: str) -> Any:
    """The name of a column; tables may have numbers for names."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise InputError(f"Expected {parameter(name)} to be the name of a column, got {short_repr(value)}.")
    return value


def several(value: Any, name: str, words: Sequence[str] = ("all",)) -> str | list[Any]:
    """A word that stands for several, or a list.

    Example:
        >>> several("all", "tests"), several(("erasure",), "tests")
        ('all', ['erasure'])
    """
    if isinstance(value, str) and value in words:
        return value
    expected = f"Expected {parameter(name)} to be {', '.join(map(repr, words))} or a list"
    if isinstance(value, str):
        listed = [part.strip() for part in value.split(",") if part.strip()]
        advice = f" Use {short_repr(listed)}." if listed else ""
        raise InputError(f"{expected}, got {short_repr(value)}.{advice}")
    if not isinstance(value, Sequence | set | frozenset) or isinstance(value, bytes | bytearray | memoryview):
        raise InputError(f"{expected}, got {short_repr(value)}.")
    return list(value)


def mapping(value: Any, name: str, fits: Callable[[Any], bool], wanted: str) -> dict[Any, Any] | None:
    """A dict from names (or numbers) to what fits; None for None."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise InputError(f"Expected {parameter(name)} to be a dict, got {short_repr(value)}.")
    for key, inner in value.items():
        if not isinstance(key, str | numbers.Real) or not fits(inner):
            raise InputError(
                f"Expected {parameter(name)} to be a dict of {wanted}; got {short_repr(key)}: {short_repr(inner)}."
            )
    return dict(value)


def path(value: Any, name: str) -> str | os.PathLike[str]:
    """A path of a file or folder."""
    if not isinstance(value, str | os.PathLike) or not (raw := os.fspath(value)) or isinstance(raw, bytes):
        raise InputError(f"Expected {parameter(name)} to be a path (a str or Path), got {short_repr(value)}.")
    if "\0" in raw:
        raise InputError(
            f"Expected {parameter(name)} to be a path; {short_repr(raw)} holds the character NUL, which no path can."
        )
    return value
