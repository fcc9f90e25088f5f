"""What a ranking of a table is: its name in words, its role and its style, looked up by (level, name).

A table may hold rankings that are not registered here: scores that a user gave, and methods of another program.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from attnfaith.attribution.method import Method, PlotStyle, methods, name_in_words


def display_name(key: Sequence[str], keys: Collection[Sequence[str]] = (), *, short: bool = False) -> str:
    """A ranking's name in words; with its level where several of the rankings have this name.

    Args:
        key: the ranking, as (ranking_level, ranking).
        keys: the rankings shown beside it. If another of them has the same words, the registered name is returned.
        short: whether it is for a label in a figure.

    Example:
        >>> display_name(("input", "lrp"), [("input", "lrp"), ("attention", "lrp")])
        'LRP (input level)'
        >>> display_name(("input", "gradient_attention_fixed")), display_name(("yours", "my_shap_values"))
        ('gradient (attention held constant)', 'my shap values')
    """
    level, name = key
    words = _words(level, name, short=short)
    if any(other != name and _words(other_level, other, short=short) == words for other_level, other in keys):
        words = name
    return f"{words} ({level} level)" if sum(other == name for _, other in keys) > 1 else words


def role_of(key: Sequence[str]) -> str:
    """The role of a ranking: "ordinary" where it is not registered.

    Example:
        >>> role_of(("attention", "greedy")), role_of(("input", "random")), role_of(("yours", "greedy"))
        ('search', 'control', 'ordinary')
    """
    method = _registered(*key)
    return "ordinary" if method is None else method.role


def style_of(key: Sequence[str]) -> PlotStyle | None:
    """How a ranking is drawn; None for a thin grey line.

    Example:
        >>> style_of(("attention", "optimal"))
        PlotStyle(colour='#000000', marker='s')
    """
    method = _registered(*key)
    return None if method is None else method.style


def _registered(level: str, name: str) -> Method | None:
    return methods.get((level, name))


def _words(level: str, name: str, *, short: bool) -> str:
    method = _registered(level, name)
    if method is None:
        return name_in_words(name)
    return method.short_name if short else method.display_name
