"""Made-up input of every kind, by hypothesis: right results or documented errors, and a model that is as before."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import hypothesis
from hypothesis import HealthCheck, Phase, settings
from hypothesis.strategies import SearchStrategy

import attnfaith as af
from tests.faults.fuzzing import data, manifests, options, tensors
from tests.faults.tally import Part, Tally, problem_of, times

LONGEST_ERROR = 6_000
"""Characters of a message, however long what it is about."""
LONG = 6_500
"""Examples in the long form, all together."""


def run(scale: float, seed: int) -> Tally:
    """Every property below, with its share of the examples."""
    tally = Tally()
    total = sum(share for share, *_ in PROPERTIES.values())
    for number, (what, (share, strategy, check)) in enumerate(PROPERTIES.items()):
        examples = times(LONG * share / total, scale, 8)
        _fuzzed(tally, what, strategy(), check, examples, seed * 1000 + number)
    return tally


def _fuzzed(
    tally: Tally, what: str, strategy: SearchStrategy[Any], check: Callable[[Any], None], examples: int, seed: int
) -> None:
    """Run one property on all its examples, also past a failure: what fails in the same way again is marked so."""
    profile: dict[str, Any] = {
        "max_examples": examples,
        "deadline": None,
        "database": None,
        "suppress_health_check": list(HealthCheck),
        "print_blob": False,
    }
    seen: set[str] = set()

    @hypothesis.seed(seed)
    @settings(**profile, phases=[Phase.generate])
    @hypothesis.given(strategy)
    def all_of_them(example: Any) -> None:
        problem = _problem(check, example)
        kind = problem.split(" about ")[0]
        tally.record(what, problem if kind not in seen or not problem else f"{kind} (again)")
        seen.add(kind)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        all_of_them()


def _problem(check: Callable[[Any], None], example: Any) -> str:
    """What is wrong with how one example is handled; "" if a law holds or a documented error comes out."""
    try:
        check(example)
    except af.AttnFaithError as error:
        message = str(error)
        if len(message) > LONGEST_ERROR:
            return f"a message of more than {LONGEST_ERROR:,} characters about {message[:120]!r}"
        return "" if message.strip() else "an error without a message"
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        return f"{problem_of(error)} about {repr(example)[:300]}"
    return ""


PROPERTIES: dict[str, tuple[float, Callable[[], SearchStrategy[Any]], Callable[[Any], None]]] = {
    "texts: explain any text": (3, data.texts, data.explained),
    "cells: evaluate rows of any cells, in any container": (3, data.cells, data.evaluated_cells),
    "files: csv, tsv, JSON lines, JSON and parquet of any bytes": (3, data.files, data.evaluated_files),
    "ids and masks: capture tensors of any shape, type and value": (3, tensors.ids, tensors.captured),
    "masks of what stays: erase any set": (2, tensors.keeps, tensors.erased),
    "weights: rerun on any attention": (2, tensors.weights, tensors.reweighted),
    "logits: decisions, probabilities, divergences": (2, tensors.logits, tensors.decided),
    "weights of models: logits that are huge or no numbers": (1, tensors.extremes, tensors.extreme_models),
    "options: any value of any option in Python": (4, options.options, options.optioned),
    "arguments: any command line": (2, options.arguments, options.commanded),
    "stored runs: any manifest": (2, manifests.manifests, manifests.reread),
}

PART = Part(
    title="Made-up input",
    promise="Whatever the texts, cells, files, masks, ids, weights, options and stored runs are, you get a right "
    "result or one of the errors of `attnfaith.errors`, never another one; and your model is as it was "
    "before.",
    run=run,
    short=0.03,
)
