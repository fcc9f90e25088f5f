"""Choose the rankings of a run and the level at which their items are erased."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attnfaith.attribution.method import CONTROL, YOURS, Method, find_method, methods
from attnfaith.errors import InputError
from attnfaith.explanations.explained import Explained
from attnfaith.parameter_names import parameter
from attnfaith.text.encoded import EncodedText
from attnfaith.validation import several, short_repr

DEFAULT, ALL = "default", "all"
GROUPS = (DEFAULT, ALL)
"""Words that stand for several rankings."""

Explain = str | Callable[[EncodedText], Sequence[float]] | Explained
"""An explanation that a user brings: a column of scores, a function from a text as the model reads it to scores, or
explanations of another library."""


def is_explanation(source: Any) -> bool:
    """Whether this can be an explanation that a user brings."""
    return isinstance(source, str | Explained) or callable(source)


@dataclass(frozen=True)
class Ranking:
    """A ranking: a registered method, or scores of the user.

    Attributes:
        name: what it is called.
        level: the level of its method, or "yours".
        source: of a ranking that is yours.
    """

    name: str
    level: str
    source: Explain | None = None

    @property
    def method(self) -> Method:
        """The registered method."""
        return find_method(self.level, self.name)

    @property
    def signed(self) -> bool:
        """Whether negative scores count against the target."""
        return self.level != YOURS and self.method.signed

    def repeats(self, level: str) -> bool:
        """Whether a ranking of the other level gives the same scores if items are tokens."""
        return self.level not in (YOURS, level) and self.method.same_at_both_levels

    def __str__(self) -> str:
        return f"{self.level}/{self.name}"


def rankings_for(
    erase_level: str,
    asked: str | Sequence[str],
    explanations: Mapping[str, Explain],
    *,
    by_token: bool,
    affine: bool,
) -> list[Ranking]:
    """The rankings of one erase level; the random control is always one of them.

    Args:
        erase_level: "attention" or "input".
        asked: "default", "all", or names of methods: "gradient" for all that are called so, or "input/gradient" for
            one. In a list, "all" stands for all but those that are only run where they are named, and "default" for
            those of them that an evaluation runs unless told otherwise, see `Method.by_default_at`.
        explanations: those that a user brings, by name.
        by_token: whether the items of the final attention are tokens; else attention-level rankings are of other items.
        affine: whether the exact optimum can be had.

    Example:
        >>> [str(one) for one in rankings_for("attention", ["gradient"], {}, by_token=True, affine=False)]
        ['attention/random', 'attention/gradient']
    """
    possible = _possible(erase_level, by_token=by_token, affine=affine)
    listed = _listed(asked)
    chosen = [key for name in listed if not _is_group(name) for key in _named(name, possible, erase_level)]
    chosen = [*_usual(erase_level, possible, listed), *chosen]
    first = (erase_level, CONTROL)
    keys = dict.fromkeys([first, *chosen])
    rankings = [Ranking(name, level) for level, name in keys]
    taken = {item.name for item in rankings}
    for name, source in explanations.items():
        if name in taken:
            raise InputError(f"The explanation {short_repr(name)} has the name of a ranking. Choose another name.")
        if not is_explanation(source):
            raise InputError(
                f"The explanation {short_repr(name)} is of type {type(source).__name__}; expected a column of the "
                "data that holds lists of scores, a function from a text to scores, or what a function of "
                "attnfaith.explanations returns."
            )
        rankings.append(Ranking(name, YOURS, source))
    return rankings


def left_out(
    erase_level: str, asked: str | Sequence[str], rankings: Sequence[Ranking], *, by_token: bool, affine: bool
) -> list[Ranking]:
    """The rankings that "all" would add to these, where the default rankings were asked for.

    Example:
        >>> usual = rankings_for("input", "default", {}, by_token=True, affine=False)
        >>> [str(item) for item in left_out("input", "default", usual, by_token=True, affine=False)][:3]
        ['input/rollout', 'input/gradient_x_input', 'input/occlusion']
    """
    if DEFAULT not in _listed(asked):
        return []
    every = rankings_for(erase_level, ALL, {}, by_token=by_token, affine=affine)
    return [ranking for ranking in every if ranking not in rankings]


def enumerated(names: Sequence[str]) -> str:
    """Names in a sentence.

    Example:
        >>> enumerated(["rollout", "occlusion", "omission"])
        'rollout, occlusion and omission'
    """
    *others, last = names or [""]
    return f"{', '.join(others)} and {last}" if others else last


def is_named(ranking: Ranking, asked: str | Sequence[str]) -> bool:
    """Whether the user named or supplied a ranking, so that it must not be left out."""
    names = [name.rpartition("/")[2] for name in _listed(asked) if not _is_group(name)]
    return ranking.level == YOURS or ranking.name in names


def _listed(asked: str | Sequence[str]) -> Sequence[str]:
    asked = several(asked, "rankings", GROUPS)
    return [asked] if isinstance(asked, str) else asked


def _is_group(name: Any) -> bool:
    return isinstance(name, str) and name in GROUPS


def _usual(erase_level: str, own: list[tuple[str, str]], listed: Sequence[str]) -> list[tuple[str, str]]:
    """Keys of the methods that a group in the list stands for."""
    groups = [name for name in listed if _is_group(name)]
    if not groups:
        return []
    # where only the final attention is erased, rankings through the whole model are for those who name them
    usual = [key for key in own if not methods[key].on_request and (erase_level == "input" or key[0] == erase_level)]
    return usual if ALL in groups else [key for key in usual if methods[key].by_default_at(erase_level)]


def _possible(erase_level: str, *, by_token: bool, affine: bool) -> list[tuple[str, str]]:
    """Keys of all methods with one score for each erased item; those of the same level come first."""

    def fits(method: Method) -> bool:
        if method.level == erase_level:
            return affine or not method.needs_affine_tail
        return by_token and not method.same_at_both_levels and not method.needs_affine_tail

    fitting = [key for key, method in methods.items() if fits(method)]
    return sorted(fitting, key=lambda key: key[0] != erase_level)  # a stable sort: else in the order of registration


def _named(name: Any, possible: list[tuple[str, str]], erase_level: str) -> list[tuple[str, str]]:
    if not isinstance(name, str):
        raise InputError(
            f"Expected names of rankings, got {type(name).__name__}. Give scores of your own as "
            f"{parameter('explanations')}."
        )
    level, _, last = name.rpartition("/")
    if level:
        find_method(level, last)
    elif not any(known == last for _, known in methods):
        find_method(erase_level, last)  # says which there are
    rankings = [key for key in possible if key[1] == last and level in ("", key[0])]
    same = [key for key in rankings if key[0] == erase_level]
    return same if erase_level == "attention" and same else rankings


def check_available(erase_levels: Sequence[str], asked: str | Sequence[str], rankings: Sequence[Ranking]) -> None:
    """Refuse names that no level offers."""
    names = {item.name for item in rankings}
    lost = [name for name in _listed(asked) if not _is_group(name) and name.rpartition("/")[2] not in names]
    if lost:
        raise InputError(
            f"The rankings {', '.join(lost)} cannot be used on this model where items are erased at the level "
            f"{' or '.join(erase_levels)}: they score other items, or need an affine tail. The documentation of the "
            "rankings (in Python, attnfaith.methods()) lists what each needs.",
            code="unsupported-ranking",
        )
