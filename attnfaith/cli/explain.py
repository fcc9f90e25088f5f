"""``attnfaith explain``: which parts of a text matter for the decision of a classifier."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnfaith.cli import options
from attnfaith.cli.json_output import write
from attnfaith.cli.options import bars, class_of, lines_of, model_path, one_of
from attnfaith.cli.terminal import print_lines
from attnfaith.errors import InputError, StorageError

if TYPE_CHECKING:
    from attnfaith.attribution.explanation import Explanation


def explain(
    model: options.Model,
    text: Annotated[str, typer.Argument(metavar="TEXT", help='The text; "-" reads standard input, a text per line.')],
    second_text: Annotated[
        str | None, typer.Option(help="The second text of a pair; of every pair, when lines are read.")
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            help="The ranking: {rankings}. By default gradient_x_attention for a hierarchical or flat attention "
            "network (HAN, FLAN), and lrp at the input level for other models."
        ),
    ] = None,
    level: Annotated[
        str | None,
        typer.Option(
            parser=one_of("attention", "input"),
            metavar="attention|input",
            help="Whether items of the final attention are scored, or tokens through the whole model. By default that "
            "of the default ranking, or attention where a ranking is named.",
        ),
    ] = None,
    words: Annotated[bool, typer.Option("--words", help="Merge the scores of a word's tokens.")] = False,
    html: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Also write a page with the text highlighted.")
    ] = None,
    target: Annotated[
        str, typer.Option(help="The class explained: predicted, a name, or a number from 0.")
    ] = "predicted",
    output_quantity: options.Explained = None,
    steps: options.Steps = None,
    decision: options.Decision = None,
    max_length: options.MaxLength = None,
    seed: options.Seed = 0,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object for each text, on a line, and nothing else.")
    ] = False,
    quiet: options.Quiet = False,
) -> None:
    """Explain the decision of a classifier on a text: each token with its score by a ranking.

    In a terminal the text is highlighted: orange speaks for the class, blue against it, and signs say the same.
    Elsewhere a table has the score of every item, as it comes from the method.

    [bold]Examples[/bold]

    [cyan]attnfaith explain ./my-model "A long, dull film."[/cyan]
    [cyan]attnfaith explain ./my-model "A long, dull film." --method attention --words[/cyan]
    [cyan]attnfaith explain ./my-model "A dull film." --level input --method lrp --target positive[/cyan]
    [cyan]attnfaith explain ./my-model "A man sleeps." --second-text "He is awake." --html page.html[/cyan]
    [cyan]attnfaith explain ./my-model - --json < texts.txt > scores.jsonl[/cyan]

    [bold]Exit code[/bold]

    0  every text was explained
    1  the model cannot be used, or attnfaith failed
    2  wrong arguments or texts
    3  the page cannot be written
    130  interrupted
    """
    from attnfaith.cli.explanation_view import show

    texts = _texts(text, second_text)
    with bars(quiet):
        from attnfaith.attribution.attributor import Attributor

        attributor = Attributor(
            model_path(model),
            method=method,
            level=level,
            output=output_quantity,
            decision=decision,
            steps=steps,
            max_length=max_length,
            seed=seed,
        )
        explanations: list[Explanation] = attributor(texts, target=class_of(target, attributor.cut.model))
    if html is not None:
        _write(html, explanations)
    for number, explanation in enumerate(explanations):
        if json:
            _print_json(explanation, words=words)
            continue
        if number:
            print_lines()
        show(explanation, words=words)


def _texts(text: str, second: str | None) -> list[Any]:
    """The texts or pairs to explain; skipped blank lines are reported."""
    lines = [text]
    if text == "-":
        try:
            lines_read = lines_of(typer.get_binary_stream("stdin").read().decode("utf-8-sig"))
        except UnicodeDecodeError as error:
            raise InputError(f"Standard input is not UTF-8: {error}.", code="unreadable-data") from error
        lines = [line for line in lines_read if line.strip()]
        if not lines:
            raise InputError("Standard input has no text. Give one text per line.", code="no-texts")
        if blank := len(lines_read) - len(lines):
            print_lines(f"Note: {blank} blank line{'s were' if blank > 1 else ' was'} left out.", err=True)
    return [line if second is None else (line, second) for line in lines]


def _print_json(explanation: Explanation, *, words: bool) -> None:
    from attnfaith.attribution.rendering import finite

    extra: dict[str, Any] = {}
    if words:
        extra["word_scores"] = [
            {
                "text": word.text,
                "score": finite(word.score),
                "start": word.start,
                "end": word.end,
                "segment": word.segment,
            }
            for word in explanation.words(special=True)
        ]
    write({**explanation.to_dict(), **extra})


def _write(path: Path, explanations: list[Explanation]) -> None:
    body = "\n".join(explanation._repr_html_() for explanation in explanations)
    page = f'<!doctype html>\n<html>\n<meta charset="utf-8">\n<title>attnfaith explain</title>\n{body}\n</html>\n'
    try:
        path.expanduser().write_bytes(page.encode("utf-8", "replace"))
    except OSError as error:
        raise StorageError(f"The page {str(path)!r} cannot be written: {error.strerror or error}.") from error
    print_lines(f"The page is in {str(path)!r}.", err=True)
