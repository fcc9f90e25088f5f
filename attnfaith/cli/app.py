"""The command-line application: its commands and common options."""

from __future__ import annotations

from typing import Annotated

import typer

from attnfaith.cli.compare import compare
from attnfaith.cli.demo import demo
from attnfaith.cli.diagnose import diagnose
from attnfaith.cli.evaluate import evaluate
from attnfaith.cli.exit_codes import ErrorReportingGroup
from attnfaith.cli.explain import explain
from attnfaith.cli.known_names import CommandWithNames
from attnfaith.cli.merge import merge
from attnfaith.cli.models import models
from attnfaith.cli.report import report
from attnfaith.cli.train import train

app = typer.Typer(
    name="attnfaith",
    cls=ErrorReportingGroup,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)


def _version(requested: bool) -> None:
    if requested:
        from attnfaith import __version__

        typer.echo(f"attnfaith {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """Can the attention of a text classifier be read as an explanation?

    attnfaith removes tokens in the order of their attention until the decision flips.
    It compares this with a random order, the smallest sets that flip it, and other rankings.
    """


for command in (evaluate, report, explain, compare, diagnose, merge, train, models, demo):
    app.command(cls=CommandWithNames)(command)
