"""Short and unique labels of rankings in figures."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeAlias

from attnfaith.attribution.display_names import display_name, role_of

Key: TypeAlias = tuple[str, str]  # (ranking_level, ranking): "attention" and "random" exist at more than one level

LONGEST = 28  # characters that a label shows in one line


def labels_for(keys: Collection[Key], *, one_level: bool = False) -> dict[Key, str]:
    """A label for each (level, name) of a figure; a level other than attention is part of it.

    Args:
        keys: the rankings of the figure.
        one_level: whether all of them rank the same items; then a level is shown only where two share a name.

    Example:
        >>> list(labels_for([("attention", "gradient"), ("input", "gradient"), ("input", "gradient_x_input")]).values())
        ['gradient', 'gradient (input)', 'gradient x input']
    """
    full = {key: _with_level(key, keys, one_level=one_level) for key in keys}
    for tail in range((LONGEST - 1) // 2, LONGEST - 6):  # names that differ near their middle need more of their ends
        short = {key: shortened(label, tail=tail) for key, label in full.items()}
        if len(set(short.values())) == len(short):
            return short
    return {key: f"{shortened(label, LONGEST - 5)} [{number}]" for number, (key, label) in enumerate(full.items(), 1)}


def shortened(label: str, longest: int = LONGEST, *, tail: int | None = None) -> str:
    """Shorten a long label in the middle, and keep ``tail`` characters of its end.

    Example:
        >>> shortened("scores of the second annotator", 20)
        'scores of…annotator'
    """
    if len(label) <= longest:
        return label
    tail = (longest - 1) // 2 if tail is None else tail
    return f"{label[: longest - 1 - tail].rstrip()}…{label[-tail:].lstrip()}"


def _with_level(key: Key, keys: Collection[Key], *, one_level: bool) -> str:
    level, name = key
    others = [other for other in keys if other[1] != name]
    words = display_name(key, others, short=True)
    alone = len(others) == len(keys) - 1
    if level == "attention" or (alone and (one_level or role_of(key) == "control" or level in words.split())):
        return words
    return f"{words} ({level})"
