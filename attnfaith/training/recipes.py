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


def recipe(name: str, *, dataset: str | None = None) -> dict[str, Any]:
    """The training settings of a preset's paper as arguments of `fit`; settings that are not in the paper are left out.

    The smallest count of a word belongs to the tokenizer: ``preset(name).training.get("min_count")``.

    Args:
        name: see ``attnfaith.models.presets()``.
        dataset: the data set whose settings to use, if the paper has several.

    Example:
        >>> recipe("FLANrnn", dataset="yelp")
        {'optimizer': 'adam', 'max_grad_norm': 10.0, 'patience': 5, 'learning_rate': 0.0001}
    """
    training = preset(name, dataset=dataset).training
    unknown = sorted(set(training) - {*_KNOWN, *_OF_THE_TOKENIZER})
    if unknown:
        raise InputError(
            f"The preset {name!r} has training settings that fit does not know: {', '.join(unknown)}.",
            code="unknown-name",
        )
    return {key: value for key, value in training.items() if key in _KNOWN}


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
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            groups[bool(excluded and excluded.search(name))]["params"].append(parameter)
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
