"""``attnfaith report``: a page for a browser from a finished run."""

from __future__ import annotations

from typing import Annotated

import typer

from attnfaith.addresses import is_address
from attnfaith.cli.terminal import print_lines
from attnfaith.errors import InputError

NAME = "report.html"


def report(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="The folder of a finished run or diagnosis, or an address.")
    ],
    output: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="The file to write, which ends in .html; by default report.html in the folder of the run. "
            "An existing file is replaced.",
            show_default=False,
        ),
    ] = None,
    title: Annotated[str | None, typer.Option(help="The title of the page.", show_default=False)] = None,
) -> None:
    """Write the report of a run: one HTML file with the verdict, the rankings, and every test with its figures.

    The page opens in any browser, loads nothing from the network, and can be printed, archived or sent.
    For each test it has the question, the results, how to read the figures, and what the numbers do not say.
    It ends with the command that makes the run again.

    [bold]Examples[/bold]

    [cyan]attnfaith report run/[/cyan]                                         into run/report.html
    [cyan]attnfaith report run/ --output report.html --title "Reviews"[/cyan]
    [cyan]attnfaith evaluate ./my-model reviews.csv --report report.html[/cyan]   right after the evaluation
    [cyan]attnfaith report diagnosis/[/cyan]                                   of attnfaith diagnose
    [cyan]attnfaith compare run-a/ run-b/ --report compared.html[/cyan]        two runs side by side

    [bold]Exit code[/bold]

    0  the report was written
    1  attnfaith failed
    2  wrong arguments, or no finished run there
    3  the run cannot be read, or the report cannot be written
    130  interrupted
    """
    if output is None and is_address(run):
        raise InputError(f"{run!r} is an address, and a report is written to a local file: give --output FILE.")
    from attnfaith.diagnostics.folder import is_diagnosis
    from attnfaith.evaluation.results import load_results
    from attnfaith.report.output_file import check_report_path
    from attnfaith.storage.atomic_files import folder_of

    target = None if output is None else check_report_path(output)
    if not is_address(run) and is_diagnosis(run):
        from attnfaith.diagnostics.diagnosis import load_diagnosis

        diagnosis = load_diagnosis(run)
        page = diagnosis.to_html(check_report_path(diagnosis.path / NAME) if target is None else target, title=title)
        print_lines(f"{diagnosis}\nThe report is in {str(page)!r}. Open it in a browser.")
        return
    results = load_results(run)
    if target is None:
        target = check_report_path(folder_of(run) / NAME)
    results.to_html(target, title=title)
    print_lines(f"{results.verdict.headline}\nThe report is in {str(target)!r}. Open it in a browser.")
