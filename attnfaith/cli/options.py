"""The arguments and options of the commands; those of several commands are described once."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from attnfaith.cli.exit_codes import process_number
from attnfaith.cli.terminal import print_lines
from attnfaith.errors import InputError
from attnfaith.validation import PRECISIONS, did_you_mean


def one_of(*choices: str) -> Callable[[str], str]:
    """A parser for one of several names; for any other it suggests the nearest.

    Example:
        >>> one_of("attention", "input")("input")
        'input'
    """

    def parse(value: str) -> str:
        if value not in choices:
            raise typer.BadParameter(f"{value!r} is none of {', '.join(choices)}.{did_you_mean(value, choices)}")
        return value

    return parse


def listed(text: str) -> list[str]:
    """Split a list at its commas.

    Example:
        >>> listed("erasure, single_weight")
        ['erasure', 'single_weight']
    """
    return [entry.strip() for entry in text.split(",") if entry.strip()]


def lines_of(text: str) -> list[str]:
    r"""Split at line feeds, with or without a carriage return, and at nothing else.

    ``str.splitlines`` also splits where a page or a paragraph ends, which is inside a text.

    Example:
        >>> lines_of("one\f still one\r\ntwo\n")
        ['one\x0c still one', 'two']
    """
    lines = text.removesuffix("\n").split("\n") if text else []
    return [line.removesuffix("\r") for line in lines]


def rankings_of(text: str) -> str | list[str]:
    """Parse names of rankings, or a word that stands for several.

    Example:
        >>> rankings_of("all"), rankings_of("attention, input/gradient"), rankings_of("default,omission")
        ('all', ['attention', 'input/gradient'], ['default', 'omission'])
    """
    names = listed(text)
    if not names:
        raise InputError('--rankings is empty. Give "default", "all", or names with commas such as attention,gradient.')
    return names[0] if names[0] in ("default", "all") and len(set(names)) == 1 else names


def assigned(pairs: Sequence[str] | None, option: str) -> dict[str, str]:
    """Parse ``name=value`` pairs; a repeated name is refused.

    Example:
        >>> assigned(["human=marks", "lime=weights"], "--explanation")
        {'human': 'marks', 'lime': 'weights'}
    """
    values: dict[str, str] = {}
    for pair in pairs or ():
        name, sign, value = (part.strip() for part in pair.partition("="))  # the value may hold the sign too
        if not (sign and name and value):
            raise InputError(f"Expected {option} as name=value, got {pair!r}.")
        if name in values:
            raise InputError(f"{option} gives {name!r} twice. Leave one out.")
        values[name] = value
    return values


def label_mapping(pairs: Sequence[str] | None) -> dict[str, Any] | None:
    """Parse ``class=label`` pairs into ``{class in the model: label in the data}``; numbers become numbers."""
    labels = assigned(pairs, "--label-map")
    return {name: _number(value) for name, value in labels.items()} or None


def part_of(part: str | None) -> tuple[int, int] | None:
    """The number of a part and the number of parts.

    Example:
        >>> part_of("3/16")
        (3, 16)
    """
    if part is None:
        return None
    match = re.fullmatch(r"([0-9]{1,15})/([0-9]{1,15})", part)
    if not match:
        raise InputError(f"Expected --part to be a number and of how many, such as 3/16, got {part!r}.")
    return int(match[1]), int(match[2])


def class_of(name: str, model: Any) -> str | int:
    """Parse a class: a name, or the number of a class.

    Example:
        >>> from types import SimpleNamespace as Space
        >>> stars = Space(config=Space(id2label={0: "1", 1: "2"}))
        >>> class_of("1", stars), class_of("0", stars), class_of("predicted", stars)
        ('1', 0, 'predicted')
    """
    names = getattr(getattr(model, "config", None), "id2label", None) or {}
    return name if name in map(str, names.values()) else _number(name)


def model_path(name: str) -> str:
    """Check the path of a model, or its name on the hub.

    Example:
        >>> model_path("./no/such/folder")
        Traceback (most recent call last):
        attnfaith.errors.InputError: There is no folder './no/such/folder' to load a model from. ...
    """
    path = Path(name).expanduser()
    near = ""
    if not path.exists() and path.parent.is_dir():
        near = did_you_mean(path.name, (entry.name for entry in path.parent.iterdir() if entry.is_dir()))
    if path.is_file():
        raise InputError(
            f"{name!r} is a file. Give the folder of a model that was saved with save_pretrained.",
            code="model-not-found",
        )
    only_path = name.startswith((".", "/", "~")) or name.count("/") > 1 or not name.strip()
    if not path.exists() and (only_path or near):
        raise InputError(
            f"There is no folder {name!r} to load a model from.{near} Give the folder of a classifier that was saved "
            "with save_pretrained, or its name on the Hugging Face hub.",
            code="model-not-found",
        )
    return str(path) if path.exists() else name


def device_of(device: str | None) -> str | None:
    """Check that a device exists."""
    if device is None:
        return None
    import torch

    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise InputError(f"The device {device!r} cannot be used: {str(error).partition(chr(10))[0]}") from error
    return device


@contextmanager
def bars(quiet: bool) -> Iterator[bool]:
    """Whether this process shows progress bars; those of other libraries are switched on or off as well."""
    from transformers.utils import logging

    show = not quiet and sys.stderr.isatty() and process_number() == 0
    before = logging.is_progress_bar_enabled()
    try:
        if not show:
            logging.disable_progress_bar()
        yield show
    finally:
        if before and not show:
            logging.enable_progress_bar()


def _number(text: str) -> Any:
    return int(text) if re.fullmatch(r"[+-]?[0-9]{1,18}", text) else text


def share_of_points(points: float | None) -> float | None:
    """A precision in points of a hundred, as a share.

    Example:
        >>> share_of_points(5.0), share_of_points(None)
        (0.05, None)
    """
    if points is None:
        return None
    lowest, highest = (100 * end for end in PRECISIONS)
    if not lowest <= points < highest:  # also NaN
        raise InputError(
            f"Expected --precision to be at least {lowest:g} and below {highest:g} points (5 for intervals of at most "
            f"± 5 points), got {points:g}."
        )
    return points / 100


_DATA, _RUN, _MODEL, _FIGURES = "Data", "What is run", "Model", "Figures"


def among(*choices: str) -> dict[str, Any]:
    """The settings of an option that takes one of several names."""
    return {"parser": one_of(*choices), "metavar": "|".join(choices)}


Model = Annotated[
    str, typer.Argument(metavar="MODEL", help="The folder of a classifier with its tokenizer, or a name.")
]
Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA", help="A csv, tsv, JSON lines or parquet file (or its address, s3://...), a folder, or a name."
    ),
]
TextColumn = Annotated[
    str, typer.Option("--text-column", "--input-column", help="The column of texts.", rich_help_panel=_DATA)
]
LabelColumn = Annotated[
    str,
    typer.Option(help="The column of labels. Optional; ignored if there is none.", rich_help_panel=_DATA),
]
NoLabels = Annotated[bool, typer.Option("--no-labels", help="Read no labels.", rich_help_panel=_DATA)]
SecondTextColumn = Annotated[
    str | None, typer.Option(help="The column of second texts, for pairs.", rich_help_panel=_DATA)
]
LabelMap = Annotated[
    list[str] | None,
    typer.Option(
        metavar="CLASS=LABEL",
        help="A class of the model and its label in the data; give it once for each class.",
        rich_help_panel=_DATA,
    ),
]
RationaleColumn = Annotated[
    str | None,
    typer.Option(help="The column of rationales that people marked, for the test rationales.", rich_help_panel=_DATA),
]
Subset = Annotated[str | None, typer.Option(help="The subset, if the data set has several.", rich_help_panel=_DATA)]
Split = Annotated[
    str | None, typer.Option(help='The split, if there are several, or a part: "test[:100]".', rich_help_panel=_DATA)
]
Precision = Annotated[
    float | None,
    typer.Option(
        metavar="POINTS",
        help="Read texts in a random order until the verdict's intervals reach at most so many points (5: ± 5 %) to "
        "either side.",
        rich_help_panel=_DATA,
    ),
]
MaxTexts = Annotated[
    int | None, typer.Option(metavar="N", help="Read at most N texts, drawn at random.", rich_help_panel=_DATA)
]


def warn_of_memory(output: str) -> None:
    """Say that an address in the memory of the command is gone with it."""
    if output.startswith("memory://"):
        print_lines(
            f"Note: {output!r} is in the memory of this command: nothing is left of it when the command ends. Give a "
            "folder to keep the results.",
            err=True,
        )


Output = Annotated[
    str, typer.Option(help="The folder of the results, or an address (s3://...): new, or of the same run.")
]
Report = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Also write a report for a browser: one HTML file that loads nothing."),
]
NoTexts = Annotated[
    bool,
    typer.Option(
        "--no-texts",
        help="Store no texts. By default the results hold up to 2,000 of them, with their scores, for the reader of "
        "single texts in the report.",
    ),
]
Rankings = Annotated[
    str,
    typer.Option(
        help='"default": those that are worth their passes at the input level. "all": every usual one. '
        "Or names with commas, such as gradient (at every level that has it), input/gradient, or "
        "default,omission. "
        "Known: {rankings}.",
        rich_help_panel=_RUN,
    ),
]
Explanations = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=COLUMN",
        help="An explanation of your own: a column with a list of scores for each text; repeatable.",
        rich_help_panel=_RUN,
    ),
]
Tests = Annotated[
    str | None,
    typer.Option(
        help='"all", or names with commas: {tests}.',
        show_default="erasure,single_weight, and in_distribution where tokens are hidden",
        rich_help_panel=_RUN,
    ),
]
TestOptions = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TEST.OPTION=VALUE",
        help="An option of a test, such as erasure.reference=paper; repeatable. An unknown name lists all of them.",
        rich_help_panel=_RUN,
    ),
]
Bounds = Annotated[
    bool,
    typer.Option(
        "--bounds",
        help="Also bound the smallest flipping sets where they are not known exactly (erasure.bounds=true). Slow.",
        rich_help_panel=_RUN,
    ),
]
EraseLevel = Annotated[
    str | None,
    typer.Option(
        **among("attention", "input", "both"),
        help="Where to erase. By default attention for a hierarchical or flat attention network (HAN, FLAN), both for "
        "others.",
        rich_help_panel=_RUN,
    ),
]
Hide = Annotated[
    str | None,
    typer.Option(
        **among("attention_mask", "mask_token", "pad", "zero", "delete"),
        help="How tokens are hidden at the input level. By default by the attention mask, where it hides anything.",
        rich_help_panel=_RUN,
    ),
]
SpecialTokens = Annotated[
    str,
    typer.Option(
        **among("include", "protect"), help="Whether special tokens such as [CLS] may be erased.", rich_help_panel=_RUN
    ),
]
ProtectDeciding = Annotated[
    bool,
    typer.Option(
        "--protect-deciding",
        help="At the input level, never hide the token whose position decides.",
        rich_help_panel=_RUN,
    ),
]
Target = Annotated[
    str,
    typer.Option(help="The class explained: predicted, gold, a name, or a number from 0.", rich_help_panel=_RUN),
]
Explained = Annotated[
    str | None,
    typer.Option(
        "--explain",
        **among("probability", "logit", "log_odds"),
        help="The number that is explained; by default that of each ranking.",
        rich_help_panel=_RUN,
    ),
]
Steps = Annotated[
    int | None,
    typer.Option(help="Points of integrated paths; by default 9 to 129, as each text needs.", rich_help_panel=_RUN),
]
Seed = Annotated[int, typer.Option(help="The seed of all random draws.")]
Decision = Annotated[
    str | None,
    typer.Option(
        **among("multiclass", "sigmoid", "multilabel", "regression"),
        help="How the model decides, where its configuration does not say.",
        rich_help_panel=_MODEL,
    ),
]
Tolerance = Annotated[
    float | None,
    typer.Option(help="For a regression: the change that counts as another decision.", rich_help_panel=_MODEL),
]
MaxLength = Annotated[
    int | None,
    typer.Option(
        help="Truncate longer texts to this many tokens; truncated texts are counted.", rich_help_panel=_MODEL
    ),
]
BatchSize = Annotated[int, typer.Option(help="Texts in a batch; fewer if memory runs out.", rich_help_panel=_MODEL)]
Device = Annotated[
    str | None,
    typer.Option(help="The device, such as cpu or cuda:0; by default the best one available.", rich_help_panel=_MODEL),
]
Resamples = Annotated[
    int, typer.Option(help="The number of bootstrap resamples behind each interval.", rich_help_panel=_FIGURES)
]
Confidence = Annotated[
    float, typer.Option(help="The confidence level of intervals, such as 0.95.", rich_help_panel=_FIGURES)
]
Part = Annotated[
    str | None,
    typer.Option(
        metavar="N/OF",
        help="Evaluate one part of the data, such as 3/16, for machines that do not communicate: see attnfaith merge.",
        rich_help_panel=_RUN,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no forecast and no progress.")]
