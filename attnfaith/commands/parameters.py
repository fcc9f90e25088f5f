"""The arguments and options of the commands, each described once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from attnfaith.commands.arguments import one_of

_DATA, _RUN, _MODEL, _FIGURES = "Data", "What is run", "Model", "Figures"


def _among(*known: str) -> dict[str, Any]:
    return {"parser": one_of(*known), "metavar": "|".join(known)}


Model = Annotated[
    str, typer.Argument(metavar="MODEL", help="The folder of a classifier with its tokenizer, or a name.")
]
Data = Annotated[
    str, typer.Argument(metavar="DATA", help="A csv, tsv, JSON lines or parquet file, a folder, or a name.")
]
TextColumn = Annotated[
    str, typer.Option("--text-column", "--input-column", help="The column of texts.", rich_help_panel=_DATA)
]
LabelColumn = Annotated[
    str,
    typer.Option(help="The column of labels; not needed, and left out where there is none.", rich_help_panel=_DATA),
]
NoLabels = Annotated[bool, typer.Option("--no-labels", help="Read no labels.", rich_help_panel=_DATA)]
SecondTextColumn = Annotated[
    str | None, typer.Option(help="The column of second texts, for pairs.", rich_help_panel=_DATA)
]
LabelMap = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=NUMBER",
        help="A label of the data and the number (or name) of its class; once for each label.",
        rich_help_panel=_DATA,
    ),
]
RationaleColumn = Annotated[
    str | None,
    typer.Option(help="The column of what people marked, for the test rationales.", rich_help_panel=_DATA),
]
Subset = Annotated[str | None, typer.Option(help="Of a data set that has several.", rich_help_panel=_DATA)]
Split = Annotated[
    str | None, typer.Option(help='Of a data set that has several, or a part: "test[:100]".', rich_help_panel=_DATA)
]
Output = Annotated[Path, typer.Option(help="The folder of the results: new, or of the same run.")]
Rankings = Annotated[
    str,
    typer.Option(
        help='"all", or names with commas: gradient wherever there is one, input/gradient for one.',
        rich_help_panel=_RUN,
    ),
]
Explanations = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=COLUMN",
        help="A ranking of yours: a column with a list of scores for each text; repeatable.",
        rich_help_panel=_RUN,
    ),
]
Tests = Annotated[
    str,
    typer.Option(
        help='"all", or names with commas: erasure, single_weight, agreement, permutation, adversarial, information, '
        "rationales, sanity.",
        rich_help_panel=_RUN,
    ),
]
TestOptions = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TEST.OPTION=VALUE",
        help="An option of a test, such as erasure.reference=paper; repeatable. A name that is not known lists them.",
        rich_help_panel=_RUN,
    ),
]
Bounds = Annotated[
    bool,
    typer.Option(
        "--bounds",
        help="Bound the smallest sets that flip, where they are not known exactly: erasure.bounds=true. Slow.",
        rich_help_panel=_RUN,
    ),
]
EraseLevel = Annotated[
    str | None,
    typer.Option(
        **_among("attention", "input", "both"),
        help="Where to erase. By default attention for a HAN or FLAN, both for others.",
        rich_help_panel=_RUN,
    ),
]
Hide = Annotated[
    str | None,
    typer.Option(
        **_among("attention_mask", "mask_token", "pad", "zero", "delete"),
        help="How tokens are hidden at the input level. By default by the attention mask, where it hides anything.",
        rich_help_panel=_RUN,
    ),
]
SpecialTokens = Annotated[
    str,
    typer.Option(
        **_among("include", "protect"), help="Whether [CLS] and its like may be erased.", rich_help_panel=_RUN
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
        **_among("probability", "logit", "log_odds"),
        help="What of that class is explained; by default each ranking's own.",
        rich_help_panel=_RUN,
    ),
]
Steps = Annotated[int | None, typer.Option(help="Points of integrated paths.", rich_help_panel=_RUN)]
Seed = Annotated[int, typer.Option(help="Of everything that is drawn at random.")]
Decision = Annotated[
    str | None,
    typer.Option(
        **_among("multiclass", "sigmoid", "multilabel", "regression"),
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
    typer.Option(help="Cut longer texts off at so many tokens; they are counted.", rich_help_panel=_MODEL),
]
BatchSize = Annotated[int, typer.Option(help="Texts in a batch; fewer while memory runs out.", rich_help_panel=_MODEL)]
Device = Annotated[
    str | None, typer.Option(help="Such as cpu or cuda:0; by default the best there is.", rich_help_panel=_MODEL)
]
Resamples = Annotated[int, typer.Option(help="Of the texts, behind every interval.", rich_help_panel=_FIGURES)]
Confidence = Annotated[float, typer.Option(help="Of the intervals.", rich_help_panel=_FIGURES)]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]
