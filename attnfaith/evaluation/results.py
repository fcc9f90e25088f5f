"""`Results`: the tables, estimates, plots and verdict of a run."""

from __future__ import annotations

import inspect
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
from attnfaith.evaluation import stored_texts
from attnfaith.evaluation.manifest_schema import check_manifest
from attnfaith.evaluation.run_manifest import STORED
from attnfaith.evaluation.runner import schemas_of
from attnfaith.evaluation.tests.base import Test, tests
from attnfaith.evaluation.tests.erasure.summary import curves
from attnfaith.evaluation.verdict import Verdict, verdict
from attnfaith.functional.decision import Decision
from attnfaith.notebook import box, muted, safe
from attnfaith.storage.manifest import SAMPLE, part_of
from attnfaith.storage.run_store import Store

if TYPE_CHECKING:
    from datasets import Dataset
    from matplotlib.axes import Axes
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
        self,
        name: str = "erasure",
        *,
        kind: str | None = None,
        path: str | os.PathLike[str] | None = None,
        ax: Axes | None = None,
    ) -> Figure:
        """A figure of a test.

        Args:
            name: of the test.
            kind: of figure; each test has one that is usual. For "erasure": "curves" (decisions kept while items go),
                "efficiency" (of every ranking) or "wins" (of each ranking against each other one).
            path: where to write it, as PNG, SVG or PDF, by its ending. The same results give the same file.
            ax: axes of your own to draw into, for a figure of a single panel; the figure that holds them is returned.
        """
        from attnfaith.plots.panels import Target

        target = Target(path, ax)
        if name not in self.tests:
            raise InputError(f"The test {name!r} was not run. There are: {', '.join(self.tests)}.", code="unknown-name")
        figures = next(item for item in self.ran if item.name == name).figures(self)
        if not figures:
            raise InputError(f"The test {name!r} has no figures.", code="unknown-name")
        if kind is not None and kind not in figures:
            raise InputError(
                f"There is no figure {kind!r} of the test {name!r}. Kinds: {', '.join(figures)}.", code="unknown-name"
            )
        kind = kind or next(iter(figures))
        if ax is None:
            return target.saved(figures[kind]())
        if "axis" not in inspect.signature(figures[kind]).parameters:
            raise InputError(f"The figure {kind!r} of the test {name!r} always has several panels. Leave out ax.")
        return figures[kind](axis=ax)

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

    def to_html(self, path: str | os.PathLike[str], *, title: str | None = None) -> Path:
        """Write a report for a browser, as one HTML file that loads nothing, and return its path.

        Args:
            path: of the file, which ends in .html; an existing file is replaced.
            title: of the page; by default a question that names the model.
        """
        from attnfaith.report.run_report import write_report

        return write_report(self, path, title=title)

    def save(self, path: str | os.PathLike[str]) -> Path | str:
        """Copy the results into another folder, or to an address, from which `load_results` reads them."""
        self._store.copy_to(path)
        return str(path) if is_address(path) else Path(path)

    def to_card(
        self,
        path: str | os.PathLike[str] = "README.md",
        *,
        dataset_name: str = "evaluation data",
        dataset_type: str | None = None,
        dataset_config: str | None = None,
        dataset_split: str | None = None,
        model_name: str | None = None,
    ) -> Path:
        """Add the verdict to a model card of the hub, as a section and as metadata, or update it there.

        Nothing else in the card changes. The results of other data have a section of their own. A card that is missing
        is created.

        Args:
            path: of the card, or of the folder of the model.
            dataset_name: the name of the data, for readers.
            dataset_type: the id of the data on the hub; by default their name.
            dataset_config: the configuration of the data, if they have several.
            dataset_split: the split.
            model_name: the entry of ``model-index`` that gets the results; by default the only one.

        Returns:
            The path of the card.
        """
        from attnfaith.evaluation.model_card import CardNames, write_card

        names = CardNames(
            dataset_name=dataset_name,
            dataset_type=dataset_type,
            dataset_config=dataset_config,
            dataset_split=dataset_split,
            model_name=model_name,
        )
        return write_card(self, path, names)

    def push_to_hub(
        self,
        repo_id: str,
        *,
        dataset_name: str = "evaluation data",
        dataset_type: str | None = None,
        dataset_config: str | None = None,
        dataset_split: str | None = None,
        model_name: str | None = None,
        revision: str | None = None,
        create_pr: bool = False,
        commit_message: str = "Add an evaluation of attention as an explanation",
        token: str | None = None,
    ) -> str | None:
        """Add the verdict to the card of a model on the hub, as `to_card` does on disk.

        Args:
            repo_id: the id of the model, such as "me/my-model".
            dataset_name: see `to_card`, also for the next four.
            dataset_type: the id of the data on the hub.
            dataset_config: the configuration of the data.
            dataset_split: the split.
            model_name: the entry of ``model-index``.
            revision: the branch; by default the main one.
            create_pr: open a pull request, for a model of somebody else.
            commit_message: of the commit.
            token: of the hub; by default the stored one.

        Returns:
            The address of the commit; None if the card says all of it already.
        """
        from attnfaith.evaluation.model_card import CardNames, push_card

        names = CardNames(
            dataset_name=dataset_name,
            dataset_type=dataset_type,
            dataset_config=dataset_config,
            dataset_split=dataset_split,
            model_name=model_name,
        )
        return push_card(
            self,
            repo_id,
            names,
            revision=revision,
            create_pr=create_pr,
            commit_message=commit_message,
            token=token,
        )

    def to_dataset(self, table: str = "texts") -> Dataset:
        """A table as a `datasets.Dataset`.

        Args:
            table: its name, one of `tables`.
        """
        from datasets import Dataset

        stored = pa.Table.from_pandas(self.table(table), schema=self._schemas().get(table), preserve_index=False)
        for index, column in enumerate(stored.schema):  # of a table without a schema pandas makes large strings
            if column.type == pa.large_string():
                stored = stored.set_column(index, column.name, stored[index].cast(pa.string()))
        return Dataset(stored)

    def to_evaluate(self, path: str | os.PathLike[str]) -> Path:
        """Write the verdict and the summary as JSON, with `evaluate.save`.

        A figure is named ``test/erase level/ranking level/ranking/figure``, with the other ranking before the figure
        where it compares two; its interval has ``_low`` and ``_high`` behind the name. What is undefined is null.

        Args:
            path: of the file; or a folder, for a file that is named after the time.

        Returns:
            The path of the file.
        """
        import evaluate

        from attnfaith.evaluation.flat_summary import flat_summary

        about = {"verdict": self.verdict.label, "texts": self.manifest["counts"]["texts"]}
        return Path(evaluate.save(validation.path(path, "path"), **about, **flat_summary(self.summary())))

    def __str__(self) -> str:
        """The verdict."""
        return str(self.verdict)

    def __repr__(self) -> str:
        """The tests, the number of texts, and the verdict."""
        return visible(f"{self._about}\n{self}", "\n")

    def _repr_html_(self) -> str:
        """HTML for notebooks: the same."""
        return box(muted(safe(self._about))) + self.verdict._repr_html_()

    @property
    def _about(self) -> str:
        rows = self.manifest["counts"]["rows"]
        of = f" of {self.manifest['rows']}" if SAMPLE in self.manifest else ""
        part = "" if self.part is None else f", part {self.part[0]} of {self.part[1]}"
        return f"Results of {', '.join(self.tests)} on {rows}{of} texts{part} ({self.location})"

    def _schemas(self) -> dict[str, pa.Schema]:
        """What columns each table must have; those of options that came later are missing in an older run."""
        decision = Decision(kind=self.manifest["run"]["decision"]["kind"])
        schemas = schemas_of(self.ran, decision, stored=STORED in self.manifest["run"])
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
        stored = stored_texts.SCHEMAS if STORED in results.manifest["run"] else ()
        self._names = ("texts", *results.tests, *stored, *results._store.concluded)

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
