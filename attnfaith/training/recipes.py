"""How the papers trained their models, as arguments of `fit`; and the optimizer that these arguments describe."""

from __future__ import annotations

import re
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
_NOT_FIT = ("min_count",)  # of the tokenizer
OPTIMIZERS = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}


def recipe(name: str, *, dataset: str | None = None) -> dict[str, Any]:
    """What a preset's paper says of training, as arguments of `fit`; what it does not say is left to `fit`.

    The rarest words a paper keeps are the tokenizer's matter: ``preset(name).training.get("min_count")``.

    Args:
        name: see ``attnfaith.models.presets()``.
        dataset: whose settings to take where the paper has several.

    Example:
        >>> recipe("FLANrnn", dataset="yelp")
        {'optimizer': 'adam', 'max_grad_norm': 10.0, 'patience': 5, 'learning_rate': 0.0001}
    """
    training = preset(name, dataset=dataset).training
    unknown = sorted(set(training) - {*_KNOWN, *_NOT_FIT})
    if unknown:
        raise InputError(f"The preset {name!r} has training settings that fit does not know: {', '.join(unknown)}.")
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
    """An optimizer of the parameters that ask for a gradient.

    Args:
        model: whose parameters.
        optimizer: "adam" (decay is part of the gradient) or "adamw" (decay is apart from it).
        learning_rate: constant.
        amsgrad: the variant of that name.
        weight_decay: of every parameter ...
        weight_decay_exclude: ... but those whose name holds a match of this regular expression.

    Example:
        >>> made = make_optimizer(
        ...     nn.Linear(2, 2), optimizer="adam", learning_rate=0.1, weight_decay=0.01, weight_decay_exclude="bias"
        ... )
        >>> [group["weight_decay"] for group in made.param_groups]
        [0.01, 0.0]
    """
    if optimizer not in OPTIMIZERS:
        raise InputError(f"Expected optimizer to be one of {', '.join(map(repr, OPTIMIZERS))}, got {optimizer!r}.")
    spared = re.compile(weight_decay_exclude) if weight_decay_exclude else None
    groups: list[dict[str, Any]] = [
        {"params": [], "weight_decay": weight_decay},
        {"params": [], "weight_decay": 0.0},
    ]
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            groups[bool(spared and spared.search(name))]["params"].append(parameter)
    groups = [group for group in groups if group["params"]]
    if not groups:
        raise InputError("No parameter of the model asks for a gradient; there is nothing to train.")
    return OPTIMIZERS[optimizer](groups, lr=learning_rate, amsgrad=amsgrad)
