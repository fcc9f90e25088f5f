"""Restoring what Trainer changes beside the weights."""

from __future__ import annotations

import random
from collections.abc import Iterator, MutableMapping
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn


@contextmanager
def restore_after_training(model: nn.Module) -> Iterator[None]:
    """Restore everything that training changes except the weights, also after an error.

    Random states, accelerate's state, the model's device and its ``use_cache`` are restored. The model is left without
    gradients and in evaluation mode.

    Example:
        >>> model = nn.Linear(1, 1)
        >>> before = torch.get_rng_state()
        >>> with restore_after_training(model):
        ...     _ = torch.rand(1)
        >>> torch.equal(torch.get_rng_state(), before)
        True
    """
    from accelerate.state import AcceleratorState, GradientState, PartialState

    with ExitStack() as stack:
        for shared in (AcceleratorState._shared_state, PartialState._shared_state, GradientState._shared_state):
            stack.callback(_restore_dict, shared, dict(shared))
        stack.callback(random.setstate, random.getstate())
        stack.callback(np.random.set_state, np.random.get_state())  # noqa: NPY002 (Trainer seeds it)
        devices = range(torch.cuda.device_count()) if torch.cuda.is_available() else ()
        stack.enter_context(torch.random.fork_rng(devices=devices))
        # accelerate adds attributes to a model, and may wrap its forward
        stack.callback(_delete_new_names, vars(model), set(vars(model)))
        config = getattr(model, "config", None)
        if config is not None:
            stack.callback(_delete_new_names, vars(config), set(vars(config)))
            if "use_cache" in vars(config):
                stack.callback(setattr, config, "use_cache", config.use_cache)
        device = next((parameter.device for parameter in model.parameters()), None)
        if device is not None:
            stack.callback(model.to, device)
        stack.callback(model.zero_grad)
        stack.callback(model.eval)
        yield


def _restore_dict(shared: dict[str, Any], before: dict[str, Any]) -> None:
    shared.clear()
    shared.update(before)


def _delete_new_names(names: MutableMapping[str, Any], previous_names: set[str]) -> None:
    for name in set(names) - previous_names:
        del names[name]
