"""What a method is, and which exist: a registry by level and name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from attnfaith.adapters.cut import Cut
from attnfaith.attribution.token_deletion import logits_when_shorter
from attnfaith.errors import InputError
from attnfaith.functional.decision import Decision
from attnfaith.registry import Registry
from attnfaith.types import Capture

LEVELS = ("attention", "input")


@dataclass(frozen=True)
class Method:
    """One way to score items.

    Attributes:
        level: "attention" (through the tail of the cut only) or "input" (through the whole model).
        name: what it is called.
        run: from a request to scores.
        cost: in passes, in words.
        needs: what the model must have beyond a cut; empty for nothing.
        reference: where it is defined.
        signed: whether scores below zero speak against the target.
        seeded: whether it draws random numbers.
    """

    level: str
    name: str
    run: Callable[[Request], Scores]
    cost: str
    needs: str = ""
    reference: str = ""
    signed: bool = True
    seeded: bool = False


methods: Registry[tuple[str, str], Method] = Registry("method")
"""Methods by (level, name)."""


def method(level: str, name: str, *, cost: str, **facts: Any) -> Callable[[Callable[[Request], Scores]], Any]:
    """Return a decorator that files a function from a request to scores as a method."""

    def file(run: Callable[[Request], Scores]) -> Callable[[Request], Scores]:
        methods.register((level, name))(Method(level, name, run, cost, **facts))
        return run

    return file


def register_method(name: str, *, level: str = "attention", cost: str = "unknown", signed: bool = True) -> Any:
    """Return a decorator that adds a method of yours; it can then be used wherever a built-in one can.

    Args:
        name: what it is called, unique at its level.
        level: "attention": the function takes ``(capture, cut, target)``; "input": it takes ``(model, inputs,
            target)``, the model as it was cut and its inputs as a dict. Both return scores ``[B, N]``, higher = more
            important.
        cost: for the table of methods.
        signed: whether scores below zero speak against the target.

    Example:
        >>> import attnfaith as af
        >>> @af.register_method("longest_weight_last", level="attention")
        ... def upside_down(capture, cut, target):
        ...     return -capture.weights.mean(1)
        >>> ("attention", "longest_weight_last") in af.attribution.methods
        True
        >>> del af.attribution.methods["attention", "longest_weight_last"]
    """
    if level not in LEVELS:
        raise InputError(f"Expected level to be one of {', '.join(LEVELS)}, got {level!r}.")

    def file(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def run(request: Request) -> Scores:
            if level == "attention":
                return request.scores(function(request.capture, request.cut, request.target))
            return request.scores(function(request.cut.model, dict(request.inputs), request.target), request.tokens)

        methods.register((level, name))(Method(level, name, run, cost, reference="yours", signed=signed))
        return function

    return file


def find_method(level: str, name: str) -> Method:
    """Look a method up; a name known at the other level only says so."""
    if level not in LEVELS:
        raise InputError(f"Expected level to be one of {', '.join(LEVELS)}, got {level!r}.")
    other = next(known for known in LEVELS if known != level)
    if (level, name) not in methods and (other, name) in methods:
        there = ", ".join(sorted(known for at, known in methods if at == level))
        raise InputError(f"The method {name!r} exists at level={other!r} only. At level={level!r} there are: {there}.")
    if (level, name) not in methods:
        names: Registry[str, Method] = Registry(f"{level}-level method")
        names.update({known: entry for (at, known), entry in methods.items() if at == level})
        return names[name]
    return methods[level, name]


def list_methods() -> MethodList:
    """What exists: level, name, cost, needs and reference of every method.

    Example:
        >>> import attnfaith as af
        >>> [row["name"] for row in af.methods() if row["level"] == "input"][:2]
        ['attention', 'gradient']
    """
    return MethodList(
        {
            "level": level,
            "name": name,
            "signed": entry.signed,
            "cost": entry.cost,
            "needs": entry.needs,
            "reference": entry.reference,
        }
        for (level, name), entry in sorted(methods.items())
    )


class MethodList(list[dict[str, Any]]):
    """Rows of methods that print as a table; ``pandas.DataFrame(...)`` takes them as they are."""

    def __repr__(self) -> str:
        """One line for each method, in columns."""
        names = ("level", "name", "cost", "needs", "reference")
        lines = [names, *(tuple(str(row[name]) for name in names) for row in self)]
        widths = [max(len(line[place]) for line in lines) for place in range(len(names))]
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
        absorbed: ``[B]``, the part that biases took, for methods that know it; else None.
        note: why scores are undefined, where some are.
    """

    values: Tensor
    mask: Tensor
    gap: Tensor | None = None
    absorbed: Tensor | None = None
    note: str = ""


@dataclass(frozen=True)
class MethodOptions:
    """What can be chosen about methods; each uses what it knows.

    Attributes:
        steps: points of an integrated path; None for a method's own default.
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
        given: the capture, where there is one already.
        rules: entered around every forward pass that a gradient is taken of; LRP has other rules than the derivative.
    """

    cut: Cut
    inputs: Mapping[str, Any]
    target: Tensor
    output: str
    decision: Decision
    settings: MethodOptions = field(default_factory=MethodOptions)
    text_ids: tuple[int, ...] = ()
    given: Capture | None = None
    rules: Callable[[], AbstractContextManager[Any]] = nullcontext

    @cached_property
    def capture(self) -> Capture:
        """The batch, cut at its final attention; computed once for all methods that share the request."""
        return self.cut.capture(**self.inputs) if self.given is None else self.given

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
    def omissible(self) -> Tensor:
        """``[B, L]``, True for tokens that can be left out of their text: neither special, nor the only one."""
        special = sorted(self.settings.special_ids)
        ids: Tensor = self.inputs["input_ids"]
        free = self.tokens & ~torch.isin(ids, torch.tensor(special, dtype=ids.dtype, device=ids.device))
        return free & (self.tokens.sum(-1, keepdim=True) > 1)

    @cached_property
    def shortened(self) -> tuple[Tensor, Tensor]:
        """The logits ``[B, C]`` of the texts, and ``[B, L, C]`` without each token; see `logits_when_shorter`."""
        return logits_when_shorter(self.cut, self.inputs, self.omissible, self.settings.chunk)

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
