"""`Diagnosis`: what the diagnostics of a model came to, and how it is read from disk."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from attnfaith.diagnostics.base import Figures
from attnfaith.diagnostics.folder import DiagnosisFolder
from attnfaith.diagnostics.known import diagnostics
from attnfaith.errors import InputError
from attnfaith.validation import one_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUMMARY = "summary"
"""The table of all estimates."""


class Diagnosis:
    """A finished diagnosis: its tables, estimates with intervals, figures, and what they say.

    Args:
        folder: where it is stored.

    Attributes:
        path: its folder.
        tests: the diagnostics that were made.
        manifest: settings, facts and notes.
    """

    def __init__(self, folder: DiagnosisFolder) -> None:
        self._folder, self.path, self.manifest = folder, folder.path, folder.manifest
        if "finished" not in self.manifest:
            raise InputError(
                f"The diagnosis in {str(folder.path)!r} is not finished. The command that began it continues it.",
                code="unfinished-run",
            )
        self.tests: list[str] = list(self.manifest["finished"]["tests"])

    def table(self, name: str) -> pd.DataFrame:
        """A table by the name of its diagnostic (see ``tables``)."""
        one_of(name, self.tables, "name")
        return self._tables[name]

    @property
    def tables(self) -> list[str]:
        """The names of the tables."""
        return list(self.manifest["finished"]["tables"])

    @cached_property
    def _tables(self) -> dict[str, pd.DataFrame]:
        return {name: self._folder.read_table(name).to_pandas() for name in self.tables}

    def summary(self) -> pd.DataFrame:
        """All estimates: columns diagnostic, figure, of, value, low, high, texts, note."""
        return self._summary.copy()

    @cached_property
    def _summary(self) -> pd.DataFrame:
        return self._folder.read_table(SUMMARY).to_pandas()

    def figures(self, test: str) -> Figures:
        """The estimates of one diagnostic, to be looked up."""
        return Figures(self._summary, one_of(test, self.tests, "test"))

    def sentences(self, test: str) -> list[str]:
        """What a diagnostic came to, in a few sentences."""
        return diagnostics[one_of(test, self.tests, "test")]().sentences(self.figures(test), self.manifest["facts"])

    def plot(self, test: str, path: str | os.PathLike[str] | None = None) -> Figure:
        """The figure of a diagnostic; with ``path`` it is also written to a file."""
        from attnfaith.plots.files import check_path, write_figure

        figures = self.figures(test)
        if path is not None:
            check_path(path)
        figure = diagnostics[test]().figure(self._tables, figures)
        if path is not None:
            write_figure(figure, path)
        return figure

    def to_html(self, path: str | os.PathLike[str], *, title: str | None = None) -> Path:
        """Write the report: one HTML file that loads nothing."""
        from attnfaith.diagnostics.report import write_report

        return write_report(self, path, title=title)

    def __str__(self) -> str:
        """What each diagnostic came to, and the notes."""
        lines = []
        for test in self.tests:
            lines += [f"{diagnostics[test].heading}", *(f"  {sentence}" for sentence in self.sentences(test))]
        return "\n".join([*lines, *(f"Note: {note}" for note in self.manifest["notes"])])

    def __repr__(self) -> str:
        return f"Diagnosis({str(self.path)!r}, {', '.join(self.tests)})"


def load_diagnosis(path: str | os.PathLike[str]) -> Diagnosis:
    """Load a diagnosis that `diagnose` or ``attnfaith diagnose`` wrote.

    Args:
        path: its folder.
    """
    folder = DiagnosisFolder(path)
    folder.read()
    return Diagnosis(folder)
