"""`Test`, the base class of all tests, and their registry."""

from __future__ import annotations

import importlib
import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import pandas as pd
import pyarrow as pa
from torch import Tensor

from attnfaith import validation
from attnfaith.attribution.display_names import display_name
from attnfaith.errors import InputError
from attnfaith.estimates.lookup import SummaryLookup
from attnfaith.estimates.pivot import Key
from attnfaith.estimates.quantities import Quantities
from attnfaith.estimates.summary_table import summarise
from attnfaith.evaluation.batch import Batch, RunConfig
from attnfaith.functional.decision import Decision
from attnfaith.parameter_names import parameter
from attnfaith.registry import Registry
from attnfaith.storage.run_store import Store

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from attnfaith.evaluation.results import Results

Columns = dict[str, list[Any]]


@dataclass(frozen=True)
class Test(ABC):
    """The base class of a test; the fields of the dataclass are its options.

    Attributes:
        name: of the test, and of its table.
        ranked: whether it reads the rankings that were asked for.
        default_levels: where a run names no tests, it is run if items are erased at one of these levels.
        needs: the tests whose work it does itself in a run without them.
        reads: the arguments of `Evaluator.compute` that name a column which is read for tests only. There is one,
            ``rationale_column``: it is refused where no test of the run reads it.
        headline: the estimates that ``attnfaith compare`` prints, and what it calls them.
        level_name: what it prints where other tests have the level at which was erased.
        earlier: the values of options that did not exist when a stored run was written, for such runs. A column with
            the name of such an option did not exist either.
        metrics: the classes in the module ``metric`` of the test's folder, which are names of `attnfaith.metrics` too.
        citation: of the paper, in BibTeX.
        question: that the test answers, in one sentence.
        reading: how to read each kind of figure, in a sentence or two.
        caveats: what the numbers of the test do not say, one or two sentences each.
        reported: the estimates in the tables of a report, and what it calls them, as in a headline, which stands for it
            where it is empty. "figure:other" is the estimate of attention, or of the row, with another ranking or rank.
        rows_are: what the rows of these tables are; `row_name` names them.
        percentages: those of them that are shares, which a report prints in per cent.
    """

    __test__: ClassVar[bool] = False  # not for pytest
    name: ClassVar[str]
    ranked: ClassVar[bool] = True
    default_levels: ClassVar[tuple[str, ...]] = ()
    needs: ClassVar[tuple[str, ...]] = ()
    reads: ClassVar[tuple[str, ...]] = ()
    headline: ClassVar[Mapping[str, str]] = {}
    level_name: ClassVar[str] = ""
    earlier: ClassVar[Mapping[str, Any]] = {}
    metrics: ClassVar[tuple[str, ...]] = ()
    citation: ClassVar[str] = ""
    question: ClassVar[str] = ""
    reading: ClassVar[Mapping[str, str]] = {}
    caveats: ClassVar[tuple[str, ...]] = ()
    reported: ClassVar[Mapping[str, str]] = {}
    rows_are: ClassVar[str] = "ranking"
    percentages: ClassVar[frozenset[str]] = frozenset()

    @property
    def rationale_form(self) -> str | None:
        """The form of the column of rationales, for a test with an option for it; None if the cells decide."""
        return None

    @abstractmethod
    def columns(self, outcome: pa.DataType) -> list[tuple[str, pa.DataType]]:
        """The table's columns in order; ``outcome`` is the type of a decision."""

    @abstractmethod
    def run(self, batch: Batch) -> Columns:
        """Run the test on a batch; the rows are grouped by text."""

    def passes(self, config: RunConfig, tokens: int) -> float:
        """About how many passes through the model a text costs beyond the scores of the rankings, if nothing flips.

        Progress and the forecast use it; no number of a run depends on it.

        Args:
            config: the configuration of the run.
            tokens: the length of the text. A pass over half of them counts as half a pass.
        """
        return 0.0

    def conclude(self, store: Store, *, seed: int, quiet: bool) -> dict[str, pa.Table]:
        """Compute tables that need all rows, by name; called once, at the end of a run."""
        return {}

    def quantities(self, table: Callable[[str], pd.DataFrame]) -> Iterable[Quantities]:
        """The quantities by level, from which summaries and comparisons are computed.

        Args:
            table: a run's tables by name: this test's, and "texts".
        """
        return ()

    def summarise(self, table: Callable[[str], pd.DataFrame], *, by: str | None, **statistics: Any) -> pd.DataFrame:
        """All estimates with intervals.

        Args:
            table: the run's tables by name: this test's, and "texts".
            by: what the texts are sliced by; None for all in one.
            **statistics: ``n_resamples``, ``confidence_level`` and ``seed``.
        """
        return summarise(self.name, self.quantities(table), table("texts"), by=by, **statistics)

    def figures(self, results: Results) -> dict[str, Callable[..., Figure]]:
        """The functions that draw each kind of figure; the first is the default.

        These are the functions `PLOTS` of the module ``plot`` in the test's folder, each of a run's results. Those that
        can be of a single panel take ``axis``, the axes to draw it into.
        """
        folder = type(self).__module__.rpartition(".")[0]
        if not folder or importlib.util.find_spec(f"{folder}.plot") is None:
            return {}
        plots: Mapping[str, Callable[..., Figure]] = importlib.import_module(f"{folder}.plot").PLOTS
        return {name: partial(plot, results) for name, plot in plots.items()}

    @classmethod
    def sentences(cls, figures: SummaryLookup, facts: Mapping[str, Any]) -> Iterator[str]:
        """The sentences for the verdict."""
        yield from ()

    @classmethod
    def row_name(cls, key: Key, keys: Collection[Key]) -> str:
        """What the tables of a report call a ranking, given all rankings of the table."""
        return display_name(key, keys)

    @classmethod
    def sentences_on_two_runs(cls, rows: pd.DataFrame, names: tuple[str, str]) -> Iterator[str]:
        """The sentences for a comparison of two runs.

        Args:
            rows: of this test in a comparison.
            names: of the two runs.
        """
        yield from ()

    @property
    def options(self) -> dict[str, Any]:
        """The options by name, for the manifest."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


tests: Registry[str, type[Test]] = Registry("test")
"""Tests by name."""


class DefaultTests(list[Test]):
    """The tests of a run that names none: those that a level of it has by default, perhaps with options.

    Example:
        >>> [test.name for test in DefaultTests.of({}).at(["attention"])]
        ['erasure', 'single_weight']
    """

    @classmethod
    def of(cls, options: Mapping[str, Mapping[str, Any]]) -> DefaultTests:
        """All of them, with options by test."""
        return cls(kind(**options.get(name, {})) for name, kind in tests.items() if kind.default_levels)

    def at(self, levels: Collection[str]) -> list[Test]:
        """Those that are run where items are erased at some levels."""
        return [test for test in self if not set(test.default_levels).isdisjoint(levels)]


def resolve_tests(asked: str | Sequence[str | Test] | None) -> list[Test]:
    """Resolve names and instances of tests; "all" stands for every test, None for the default ones of every level.

    Example:
        >>> [test.name for test in resolve_tests(["erasure"])]
        ['erasure']
    """
    if asked is None:
        return DefaultTests.of({})
    listed = validation.several(asked, "tests")
    listed = ["all"] if isinstance(listed, str) else listed
    given = [item for item in listed if isinstance(item, Test) or not (isinstance(item, str) and item == "all")]
    if len(given) < len(listed):
        given = [*(item for item in given if isinstance(item, Test)), *tests]
        known = {item.name for item in given if isinstance(item, Test)}
        given = [item for item in given if not (isinstance(item, str) and item in known)]
    for entry in given:
        if not isinstance(entry, str | Test):
            raise InputError(
                f"Expected {parameter('tests')} to be names, or tests such as attnfaith.tests.Erasure(); got "
                f"{validation.short_repr(entry)}."
            )
    result = [item if isinstance(item, Test) else tests[item]() for item in given]
    names = [item.name for item in result]
    if not names or len(set(names)) != len(names):
        raise InputError(
            f"Expected {parameter('tests')} to name at least one test, and each once; got {names}. Known: "
            f"{', '.join(tests)}."
        )
    return result


def outcome_type(decision: Decision) -> pa.DataType:
    """The column type of a decision: a class, a list of labels, or a number."""
    types = {"multilabel": pa.list_(pa.int64()), "regression": pa.float64()}
    return types.get(decision.kind, pa.int64())


def decision_cells(decision: Decision, logits: Tensor) -> list[Any]:
    """The decisions of logits ``[M, C]`` as table cells."""
    if decision.kind == "regression":
        return logits[:, 0].double().tolist()
    if decision.kind == "multilabel":
        return [row.nonzero().flatten().tolist() for row in decision.labels_on(logits)]
    return decision.predict(logits).tolist()


def concat_columns(names: Iterable[str], parts: Iterable[Columns]) -> Columns:
    """Concatenate columns that were made in parts, such as level by level.

    Example:
        >>> concat_columns(["text_id"], [{"text_id": [0, 1]}, {}, {"text_id": [0]}])
        {'text_id': [0, 1, 0]}
    """
    result: Columns = {name: [] for name in names}
    for part in parts:
        for name, values in part.items():
            result[name] += values
    return result


def to_cell(label: Any) -> Any:
    """A label as a table cell."""
    return list(label) if isinstance(label, tuple) else label


_ALWAYS = ("text_id", "ties", "undefined", "censored", "marginal")


def schema_of(columns: Sequence[tuple[str, pa.DataType]]) -> pa.Schema:
    """A schema from columns; most may be null."""
    return pa.schema([pa.field(name, kind, nullable=name not in _ALWAYS) for name, kind in columns])
