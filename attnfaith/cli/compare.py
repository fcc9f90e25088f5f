"""``attnfaith compare``: the differences between two runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attnfaith.addresses import is_address
from attnfaith.cli import options
from attnfaith.cli.evaluate import place_of
from attnfaith.cli.terminal import print_lines
from attnfaith.escaping import visible

if TYPE_CHECKING:
    from attnfaith.evaluation.run_comparison import RunComparison


def compare(
    run_a: Annotated[str, typer.Argument(metavar="RUN_A", help="The folder of a finished run, or its address.")],
    run_b: Annotated[str, typer.Argument(metavar="RUN_B", help="The folder of the other run, or its address.")],
    paired: Annotated[
        bool | None,
        typer.Option(
            "--paired/--unpaired",
            help="Whether row n is the same text in both; by default if the data are the same.",
            show_default=False,
        ),
    ] = None,
    resamples: options.Resamples = 9999,
    confidence: options.Confidence = 0.95,
    seed: options.Seed = 0,
    report: options.Report = None,
    json: options.Json = False,
) -> None:
    """Compare two runs: their settings, and every estimate with its interval.

    Runs on the same texts are compared text by text, which detects smaller differences.
    A difference is RUN_B minus RUN_A.

    [bold]Examples[/bold]

    [cyan]attnfaith compare run-before/ run-after/[/cyan]
    [cyan]attnfaith compare run-bert/ run-roberta/ --json > differences.json[/cyan]
    [cyan]attnfaith compare run-bert/ run-roberta/ --report compared.html[/cyan]   side by side, with figures
    [cyan]attnfaith compare old/ new/ --paired[/cyan]   the same texts, though labels or other columns changed

    [bold]JSON[/bold]

    sentences, paired, settings (those that differ), figures (a row for each), runs.
    What is undefined is null; a median that is not reached is "inf".

    [bold]Exit code[/bold]

    0  the runs were compared, whatever came out
    1  attnfaith failed
    2  wrong arguments, or no finished run there
    3  results cannot be read, or the report cannot be written
    130  interrupted
    """
    from attnfaith.evaluation.results import load_results
    from attnfaith.evaluation.run_comparison import compare_runs
    from attnfaith.report.output_file import check_report_path

    target = None if report is None else check_report_path(report)
    comparison = compare_runs(
        load_results(run_a),
        load_results(run_b),
        _names(run_a, run_b),
        paired=paired,
        n_resamples=resamples,
        confidence_level=confidence,
        seed=seed,
    )
    if target is not None:
        from attnfaith.report.comparison_report import write_comparison

        write_comparison(comparison, target)
    if json:
        from attnfaith.cli.json_output import rows_of, write

        write(
            {
                "sentences": comparison.sentences,
                "paired": comparison.paired,
                "settings": [{"setting": name, "a": a, "b": b} for name, a, b in comparison.settings],
                "figures": rows_of(comparison.figures),
                "runs": {"a": place_of(comparison.first), "b": place_of(comparison.second)},
            }
        )
        return
    _print_settings(comparison)
    print_lines("\n".join(comparison.sentences))
    _print_figures(comparison)
    if target is not None:
        print_lines(f"The report is in {str(target)!r}.")


def _names(run_a: str, run_b: str) -> tuple[str, str]:
    from attnfaith.storage.atomic_files import folder_of

    a, b = (visible((Path(run) if is_address(run) else folder_of(run).resolve()).name) for run in (run_a, run_b))
    return (a, b) if a != b and a and b else ("A", "B")


def _print_settings(comparison: RunComparison) -> None:
    from attnfaith.evaluation.run_comparison import short_setting

    if not comparison.settings:
        print_lines("Both runs were made with the same model and settings.")
        return
    print_lines("Settings that differ:")
    for name, a, b in comparison.settings:
        first, second = comparison.names
        print_lines(f"  {visible(name)}: {short_setting(a)} in {first}, {short_setting(b)} in {second}")
    print_lines()


def _print_figures(comparison: RunComparison) -> None:
    """Print the main estimates: a table on a terminal, else aligned columns."""
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table
    from rich.text import Text

    header, rows = comparison.columns, comparison.rows
    print_lines()
    console = Console()
    if console.is_terminal:
        table = Table(*map(escape, header), box=box.SIMPLE_HEAD)
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        console.print(table)
        return
    widths = [max(len(line[column]) for line in (header, *rows)) for column in range(len(header))]
    for row in (header, *rows):
        print_lines("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
