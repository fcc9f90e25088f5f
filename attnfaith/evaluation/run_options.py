"""The arguments of `Evaluator.compute`, validated: which data, which rankings, and how the run is carried out."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attnfaith import validation
from attnfaith.data.source import DataOptions
from attnfaith.errors import InputError
from attnfaith.estimates.summary_table import MOST_RESAMPLES
from attnfaith.evaluation.rankings import GROUPS, Explain, is_explanation
from attnfaith.evaluation.sampling import Sampling
from attnfaith.evaluation.tests.base import Test
from attnfaith.evaluation.tests.base import tests as all_tests
from attnfaith.evaluation.token_hiding import WAYS
from attnfaith.functional.decision import OUTPUTS
from attnfaith.parameter_names import parameter
from attnfaith.storage.manifest import MAX_ROWS
from attnfaith.storage.run_folder import RunFolder

MAX_STEPS = 10**6


@dataclass(frozen=True, kw_only=True)
class RankingOptions:
    """Which rankings are judged, where items are erased, and what the rankings explain.

    The attributes are arguments of `Evaluator.compute`; they are validated here. Some cannot be settled before the
    model has read a text: see `dry_run`.
    """

    rankings: str | Sequence[str]
    explanations: Mapping[str, Explain]
    level: str | None
    target: str | int
    output: str | None
    steps: int | None
    hide: str | None
    special_tokens: str
    protect_deciding: bool

    def __post_init__(self) -> None:
        explanations = _explanations(self.explanations)
        target = self.target
        if not isinstance(target, str):
            target = validation.whole_number(target, "target ('predicted', 'gold', a class's number or name)")
        _set(
            self,
            explanations=explanations,
            rankings=validation.several(self.rankings, "rankings", GROUPS),
            level=validation.one_of(self.level, (None, "attention", "input", "both"), "level"),
            target=target,
            output=validation.one_of(self.output, (None, *OUTPUTS), "output"),
            steps=validation.positive_int(self.steps, "steps", most=MAX_STEPS),
            hide=validation.one_of(self.hide, (None, *WAYS), "hide"),
            special_tokens=validation.one_of(self.special_tokens, ("include", "protect"), "special_tokens"),
            protect_deciding=validation.flag(self.protect_deciding, "protect_deciding"),
        )

    @property
    def score_columns(self) -> tuple[str, ...]:
        """The columns of the data that hold scores of a user's rankings."""
        return tuple(source for source in self.explanations.values() if isinstance(source, str))


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How a run is carried out and summed up; the attributes are arguments of `Evaluator.compute`, validated here."""

    batch_size: int
    seed: int
    n_resamples: int
    confidence_level: float
    output_dir: str | os.PathLike[str] | None
    sampling: Sampling
    store_texts: bool
    quiet: bool
    part: tuple[int, int] | None

    def __post_init__(self) -> None:
        _set(
            self,
            batch_size=validation.whole_number(self.batch_size, "batch_size", least=1),
            seed=validation.whole_number(self.seed, "seed", least=0, most=2**64 - 1),
            n_resamples=validation.whole_number(self.n_resamples, "n_resamples", least=1, most=MOST_RESAMPLES),
            confidence_level=validation.share(self.confidence_level, "confidence_level"),
            store_texts=validation.flag(self.store_texts, "store_texts"),
            quiet=validation.flag(self.quiet, "quiet"),
            part=None if self.part is None else _part(self.part),
        )
        if self.output_dir is not None:
            RunFolder(validation.path(self.output_dir, "output_dir")).refuse_unusable()

    @property
    def statistics(self) -> dict[str, Any]:
        """How intervals are computed, for the manifest."""
        return {"n_resamples": self.n_resamples, "confidence_level": self.confidence_level}


def data_options_of(
    *,
    subset: Any,
    split: Any,
    input_column: Any,
    second_input_column: Any,
    label_column: Any,
    label_mapping: Any,
    score_columns: tuple[str, ...] = (),
    rationale_column: Any = None,
    tests: Sequence[Test] = (),
) -> DataOptions:
    """Validate the arguments that say which columns and rows are read.

    They are those of `Evaluator.compute`, except for ``score_columns``, the columns of the user's rankings (see
    `RankingOptions`), and ``tests``, those of the run: one of them may say the form of the rationale column.
    """
    return DataOptions(
        subset=None if subset is None else validation.text(subset, "subset"),
        split=None if split is None else validation.text(split, "split"),
        input_column=validation.column(input_column, "input_column"),
        second_input_column=_column(second_input_column, "second_input_column"),
        label_column=_column(label_column, "label_column"),
        label_mapping=_label_mapping(label_mapping),
        score_columns=score_columns,
        rationale_column=_column(rationale_column, "rationale_column"),
        rationale_form=_rationale_form(rationale_column, tests),
    )


def _set(options: Any, **values: Any) -> None:
    """Replace attributes of a frozen dataclass while it is initialised."""
    for name, value in values.items():
        object.__setattr__(options, name, value)


def _column(name: Any, argument: str) -> Any:
    return None if name is None else validation.column(name, argument)


def _label_mapping(mapping: Any) -> dict[Any, Any] | None:
    wanted = "classes and labels, each a name or a number"
    return validation.mapping(mapping, "label_mapping", lambda label: isinstance(label, str | int | float), wanted)


def _rationale_form(column: Any, tests: Sequence[Test]) -> str | None:
    """The form of the rationale column, if a test says it; a column that no test reads is refused."""
    readers = [test for test in tests if "rationale_column" in test.reads]
    if column is not None and not readers:
        known = " or ".join(repr(name) for name, kind in all_tests.items() if "rationale_column" in kind.reads)
        raise InputError(
            f"Only the test {known} reads {parameter('rationale_column')}, and it is not run. Add it to "
            f"{parameter('tests')}, or leave {parameter('rationale_column')} out."
        )
    return next((test.rationale_form for test in readers if test.rationale_form), None)


def _explanations(explanations: Any) -> dict[str, Explain]:
    wanted = (
        "names of rankings and, for each, the name of a column of scores, a function from a text to scores, or what a "
        "function of attnfaith.explanations returns"
    )
    checked = validation.mapping(explanations, "explanations", is_explanation, wanted)
    for name in checked or {}:
        validation.text(name, "a name in explanations")
    return checked or {}


def _part(part: Any) -> tuple[int, int]:
    """The number of a part and the number of parts, as whole numbers that fit each other."""
    if not isinstance(part, tuple | list) or len(part) != 2:
        raise InputError(
            f"Expected {parameter('part')} to be a number and of how many, such as (3, 16), got "
            f"{validation.short_repr(part)}."
        )
    of = validation.whole_number(part[1], "the number of parts", least=1, most=MAX_ROWS)
    number = validation.whole_number(part[0], "part")
    if not 1 <= number <= of:
        raise InputError(f"Expected {parameter('part')} to be between 1/{of} and {of}/{of}, got {number}/{of}.")
    return number, of
