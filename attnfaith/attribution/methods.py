"""What a method is, and which exist: a registry by level and name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from attnfaith.attribution.request import Request, Scores
from attnfaith.errors import InputError
from attnfaith.registry import Registry

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
