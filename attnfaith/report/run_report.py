"""The report of one run."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from attnfaith.errors import InputError
from attnfaith.evaluation.results import Results
from attnfaith.evaluation.tests.base import Test
from attnfaith.evaluation.verdict import RANKINGS, Verdict
from attnfaith.evaluation.verdict_rule import FEW
from attnfaith.evaluation.verdict_text import capital
from attnfaith.plots.panels import place_of
from attnfaith.report.command_line import command_line, is_whole, placeholders
from attnfaith.report.estimate_tables import EstimateGrid, slice_tables, test_tables
from attnfaith.report.inline_svg import inline_svg
from attnfaith.report.output_file import check_report_path, write_page
from attnfaith.report.page import render
from attnfaith.report.settings import settings_of
from attnfaith.report.verdict_scale import level_scales

READER = "attnfaith.report.reader"
"""The module that shows single texts."""


def write_report(
    results: Results, path: str | os.PathLike[str], *, title: str | None = None, introduction: Sequence[str] = ()
) -> Path:
    """Write the report of a run as one HTML file, and return its path.

    Args:
        results: of the run.
        path: of the file, which ends in .html; an existing file is replaced.
        title: by default a question that names the model.
        introduction: sentences about the run, below the verdict.
    """
    target = check_report_path(path)
    return write_page(target, report_page(results, title=title, introduction=introduction))


def report_page(results: Results, *, title: str | None = None, introduction: Sequence[str] = ()) -> str:
    """The report of a run as the text of an HTML page; see `write_report`."""
    values = run_values(results)
    name = values["model"]
    return render(
        "run.html.j2",
        {
            "title": title or f"Can the attention of {name} be read as an explanation?",
            "introduction": introduction,
            "run": values,
            "slices": list(slice_tables(results)),
            "place": f"at {place_of(results.verdict.level)}" if results.verdict.level else "",
            "few": FEW,
            "texts": reader_section(results),
            "command": command_line(results),
            "placeholders": placeholders(results),
            "whole": is_whole(results),
            "settings": settings_of(results),
            "notes": results.manifest["notes"],
            "counts": results.manifest["counts"],
            "versions": results.manifest["versions"],
        },
    )


def run_values(results: Results, prefix: str = "run") -> dict[str, Any]:
    """What templates show of a run.

    Args:
        results: of the run.
        prefix: of ids; unique in a page of several runs.
    """
    verdict = results.verdict
    return {
        "id": prefix,
        "model": model_name(results),
        "verdict": verdict,
        "rankings_part": RANKINGS,
        "scales": level_scales(results),
        "tests": [
            test_section(test, results, verdict, prefix)
            for test in sorted(results.ran, key=lambda test: test.name != "erasure")  # the verdict rests on it
        ],
        "read": results.manifest["counts"]["rows"],
    }


def model_name(results: Results) -> str:
    """The name of the model, without the folders before it."""
    name: str = results.manifest["facts"]["model"]
    return re.split(r"[\\/]", name.rstrip("\\/"))[-1] or name


@dataclass(frozen=True)
class ReportFigure:
    """A figure of a test.

    Attributes:
        kind: which of the test's.
        drawing: the figure; None if it cannot be drawn.
        reading: how to read it, or why it cannot be drawn.
    """

    kind: str
    drawing: Markup | None
    reading: str


@dataclass(frozen=True)
class TestSection:
    """What a report shows of a test.

    Attributes:
        name: of the test.
        heading: the name in words.
        question: that it answers.
        sentences: of the verdict.
        figures: of the test, the most telling first.
        tables: of its estimates.
        caveats: what its numbers do not say.
        citation: of its paper, in BibTeX.
    """

    __test__ = False  # not for pytest

    name: str
    heading: str
    question: str
    sentences: tuple[str, ...]
    figures: tuple[ReportFigure, ...]
    tables: tuple[EstimateGrid, ...]
    caveats: tuple[str, ...]
    citation: str


def test_section(test: Test, results: Results, verdict: Verdict, prefix: str) -> TestSection:
    """What a report shows of a test."""
    sentences = verdict.parts.get("" if test.name == "erasure" else test.name, ())
    summary = (type(test).__doc__ or "").strip().partition("\n")[0]
    return TestSection(
        name=test.name,
        heading=capital(test.name.replace("_", " ")),
        question=test.question or summary,
        sentences=() if test.name == "erasure" else sentences,
        figures=tuple(_figures(test, results, sentences, prefix)),
        tables=tuple(test_tables(test, results)),
        caveats=test.caveats,
        citation=test.citation,
    )


def _figures(test: Test, results: Results, sentences: Sequence[str], prefix: str) -> Iterator[ReportFigure]:
    message = " ".join(sentences) or test.question
    for kind in test.figures(results):
        reading = test.reading.get(kind, "")
        try:
            figure = results.plot(test.name, kind=kind)
        except InputError as error:
            yield ReportFigure(kind, None, str(error))
            continue
        told = f"Figure: {kind.replace('_', ' ')} of the test {test.name.replace('_', ' ')}. {message}"
        yield ReportFigure(kind, inline_svg(figure, f"{prefix}-{test.name}-{kind}", told), reading)


def reader_section(results: Results) -> Markup:
    """The section on single texts; empty where this version has none."""
    if importlib.util.find_spec(READER) is None:
        return Markup()
    return Markup(importlib.import_module(READER).section(results))  # markup made there, not text
