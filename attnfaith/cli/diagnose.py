"""``attnfaith diagnose``: Wiegreffe & Pinter's tests, which train a classifier again under other conditions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnfaith.cli import options
from attnfaith.cli.json_output import rows_of, write
from attnfaith.cli.options import bars, label_mapping, listed, model_path
from attnfaith.cli.terminal import print_lines
from attnfaith.errors import InputError

if TYPE_CHECKING:
    from attnfaith.diagnostics.diagnosis import Diagnosis

_TRAINING, _DIAGNOSTICS = "Training", "What is run"
REPORT = "report.html"


def diagnose(
    model: options.Model,
    data: options.Data,
    output: Annotated[str, typer.Option(help="The folder of the diagnosis: new, empty, or of the same diagnosis.")],
    tests: Annotated[
        str,
        typer.Option(
            help='"all", or names with commas: uniform, seeds, probe, adversary.', rich_help_panel=_DIAGNOSTICS
        ),
    ] = "all",
    seeds: Annotated[int, typer.Option(help="How many training seeds; at least 2.", rich_help_panel=_DIAGNOSTICS)] = 5,
    lambdas: Annotated[
        str,
        typer.Option(
            help="The weights of the divergence that adversaries are trained with, with commas.",
            rich_help_panel=_DIAGNOSTICS,
        ),
    ] = "0,0.0001,0.001,0.01,0.1",
    max_distance: Annotated[
        float,
        typer.Option(
            help="The mean total variation distance from the outputs of the model that an adversary may have.",
            rich_help_panel=_DIAGNOSTICS,
        ),
    ] = 0.05,
    small: Annotated[
        bool,
        typer.Option(
            "--small", help="A rehearsal: few texts, seeds, lambdas and epochs.", rich_help_panel=_DIAGNOSTICS
        ),
    ] = False,
    validation: Annotated[
        str | None,
        typer.Option(metavar="DATA", help="Other data for choosing epochs and the adversary.", rich_help_panel="Data"),
    ] = None,
    test: Annotated[
        str | None, typer.Option(metavar="DATA", help="Other data for all figures.", rich_help_panel="Data")
    ] = None,
    text_column: options.TextColumn = "text",
    label_column: Annotated[str, typer.Option(help="The column of labels.", rich_help_panel="Data")] = "label",
    second_text_column: options.SecondTextColumn = None,
    label_map: options.LabelMap = None,
    subset: options.Subset = None,
    split: options.Split = None,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="BASE",
            help="The checkpoint that each training begins with, such as the encoder that was fine-tuned; by default "
            "random weights.",
            rich_help_panel=_TRAINING,
        ),
    ] = None,
    learning_rate: Annotated[
        float | None, typer.Option(help="By default what attnfaith train stored.", rich_help_panel=_TRAINING)
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(help="The most epochs of a training.", rich_help_panel=_TRAINING)
    ] = None,
    training_batch_size: Annotated[
        int | None, typer.Option(help="Texts in a step of training.", rich_help_panel=_TRAINING)
    ] = None,
    patience: Annotated[
        int | None,
        typer.Option(help="Stop after so many epochs without improvement; 0 never stops.", rich_help_panel=_TRAINING),
    ] = None,
    vectors: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Pretrained word vectors that a model of attnfaith begins with.",
            rich_help_panel=_TRAINING,
        ),
    ] = None,
    max_length: options.MaxLength = None,
    batch_size: options.BatchSize = 32,
    resamples: options.Resamples = 9999,
    confidence: options.Confidence = 0.95,
    discard_models: Annotated[
        bool, typer.Option("--discard-models", help="Remove the trained models at the end.")
    ] = False,
    report: options.Report = None,
    seed: options.Seed = 0,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Ask whether the attention of a classifier could be otherwise: Wiegreffe and Pinter's four tests.

    The classifier is trained again from the beginning: with uniform attention (uniform), with other seeds (seeds),
    and as an adversary that is paid for different attention with the same outputs (adversary).
    Its attention is imposed on a classifier of single words (probe).
    Texts are divided at random into those for training, validation and test, unless the data are divided already.

    It prints what came out and writes a report; all tables and models are in the folder.
    After an interruption, the same command continues: models that are there are not trained again.

    [bold]Examples[/bold]

    [cyan]attnfaith diagnose han/ reviews.parquet --output diagnosis/[/cyan]
    [cyan]attnfaith diagnose han/ reviews.parquet --output diagnosis/ --small[/cyan]   a rehearsal first
    [cyan]attnfaith diagnose tuned/ reviews.csv --from ./my-encoder --output diagnosis/[/cyan]   fine-tuned
    [cyan]attnfaith diagnose han/ train.csv --validation dev.csv --test test.csv --output diagnosis/[/cyan]
    [cyan]attnfaith diagnose han/ reviews.csv --tests uniform,seeds --seeds 10 --output diagnosis/[/cyan]

    [bold]JSON[/bold]

    conclusions (sentences by test), summary (a row for each estimate), notes, facts, path.

    [bold]Exit code[/bold]

    0  the diagnosis was made, whatever came out
    1  the model cannot be used, or attnfaith failed
    2  wrong arguments or data
    3  results cannot be written or read
    130  interrupted: what is done is kept, and the same command goes on
    """
    training = {
        name: value
        for name, value in {
            "learning_rate": learning_rate,
            "epochs": epochs,
            "batch_size": training_batch_size,
            "patience": patience,
        }.items()
        if value is not None
    }
    weights, mapping = _numbers(lambdas), label_mapping(label_map)
    names = listed(tests)
    with _kept(output), bars(quiet):
        from attnfaith.diagnostics.running import diagnose as run
        from attnfaith.report.output_file import check_report_path

        page = None if report is None else check_report_path(report)
        diagnosis = run(
            model_path(model),
            data,
            output_dir=output,
            tests="all" if names == ["all"] else names,
            validation_data=validation,
            test_data=test,
            input_column=text_column,
            second_input_column=second_text_column,
            label_column=label_column,
            label_mapping=mapping,
            subset=subset,
            split=split,
            start=start,
            training=training,
            vectors=vectors,
            seeds=seeds,
            lambdas=weights,
            max_distance=max_distance,
            small=small,
            max_length=max_length,
            batch_size=batch_size,
            keep_models=not discard_models,
            seed=seed,
            n_resamples=resamples,
            confidence_level=confidence,
            quiet=quiet,
        )
        page = diagnosis.to_html(diagnosis.path / REPORT if page is None else page)
    tell(diagnosis, page, json=json)


def tell(diagnosis: Diagnosis, page: Path, *, json: bool) -> None:
    """Print what came out, or one JSON object."""
    if not json:
        print_lines(f"{diagnosis}\nThe diagnosis is in {str(diagnosis.path)!r}, its report in {str(page)!r}.")
        return
    content: dict[str, Any] = {
        "conclusions": {test: diagnosis.sentences(test) for test in diagnosis.tests},
        "summary": rows_of(diagnosis.summary()),
        "notes": diagnosis.manifest["notes"],
        "facts": diagnosis.manifest["facts"],
        "path": str(diagnosis.path.resolve()),
    }
    write(content)


def _numbers(text: str) -> list[float]:
    """Parse numbers with commas.

    Example:
        >>> _numbers("0, 1e-3")
        [0.0, 0.001]
    """
    try:
        return [float(entry) for entry in listed(text)]
    except ValueError as error:
        raise InputError(f"Expected --lambdas to be numbers with commas, such as 0,0.001,0.1; got {text!r}.") from error


@contextmanager
def _kept(output: str) -> Iterator[None]:
    """On an interrupt, say how to continue."""
    try:
        yield
    except KeyboardInterrupt as stopped:
        raise KeyboardInterrupt(
            f"Interrupted. Models that are trained are kept in {output!r}: the same command goes on from there."
        ) from stopped
