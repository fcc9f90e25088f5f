"""``attnfaith merge``: join the parts of an evaluation."""

from __future__ import annotations

from typing import Annotated

import typer

from attnfaith.cli import options
from attnfaith.cli.evaluate import tell
from attnfaith.cli.options import bars


def merge(
    parts: Annotated[list[str], typer.Argument(metavar="PART...", help="The folders of all parts, in any order.")],
    output: Annotated[str, typer.Option(help="The folder of the whole run: new.")],
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Join the parts that attnfaith evaluate --part made into one run.

    The files are those that one run over all data would have written, byte for byte.
    It prints the verdict and the table of rankings of that run.
    A part that is missing, given twice, damaged, or of another model, data, settings or version is refused.

    [bold]Examples[/bold]

    [cyan]attnfaith evaluate ./my-model data.parquet --part 1/2 --output run-1/[/cyan]
    [cyan]attnfaith evaluate ./my-model data.parquet --part 2/2 --output run-2/[/cyan]
    [cyan]attnfaith merge run-1/ run-2/ --output all/[/cyan]

    [bold]JSON[/bold]

    As attnfaith evaluate.

    [bold]Exit code[/bold]

    0  the parts were joined
    1  attnfaith failed
    2  wrong arguments, or parts that do not make one run
    3  a part is damaged, or results cannot be written
    130  interrupted: the same command goes on
    """
    options.warn_of_memory(output)
    with bars(quiet) as show_bars:
        from attnfaith.evaluation.merging import merge as join

        tell(join(parts, output, quiet=not show_bars), json=json)
