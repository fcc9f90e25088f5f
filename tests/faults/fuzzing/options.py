"""Made-up options in Python and on the command line."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

import attnfaith as af
from tests.faults import material
from tests.faults.fuzzing.data import evaluate
from tests.faults.fuzzing.models import MODELS, Untouched
from tests.faults.fuzzing.values import any_number, odd_value
from tests.helpers import commands

_OPTIONS = """rankings explanations level tests target output steps hide special_tokens protect_deciding batch_size seed
n_resamples confidence_level subset split input_column second_input_column label_column label_mapping rationale_column
random_state""".split()
_MAKING = "method level target output decision steps baseline layer head epsilon max_length batch_size seed".split()
_COSTLY = ("steps", "n_resamples", "batch_size", "max_length")


def options() -> SearchStrategy[Any]:
    """One to three options of `Evaluator.compute` or `Attributor`, of any type."""
    words = st.sampled_from(
        [
            "all",
            "attention",
            "input",
            "both",
            "erasure",
            "gradient",
            "lrp",
            "predicted",
            "gold",
            "good",
            "pad",
            "delete",
            "zero",
            "mask_token",
            "attention_mask",
            "protect",
            "include",
            "logit",
            "probability",
            "text",
            "label",
            "x" * 10_000,
        ]
    )
    value = st.one_of(
        words, st.lists(words, max_size=2), odd_value, any_number, st.dictionaries(words, odd_value, max_size=2)
    )
    compute = st.dictionaries(st.sampled_from(_OPTIONS), value, min_size=1, max_size=3)
    making = st.dictionaries(st.sampled_from(_MAKING), value, min_size=1, max_size=3)
    return st.one_of(st.tuples(st.just("compute"), compute), st.tuples(st.just("Attributor"), making))


def optioned(example: Any) -> None:
    """What is taken works."""
    where, given = example
    given = {name: value for name, value in given.items() if not (name in _COSTLY and _costs(value))}
    if where == "compute":
        evaluate([{"text": text, "label": number % 2} for number, text in enumerate(commands.texts(3))], None, **given)
        return
    with Untouched("FLAN"):
        explanation = af.Attributor(*MODELS["FLAN"](), **given)("a fine film")
        assert len(explanation.scores) == 3


def _costs(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 50


def arguments() -> SearchStrategy[Any]:
    """Command lines."""
    flags = st.sampled_from(
        """--rankings --tests --level --hide --target --steps --decision --tolerance --max-length --batch-size --device
        --resamples --confidence --seed --option --explanation --label-map --text-column --label-column --split --subset
        --special-tokens --ranking-output --rationale-column --second-text-column --bounds --json --quiet --no-labels
        --protect-deciding --nothing""".split()
    )
    value = st.one_of(
        st.sampled_from(
            ["", "all", "attention", "1", "-1", "0", "nan", "1e99", "a=b", "=", "erasure.bounds=x", "x" * 5000]
        ),
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=8),
    )
    return st.lists(st.tuples(flags, value), max_size=3)


def commanded(example: Any) -> None:
    """Exit code 0, 1 with a message, or 2; never a traceback."""
    from typer.testing import CliRunner

    from attnfaith.cli.app import app

    given = [part for pair in example for part in pair]
    output = material.fresh("command") / "run"
    quick = ["--resamples", "9", "--rankings", "attention", "--level", "attention", "--quiet"]
    asked = ["evaluate", str(material.flan_folder()), material.reviews(6), "--output", str(output), *quick, *given]
    result = CliRunner().invoke(app, asked, prog_name="attnfaith")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code in (0, 1, 2), f"exit code {result.exit_code}"
    assert result.exit_code == 0 or result.stderr.strip(), "refused without a word"
