"""``attnfaith evaluate``: judge the explanations of a classifier on a data set."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from attnfaith.addresses import is_address
from attnfaith.cli import options
from attnfaith.cli.exit_codes import process_number
from attnfaith.cli.json_output import rows_of, write
from attnfaith.cli.options import (
    assigned,
    bars,
    class_of,
    device_of,
    label_mapping,
    model_path,
    part_of,
    rankings_of,
    share_of_points,
)
from attnfaith.cli.terminal import print_lines, print_verdict
from attnfaith.cli.test_options import parsed_tests
from attnfaith.errors import AttnFaithError

if TYPE_CHECKING:
    from attnfaith.evaluation.results import Results


def evaluate(
    model: options.Model,
    data: options.Data,
    text_column: options.TextColumn = "text",
    label_column: options.LabelColumn = "label",
    no_labels: options.NoLabels = False,
    second_text_column: options.SecondTextColumn = None,
    label_map: options.LabelMap = None,
    rationale_column: options.RationaleColumn = None,
    subset: options.Subset = None,
    split: options.Split = None,
    precision: options.Precision = None,
    max_texts: options.MaxTexts = None,
    rankings: options.Rankings = "default",
    explanation: options.Explanations = None,
    tests: options.Tests = None,
    option: options.TestOptions = None,
    bounds: options.Bounds = False,
    level: options.EraseLevel = None,
    hide: options.Hide = None,
    special_tokens: options.SpecialTokens = "include",
    protect_deciding: options.ProtectDeciding = False,
    target: options.Target = "predicted",
    ranking_output: options.Explained = None,
    steps: options.Steps = None,
    decision: options.Decision = None,
    tolerance: options.Tolerance = None,
    max_length: options.MaxLength = None,
    batch_size: options.BatchSize = 32,
    device: options.Device = None,
    resamples: options.Resamples = 9999,
    confidence: options.Confidence = 0.95,
    output: options.Output = "attnfaith-run",
    report: options.Report = None,
    no_texts: options.NoTexts = False,
    seed: options.Seed = 0,
    part: options.Part = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Judge whether the attention of a classifier, and other rankings, explain what it decides.

    Tokens (in a HAN, sentences) are removed from the top of every ranking until the decision flips.
    A random order and the smallest sets that flip it are the scale.
    The command prints a verdict with its evidence, and a table of the rankings, best first.
    All tables are in the folder of the results.

    Soon after the start, a forecast on standard error says how long it takes.
    Then follows the progress: a bar on a terminal, elsewhere a line each minute.
    After an interruption, the same command continues where it stopped:
    what is finished is on disk at least every half minute.
    With another --precision or --max-texts, or without them, it keeps the texts that it has read.
    A folder that holds a run of another model, data or settings is refused, and what differs is named.

    [bold]Examples[/bold]

    [cyan]attnfaith evaluate ./my-model reviews.csv[/cyan]   columns text and label, into attnfaith-run/
    [cyan]attnfaith evaluate ./my-model reviews.csv --text-column review --label-column stars --output run/[/cyan]
    [cyan]attnfaith evaluate ./my-model data.parquet --rankings attention,gradient --level input --bounds[/cyan]
    [cyan]attnfaith evaluate ./my-model data.jsonl --explanation lime=lime_scores --json > verdict.json[/cyan]
    [cyan]attnfaith evaluate ./my-model reviews.csv --report report.html[/cyan]   also a page for a browser
    [cyan]attnfaith evaluate ./my-model reviews.csv --precision 5[/cyan]   only as many texts as that takes
    [cyan]torchrun --nproc-per-node 2 -m attnfaith evaluate ./my-model data.parquet --output run/[/cyan]
    [cyan]attnfaith evaluate ./my-model data.parquet --part 3/16 --output run-3/[/cyan]   then attnfaith merge

    [bold]JSON[/bold]

    label, reason, level, verdict (sentences), summary (a row for each figure), counts,
    sample (what --precision and --max-texts came to), notes, tests, part, path.
    What is undefined is null; a median that is not reached is "inf".

    [bold]Exit code[/bold]

    0  the evaluation was made, whatever the verdict
    1  the model cannot be used, or attnfaith failed
    2  wrong arguments or data
    3  results cannot be written or read
    130  interrupted: what is done is kept, and the same command goes on
    """
    chosen = parsed_tests(tests, option, bounds=bounds)
    chosen_rankings, share = rankings_of(rankings), share_of_points(precision)
    chosen_part, page = part_of(part), _report_path(report)
    mapping, yours = label_mapping(label_map), assigned(explanation, "--explanation")
    options.warn_of_memory(output)
    with _kept(output, max_texts), bars(quiet):
        from attnfaith.evaluation.evaluator import Evaluator

        evaluator = Evaluator(
            model_path(model),
            decision=decision,
            tolerance=tolerance,
            max_length=max_length,
            device=device_of(device),
        )
        results = evaluator.compute(
            data,
            subset=subset,
            split=split,
            input_column=text_column,
            second_input_column=second_text_column,
            label_column=None if no_labels else label_column,
            label_mapping=mapping,
            rationale_column=rationale_column,
            rankings=chosen_rankings,
            explanations=yours,
            level=level,
            tests=chosen,
            target=class_of(target, evaluator.cut.model),
            output=ranking_output,
            steps=steps,
            hide=hide,
            special_tokens=special_tokens,
            protect_deciding=protect_deciding,
            batch_size=batch_size,
            seed=seed,
            n_resamples=resamples,
            confidence_level=confidence,
            precision=share,
            max_texts=max_texts,
            output_dir=output,
            store_texts=not no_texts,
            quiet=quiet,
            part=chosen_part,
        )
        if evaluator.processes.index == 0:
            if page is not None:
                results.to_html(page)
            tell(results, json=json, report=page)


def tell(results: Results, *, json: bool, report: Path | None = None) -> None:
    """Print the verdict and the notes, or one JSON object."""
    notes, verdict = results.manifest["notes"], results.verdict
    if not json:
        print_verdict(verdict)
        lines = [f"Note: {' '.join(note.split())}" for note in notes]
        lines.append(f"The results are in {results.location!r}.")
        if report is None:
            lines.append(f"For its figures and single texts in a browser: attnfaith report {quote(results.location)}")
        else:
            lines.append(f"The report is in {str(report)!r}. Open it in a browser.")
        print_lines("\n".join(lines))
        return
    write(
        {
            "label": verdict.label,
            "reason": verdict.reason,
            "level": verdict.level,
            "verdict": list(verdict.sentences),
            "summary": rows_of(results.summary()),
            "counts": results.manifest["counts"],
            "sample": results.manifest.get("sample"),
            "notes": notes,
            "tests": results.tests,
            "part": None if results.part is None else "{}/{}".format(*results.part),
            "path": place_of(results),
        }
    )


def place_of(results: Results) -> str:
    """The whole path of the folder of results, or their address."""
    return results.location if is_address(results.location) else str(results.path.resolve())


def _report_path(given: str | None) -> Path | None:
    """Check that a report can be written, in the process that writes it."""
    if given is None or process_number() != 0:
        return None
    from attnfaith.report.output_file import check_report_path

    return check_report_path(given)


@contextmanager
def _kept(output: str, most: int | None) -> Iterator[None]:
    """On an interrupt, say how much is kept, of how many rows at most, and how to continue."""
    try:
        yield
    except KeyboardInterrupt as stopped:
        raise KeyboardInterrupt(f"Interrupted. {_progress(output, most)}") from stopped


def _progress(output: str, most: int | None) -> str:
    from attnfaith.storage.manifest import NAME, read_manifest, rows_of
    from attnfaith.storage.run_folder import RunFolder
    from attnfaith.storage.run_store import Store

    if is_address(output):
        return f"What is done is kept at {output!r}: the same command goes on from there."
    folder = RunFolder(output)
    if not (folder.path / NAME).is_file():
        return "Nothing was written yet."
    try:
        manifest: dict[str, Any] = read_manifest(folder.path)
        finished, rows = Store(folder, manifest).kept_rows(), rows_of(manifest)
    except (AttnFaithError, OSError):
        return f"What is done is kept in {output!r}: the same command goes on from there."
    rows = rows if rows is None or most is None else min(rows, most)
    count = f"{finished:,} rows" if rows is None else f"{finished:,} of {rows:,} rows"
    return f"{count} are done and kept in {output!r}: the same command goes on from there."
