"""What a method is, and which exist: a registry by level and name.

A ranking is what a method makes of a text. All facts about a ranking stand where its method is registered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attnfaith import validation
from attnfaith.adapters.cut import Cut
from attnfaith.attribution.token_deletion import logits_when_shorter
from attnfaith.errors import InputError
from attnfaith.functional.decision import OUTPUTS, Decision
from attnfaith.parameter_names import parameter
from attnfaith.registry import Registry
from attnfaith.types import Capture

LEVELS = ("attention", "input")
YOURS = "yours"
"""The level of a ranking whose scores a user gives with the data; there is no method behind it."""
ATTENTION = "attention"
"""The name, at both levels, of the ranking that is judged."""
CONTROL = "random"
"""The name, at both levels, of the ranking that every other one must beat."""

ROLES = ("ordinary", "search", "control")
PASSES_PER = ("text", "item", "pair")
_COUNTS = {"text": "{0:g}", "item": "{0:g} N", "pair": "{0:g} N x N"}


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
        signed: whether scores below zero speak against the target.
        seeded: whether it draws random numbers.
        multiplies_by_inputs: whether scores are inputs (or weights) times something; captum's infidelity needs to know.
        has_completeness_gap: whether its scores should sum to something, so that there is a gap to report.
        same_at_both_levels: whether, where items are tokens, the method of this name at the other level is as good, so
            that one of the two is enough.
        averages_layers: whether it can average over all layers, with ``layer="mean"``.
        default_for: the kind of model that it explains unless another method is named: "affine" (what follows the final
            attention is affine: HAN, FLAN) or "other"; see `default_method`.
        style: colour and marker in figures; None for a thin grey line.
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
        """Whether an evaluation runs it unless told otherwise: a longer text costs it no more passes through the model.

        Tails are not counted: all of them together hardly cost a pass.
        """
        return not self.on_request and (self.level == "attention" or not self.grows_with_length)

    def passes_for(self, items: int) -> float | None:
        """How many passes a text of so many items costs; the fewest, where a method takes as many as needed."""
        return None if self.passes is None else self.passes * items ** PASSES_PER.index(self.passes_per)

    def _cost_in_words(self) -> str:
        if self.passes is None:
            return "unknown"
        if not self.passes:
            return "none"
        count = _COUNTS[self.passes_per].format(self.passes)
        if self.grows_with_length:
            count = count.removeprefix("1 ")
        needed = ""
        if self.most_passes not in (None, self.passes):
            count, needed = f"{count} to {_COUNTS[self.passes_per].format(self.most_passes)}", ", as needed"
        unit = "pass" if count == "1" else "passes"
        part = " after attention" if self.level == "attention" else ""
        return f"{count} {unit}{part}{needed}{', forward and backward' if self.backward else ''}"


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
            f"are: {there}."
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


@dataclass(frozen=True)
class Scores:
    """One score for each item.

    Attributes:
        values: ``[B, N]``, higher = more important; 0 at padding, NaN where undefined.
        mask: ``[B, N]``, True for items.
        gap: ``[B]``, how far the scores are from summing to what they should, for methods with such a law; else None.
        inexact: ``[B]``, True where that gap is too large for a reader not to be warned; None where nobody judges it.
        absorbed: ``[B]``, the part that biases took, for methods that know it; else None.
        passes: ``[B]``, how many passes each text took, for methods that take as many as needed; else None.
        note: why scores are undefined or inexact, where some are.
    """

    values: Tensor
    mask: Tensor
    gap: Tensor | None = None
    inexact: Tensor | None = None
    absorbed: Tensor | None = None
    passes: Tensor | None = None
    note: str = ""


@dataclass(frozen=True)
class InexactScores:
    """How many texts have scores that do not sum to what they should, and by how much.

    Attributes:
        texts: how many texts have inexact scores.
        of: how many texts were scored.
        gap: the largest completeness gap among them.
        note: what is wrong with the scores, and what helps.
    """

    texts: int
    of: int
    gap: float
    note: str

    @classmethod
    def of_scores(cls, scores: Scores) -> InexactScores | None:
        """Count in a batch; None where the method does not judge how exact its scores are."""
        if scores.inexact is None or scores.gap is None:
            return None
        gap = float(scores.gap.abs().masked_fill(~scores.inexact, 0.0).max())
        return cls(int(scores.inexact.sum()), len(scores.inexact), gap, scores.note)

    def __add__(self, other: InexactScores) -> InexactScores:
        note = self.note or other.note
        return InexactScores(self.texts + other.texts, self.of + other.of, max(self.gap, other.gap), note)

    def message(self, name: str) -> str:
        """The warning about a ranking, by its name in words."""
        return (
            f"The scores of {name} are inexact on {self.texts} of {self.of} texts (completeness gap up "
            f"to {self.gap:.2g}): {self.note}."
        )


@dataclass(frozen=True)
class MethodOptions:
    """What can be chosen about methods; each uses what it knows.

    Attributes:
        steps: points of an integrated path; None for as many as each text needs.
        baseline: where an integrated path starts, or what an occluded token is replaced by: "zero", "pad", "mask", or a
            tensor of embeddings.
        layer: for "attention": "final", the one that was cut at, or "mean", all of them.
        epsilon: the stabiliser of LRP, relative to a layer's scale.
        seed: of random rankings.
        chunk: at most this many texts times candidates go through the model at once; few, since their activations then
            stay in the processor's cache.
        pad_id: the padding token, where the model has one.
        mask_id: the mask token, where the tokenizer has one.
        special_ids: tokens that are no part of a text.
    """

    steps: int | None = None
    baseline: str | Tensor = "zero"
    layer: str = "final"
    epsilon: float = 1e-6
    seed: int = 0
    chunk: int = 16
    pad_id: int | None = None
    mask_id: int | None = None
    special_ids: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Request:
    """One batch to be scored.

    Attributes:
        cut: the cut model.
        inputs: the model's inputs, checked.
        target: ``[B]`` class explained.
        output: "probability", "logit" or "log_odds".
        decision: how the model decides.
        settings: what was chosen.
        text_ids: ``[B]``, the texts' row numbers in their data, by which random draws are keyed.
        known_capture: the capture, where there is one already.
        rules: entered around every forward pass that a gradient is taken of; LRP has other rules than the derivative.
    """

    cut: Cut
    inputs: Mapping[str, Any]
    target: Tensor
    output: str
    decision: Decision
    settings: MethodOptions = field(default_factory=MethodOptions)
    text_ids: tuple[int, ...] = ()
    known_capture: Capture | None = None
    rules: Callable[[], AbstractContextManager[Any]] = nullcontext

    @cached_property
    def capture(self) -> Capture:
        """The batch, cut at its final attention; computed once for all methods that share the request."""
        return self.cut.capture(**self.inputs) if self.known_capture is None else self.known_capture

    @cached_property
    def without_each(self) -> Tensor:
        """The logits ``[B, N, C]`` when one item is erased at the final attention; see `Cut.without_each`."""
        return self.cut.without_each(self.capture)

    @property
    def tokens(self) -> Tensor:
        """``[B, L]``, True for real tokens of the input."""
        mask: Tensor = self.inputs["attention_mask"]
        return mask.bool()

    @cached_property
    def removable(self) -> Tensor:
        """``[B, L]``, True for tokens that can be left out of their text: neither special, nor the only one."""
        special = sorted(self.settings.special_ids)
        ids: Tensor = self.inputs["input_ids"]
        free = self.tokens & ~torch.isin(ids, torch.tensor(special, dtype=ids.dtype, device=ids.device))
        return free & (self.tokens.sum(-1, keepdim=True) > 1)

    @cached_property
    def shortened(self) -> tuple[Tensor, Tensor]:
        """The logits ``[B, C]`` of the texts, and ``[B, L, C]`` without each token; see `logits_when_shorter`."""
        return logits_when_shorter(self.cut, self.inputs, self.removable, self.settings.chunk)

    def quantity(self, logits: Tensor) -> Tensor:
        """The explained number of logits ``[B, ..., C]``."""
        return self.decision.quantity(logits, self.target.to(logits.device), self.output)

    def scores(self, values: Tensor, mask: Tensor | None = None, **more: Any) -> Scores:
        """Wrap scores; ``mask`` is that of the capture's items by default."""
        mask = self.capture.mask if mask is None else mask
        if values.shape != mask.shape:
            raise InputError(
                f"A method returned scores of shape {tuple(values.shape)}; expected one for each item, "
                f"{tuple(mask.shape)}."
            )
        return Scores(torch.where(mask, values.detach(), 0.0), mask, **more)

    def with_settings(self, **changes: Any) -> Request:
        """The same request with other settings."""
        return replace(self, settings=replace(self.settings, **changes))
