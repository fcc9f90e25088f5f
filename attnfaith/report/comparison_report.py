"""The report of a comparison of two runs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from attnfaith.evaluation.run_comparison import RunComparison, short_setting
from attnfaith.report.output_file import check_report_path, write_page
from attnfaith.report.page import render
from attnfaith.report.run_report import TestSection, run_values


def write_comparison(comparison: RunComparison, path: str | os.PathLike[str], *, title: str | None = None) -> Path:
    """Write the report of a comparison as one HTML file, and return its path.

    Args:
        comparison: from `attnfaith.evaluation.run_comparison.compare_runs`.
        path: of the file, which ends in .html; an existing file is replaced.
        title: by default the names of the two runs.
    """
    target = check_report_path(path)
    return write_page(target, comparison_page(comparison, title=title))


def comparison_page(comparison: RunComparison, *, title: str | None = None) -> str:
    """The report of a comparison as the text of an HTML page; see `write_comparison`."""
    runs = [run_values(comparison.first, "a"), run_values(comparison.second, "b")]
    a, b = comparison.names
    return render(
        "comparison.html.j2",
        {
            "title": title or f"{a} and {b} compared",
            "names": comparison.names,
            "runs": runs,
            "pairs": _pairs(*(run["tests"] for run in runs)),
            "sentences": comparison.sentences,
            "columns": comparison.columns,
            "rows": comparison.rows,
            "settings": [
                (name, short_setting(first), short_setting(second)) for name, first, second in comparison.settings
            ],
        },
    )


@dataclass(frozen=True)
class TestPair:
    """A test in two runs; None where it was not run."""

    __test__ = False  # not for pytest

    first: TestSection | None
    second: TestSection | None

    @property
    def either(self) -> TestSection:
        """What both have in common: name, question, reading and caveats."""
        section = self.first or self.second
        assert section is not None
        return section

    @property
    def sides(self) -> tuple[TestSection | None, TestSection | None]:
        """Both."""
        return self.first, self.second


def _pairs(first: list[TestSection], second: list[TestSection]) -> list[TestPair]:
    left, right = ({section.name: section for section in sections} for sections in (first, second))
    return [TestPair(left.get(name), right.get(name)) for name in dict.fromkeys([*left, *right])]
