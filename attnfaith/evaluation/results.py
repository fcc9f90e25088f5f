"""What a run found: tables, figures with intervals, plots, and sentences."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from attnfaith.errors import InputError
from attnfaith.evaluation.store import Store
from attnfaith.evaluation.summary import curves, summarise_erasure, summarise_single_weight
from attnfaith.evaluation.verdict import Verdict, verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_SUMMARIES: dict[str, Callable[..., pd.DataFrame]] = {
    "erasure": summarise_erasure,
    "single_weight": summarise_single_weight,
}


class Results:
    """The results of an evaluation. Print them.

    Made by `Evaluator.compute` and `load_results`; the tables stay on disk until they are asked for.
    """

    def __init__(self, store: Store, temporary: Any = None) -> None:
        self._store, self._temporary = store, temporary  # a temporary folder lives as long as its results
        self._tables: dict[str, pd.DataFrame] = {}
        self._summaries: dict[Any, pd.DataFrame] = {}

    @property
    def path(self) -> Path:
        """The folder of the results."""
        return self._store.directory

    @property
    def manifest(self) -> dict[str, Any]:
        """What the run was made with, and what was counted."""
        return self._store.manifest

    @property
    def tests(self) -> dict[str, dict[str, Any]]:
        """The tests that were run, with their options."""
        return dict(self.manifest["run"]["tests"])

    def table(self, name: str = "texts") -> pd.DataFrame:
        """The rows of a test, or of "texts"."""
        if name != "texts" and name not in self.tests:
            raise InputError(f"There is no table {name!r}. Known: {', '.join(['texts', *self.tests])}.")
        if name not in self._tables:
            self._tables[name] = self._store.table(name)
        return self._tables[name].copy()

    def summary(self, *, by: str | None = None) -> pd.DataFrame:
        """Every figure with its interval, a row each.

        Args:
            by: "class", "length", "confidence" or "correct", for the figures of slices of the data.
        """
        if by not in self._summaries:
            texts, parts = self.table("texts"), []
            for name, options in self.tests.items():
                more = {"reference": options["reference"]} if name == "erasure" else {}
                parts.append(_SUMMARIES[name](self.table(name), texts, by=by, **self._statistics, **more))
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
            kind: for "erasure", "curves" (decisions kept while items go, the default), "efficiency" (of every ranking)
                or "wins" (of each ranking against each other one).
            path: where to write it, as png, pdf or svg.
        """
        from attnfaith.report import plots

        if test not in self.tests:
            raise InputError(f"The test {test!r} was not run. There are: {', '.join(self.tests)}.")
        unit = self.manifest["facts"]["unit"]
        figures: dict[str | None, Callable[[], Figure]] = {None: lambda: plots.single_weight_figure(self.table(test))}
        if test == "erasure":
            figures = {
                "curves": lambda: plots.erasure_figure(self.curves(), self.summary(), unit=unit),
                "efficiency": lambda: plots.efficiency_figure(self.summary(), unit=unit),
                "wins": lambda: plots.wins_figure(self.summary()),
            }
            kind = kind or "curves"
        if kind not in figures:
            known = ", ".join(repr(name) for name in figures if name) or "none to choose from"
            raise InputError(f"There is no figure {kind!r} of the test {test!r}. Kinds: {known}.")
        found = figures[kind]()
        if path is not None:
            found.savefig(path)
        return found

    @property
    def verdict(self) -> Verdict:
        """What the figures say of attention, in sentences."""
        return verdict(self.summary(), {**self.manifest["facts"], **self.manifest["counts"], **self._statistics})

    def same_data(self, other: Results) -> bool:
        """Whether both are of the same rows of data."""
        return self._store.same_rows(other._store)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Copy the results into another folder, from which `load_results` reads them."""
        self._store.copy_to(path)
        return Path(path)

    def __str__(self) -> str:
        """The verdict."""
        return str(self.verdict)

    def __repr__(self) -> str:
        """What was run on how many texts, and the verdict."""
        rows = self.manifest["counts"]["rows"]
        return f"Results of {', '.join(self.tests)} on {rows} texts ({self.path})\n{self}"

    @property
    def _statistics(self) -> dict[str, Any]:
        return {**self.manifest["statistics"], "seed": self.manifest["run"]["seed"]}


def load_results(path: str | os.PathLike[str]) -> Results:
    """Results that were written by an `Evaluator` with ``output_dir=``, or saved."""
    return Results(Store.load(path))
