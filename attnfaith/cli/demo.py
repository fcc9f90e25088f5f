"""``attnfaith demo``: the library's main job, from end to end."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from attnfaith.cli import options
from attnfaith.cli.options import bars, model_path
from attnfaith.errors import InputError
from attnfaith.option_names import OPTIONS
from attnfaith.parameter_names import option_names


def demo(
    output: Annotated[Path, typer.Option(help="The folder of everything that is made.")] = Path("attnfaith-demo"),
    model: Annotated[str | None, typer.Option(help="Your classifier, instead of those that are trained here.")] = None,
    data: Annotated[str | None, typer.Option(help="Your data, with --model: csv, JSON lines, parquet ...")] = None,
    text_column: options.TextColumn = "text",
    label_column: options.LabelColumn = "label",
    seed: options.Seed = 0,
    quiet: options.Quiet = False,
) -> None:
    """Run everything on generated data: training, evaluation, and reports for a browser.

    The demo generates product reviews whose decisive words are known.
    It trains a flat and a hierarchical attention network (FLAN, HAN) on them,
    evaluates both, and compares their attention with the decisive words.
    The folder of the output holds a report for each. Nothing is downloaded.

    [bold]Examples[/bold]

    [cyan]attnfaith demo[/cyan]                                                into attnfaith-demo/
    [cyan]attnfaith demo --model ./my-model --data reviews.csv[/cyan]          the same on yours
    [cyan]attnfaith demo --output elsewhere/ --seed 1 --quiet[/cyan]

    [bold]Exit code[/bold]

    0  the report was made
    1  the model cannot be used, or attnfaith failed
    2  wrong arguments or data
    3  the output cannot be written
    130  interrupted
    """
    if (model is None) != (data is None):
        lacking, alone = ("--data", "--model") if data is None else ("--model", "--data")
        raise InputError(f"{alone} goes with {lacking}: give both, or neither for the data and models of the demo.")
    with option_names({**OPTIONS, "output": "--output"}), bars(quiet):
        from attnfaith.demo.pipeline import run_demo

        run_demo(
            output,
            model=None if model is None else model_path(model),
            data=data,
            seed=seed,
            quiet=quiet,
            text_column=text_column,
            label_column=label_column,
        )
