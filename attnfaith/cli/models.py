"""``attnfaith models``: which model types are supported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from attnfaith.cli.terminal import print_lines
from attnfaith.errors import InputError

if TYPE_CHECKING:
    from attnfaith.survey import Family


def models(
    model_types: Annotated[
        list[str] | None,
        typer.Argument(metavar="MODEL_TYPE", help="Model types to try, such as bert; all by default."),
    ] = None,
    supported: Annotated[
        bool | None, typer.Option("--supported/--refused", help="List only those that can be cut, or only the others.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, with what the self-check measured.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print tables in Markdown.")] = False,
) -> None:
    """List the model types of the installed Transformers: which are supported, and why others are refused.

    Every family is really tried, on a tiny random model made on the spot.
    All of them take about ten seconds. Nothing is downloaded.

    [bold]Examples[/bold]

    [cyan]attnfaith models[/cyan]                          every family
    [cyan]attnfaith models bert llama t5[/cyan]            these three
    [cyan]attnfaith models --refused[/cyan]                what cannot be cut, and why
    [cyan]attnfaith models --json > families.json[/cyan]   for another program

    [bold]Exit code[/bold]

    0  the families were tried, whatever came out
    1  attnfaith itself made a mistake on one of them
    2  wrong arguments, such as an unknown model type
    130  interrupted
    """
    from rich.console import Console
    from rich.progress import track

    from attnfaith.survey import summary, survey, table_json, table_markdown
    from attnfaith.tiny_models import model_types as known_types

    if json and markdown:
        raise typer.BadParameter("choose one of --json and --markdown.")
    try:
        trying = survey(model_types or None)
    except InputError as error:
        raise typer.BadParameter(str(error), param_hint="MODEL_TYPE") from error
    notes = Console(stderr=True)
    total = len(model_types or known_types())
    # Elsewhere not even a bar that is switched off: older versions of rich write an empty line for it.
    families = list(track(trying, "Trying", total, console=notes, transient=True) if notes.is_terminal else trying)
    listed = [family for family in families if supported is None or family.supported == supported]
    if json:
        print_lines(table_json(listed))
    elif markdown:
        print_lines(f"{summary(families)}\n\n{table_markdown(listed)}")
    else:
        _print_table(listed)
        print_lines(summary(families))
    if any(family.status == "failed" for family in families):
        raise typer.Exit(1)


def _print_table(families: list[Family]) -> None:
    """Print a table on a terminal, else one line for each model type."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    if not console.is_terminal:
        for family in families:
            print_lines(f"{family.model_type:<24}{family.status:<12}{family.how}")
        return
    table = Table("model type", "result", "how, or why not", box=box.SIMPLE_HEAD)
    for family in families:
        colour = "green" if family.supported else "yellow"
        table.add_row(family.model_type, Text(family.status, colour), Text(family.how))
    console.print(table)
