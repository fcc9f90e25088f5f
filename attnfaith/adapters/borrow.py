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
def borrowed(model: nn.Module, *, gradients: bool = True) -> Iterator[ExitStack]:
    """Evaluation mode, no parameter gradients, random state kept; undone on the way out, whatever happens inside.

    One thread at a time: a second cut of the same model waits. With ``gradients``, gradients are on but parameters do
    not require them, so they flow only to tensors that attnfaith itself makes leaves, nothing reaches a parameter's
    ``.grad``, and no graph is built before such a leaf. Without, gradients are off.

    Modules compiled in place run as written, and the configuration says for the duration what `_switches` lists. Yields
    the stack on which further changes register their undoing.
    """
    with _LOCKS_GUARD:
        lock = _LOCKS.setdefault(model, threading.RLock())
    with lock, ExitStack() as undo:
        modules = _modules(model)
        parameters = [value for module in modules for value in module._parameters.values() if value is not None]
        devices = {parameter.device for parameter in parameters if parameter.is_cuda}
        undo.enter_context(torch.random.fork_rng(devices=sorted(devices, key=str)))
        undo.enter_context(torch.inference_mode(False))
        undo.enter_context(torch.set_grad_enabled(gradients))
        for module in modules:
            if module.training:
                undo.callback(setattr, module, "training", True)
                module.training = False
            if module._compiled_call_impl is not None:
                undo.callback(setattr, module, "_compiled_call_impl", module._compiled_call_impl)
                module._compiled_call_impl = None
        for parameter in parameters if gradients else ():
            if parameter.requires_grad:
                undo.callback(parameter.requires_grad_, True)
                parameter.requires_grad_(False)
        undo.enter_context(_switched(modules))
        yield undo


def _modules(model: nn.Module) -> list[nn.Module]:
    """Every module once, outermost first; ``model.modules()`` builds names and takes five times as long."""
    found, pending = {id(model): model}, [model]
    while pending:
        for child in pending.pop()._modules.values():
            if child is not None and id(child) not in found:
                found[id(child)] = child
                pending.append(child)
    return list(found.values())


NO_PADDING = -1  # an id that no text holds: every token is real
_SWITCHED: dict[tuple[int, str], tuple[Any, Any, int]] = {}


def _switches(modules: list[nn.Module]) -> dict[tuple[int, str], tuple[Any, Any]]:
    """What has to be said differently in the model's configurations for the duration, and how.

    Attention kernels that hide their weights (flash, flex) give way to sdpa. A decoder without a padding token refuses
    two texts at once although neither has padding; it is told of a token that no text holds.
    """
    changes: dict[tuple[int, str], tuple[Any, Any]] = {}
    for config in [getattr(module, "config", None) for module in modules]:
        attention = "_attn_implementation_internal"
        if hasattr(config, attention):
            own = getattr(config, attention) or "eager"
            if own not in ("eager", "sdpa") or (id(config), attention) in _SWITCHED:
                changes[id(config), attention] = (config, "sdpa")
        for part in (config, getattr(config, "text_config", None)):
            if getattr(part, "pad_token_id", 0) in (None, NO_PADDING):
                changes[id(part), "pad_token_id"] = (part, NO_PADDING)
    return changes


@contextmanager
def _switched(modules: list[nn.Module]) -> Iterator[None]:
    """Make the changes of `_switches`, and undo them.

    Configurations may be shared between models and threads: the first to come switches, the last to leave puts back.
    """
    with _LOCKS_GUARD:
        changes = _switches(modules)
        for key, (config, value) in changes.items():
            _, own, users = _SWITCHED.get(key, (config, getattr(config, key[1]), 0))
            _SWITCHED[key] = (config, own, users + 1)
            setattr(config, key[1], value)
    try:
        yield
    finally:
        with _LOCKS_GUARD:
            for key in changes:
                config, own, users = _SWITCHED.pop(key)
                if users > 1:
                    _SWITCHED[key] = (config, own, users - 1)
                else:
                    setattr(config, key[1], own)


Forward = Callable[..., Any]


def patch_forward(undo: ExitStack, module: nn.Module, make: Callable[[Forward], Forward]) -> None:
    """Answer a module's calls in this thread with ``make(original)`` until ``undo`` closes; others see no change."""
    original = module.forward
    instead = make(original)
    owner = threading.get_ident()

    def forward(*args: Any, **kwargs: Any) -> Any:
        return (instead if threading.get_ident() == owner else original)(*args, **kwargs)

    if "forward" in vars(module):
        undo.callback(setattr, module, "forward", original)
    else:
        undo.callback(vars(module).pop, "forward", None)
    module.forward = forward
