"""Parse tests with options from the command line, and options that are fields of a dataclass."""

from __future__ import annotations

import types
import typing
from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from attnfaith.cli.options import assigned, listed
from attnfaith.errors import InputError
from attnfaith.validation import did_you_mean

if TYPE_CHECKING:
    from attnfaith.evaluation.tests.base import Test

_SEQUENCES = (tuple, list, Sequence)
_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


def parsed_tests(names: str | None, options: Sequence[str] | None = None, *, bounds: bool = False) -> list[Test]:
    """Parse the value of ``--tests``.

    Args:
        names: "all", or a list with commas; None for the default tests.
        options: ``test.option=value`` each.
        bounds: short for ``erasure.bounds=true``.

    Example:
        >>> parsed_tests("erasure,single_weight", ["erasure.bounds=yes"])
        [Erasure(bounds=True, reference=None, resolution='schedule'), SingleWeight(reference='paper')]
    """
    from attnfaith.evaluation.tests.base import DefaultTests, tests

    if names is None:
        chosen = [test.name for test in DefaultTests.of({})]
    else:
        chosen = list(tests) if "all" in listed(names) else listed(names)
    if not chosen:
        raise InputError(f"--tests is empty. Known: all, {', '.join(tests)}.")
    if len(set(chosen)) < len(chosen):
        raise InputError(f"--tests names a test twice: {names}. Name each once.")
    settings: dict[str, dict[str, Any]] = {name: {} for name in chosen}
    kinds = {name: tests[name] for name in settings}
    pairs = {**assigned(options, "--option"), **({"erasure.bounds": "true"} if bounds else {})}
    for name, value in pairs.items():
        test, _, option = name.partition(".")
        if test not in kinds:
            tests[test]  # says which there are
            raise InputError(
                f"The option {name!r} is of a test that is not run. Add {test!r} to --tests.", code="unknown-name"
            )
        settings[test][option] = typed_option(value, name, kinds[test], option, form="test.option=value")
    return DefaultTests.of(settings) if names is None else [kind(**settings[name]) for name, kind in kinds.items()]


def typed_option(text: str, name: str, kind: type[Any], option: str, *, form: str) -> Any:
    """The value of an option that is a field of a dataclass, in the type of the field.

    Args:
        text: as it was typed.
        name: the whole name, as it was typed.
        kind: the dataclass.
        option: the name of the field.
        form: how options are given, for messages.
    """
    hints = typing.get_type_hints(kind)
    option_types = {field.name: hints[field.name] for field in fields(kind)}
    if option not in option_types:
        raise InputError(
            f"There is no option {name!r}.{did_you_mean(option, option_types)} Known: "
            f"{', '.join(option_types) or 'none'}. Options are given as {form}.",
            code="unknown-name",
        )
    for kind in _members(option_types[option]):
        try:
            return _read(text, kind)
        except ValueError:
            continue
    expected = " or ".join(_name(kind) for kind in _members(option_types[option]))
    raise InputError(f"Expected the option {name!r} to be {expected}, got {text!r}.")


_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "a word", type(None): "none"}


def _name(kind: Any) -> str:
    if typing.get_origin(kind) in _SEQUENCES:
        return f"one or more with commas, each {_name(_inner(kind))}"
    return _NAMES.get(kind, getattr(kind, "__name__", str(kind)))


def _inner(kind: Any) -> Any:
    """The type of the elements of a tuple."""
    return next((argument for argument in typing.get_args(kind) if argument is not Ellipsis), str)


def _members(kind: Any) -> list[Any]:
    """The alternatives of a union type, strings last, since they accept anything."""
    union = typing.get_origin(kind) in (typing.Union, types.UnionType)
    members = list(typing.get_args(kind)) if union else [kind]
    return sorted(members, key=lambda member: (member is str, member is not type(None)))


def _read(text: str, kind: Any) -> Any:
    folded = text.casefold()
    if kind is bool:
        if folded not in (*_TRUE, *_FALSE):
            raise ValueError
        return folded in _TRUE
    if kind is type(None):
        if folded != "none":
            raise ValueError
        return None
    if typing.get_origin(kind) in _SEQUENCES:
        made = list if typing.get_origin(kind) is list else tuple
        return made(_read(entry, _inner(kind)) for entry in listed(text))
    if kind in (int, float, str):
        return kind(text)
    raise ValueError
