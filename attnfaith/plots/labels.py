"""What rankings are called in figures: in words, short enough for a label, no two alike."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeAlias

Key: TypeAlias = tuple[str, str]  # (ranking_level, ranking): "attention" and "random" exist at more than one level

LONGEST = 28  # characters that a label shows in one line
_WORDS = {"lrp": "LRP", "gradient_attention_fixed": "detached gradient"}


def words_for(ranking: str) -> str:
    """A ranking's name as a reader would say it; also a name of the user's own.

    Example:
        >>> words_for("gradient_x_attention"), words_for("lrp"), words_for("my_shap_values")
        ('gradient × attention', 'LRP', 'my shap values')
    """
    words = " ".join(ranking.replace("_x_", " × ").replace("_", " ").split())
    return _WORDS.get(ranking) or words or repr(ranking)


def labels_for(keys: Collection[Key]) -> dict[Key, str]:
    """A label for each (level, name) of a figure, with its level where that is not the attention's.

    Example:
        >>> list(labels_for([("attention", "gradient"), ("input", "gradient"), ("input", "gradient_x_input")]).values())
        ['gradient', 'gradient (input)', 'gradient × input']
    """
    full = {key: _with_level(key, keys) for key in keys}
    for tail in range((LONGEST - 1) // 2, LONGEST - 6):  # names that differ near their middle need more of their ends
        short = {key: shortened(label, tail=tail) for key, label in full.items()}
        if len(set(short.values())) == len(short):
            return short
    return {key: f"{shortened(label, LONGEST - 5)} [{number}]" for number, (key, label) in enumerate(full.items(), 1)}


def shortened(label: str, longest: int = LONGEST, *, tail: int | None = None) -> str:
    """A label with its middle left out where it is too long; ``tail`` characters of its end stay.

    Example:
        >>> shortened("scores of the second annotator", 20)
        'scores of…annotator'
    """
    if len(label) <= longest:
        return label
    tail = (longest - 1) // 2 if tail is None else tail
    return f"{label[: longest - 1 - tail].rstrip()}…{label[-tail:].lstrip()}"


def _with_level(key: Key, keys: Collection[Key]) -> str:
    level, name = key
    words = words_for(name)
    if any(other != name and words_for(other) == words for _, other in keys):
        words = name
    alone = sum(other == name for _, other in keys) == 1
    if level == "attention" or (alone and (name == "random" or level in words.split())):
        return words
    return f"{words} ({level})"
