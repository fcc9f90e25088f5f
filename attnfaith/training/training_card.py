"""The model card that a training writes beside its model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from attnfaith.escaping import visible
from attnfaith.markdown import escape_markdown, markdown_table
from attnfaith.training.fitting import History
from attnfaith.training.labelled_texts import LabelledTexts, class_name

MOST = 50
"""Classes that are listed."""


def training_card(
    start: str,
    model: Any,
    texts: LabelledTexts,
    settings: Mapping[str, Any],
    history: History,
    content: Mapping[str, Any],
) -> str:
    """The card as Markdown.

    Args:
        start: the preset, or the name of the Transformer.
        model: the trained model.
        texts: the texts it was trained on.
        settings: the arguments of `fit`.
        history: the course of the training.
        content: what ``training.json`` holds.
    """
    best = history.best
    accuracy = best.get("validation_accuracy", math.nan)
    result = (
        f"validation loss {best['validation_loss']:.4g}"
        if math.isnan(accuracy)
        else f"validation accuracy {accuracy:.3f}"
    )
    rows = [
        (f"`{name}`", _plain(str(value))) for name, value in {**settings, "seed": content["training"]["seed"]}.items()
    ]
    lines = [
        "---",
        "tags:",
        "- attnfaith",
        "pipeline_tag: text-classification",
        "---",
        "",
        f"# {_plain(start)}, trained by attnfaith",
        "",
        f"A text classifier of the class `{type(model).__name__}`, trained from `{_plain(start)}` on "
        f"{len(texts.train):,} texts: {result} on {len(texts.validation):,} others, in epoch {history.best_epoch} of "
        f"{len(history.epochs)}{' (stopped early)' if history.stopped else ''}.",
        *([] if history.warning is None else ["", f"**{_plain(history.warning)}**"]),
        "",
        *(f"- {_plain(note)}" for note in content["notes"]),
        f"- Fingerprint of the data (sha256): `{texts.fingerprint}`.",
        *([] if texts.labels.kind == "regression" else [f"- Classes: {_classes(texts)}."]),
        "",
        "## Settings",
        "",
        *markdown_table(("setting", "value"), rows),
        "",
        "The figures of every epoch are in `training.json` (`attnfaith.training.load_history`).",
        "",
        "## Use",
        "",
        "```python",
        "import attnfaith  # registers the model classes of the literature",
        "from transformers import AutoModelForSequenceClassification, AutoTokenizer",
        "",
        'model = AutoModelForSequenceClassification.from_pretrained("path/to/this/folder")',
        'tokenizer = AutoTokenizer.from_pretrained("path/to/this/folder")',
        "```",
        "",
        "`attnfaith evaluate path/to/this/folder data.csv` says whether its attention can be read as an explanation.",
        "",
    ]
    return "\n".join(lines)


def _classes(texts: LabelledTexts) -> str:
    count = texts.labels.classes
    names = ", ".join(_plain(class_name(texts.labels, number)) for number in range(min(count, MOST)))
    return names + (f" and {count - MOST} more" if count > MOST else "")


def _plain(text: str) -> str:
    return escape_markdown(visible(text))
