"""``attnfaith compare``: the differences between two runs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnfaith.addresses import is_address
from attnfaith.cli import options
from attnfaith.cli.evaluate import place_of
from attnfaith.cli.terminal import print_lines
from attnfaith.escaping import visible

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped, unused-ignore]

    from attnfaith.evaluation.results import Results

OF_TEXTS = {"accuracy": "right", "confidence": "confidence", "special_weight": "weight on special tokens"}
"""What is printed of the texts themselves; of each test, its `headline`. JSON has everything."""


def compare(
    run_a: Annotated[str, typer.Argument(metavar="RUN_A", help="The folder of a finished run, or its address.")],
    run_b: Annotated[str, typer.Argument(metavar="RUN_B", help="Another.")],
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
    json: options.Json = False,
) -> None:
    """Compare two runs: their settings, and every estimate with its interval.

    Two models on the same texts are compared text by text, which tells smaller differences apart
    than two samples do. Differences are those of RUN_B less RUN_A.

    [bold]Examples[/bold]

    [cyan]attnfaith compare run-before/ run-after/[/cyan]
    [cyan]attnfaith compare run-bert/ run-roberta/ --json > differences.json[/cyan]
    [cyan]attnfaith compare old/ new/ --paired[/cyan]   the same texts, though labels or other columns changed

    [bold]JSON[/bold]

    sentences, paired, settings (those that differ), figures (a row for each), runs.
    What is undefined is null; a median that is not reached is "inf".

    [bold]Exit code[/bold]

    0  the runs were compared, whatever came out
    1  attnfaith failed
    2  wrong arguments, or no finished run there
    3  results cannot be read
    130  interrupted
    """
    from attnfaith.evaluation import comparison
    from attnfaith.evaluation.results import load_results

    first, second = load_results(run_a), load_results(run_b)
    same_data = first.same_data(second)
    together = same_data if paired is None else paired
    names = _names(run_a, run_b)
    differences = comparison.compare(
        first.tables,
        second.tables,
        paired=together,
        a_tests=first.ran,
        b_tests=second.ran,
        same_search=_search(first) == _search(second),
        n_resamples=resamples,
        confidence_level=confidence,
        seed=seed,
    )
    sentences = [*_how(same_data, paired), *map(visible, comparison.sentences(differences, names))]
    changed_settings = list(_apart(_settings(first), _settings(second)))
    if json:
        from attnfaith.cli.json_output import rows_of, write

        settings = [{"setting": name, "a": a, "b": b} for name, a, b in changed_settings]
        runs = {"a": place_of(first), "b": place_of(second)}
        write(
            {
                "sentences": sentences,
                "paired": together,
                "settings": settings,
                "figures": rows_of(differences),
                "runs": runs,
            }
        )
        return
    _print_settings(changed_settings, names)
    print_lines("\n".join(sentences))
    _print_figures(differences, names)


def _search(results: Results) -> tuple[Any, ...]:
    """The settings of the search for the smallest flipping sets."""
    erasure = results.tests.get("erasure", {})
    return results.manifest["run"].get("flipping_set_search"), erasure.get("bounds"), erasure.get("resolution")


def _how(same_data: bool, paired: bool | None) -> Iterator[str]:
    if same_data and paired is not False:
        yield "Both runs read the same data, so they are compared text by text."
    elif paired:
        yield "The data differ, in texts, labels or scores; row n is taken as the same text in both, as you say."
    elif same_data:
        yield "Both runs read the same data, but are compared as two samples, as you say."
    else:
        yield (
            "The data differ, in texts, labels or scores, so the runs are compared as two samples. If row n is the "
            "same text in both, --paired tells smaller differences apart."
        )


def _names(run_a: str, run_b: str) -> tuple[str, str]:
    from attnfaith.storage.atomic_files import folder_of

    a, b = (visible((Path(run) if is_address(run) else folder_of(run).resolve()).name) for run in (run_a, run_b))
    return (a, b) if a != b and a and b else ("A", "B")


def _settings(results: Results) -> dict[str, Any]:
    manifest = results.manifest
    settings = {
        "attnfaith": manifest.get("attnfaith"),
        "model name": manifest.get("facts", {}).get("model"),
        **manifest["run"],
        "versions": manifest.get("versions", {}),
    }
    return dict(_flat(settings))


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Flatten nested dicts to dotted paths."""
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _flat(inner, f"{path}.{name}" if path else str(name))
    else:
        yield path, value


def _apart(a: dict[str, Any], b: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    for name in dict.fromkeys([*a, *b]):
        if a.get(name) != b.get(name):
            yield name, a.get(name), b.get(name)


def _print_settings(changed_settings: list[tuple[str, Any, Any]], names: tuple[str, str]) -> None:
    if not changed_settings:
        print_lines("Both runs were made with the same model and settings.")
        return
    print_lines("Settings that differ:")
    for name, a, b in changed_settings:
        print_lines(f"  {visible(name)}: {_short(a)} in {names[0]}, {_short(b)} in {names[1]}")
    print_lines()


def _short(value: Any) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list) else "none" if value is None else str(value)
    text = visible(text[:100])
    return text if len(text) <= 60 else f"{text[:57]}..."


def _print_figures(differences: pd.DataFrame, names: tuple[str, str]) -> None:
    """Print the main estimates: a table on a terminal, else aligned columns."""
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table
    from rich.text import Text

    from attnfaith.evaluation.tests.base import tests

    header = ["erased at", "ranking", "figure", *names, "difference", "texts"]
    headlines = {"texts": OF_TEXTS} | {name: kind.headline for name, kind in tests.items()}
    level_names = {"texts": ""} | {name: kind.level_name for name, kind in tests.items()}
    rows = [
        _cells(row, headlines[row.test][row.figure], level_names[row.test])
        for row in differences.itertuples(index=False)
        if row.figure in headlines[row.test]
    ]
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


def _cells(row: Any, figure_name: str, level_name: str) -> list[str]:
    from attnfaith.attribution.display_names import display_name

    interval = "" if math.isnan(row.low) or math.isnan(row.high) else f" [{_signed(row.low)}, {_signed(row.high)}]"
    difference = row.note or ("undefined" if math.isnan(row.difference) else f"{_signed(row.difference)}{interval}")
    texts = str(row.texts_a) if row.texts_a == row.texts_b else f"{row.texts_a}, {row.texts_b}"
    same_level = row.ranking_level in ("", row.erase_level)
    ranking = display_name((row.ranking_level, row.ranking)) if row.ranking else ""
    ranking += "" if same_level else f" ({row.ranking_level} level)"
    level = level_name or row.erase_level
    return [visible(level), visible(ranking), figure_name, _value(row.a), _value(row.b), difference, texts]


def _value(number: float) -> str:
    return "undefined" if math.isnan(number) else f"{round(number, 3) + 0.0:.3f}"


def _signed(number: float) -> str:
    return f"{round(number, 3) + 0.0:+.3f}"  # never -0.000
