"""Using somebody's model for a moment, and handing it back exactly as it was."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn

_LOCKS: weakref.WeakKeyDictionary[nn.Module, threading.RLock] = weakref.WeakKeyDictionary()
_LOCKS_GUARD = threading.Lock()
WRAPPERS = {"DistributedDataParallel": "module", "DataParallel": "module", "OptimizedModule": "_orig_mod"}


def unwrap(model: nn.Module) -> nn.Module:
    """The module inside data-parallel and `torch.compile` wrappers; same weights, run eagerly in this process."""
    while type(model).__name__ in WRAPPERS:
        model = getattr(model, WRAPPERS[type(model).__name__])
    return model


@contextmanager
def borrowed(model: nn.Module, *, eager: bool = False) -> Iterator[ExitStack]:
    """Evaluation mode, no parameter gradients, random state kept; undone on the way out, whatever happens inside.

    One thread at a time: a second cut of the same model waits. Parameters do not require gradients inside, so gradients
    flow only to tensors that attnfaith itself makes leaves, nothing reaches a parameter's ``.grad``, and no graph is
    built before such a leaf. Yields the stack on which further changes register their undoing.

    Args:
        model: the model to use.
        eager: also switch attentions off kernels that no function mode can see (flash, flex) for the duration.
    """
    with _LOCKS_GUARD:
        lock = _LOCKS.setdefault(model, threading.RLock())
    with lock, ExitStack() as undo:
        devices = {parameter.device for parameter in model.parameters() if parameter.device.type == "cuda"}
        undo.enter_context(torch.random.fork_rng(devices=sorted(devices, key=str)))
        undo.enter_context(torch.inference_mode(False))
        undo.enter_context(torch.enable_grad())
        training = [module for module in model.modules() if module.training]
        undo.callback(_set_flags, training, "training", True)
        _set_flags(training, "training", False)
        learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
        undo.callback(_require_grad, learning, True)
        _require_grad(learning, False)
        for module in model.modules():
            if getattr(module, "_compiled_call_impl", None) is not None:
                undo.callback(setattr, module, "_compiled_call_impl", module._compiled_call_impl)
                module._compiled_call_impl = None
        if eager:
            undo.enter_context(visible_attention(model))
        yield undo


_SWITCHED: dict[int, tuple[Any, str, int]] = {}


@contextmanager
def visible_attention(model: nn.Module) -> Iterator[None]:
    """Run a Transformers model on an attention that torch can see, and put its own back.

    A model loaded with sdpa or eager attention needs nothing. Flash and flex kernels hide the weights, so for the
    duration those configurations say "sdpa". Configurations may be shared between models and threads: the first to
    come switches, the last to leave puts back.
    """
    configs = {id(config): config for config in _configs(model) if _hides_weights(config)}
    with _LOCKS_GUARD:
        for key, config in configs.items():
            _, original, users = _SWITCHED.get(key, (config, config._attn_implementation, 0))
            _SWITCHED[key] = (config, original, users + 1)
            config._attn_implementation_internal = "sdpa"
        held = [key for key in {id(config) for config in _configs(model)} if key in _SWITCHED and key not in configs]
        for key in held:
            config, original, users = _SWITCHED[key]
            _SWITCHED[key] = (config, original, users + 1)
    try:
        yield
    finally:
        with _LOCKS_GUARD:
            for key in (*configs, *held):
                config, original, users = _SWITCHED.pop(key)
                if users > 1:
                    _SWITCHED[key] = (config, original, users - 1)
                else:
                    config._attn_implementation_internal = original


def _configs(model: nn.Module) -> list[Any]:
    found = {id(module.config): module.config for module in model.modules() if hasattr(module, "config")}
    return [config for config in found.values() if hasattr(config, "_attn_implementation_internal")]


def _hides_weights(config: Any) -> bool:
    return (config._attn_implementation or "eager") not in ("eager", "sdpa")


def _set_flags(modules: list[nn.Module], name: str, value: bool) -> None:
    for module in modules:
        setattr(module, name, value)


def _require_grad(parameters: list[nn.Parameter], value: bool) -> None:
    for parameter in parameters:
        parameter.requires_grad_(value)


def patch_forward(undo: ExitStack, module: nn.Module, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Answer a module's calls in this thread with ``make(original)`` until ``undo`` closes; other threads see no change."""
    original = module.forward
    instead = make(original)
    owner = threading.get_ident()

    def forward(*args: Any, **kwargs: Any) -> Any:
        return (instead if threading.get_ident() == owner else original)(*args, **kwargs)

    if "forward" in vars(module):
        undo.callback(setattr, module, "forward", original)
    else:
        undo.callback(vars(module).pop, "forward", None)
    module.forward = forward  # type: ignore[method-assign]
