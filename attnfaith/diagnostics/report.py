"""The report of a diagnosis: one HTML page that loads nothing."""

from __future__ import annotations

import os
import re
from pathlib import Path

from attnfaith.diagnostics.base import Diagnostic, Figures
from attnfaith.diagnostics.diagnosis import Diagnosis
from attnfaith.diagnostics.known import diagnostics
from attnfaith.estimates.lookup import SummaryValue, decimals, signed_points
from attnfaith.report.estimate_tables import EstimateGrid
from attnfaith.report.inline_svg import inline_svg
from attnfaith.report.output_file import check_report_path, write_page
from attnfaith.report.page import render
from attnfaith.report.run_report import ReportFigure, TestSection

NAME = "report.html"


def write_report(diagnosis: Diagnosis, path: str | os.PathLike[str], *, title: str | None = None) -> Path:
    """Write the report of a diagnosis as one HTML file, and return its path.

    Args:
        diagnosis: a finished one.
        path: of the file, which ends in .html; an existing file is replaced.
        title: by default a question that names the model.
    """
    target = check_report_path(path)
    return write_page(target, report_page(diagnosis, title=title))


def report_page(diagnosis: Diagnosis, *, title: str | None = None) -> str:
    """The report of a diagnosis as the text of an HTML page."""
    manifest = diagnosis.manifest
    facts, finished = manifest["facts"], manifest["finished"]
    model = re.split(r"[\\/]", str(facts["model"]).rstrip("\\/"))[-1]
    sections = [_section(diagnostics[name](), diagnosis) for name in diagnosis.tests]
    return render(
        "diagnosis.html.j2",
        {
            "title": title or f"Could the attention of {model} be otherwise?",
            "sections": sections,
            "conclusions": [(section.heading, section.name, section.sentences[0]) for section in sections],
            "facts": facts,
            "notes": manifest["notes"],
            "settings": [(name, _shown(value)) for name, value in _flat({**manifest["run"], **finished})],
        },
    )


def _section(diagnostic: Diagnostic, diagnosis: Diagnosis) -> TestSection:
    name = diagnostic.name
    sentences, figures = diagnosis.sentences(name), diagnosis.figures(name)
    told = f"Figure: {diagnostic.heading}. {sentences[0]}"
    drawing = inline_svg(diagnosis.plot(name), f"diagnosis-{name}", told)
    return TestSection(
        name=name,
        heading=diagnostic.heading,
        question=diagnostic.question,
        sentences=tuple(sentences),
        figures=(ReportFigure(name, drawing, diagnostic.reading),),
        tables=(_grid(diagnostic, figures),),
        caveats=diagnostic.caveats,
        citation=diagnostic.citation,
    )


def _grid(diagnostic: Diagnostic, figures: Figures) -> EstimateGrid:
    """The estimates that the diagnostic reports: a row for each kind of model or seed."""
    reported = diagnostic.reported
    rows = list(dict.fromkeys(of for figure in reported for of in figures.all_names(figure)))
    cells = [(of or "all", *(_cell(figures.get(figure, of), figure, diagnostic) for figure in reported)) for of in rows]
    notes = dict.fromkeys(figures.get(figure, of).note for figure in reported for of in rows)
    return EstimateGrid("Estimates", ("model", *reported.values()), tuple(cells), tuple(note for note in notes if note))


def _cell(value: SummaryValue, figure: str, diagnostic: Diagnostic) -> str:
    if not value.known:
        return ""
    if figure in diagnostic.differences:
        return signed_points(value)
    return str(value) if figure in diagnostic.percentages else decimals(value)


def _flat(value: object, prefix: str = "") -> list[tuple[str, object]]:
    if not isinstance(value, dict):
        return [(prefix, value)]
    return [pair for name, inner in value.items() for pair in _flat(inner, f"{prefix} {name}".strip())]


def _shown(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
