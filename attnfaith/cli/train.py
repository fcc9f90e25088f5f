"""``attnfaith train``: train a classifier of the literature, or fine-tune a Transformer."""

from __future__ import annotations

from typing import Annotated

import typer

from attnfaith.cli import options
from attnfaith.cli.exit_codes import process_number
from attnfaith.cli.objective_options import OBJECTIVES, parsed_objectives
from attnfaith.cli.options import bars, label_mapping, model_path
from attnfaith.cli.terminal import print_lines

_SETTINGS, _WORDS, _OBJECTIVES = "Settings", "Presets", "Objectives"

Start = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A preset such as HANrnn, to train from scratch; or the folder of a Transformer with its tokenizer (or "
        "its name), to fine-tune. Presets: {presets}.",
    ),
]
Output = Annotated[str, typer.Option(help="The folder of the model: new, or of the same training.")]
Validation = Annotated[
    str | None,
    typer.Option(
        metavar="SPLIT|DATA",
        help="What chooses the epoch: a split of the data, or other data. By default the split called validation, val, "
        "valid or dev; else a tenth of the texts.",
        rich_help_panel="Data",
    ),
]
Split = Annotated[
    str | None,
    typer.Option(
        help='The split to train on, or a part of it: "train[:1000]". By default train.', rich_help_panel="Data"
    ),
]
LabelColumn = Annotated[
    str,
    typer.Option(
        help="The column of labels: classes as numbers or strings, lists of labels, or numbers.", rich_help_panel="Data"
    ),
]
LabelMap = Annotated[
    list[str] | None,
    typer.Option(
        metavar="CLASS=LABEL",
        help="The name of a class and its label in the data; give it once for each class.",
        rich_help_panel="Data",
    ),
]
Decision = Annotated[
    str | None,
    typer.Option(
        **options.among("multiclass", "sigmoid", "multilabel", "regression"),
        help="How a new model decides. By default by classes, or by several labels where the labels are lists.",
        rich_help_panel=_SETTINGS,
    ),
]
Epochs = Annotated[
    int | None, typer.Option(help="The largest number of passes over the data.", rich_help_panel=_SETTINGS)
]
LearningRate = Annotated[float | None, typer.Option(help="The learning rate.", rich_help_panel=_SETTINGS)]
BatchSize = Annotated[int | None, typer.Option(help="Texts in a step.", rich_help_panel=_SETTINGS)]
Patience = Annotated[
    int | None,
    typer.Option(
        metavar="EPOCHS",
        help="Stop after so many epochs without a better validation accuracy; 0 never stops early.",
        rich_help_panel=_SETTINGS,
    ),
]
WeightDecay = Annotated[float | None, typer.Option(help="The weight decay.", rich_help_panel=_SETTINGS)]
MaxGradNorm = Annotated[
    float | None,
    typer.Option(help="Scale larger gradients down to this norm; 0 for no limit.", rich_help_panel=_SETTINGS),
]
Warmup = Annotated[
    float | None,
    typer.Option(
        metavar="SHARE",
        help="The share of the steps in which the learning rate rises, before it falls to 0.",
        rich_help_panel=_SETTINGS,
    ),
]
MaxLength = Annotated[
    int | None, typer.Option(help="Truncate longer texts to this many tokens.", rich_help_panel=_SETTINGS)
]
Dataset = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="The data set of the paper whose settings to take: imdb, yelp, amazon or yahoo for HAN and FLAN.",
        rich_help_panel=_WORDS,
    ),
]
Vectors = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Pretrained word vectors: GloVe or word2vec as text (also .gz), or .npy with a list of words beside it.",
        rich_help_panel=_WORDS,
    ),
]
FreezeVectors = Annotated[
    bool, typer.Option("--freeze-vectors", help="Leave the word vectors as they are.", rich_help_panel=_WORDS)
]
MinCount = Annotated[
    int | None,
    typer.Option(
        help="Know words that occur so often: by default 2, and the paper's number from 10,000 texts on.",
        rich_help_panel=_WORDS,
    ),
]
Objectives = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help=f"An intervention on the training; repeatable. One of {', '.join(OBJECTIVES)}.",
        rich_help_panel=_OBJECTIVES,
    ),
]
ObjectiveOptions = Annotated[
    list[str] | None,
    typer.Option(
        metavar="OBJECTIVE.OPTION=VALUE",
        help="An option of an objective, such as deceptive-attention.words=he,she or diversity.weight=0.1; repeatable. "
        "An unknown name lists all of them.",
        rich_help_panel=_OBJECTIVES,
    ),
]


def train(
    model: Start,
    data: options.Data,
    output: Output,
    text_column: options.TextColumn = "text",
    label_column: LabelColumn = "label",
    second_text_column: options.SecondTextColumn = None,
    label_map: LabelMap = None,
    subset: options.Subset = None,
    split: Split = None,
    validation: Validation = None,
    decision: Decision = None,
    epochs: Epochs = None,
    learning_rate: LearningRate = None,
    batch_size: BatchSize = None,
    patience: Patience = None,
    weight_decay: WeightDecay = None,
    max_grad_norm: MaxGradNorm = None,
    warmup: Warmup = None,
    max_length: MaxLength = None,
    dataset: Dataset = None,
    vectors: Vectors = None,
    freeze_vectors: FreezeVectors = False,
    min_count: MinCount = None,
    objective: Objectives = None,
    option: ObjectiveOptions = None,
    seed: options.Seed = 0,
    quiet: options.Quiet = False,
) -> None:
    """Train a classifier of the literature from scratch, or fine-tune a Transformer.

    The folder of the output is a complete model, ready for attnfaith evaluate:
    weights, tokenizer, names of the classes, and a model card that says how it was trained.
    Settings are those of the preset's paper, or usual ones for fine-tuning;
    with few texts there are more epochs, so that there are enough steps to learn from them.
    The epoch with the best validation accuracy is kept.

    Progress is a bar on a terminal, and otherwise one line per minute.
    After an interruption, the same command continues from its last checkpoint, to the same weights.
    A folder that holds another training is refused, and the first difference is named.

    [bold]Examples[/bold]

    [cyan]attnfaith train HANrnn reviews.csv --output han/[/cyan]   columns text and label
    [cyan]attnfaith train HANrnn reviews.parquet --text-column review --label-column stars --output han/[/cyan]
    [cyan]attnfaith train JW-lstm-additive train.csv --validation dev.csv --vectors glove.txt --output lstm/[/cyan]
    [cyan]attnfaith train ./my-transformer reviews.parquet --output tuned/[/cyan]   fine-tune, or train a new head
    [cyan]attnfaith train JW-lstm-dot nli.csv --text-column premise --second-text-column hypothesis --output p/[/cyan]
    [cyan]attnfaith train FLANrnn reviews.csv --objective diversity --option diversity.weight=0.1 --output d/[/cyan]
    [cyan]attnfaith evaluate han/ test.csv[/cyan]   then judge its attention

    [bold]Exit code[/bold]

    0  the model is trained, whatever its accuracy; a warning says if it is no better than always giving one answer
    1  the training failed, for instance because the loss became NaN
    2  wrong arguments or data
    3  the output cannot be written or read
    130  interrupted: the same command goes on from the last checkpoint
    """
    mapping = label_mapping(label_map)
    try:
        with bars(quiet):
            from attnfaith.models.paper_presets import PRESETS
            from attnfaith.training import train as train_model

            history = train_model(
                model if model in PRESETS else model_path(model),
                data,
                output_dir=output,
                input_column=text_column,
                second_input_column=second_text_column,
                label_column=label_column,
                label_mapping=mapping,
                subset=subset,
                split=split,
                validation=validation,
                decision=decision,
                epochs=epochs,
                learning_rate=learning_rate,
                batch_size=batch_size,
                patience=patience,
                weight_decay=weight_decay,
                max_grad_norm=max_grad_norm,
                warmup=warmup,
                max_length=max_length,
                dataset=dataset,
                vectors=vectors,
                freeze_vectors=freeze_vectors,
                min_count=min_count,
                objectives=parsed_objectives(objective, option),
                seed=seed,
                quiet=quiet,
            )
            warning = history.warning
    except KeyboardInterrupt as stopped:
        raise KeyboardInterrupt("Interrupted. The same command goes on from the last checkpoint.") from stopped
    if process_number() == 0:
        if warning is not None:
            print_lines(f"Warning: {warning}", err=True)
        print_lines(f"{history}\nThe model is in {output!r}.")
