"""The command that makes a run again, from its manifest."""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from attnfaith.attribution.method import YOURS
from attnfaith.errors import AttnFaithError
from attnfaith.evaluation.evaluator import Evaluator
from attnfaith.evaluation.rankings import ALL, DEFAULT, Ranking, left_out, rankings_for
from attnfaith.evaluation.results import Results
from attnfaith.evaluation.tests.base import tests
from attnfaith.option_names import OPTIONS

MODEL, DATA = "MODEL", "DATA"
"""Stand for a model that was given as an object, and for the data: a run does not record where they are."""
_CLASS_NAME = re.compile(r"[A-Z]\w*")


def command_line(results: Results) -> str:
    """The command that makes a run again, with `placeholders`; options with default values are left out."""
    words = ["attnfaith", "evaluate", shlex.quote(_model_name(results)), DATA]
    defaults = {**inspect.signature(Evaluator).parameters, **inspect.signature(Evaluator.compute).parameters}
    for name, value in _arguments(results).items():
        if value != defaults[name].default:
            words += _option(name, value)
    return " ".join([*words, *_test_options(results), "--output run/"])


def placeholders(results: Results) -> list[str]:
    """What stands in the command for something that the run does not record."""
    return [MODEL, DATA] if _model_name(results) == MODEL else [DATA]


def is_whole(results: Results) -> bool:
    """Whether the command makes all of the run again.

    Scores that functions computed, and rankings that are not registered here, cannot be given to a command.
    """
    return _has_columns(results) and _rankings(results) is not None


def _model_name(results: Results) -> str:
    """The path or the name of the model. One that was made by a program has the name of its class instead."""
    name: str = results.manifest["facts"]["model"]
    return MODEL if _CLASS_NAME.fullmatch(name) else name


def _has_columns(results: Results) -> bool:
    """Whether each ranking of the user's is a column of the data."""
    return len(_yours(results)) == len(results.manifest["run"]["columns"]["scores"])


def _arguments(results: Results) -> dict[str, Any]:
    """The arguments of `Evaluator` and of its ``compute`` that a manifest records."""
    manifest, run, columns = results.manifest, results.manifest["run"], results.manifest["run"]["columns"]
    levels, sample = manifest["facts"]["levels"], manifest.get("sample", {})
    kind = run["decision"]["kind"]
    return {
        "decision": None if kind == "multiclass" else kind,
        "tolerance": run["decision"]["tolerance"],
        "max_length": run["max_length"],
        "input_column": columns["text"],
        "second_input_column": columns["second text"],
        "label_column": columns["label"],
        "rationale_column": columns["rationale"],
        "rankings": _rankings(results),
        "explanations": dict(zip(_yours(results), columns["scores"], strict=False)) if _has_columns(results) else None,
        "level": levels[0] if len(levels) == 1 else "both",
        "tests": tuple(results.tests),
        "target": run["target"],
        "output": run["output"],
        "steps": run["steps"],
        "hide": run["hide"],
        "special_tokens": run["special_tokens"],
        "protect_deciding": run["protect_deciding"],
        "seed": run["seed"],
        **manifest["statistics"],
        "precision": sample.get("precision"),
        "max_texts": sample.get("max_texts"),
        "part": results.part,
        "store_texts": "store_texts" in run or "erasure" not in results.tests,
    } | ({} if run["hide"] is None or "input" in levels else {"hide": None})


def _rankings(results: Results) -> str | list[str] | None:
    """The rankings as they can be asked for, as short as possible; None if no words give the same ones."""
    manifest = results.manifest
    listed = {level: _without_yours(names) for level, names in manifest["run"]["rankings"].items()}
    if not any(listed.values()):
        return DEFAULT  # no test of the run reads any
    names = list(dict.fromkeys(name for names in listed.values() for name in names))
    usual = {str(item) for level in listed for item in _asked_for(results, level, DEFAULT)}
    forms: list[str | list[str]] = [
        DEFAULT,
        ALL,
        [DEFAULT, *(name for name in names if name not in usual)],
        list(dict.fromkeys(name.rpartition("/")[2] for name in names)),
        names,
    ]
    return next((form for form in forms if _gives(results, form, listed)), None)


def _gives(results: Results, asked: str | list[str], listed: Mapping[str, list[str]]) -> bool:
    """Whether this asks for the rankings of the run at each level, but for those that its model does not support."""
    noted, dear = results.manifest["notes"], results.manifest["facts"].get("left_out", {})
    for level, names in listed.items():
        try:
            rankings = _asked_for(results, level, asked)
            omitted = left_out(level, asked, rankings, **_model(results))
        except AttnFaithError:  # a ranking that is not registered here
            return False
        supported = [
            str(item) for item in rankings if not any(f"The ranking {item} is left out: " in note for note in noted)
        ]
        if supported != names or [str(item) for item in omitted] != dear.get(level, []):
            return False
    return True


def _asked_for(results: Results, level: str, asked: str | list[str]) -> list[Ranking]:
    return rankings_for(level, asked, {}, **_model(results))


def _model(results: Results) -> dict[str, bool]:
    """What decides which rankings a model can have."""
    facts = results.manifest["facts"]
    return {"by_token": facts["unit"]["attention"] == "tokens", "affine": facts["tail_is_affine"]}


def _without_yours(names: Iterable[str]) -> list[str]:
    return [name for name in names if not name.startswith(f"{YOURS}/")]


def _yours(results: Results) -> list[str]:
    """The names of the rankings that the user gave."""
    listed = [name for names in results.manifest["run"]["rankings"].values() for name in names]
    return list(dict.fromkeys(name.partition("/")[2] for name in listed if name.startswith(f"{YOURS}/")))


def _option(name: str, value: Any) -> Iterator[str]:
    if (alone := OPTIONS.get(f"{name}={value!r}")) is not None:
        yield alone
    elif value is True:
        yield OPTIONS[name]
    elif isinstance(value, dict):
        for key, column in value.items():
            yield f"{OPTIONS[name]} {shlex.quote(f'{key}={column}')}"
    elif value is not None:
        yield f"{OPTIONS[name]} {shlex.quote(_written(name, value))}"


def _written(name: str, value: Any) -> str:
    if name == "part":
        return "{}/{}".format(*value)
    if name == "precision":
        return f"{100 * value:g}"
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _test_options(results: Results) -> Iterator[str]:
    """The options of tests that are not as by default."""
    for name, options in results.tests.items():
        usual = tests[name]().options
        for option, value in tests[name](**options).options.items():
            if value != usual[option]:
                text = str(value).lower() if value is None or isinstance(value, bool) else _written(option, value)
                yield f"--option {shlex.quote(f'{name}.{option}={text}')}"
