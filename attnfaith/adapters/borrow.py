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

    Modules compiled in place run as written, and attention kernels that hide their weights give way to one that shows
    them. Yields the stack on which further changes register their undoing.
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
        undo.enter_context(_visible_attention(modules))
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


_SWITCHED: dict[int, tuple[Any, str, int]] = {}


@contextmanager
def _visible_attention(modules: list[nn.Module]) -> Iterator[None]:
    """Switch attentions off kernels that hide their weights (flash, flex) to sdpa, and put the model's own back.

    A model on sdpa or eager attention needs nothing. Configurations may be shared between models and threads: the first
    to come switches, the last to leave puts back.
    """
    found: list[Any] = [getattr(module, "config", None) for module in modules]
    configs = {id(config): config for config in found if hasattr(config, "_attn_implementation_internal")}
    used: list[int] = []
    with _LOCKS_GUARD:
        for key, config in configs.items():
            if key in _SWITCHED or (config._attn_implementation or "eager") not in ("eager", "sdpa"):
                _, own, users = _SWITCHED.get(key, (config, config._attn_implementation, 0))
                _SWITCHED[key] = (config, own, users + 1)
                config._attn_implementation_internal = "sdpa"
                used.append(key)
    try:
        yield
    finally:
        with _LOCKS_GUARD:
            for key in used:
                config, own, users = _SWITCHED.pop(key)
                if users > 1:
                    _SWITCHED[key] = (config, own, users - 1)
                else:
                    config._attn_implementation_internal = own


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
