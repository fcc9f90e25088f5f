"""What a test is, and which exist."""

from __future__ import annotations

import importlib
import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import pandas as pd
import pyarrow as pa
from torch import Tensor

from attnfaith import validation
from attnfaith.errors import InputError
from attnfaith.estimates.lookup import SummaryLookup
from attnfaith.estimates.quantities import Quantities
from attnfaith.estimates.summary_table import summarise
from attnfaith.evaluation.batch import Batch
from attnfaith.functional.decision import Decision
from attnfaith.registry import Registry
from attnfaith.storage.run_store import Store

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from attnfaith.evaluation.results import Results

Columns = dict[str, list[Any]]


@dataclass(frozen=True)
class Test(ABC):
    """One test of the debate: rows from a batch, figures from the rows, and what they say. Its fields are its options.

    Attributes:
        name: of the test, and of its table.
        ranked: whether it reads the rankings that were asked for.
        reads: the arguments of `Evaluator.compute` that name a column of the data that only this test reads.
        headline: the estimates that ``attnfaith compare`` prints, and what it calls them.
        level_name: what it prints where other tests have the level at which was erased.
        metrics: the classes in the module ``metric`` of the test's folder, which are names of `attnfaith.metrics` too.
        citation: of the paper, in BibTeX.
    """

    __test__: ClassVar[bool] = False  # not for pytest
    name: ClassVar[str]
    ranked: ClassVar[bool] = True
    reads: ClassVar[tuple[str, ...]] = ()
    headline: ClassVar[Mapping[str, str]] = {}
    level_name: ClassVar[str] = ""
    metrics: ClassVar[tuple[str, ...]] = ()
    citation: ClassVar[str] = ""

    @abstractmethod
    def columns(self, outcome: pa.DataType) -> list[tuple[str, pa.DataType]]:
        """The table's columns in order; ``outcome`` is the type of a decision."""

    @abstractmethod
    def run(self, batch: Batch) -> Columns:
        """The rows of a batch, text by text."""

    def conclude(self, store: Store, *, seed: int, quiet: bool) -> dict[str, pa.Table]:
        """What can only be found when all rows are there, as tables by name; called once, at the end of a run."""
        return {}

    def quantities(self, table: Callable[[str], pd.DataFrame]) -> Iterable[Quantities]:
        """What is known of each text, by level: what summaries and comparisons are made of.

        Args:
            table: a run's tables by name: this test's, and "texts".
        """
        return ()

    def summarise(self, table: Callable[[str], pd.DataFrame], *, by: str | None, **statistics: Any) -> pd.DataFrame:
        """Every estimate with its interval.

        Args:
            table: the run's tables by name: this test's, and "texts".
            by: what the texts are sliced by; None for all in one.
            **statistics: ``n_resamples``, ``confidence_level`` and ``seed``.
        """
        return summarise(self.name, self.quantities(table), table("texts"), by=by, **statistics)

    def figures(self, results: Results) -> dict[str, Callable[[], Figure]]:
        """How each kind of figure is drawn; the first is the default.

        These are the functions `PLOTS` of the module ``plot`` in the test's folder, each of a run's results.
        """
        folder = type(self).__module__.rpartition(".")[0]
        if not folder or importlib.util.find_spec(f"{folder}.plot") is None:
            return {}
        plots: Mapping[str, Callable[[Results], Figure]] = importlib.import_module(f"{folder}.plot").PLOTS
        return {name: partial(plot, results) for name, plot in plots.items()}

    @classmethod
    def sentences(cls, figures: SummaryLookup, facts: Mapping[str, Any]) -> Iterator[str]:
        """What the figures of all texts say to a reader of the verdict."""
        yield from ()

    @classmethod
    def sentences_on_two_runs(cls, rows: pd.DataFrame, names: tuple[str, str]) -> Iterator[str]:
        """How two runs differ in this test.

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


def resolve_tests(asked: str | Sequence[str | Test]) -> list[Test]:
    """Tests from their names (with default options) or as they are, each name once; "all" for every other one.

    Example:
        >>> [test.name for test in resolve_tests(["erasure"])]
        ['erasure']
    """
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
                "Expected tests to be names, or tests such as attnfaith.tests.Erasure(); got "
                f"{validation.short_repr(entry)}."
            )
    result = [item if isinstance(item, Test) else tests[item]() for item in given]
    names = [item.name for item in result]
    if not names or len(set(names)) != len(names):
        raise InputError(f"Expected at least one test, and each once; got {names}. Known: {', '.join(tests)}.")
    return result


def outcome_type(decision: Decision) -> pa.DataType:
    """The type of a decision in a table: a class, a list of labels, or a number."""
    types = {"multilabel": pa.list_(pa.int64()), "regression": pa.float64()}
    return types.get(decision.kind, pa.int64())


def decision_cells(decision: Decision, logits: Tensor) -> list[Any]:
    """The decisions of logits ``[M, C]``, as they stand in a table."""
    if decision.kind == "regression":
        return logits[:, 0].double().tolist()
    if decision.kind == "multilabel":
        return [row.nonzero().flatten().tolist() for row in decision.labels_on(logits)]
    return decision.predict(logits).tolist()


def concat_columns(names: Iterable[str], parts: Iterable[Columns]) -> Columns:
    """Rows that were made in parts, such as level by level, one part after the other.

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
    """A label as it stands in a table."""
    return list(label) if isinstance(label, tuple) else label


_ALWAYS = ("text_id", "ties", "undefined", "censored", "marginal")


def schema_of(columns: Sequence[tuple[str, pa.DataType]]) -> pa.Schema:
    """A schema; most columns may be null."""
    return pa.schema([pa.field(name, kind, nullable=name not in _ALWAYS) for name, kind in columns])
