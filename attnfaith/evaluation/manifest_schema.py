"""The schema of an evaluation's manifest: every field with its type and range, checked when a run is loaded.

A manifest can come from somebody else: nothing in it may demand absurd amounts of memory, run code, or enter an
estimate or a figure with an unexpected type.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

from attnfaith.errors import AttnFaithError, InputError
from attnfaith.estimates.summary_table import MOST_RESAMPLES
from attnfaith.evaluation import stored_texts
from attnfaith.evaluation.run_manifest import STORED
from attnfaith.evaluation.sampling import KEYED
from attnfaith.evaluation.tests.base import Test, tests
from attnfaith.evaluation.token_hiding import WAYS
from attnfaith.functional.decision import KINDS, OUTPUTS
from attnfaith.storage.manifest import MAX_ROWS, SAMPLE, is_digest, is_keyed, refuse, rows_of
from attnfaith.storage.sealed_table import short_reason
from attnfaith.validation import PRECISIONS, short_repr

_MAX_LABELS = 100_000
_LEVELS = ("attention", "input")


class _UnfitError(Exception):
    """A field with a wrong value: its path, the value, and what was expected."""


Field = Callable[[Any, str], None]
"""Raises `_UnfitError` for a value that does not fit at a path."""


def check_manifest(manifest: Mapping[str, Any], path: Path) -> None:
    """Refuse a manifest of an evaluation with a missing or unknown field, or with a value out of range.

    Args:
        manifest: of a finished run.
        path: of its file, for the error.
    """
    try:
        _object(_FINISHED, {**_OPTIONAL, **_SAMPLED})(manifest, "")
        _check_counts(manifest)
    except _UnfitError as error:
        refuse(path, str(error))


def check_new_manifest(manifest: Mapping[str, Any]) -> None:
    """Refuse a run, before any work, whose results could not be loaded again.

    Args:
        manifest: of a new run.
    """
    try:
        _object(_UNFINISHED, _OPTIONAL)(json.loads(json.dumps(manifest)), "")
    except _UnfitError as error:
        raise InputError(f"The results of this run could not be stored: {error}.") from error


def _expect(holds: bool, value: Any, path: str, expected: str) -> None:
    if not holds:
        raise _UnfitError(f"{path or 'it'} is {short_repr(value)}; expected {expected}")


def _text(value: Any, path: str) -> None:
    _expect(isinstance(value, str), value, path, "a text")


def _truth(value: Any, path: str) -> None:
    _expect(isinstance(value, bool), value, path, "true or false")


def _sha256(value: Any, path: str) -> None:
    _expect(is_digest(value), value, path, "64 hexadecimal digits")


def _whole(low: float, high: float) -> Field:
    def check(value: Any, path: str) -> None:
        _expect(type(value) is int and low <= value <= high, value, path, f"a whole number from {low} to {high}")

    return check


def _number(low: float, high: float, *, inside: bool = False) -> Field:
    """A finite number from low to high; ``inside`` excludes both ends."""

    def check(value: Any, path: str) -> None:
        fits = type(value) is int or (type(value) is float and math.isfinite(value))  # isfinite fails on a huge int
        fits = fits and low <= value <= high and not (inside and value in (low, high))
        between = f"between {low} and {high}" if inside else f"from {low} to {high}"
        _expect(fits, value, path, f"a number {between}")

    return check


def _one_of(*known: str) -> Field:
    def check(value: Any, path: str) -> None:
        _expect(isinstance(value, str) and value in known, value, path, f"one of {', '.join(map(repr, known))}")

    return check


def _or_null(field: Field) -> Field:
    def check(value: Any, path: str) -> None:
        if value is not None:
            field(value, path)

    return check


def _list(field: Field, most: int = _MAX_LABELS) -> Field:
    def check(value: Any, path: str) -> None:
        _expect(isinstance(value, list) and len(value) <= most, value, path, f"a list of at most {most:,}")
        for index, part in enumerate(value):
            field(part, f"{path}[{index}]")

    return check


def _mapping(field: Field, *keys: str) -> Field:
    """An object with any keys, or with some of the given keys."""

    def check(value: Any, path: str) -> None:
        _expect(isinstance(value, dict), value, path, "an object")
        for name, part in value.items():
            if keys and name not in keys:
                raise _UnfitError(f"{path} has the key {short_repr(name)}; expected {', '.join(map(repr, keys))}")
            field(part, f"{path}.{short_repr(name)[1:-1]}")

    return check


def _object(known: Mapping[str, Field], optional: Mapping[str, Field] | None = None) -> Field:
    """An object with exactly these keys, and some of the optional ones."""
    allowed = {**known, **(optional or {})}

    def check(value: Any, path: str) -> None:
        _expect(isinstance(value, dict), value, path, "an object")
        inside = f" in {path}" if path else ""
        for name in known:
            if name not in value:
                raise _UnfitError(f"{name!r} is missing{inside}")
        for name, part in value.items():
            if name not in allowed:
                raise _UnfitError(f"the key {short_repr(name)}{inside} is unknown; expected only {', '.join(allowed)}")
            allowed[name](part, f"{path}.{name}" if path else name)

    return check


def _column(value: Any, path: str) -> None:
    """The name of a column, which can be a number."""
    if isinstance(value, list):
        _list(_column, 100)(value, path)
    elif not isinstance(value, str | bool):
        _or_null(_number(-(2.0**63), 2.0**63))(value, path)


def _target(value: Any, path: str) -> None:
    if not isinstance(value, str):
        _whole(0, _MAX_LABELS)(value, path)


def _tests(value: Any, path: str) -> None:
    """Tests with options that their classes accept."""
    _expect(isinstance(value, dict) and bool(value), value, path, "an object with a test at least")
    for name, options in value.items():
        here = f"{path}.{short_repr(name)[1:-1]}"
        if name not in tests:
            raise _UnfitError(f"{path} has the unknown test {short_repr(name)}; known are {', '.join(tests)}")
        _expect(isinstance(options, dict), options, here, "an object of options")
        _check_options(tests[name], options, here)


def _check_options(kind: type[Test], options: Mapping[str, Any], path: str) -> None:
    known = [field.name for field in fields(kind)]
    options = {**kind.earlier, **options}
    for option in (*options, *known):
        if option not in known:
            raise _UnfitError(
                f"{path} has the unknown option {short_repr(option)}; expected {', '.join(known) or 'none'}"
            )
        if option not in options:
            raise _UnfitError(f"the option {option!r} is missing in {path}")
    hints = get_type_hints(kind)
    for option, value in options.items():
        allowed = getattr(hints[option], "__args__", (hints[option],))
        if {*allowed} <= {int, float, str, bool, type(None)}:  # other types are checked by the class
            fits = type(value) in allowed or (type(value) is int and float in allowed)
            names = ", ".join("null" if kind_ is type(None) else kind_.__name__ for kind_ in allowed)
            _expect(fits, value, f"{path}.{option}", f"one of the types {names}")
    try:
        kind(**options)
    except (AttnFaithError, TypeError, ValueError, ArithmeticError, LookupError) as error:
        raise _UnfitError(f"{path}: {short_reason(error)}") from error


def _check_counts(manifest: Mapping[str, Any]) -> None:
    """Refuse counts that contradict each other."""
    counts, rows = manifest["counts"], rows_of(manifest)
    if rows is not None and counts["rows"] != rows:
        said = f"{SAMPLE}.texts" if is_keyed(manifest) else "rows"
        raise _UnfitError(f"counts.rows is {counts['rows']}; expected {rows}, as {said} says")
    excluded = sum(counts["aside"].values())
    if counts["texts"] != counts["rows"] - excluded:
        raise _UnfitError(
            f"counts.texts is {counts['texts']}; expected {counts['rows']} rows less {excluded} set aside"
        )
    if counts["truncated"] > counts["texts"]:
        raise _UnfitError(
            f"counts.truncated is {counts['truncated']}; expected at most {counts['texts']}, the number of texts"
        )
    stored = stored_texts.SCHEMAS if STORED in manifest["run"] else ()
    expected = ("texts", *manifest["run"]["tests"], *stored)
    lacking = [name for name in expected if name not in manifest["digests"]["shards"]]
    if lacking:
        raise _UnfitError(f"digests.shards lacks the table {lacking[0]!r}")


_COUNT = _whole(0, MAX_ROWS)
_UNFINISHED: dict[str, Field] = {
    "attnfaith": _text,
    "run": _object(
        {
            "model": _sha256,
            "tokenizer": _sha256,
            "decision": _object({"kind": _one_of(*KINDS), "tolerance": _or_null(_number(0, math.inf))}),
            "columns": _object(
                {
                    "text": _column,
                    "second text": _column,
                    "label": _column,
                    "rationale": _column,
                    "scores": _list(_text),
                }
            ),
            "tests": _tests,
            "flipping_set_search": _whole(1, 1000),
            "rankings": _mapping(_list(_text), *_LEVELS),
            "target": _target,
            "output": _or_null(_one_of(*OUTPUTS)),
            "steps": _or_null(_whole(1, MAX_ROWS)),
            "hide": _or_null(_one_of(*WAYS)),
            "special_tokens": _one_of("include", "protect"),
            "protect_deciding": _truth,
            "max_length": _or_null(_whole(1, MAX_ROWS)),
            "seed": _whole(0, 2**64 - 1),
        },
        {"order": _one_of(KEYED), STORED: _whole(1, MAX_ROWS)},
    ),
    "facts": _object(
        {
            "model": _text,
            "tail_is_affine": _truth,
            "unit": _object({"attention": _text, "input": _text}),
            "decision": _one_of(*KINDS),
            "special_tokens": _truth,
            "levels": _list(_one_of(*_LEVELS), len(_LEVELS)),
            "hide": _or_null(_one_of(*WAYS)),
            "labels": _list(_text),
        },
        optional={"left_out": _mapping(_list(_text), *_LEVELS)},
    ),
    "statistics": _object({"n_resamples": _whole(1, MOST_RESAMPLES), "confidence_level": _number(0, 1, inside=True)}),
    "notes": _list(_text),
    "versions": _mapping(_text),
    "shard_size": _whole(1, MAX_ROWS),
    "rows": _or_null(_COUNT),
}
_SAMPLED: dict[str, Field] = {
    SAMPLE: _object(
        {
            "precision": _or_null(_number(*PRECISIONS)),
            "max_texts": _or_null(_whole(1, MAX_ROWS)),
            "texts": _whole(1, MAX_ROWS),
            "reached": _truth,
        }
    )
}
_OPTIONAL: dict[str, Field] = {  # of a run that is a part of another
    "part": _object({"number": _whole(1, MAX_ROWS), "of": _whole(1, MAX_ROWS), "data": _sha256})
}
_FINISHED: dict[str, Field] = {
    **_UNFINISHED,
    "shards": _COUNT,
    "counts": _object(
        {"rows": _COUNT, "texts": _COUNT, "aside": _mapping(_COUNT), "truncated": _COUNT, "undefined": _COUNT}
    ),
    "digests": _object({"shards": _mapping(_sha256), "concluded": _mapping(_sha256)}),
}
