"""The papers' training settings as arguments of `fit`, and the optimizer that these arguments define."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from attnfaith.errors import InputError
from attnfaith.models.paper_presets import preset
from attnfaith.parameter_names import parameter
from attnfaith.validation import whole_number

_KNOWN = (
    "optimizer",
    "amsgrad",
    "learning_rate",
    "weight_decay",
    "weight_decay_exclude",
    "max_grad_norm",
    "patience",
    "batch_size",
)
_OF_THE_TOKENIZER = ("min_count",)
OPTIMIZERS = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}


FINE_TUNING = "fine-tuning"
_FINE_TUNING = {
    "optimizer": "adamw",
    "learning_rate": 2e-5,
    "weight_decay": 0.01,
    "weight_decay_exclude": r"bias|[Nn]orm|\bln_",
    "max_grad_norm": 1.0,
    "warmup": 0.1,
    "batch_size": 16,
    "epochs": 3,
}
_PASSES, _PATIENCE, _BATCH = 20, 5, 32  # where a paper says nothing
_STEPS = {True: (500, 200), False: (2000, 400)}
"""The fewest steps of a training, and of its patience: for fine-tuning, and from scratch."""


def recipe(name: str, *, dataset: str | None = None, texts: int | None = None) -> dict[str, Any]:
    """The training settings of a preset's paper, or those for fine-tuning a Transformer, as arguments of `fit`.

    Settings that are not in the paper are left out, unless the number of texts is given. Then epochs and patience are
    added, and raised where texts are few: the papers' were chosen for large data, where an epoch has many steps. From
    scratch there are at least 20 epochs and 2,000 steps, and training stops early after at least 5 epochs (or as the
    paper says) and 400 steps without a better validation accuracy; in fine-tuning at least 3 epochs and 500 steps, and
    5 epochs and 200 steps.

    The smallest count of a word belongs to the tokenizer: ``preset(name).training.get("min_count")``.

    Args:
        name: see ``attnfaith.models.presets()``; "fine-tuning" for any pretrained Transformer.
        dataset: the data set whose settings to use, if the paper has several.
        texts: the number of texts to train on.

    Example:
        >>> recipe("FLANrnn", dataset="yelp")
        {'optimizer': 'adam', 'max_grad_norm': 10.0, 'patience': 5, 'learning_rate': 0.0001}
        >>> few, many = (recipe("FLANrnn", texts=texts) for texts in (500, 100_000))
        >>> few["epochs"], few["patience"], many["epochs"], many["patience"]
        (125, 25, 20, 5)
    """
    tuned = name == FINE_TUNING
    if tuned:
        if dataset is not None:
            raise InputError(
                f"{parameter('dataset')} is for the presets; {FINE_TUNING!r} has one recipe. Leave it out.",
                code="unknown-name",
            )
        settings: dict[str, Any] = dict(_FINE_TUNING)
    else:
        training = preset(name, dataset=dataset).training
        unknown = sorted(set(training) - {*_KNOWN, *_OF_THE_TOKENIZER})
        if unknown:
            raise InputError(
                f"The preset {name!r} has training settings that fit does not know: {', '.join(unknown)}.",
                code="unknown-name",
            )
        settings = {key: value for key, value in training.items() if key in _KNOWN}
    if texts is None:
        return settings
    settings.setdefault("batch_size", _BATCH)
    in_an_epoch = math.ceil(whole_number(texts, "texts", least=1) / settings["batch_size"])
    steps, patience = _STEPS[tuned]
    settings["epochs"] = max(settings.get("epochs", _PASSES), math.ceil(steps / in_an_epoch))
    settings["patience"] = max(settings.get("patience", _PATIENCE), math.ceil(patience / in_an_epoch))
    return settings


def make_optimizer(
    model: nn.Module,
    *,
    optimizer: str,
    learning_rate: float,
    amsgrad: bool = False,
    weight_decay: float = 0.0,
    weight_decay_exclude: str | None = None,
) -> torch.optim.Optimizer:
    """An optimizer of the parameters of a model that require gradients.

    Args:
        model: the model.
        optimizer: "adam" (weight decay is added to the gradient) or "adamw" (decoupled weight decay).
        learning_rate: constant.
        amsgrad: use the AMSGrad variant.
        weight_decay: applied to all parameters ...
        weight_decay_exclude: ... except those whose name contains a match of this regular expression.

    Example:
        >>> made = make_optimizer(
        ...     nn.Linear(2, 2), optimizer="adam", learning_rate=0.1, weight_decay=0.01, weight_decay_exclude="bias"
        ... )
        >>> [group["weight_decay"] for group in made.param_groups]
        [0.01, 0.0]
    """
    if optimizer not in OPTIMIZERS:
        raise InputError(f"Expected optimizer to be one of {', '.join(map(repr, OPTIMIZERS))}, got {optimizer!r}.")
    excluded = re.compile(weight_decay_exclude) if weight_decay_exclude else None
    groups: list[dict[str, Any]] = [
        {"params": [], "weight_decay": weight_decay},
        {"params": [], "weight_decay": 0.0},
    ]
    for name, weight in model.named_parameters():
        if weight.requires_grad:
            groups[bool(excluded and excluded.search(name))]["params"].append(weight)
    groups = [group for group in groups if group["params"]]
    if not groups:
        raise InputError("No parameter of the model requires a gradient, so there is nothing to train.")
    return OPTIMIZERS[optimizer](groups, lr=learning_rate, amsgrad=amsgrad)


def learning_rate_at(warmup: float | None, steps: int) -> Callable[[int], float]:
    """The factor of the learning rate at each step, counted from 0.

    Args:
        warmup: the share of the steps in which it rises from 0 to 1, before it falls to 0; None for 1 at all steps.
        steps: the number of steps.

    Example:
        >>> [learning_rate_at(0.5, 4)(step) for step in range(5)]
        [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    if warmup is None:
        return lambda step: 1.0
    rising = math.ceil(warmup * steps)
    return lambda step: step / rising if step < rising else max(0, steps - step) / max(1, steps - rising)
