"""`Results`: the tables, estimates, plots and verdict of a run."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa

from attnfaith import validation
from attnfaith.addresses import is_address
from attnfaith.errors import InputError
from attnfaith.escaping import visible
from attnfaith.evaluation.manifest_schema import check_manifest
from attnfaith.evaluation.runner import schemas_of
from attnfaith.evaluation.tests.base import Test, tests
from attnfaith.evaluation.tests.erasure.summary import curves
from attnfaith.evaluation.verdict import Verdict, verdict
from attnfaith.functional.decision import Decision
from attnfaith.storage.manifest import SAMPLE, part_of
from attnfaith.storage.run_store import Store

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Results:
    """The results of an evaluation. Print them.

    Made by `Evaluator.compute` and `load_results`; the tables stay on disk until they are asked for.
    """

    def __init__(self, store: Store, temporary: Any = None) -> None:
        self._store, self._temporary = store, temporary  # a temporary folder lives as long as its results
        store.expect(self._schemas())
        self._tables: dict[str, pd.DataFrame] = {}
        self._summaries: dict[Any, pd.DataFrame] = {}

    @property
    def path(self) -> Path:
        """The folder of the results; of results at an address, the working copy, which lives as long as they do."""
        return self._store.directory

    @property
    def location(self) -> str:
        """The folder of the results, or their address."""
        return self._store.location

    @property
    def manifest(self) -> dict[str, Any]:
        """The settings and counts of the run."""
        return self._store.manifest

    @property
    def part(self) -> tuple[int, int] | None:
        """The number of the part of the data that the results are of, from 1, and the number of parts; None for all."""
        return part_of(self.manifest)

    @property
    def tests(self) -> dict[str, dict[str, Any]]:
        """The tests of the run with their options."""
        stored: dict[str, dict[str, Any]] = self.manifest["run"]["tests"]
        return {name: {**tests[name].earlier, **options} for name, options in stored.items()}

    @property
    def tables(self) -> Mapping[str, pd.DataFrame]:
        """All tables by name, each read on first access."""
        return _Tables(self)

    @property
    def ran(self) -> list[Test]:
        """The tests of the run, each with its options."""
        return [tests[name](**options) for name, options in self.tests.items()]

    def table(self, name: str = "texts") -> pd.DataFrame:
        """The rows of a test, or of "texts"."""
        if name not in self.tables:
            raise InputError(f"There is no table {name!r}. Known: {', '.join(self.tables)}.", code="unknown-name")
        if name not in self._tables:
            self._tables[name] = self._store.table(name)
        return self._tables[name].copy()

    def summary(self, *, by: str | None = None) -> pd.DataFrame:
        """All estimates with intervals, one row each.

        Args:
            by: "class", "length", "confidence" or "correct", for the figures of slices of the data.
        """
        if by not in self._summaries:
            parts = [test.summarise(self.table, by=by, **self._statistics) for test in self.ran]
            self._summaries[by] = pd.concat(parts, ignore_index=True)
        return self._summaries[by].copy()

    def curves(self) -> pd.DataFrame:
        """The share of decisions kept against the share of items removed, by ranking, with its band."""
        return curves(self.table("erasure"), confidence_level=self.manifest["statistics"]["confidence_level"])

    def plot(
        self, test: str = "erasure", *, kind: str | None = None, path: str | os.PathLike[str] | None = None
    ) -> Figure:
        """A figure of a test.

        Args:
            test: which.
            kind: of figure; each test has one that is usual. For "erasure": "curves" (decisions kept while items go),
                "efficiency" (of every ranking) or "wins" (of each ranking against each other one).
            path: where to write it, as png, pdf or svg.
        """
        if test not in self.tests:
            raise InputError(f"The test {test!r} was not run. There are: {', '.join(self.tests)}.", code="unknown-name")
        figures = next(item for item in self.ran if item.name == test).figures(self)
        if not figures:
            raise InputError(f"The test {test!r} has no figures.", code="unknown-name")
        if kind is not None and kind not in figures:
            raise InputError(
                f"There is no figure {kind!r} of the test {test!r}. Kinds: {', '.join(figures)}.", code="unknown-name"
            )
        result = figures[kind or next(iter(figures))]()
        if path is not None:
            result.savefig(path)
        return result

    @property
    def verdict(self) -> Verdict:
        """Whether attention can be read as an explanation: a label, sentences, and a table of the rankings."""
        facts = {**self.manifest["facts"], **self.manifest["counts"], **self._statistics}
        if SAMPLE in self.manifest:
            facts["sample"] = {**self.manifest[SAMPLE], "rows": self.manifest["rows"]}
        tolerance = self.manifest["run"]["decision"]["tolerance"]
        return verdict(self.summary(), {**facts, "tolerance": tolerance, "part": self.part})

    def same_data(self, other: Results) -> bool:
        """Whether both runs are on the same rows of data."""
        return self._store.same_rows(other._store)

    def save(self, path: str | os.PathLike[str]) -> Path | str:
        """Copy the results into another folder, or to an address, from which `load_results` reads them."""
        self._store.copy_to(path)
        return str(path) if is_address(path) else Path(path)

    def __str__(self) -> str:
        """The verdict."""
        return str(self.verdict)

    def __repr__(self) -> str:
        """The tests, the number of texts, and the verdict."""
        rows = self.manifest["counts"]["rows"]
        of = f" of {self.manifest['rows']}" if SAMPLE in self.manifest else ""
        part = "" if self.part is None else f", part {self.part[0]} of {self.part[1]}"
        return visible(f"Results of {', '.join(self.tests)} on {rows}{of} texts{part} ({self.location})\n{self}", "\n")

    def _schemas(self) -> dict[str, pa.Schema]:
        """What columns each table must have; those of options that came later are missing in an older run."""
        schemas = schemas_of(self.ran, Decision(kind=self.manifest["run"]["decision"]["kind"]))
        for name, options in self.manifest["run"]["tests"].items():
            for option in tests[name].earlier.keys() - options.keys():
                if option in schemas[name].names:
                    schemas[name] = schemas[name].remove(schemas[name].get_field_index(option))
        return schemas

    @property
    def _statistics(self) -> dict[str, Any]:
        return {**self.manifest["statistics"], "seed": self.manifest["run"]["seed"]}


class _Tables(Mapping[str, pd.DataFrame]):
    """The tables of results."""

    def __init__(self, results: Results) -> None:
        self._results = results
        self._names = ("texts", *results.tests, *results._store.concluded)

    def __getitem__(self, name: str) -> pd.DataFrame:
        return self._results.table(name)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def load_results(path: str | os.PathLike[str]) -> Results:
    """Load results written by an `Evaluator` with ``output_dir=``, or by `Results.save`.

    Every file is compared with its digest, and every field of the manifest with what it may be. Nothing is written, so
    the folder may be read-only.

    Raises:
        InputError: there is no run, or it is not finished.
        StorageError: a file is damaged, missing, of another run, or of an earlier layout; the message names it.
    """
    return Results(Store.load(validation.path(path, "path"), check_manifest))
