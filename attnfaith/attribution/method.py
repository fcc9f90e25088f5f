"""What a method is, and which exist: a registry by level and name.

A ranking is what a method makes of a text. All facts about a ranking stand where its method is registered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor

from attnfaith import validation
from attnfaith.attribution.request import Request
from attnfaith.attribution.scores import Scores
from attnfaith.errors import InputError
from attnfaith.functional.decision import OUTPUTS
from attnfaith.parameter_names import parameter
from attnfaith.registry import Registry

LEVELS = ("attention", "input")
YOURS = "yours"
"""The level of a ranking whose scores a user gives with the data; there is no method behind it."""
ATTENTION = "attention"
"""The name, at both levels, of the ranking that is judged."""
CONTROL = "random"
"""The name, at both levels, of the ranking that every other one must beat."""

ROLES = ("ordinary", "search", "control")
PASSES_PER = ("text", "item", "pair")
_EACH = {"text": "", "item": " for each item", "pair": " for each pair of items"}


class PlotStyle(NamedTuple):
    """How a ranking that stands out is drawn in figures; the others are thin and grey."""

    colour: str
    marker: str


@dataclass(frozen=True)
class Method:
    """One way to score items: a function, and all that other parts of the library need to know about it.

    Attributes:
        level: "attention" (through the tail of the cut only) or "input" (through the whole model).
        name: what it is called in code, tables and options.
        run: from a request to scores.
        display_name: what it is called in sentences, figures and listings; by default its name, without underscores.
        short_name: the same for labels in figures, where the display name is too long for them.
        passes: how many passes a text costs beyond its capture: through the tail at the attention level, through the
            whole model at the input level. None where it is not known.
        most_passes: how many it costs at most, where a method takes as many as the text needs, ``passes`` being the
            fewest; otherwise the same as ``passes``.
        passes_per: what costs as much: "text", "item" (each of the N items of a text) or "pair" (of items, N x N).
        backward: whether a pass goes backward too.
        cost: the cost in words; by default made from the three above.
        needs: what the model must have beyond a cut, in words; empty for nothing.
        needs_affine_tail: whether it needs an affine tail, and so ranks only what is erased at its own level.
        reference: where it is defined.
        default_output: what it explains unless told otherwise: "probability", "logit" or "log_odds".
        role: "ordinary"; "search" for one that looks for the smallest flipping set, and that nobody would read as an
            explanation; or "control" for one that knows nothing.
        on_request: whether it is run only where it is named, and left out of "all".
        erased_at_input: whether an evaluation also erases at the input in its order unless told otherwise. Such an
            order costs a short text half a pass for each token, so it is for rankings whose role there is of interest.
        signed: whether scores below zero speak against the target.
        seeded: whether it draws random numbers.
        multiplies_by_inputs: whether scores are inputs (or weights) times something; captum's infidelity needs to know.
        has_completeness_gap: whether its scores should sum to something, so that there is a gap to report.
        same_at_both_levels: whether, where items are tokens, the method of this name at the other level is as good, so
            that one of the two is enough.
        averages_layers: whether it can average over all layers, with ``layer="mean"``.
        default_for: the kind of model that it explains unless another method is named: "affine" (what follows the final
            attention is affine: HAN, FLAN) or "other"; see `default_method`.
        style: colour and marker in figures; None for a free one where there are few rankings, else a thin grey line.
    """

    level: str
    name: str
    run: Callable[[Request], Scores]
    display_name: str = ""
    short_name: str = ""
    passes: float | None = None
    most_passes: float | None = None
    passes_per: str = "text"
    backward: bool = False
    cost: str = ""
    needs: str = ""
    needs_affine_tail: bool = False
    reference: str = ""
    default_output: str = "probability"
    role: str = "ordinary"
    on_request: bool = False
    erased_at_input: bool = True
    signed: bool = True
    seeded: bool = False
    multiplies_by_inputs: bool = False
    has_completeness_gap: bool = False
    same_at_both_levels: bool = False
    averages_layers: bool = False
    default_for: str = ""
    style: PlotStyle | None = None

    def __post_init__(self) -> None:
        display_name = self.display_name or name_in_words(self.name)
        defaults = {"display_name": display_name, "short_name": display_name, "most_passes": self.passes}
        defaults["cost"] = self._cost_in_words()
        for field_name, value in defaults.items():
            if not getattr(self, field_name):
                object.__setattr__(self, field_name, value)  # the class is frozen

    @property
    def grows_with_length(self) -> bool:
        """Whether a long text costs more passes than a short one."""
        return self.passes_per != "text"

    @property
    def by_default(self) -> bool:
        """Whether an evaluation runs it at its own level unless told otherwise."""
        return self.by_default_at(self.level)

    def by_default_at(self, erase_level: str) -> bool:
        """Whether an evaluation erases in its order at a level unless told otherwise.

        At the final attention, since all tails together hardly cost a pass. At the input, where it should be erased
        there, and where scoring a long text takes no more passes through the model than a short one.
        """
        if self.on_request or erase_level == "attention":
            return not self.on_request
        return self.erased_at_input and (self.level == "attention" or not self.grows_with_length)

    def passes_for(self, items: int) -> float | None:
        """How many passes a text of so many items costs; the fewest, where a method takes as many as needed."""
        return None if self.passes is None else self.passes * items ** PASSES_PER.index(self.passes_per)

    def _cost_in_words(self) -> str:
        if self.passes is None:
            return "unknown"
        if not self.passes:
            return "none"
        count, needed = f"{self.passes:g}", ""
        if self.most_passes not in (None, self.passes):
            count, needed = f"{count} to {self.most_passes:g}", ", as needed"
        unit = "pass" if count == "1" else "passes"
        part = " after attention" if self.level == "attention" else ""
        return (
            f"{count} {unit}{part}{_EACH[self.passes_per]}{needed}{', forward and backward' if self.backward else ''}"
        )


methods: Registry[tuple[str, str], Method] = Registry("method")
"""Methods by (level, name)."""


def name_in_words(name: str) -> str:
    """A name of a method, or of a ranking that a user gives, without underscores.

    Example:
        >>> name_in_words("gradient_x_attention"), name_in_words("__my__own_"), name_in_words("___")
        ('gradient x attention', 'my own', "'___'")
    """
    return " ".join(name.replace("_", " ").split()) or repr(name)


def method(level: str, name: str, **facts: Any) -> Callable[[Callable[[Request], Scores]], Any]:
    """Return a decorator that registers a function from a request to scores as a method; see `Method` for the facts."""

    def file(run: Callable[[Request], Scores]) -> Callable[[Request], Scores]:
        methods.register((level, name))(Method(level, name, run, **facts))
        return run

    return file


def register_method(
    name: str,
    *,
    level: str = "attention",
    display_name: str = "",
    short_name: str = "",
    passes: float | None = None,
    passes_per: str = "text",
    backward: bool = False,
    cost: str = "",
    needs: str = "",
    reference: str = YOURS,
    default_output: str = "probability",
    role: str = "ordinary",
    on_request: bool = False,
    signed: bool = True,
    seeded: bool = False,
    multiplies_by_inputs: bool = False,
    has_completeness_gap: bool = False,
    style: Sequence[str] | None = None,
) -> Any:
    """Return a decorator that adds a method of yours; it can then be used wherever a built-in one can.

    At the attention level the function takes ``(capture, cut, target)``. At the input level it takes ``(model, inputs,
    target)``: the model as it was cut, and its inputs as a dict. Both return scores ``[B, N]``, higher = more
    important; with ``has_completeness_gap=True`` they return ``(scores, gap)``, the gap being ``[B]``, what the scores
    should sum to minus their sum.

    Args:
        name: what it is called in code, tables and options, unique at its level.
        level: "attention" or "input".
        display_name: what it is called in sentences, figures and listings; by default the name without underscores.
        short_name: the same, short enough for a label in a figure.
        passes: how many passes a text costs: through the tail at the attention level, else through the model.
        passes_per: "text", "item" or "pair" (of items): what costs so many passes.
        backward: whether a pass goes backward too.
        cost: the cost in words, where the three above do not say it.
        needs: what the model must have, in words.
        reference: where the method is defined.
        default_output: what the scores explain: "probability", "logit" or "log_odds".
        role: "ordinary", or "search" for a method that looks for the smallest flipping set, and is not compared with
            attention as a rival.
        on_request: whether an evaluation runs it only where it is named.
        signed: whether scores below zero speak against the target.
        seeded: whether it draws random numbers.
        multiplies_by_inputs: whether scores are inputs (or weights) times something.
        has_completeness_gap: see above.
        style: colour and marker of matplotlib, for a ranking that stands out in figures.

    Example:
        >>> import attnfaith as af
        >>> @af.register_method("longest_weight_last", level="attention", passes=0)
        ... def upside_down(capture, cut, target):
        ...     return -capture.weights.mean(1)
        >>> af.attribution.methods["attention", "longest_weight_last"].display_name
        'longest weight last'
        >>> del af.attribution.methods["attention", "longest_weight_last"]
    """
    validation.one_of(level, LEVELS, "level")
    validation.one_of(passes_per, PASSES_PER, "passes_per")
    validation.one_of(default_output, OUTPUTS, "default_output")
    validation.one_of(role, [known for known in ROLES if known != "control"], "role")
    validation.text(name, "the name of a method")
    if passes is not None:
        validation.number(passes, "passes", least=0)
    if style is not None and not (isinstance(style, tuple) and [type(part) for part in style] == [str, str]):
        raise InputError(f"Expected style to be a colour and a marker, such as ('#009E73', 'D'); got {style!r}.")

    def file(function: Callable[..., Any]) -> Callable[..., Any]:
        def run(request: Request) -> Scores:
            if level == "attention":
                result, mask = function(request.capture, request.cut, request.target), None
            else:
                result, mask = function(request.cut.model, dict(request.inputs), request.target), request.tokens
            if not has_completeness_gap:
                return request.scores(result, mask)
            values, gap = _with_gap(name, result, len(request.target))
            return request.scores(values, mask, gap=gap)

        registered = Method(
            level,
            name,
            run,
            display_name=display_name,
            short_name=short_name,
            passes=passes,
            passes_per=passes_per,
            backward=backward,
            cost=cost,
            needs=needs,
            reference=reference,
            default_output=default_output,
            role=role,
            on_request=on_request,
            signed=signed,
            seeded=seeded,
            multiplies_by_inputs=multiplies_by_inputs,
            has_completeness_gap=has_completeness_gap,
            style=None if style is None else PlotStyle(*style),
        )
        methods.register((level, name))(registered)
        return function

    return file


def _with_gap(name: str, result: Any, texts: int) -> tuple[Tensor, Tensor]:
    """What a registered function with a completeness gap returned, checked."""
    if isinstance(result, tuple) and len(result) == 2 and getattr(result[1], "shape", None) == (texts,):
        return result
    raise InputError(
        f"The method {name!r} was registered with has_completeness_gap=True; expected it to return a tuple of scores "
        f"and gap, the gap one number for each of the {texts} texts."
    )


def find_method(level: str, name: str) -> Method:
    """Look a method up; a name known at the other level only says so."""
    if level not in LEVELS:
        raise InputError(f"Expected {parameter('level')} to be one of {', '.join(LEVELS)}, got {level!r}.")
    other = next(known for known in LEVELS if known != level)
    if (level, name) not in methods and (other, name) in methods:
        there = ", ".join(sorted(known for at, known in methods if at == level))
        raise InputError(
            f"The method {name!r} exists at {parameter('level', other)} only. At {parameter('level', level)} there "
            f"are: {there}.",
            code="unknown-name",
        )
    if (level, name) not in methods:
        names: Registry[str, Method] = Registry(f"{level}-level method")
        names.update({known: entry for (at, known), entry in methods.items() if at == level})
        return names[name]
    return methods[level, name]


def default_method(*, affine: bool, level: str | None = None) -> Method:
    """The method that explains a model if none is named: the one declared for its kind; if a level is given, at it.

    Where the part of the model after the final attention is affine, the scores at that attention account for the whole
    decision. In a Transformer much of the decision goes past it, so tokens are scored through the whole model.

    Example:
        >>> default_method(affine=True).level, default_method(affine=False).level
        ('attention', 'input')
    """
    kind = "affine" if affine else "other"
    declared = [entry for entry in methods.values() if entry.default_for and level in (None, entry.level)]
    return min(declared, key=lambda entry: entry.default_for != kind)


def list_methods() -> MethodList:
    """What exists: a row of facts about every method; `Method` says what they mean.

    Example:
        >>> import attnfaith as af
        >>> [row["name"] for row in af.methods() if row["level"] == "input"][:2]
        ['attention', 'gradient']
    """
    return MethodList(
        {
            "level": level,
            "name": name,
            "display_name": entry.display_name,
            "role": entry.role,
            "on_request": entry.on_request,
            "by_default": entry.by_default,
            "signed": entry.signed,
            "default_output": entry.default_output,
            "cost": entry.cost,
            "passes": entry.passes,
            "most_passes": entry.most_passes,
            "passes_per": entry.passes_per,
            "grows_with_length": entry.grows_with_length,
            "needs": entry.needs,
            "reference": entry.reference,
        }
        for (level, name), entry in sorted(methods.items())
    )


class MethodList(list[dict[str, Any]]):
    """Rows of methods that print as a table; ``pandas.DataFrame(...)`` takes them as they are."""

    def __repr__(self) -> str:
        """One line for each method, in columns."""
        columns = ("level", "name", "display_name", "cost", "needs", "reference")
        header = tuple(name.replace("_", " ") for name in columns)
        lines = [header, *(tuple(str(row[name]) for name in columns) for row in self)]
        widths = [max(len(line[index]) for line in lines) for index in range(len(columns))]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
        )
