"""Running a model without changing it: `inference_state` lends its copy, `patch_forward` replaces a forward function.

Whatever is switched on for a run is undone by an `ExitStack`, and the undo is registered before the change: an error in
between then leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn

from attnfaith.adapters.model_copy import SharedCopy, preserve_random_state, shared_copy
from attnfaith.adapters.pass_count import watch_passes

WRAPPERS = {"DistributedDataParallel": "module", "DataParallel": "module", "OptimizedModule": "_orig_mod"}


def unwrapped(model: nn.Module) -> nn.Module:
    """The module inside data-parallel and `torch.compile` wrappers."""
    while type(model).__name__ in WRAPPERS:
        model = getattr(model, WRAPPERS[type(model).__name__])
    return model


@contextmanager
def inference_state(model: nn.Module, *, gradients: bool = True) -> Iterator[nn.Module]:
    """The copy of a model that shares its weights (see `attnfaith.adapters.model_copy`), for one thread at a time.

    The copy is in evaluation mode, its parameters do not require gradients, and modules compiled in place run as
    written. With ``gradients``, gradients are on: they flow only to tensors that attnfaith itself makes leaves.
    Without, they are off. The global random state is left alone; if the model draws from it in evaluation mode, it is
    restored afterwards.

    Args:
        model: the owner's model, or the copy.
        gradients: whether gradients are on.
    """
    shared = shared_copy(model)
    with shared.lock, ExitStack() as undo:
        undo.enter_context(torch.inference_mode(False))
        undo.enter_context(torch.set_grad_enabled(gradients))
        if not shared.users:  # in a nested use modules may be patched, and an update would undo the patches
            shared.follow()
            watch_passes(undo, shared.root)
        shared.users += 1
        undo.callback(_leave, shared)
        if shared.draws:
            undo.enter_context(preserve_random_state())
        if shared.root is shared.owner:
            _lend(shared.owner, undo, gradients=gradients)
        yield shared.root


def _leave(shared: SharedCopy) -> None:
    shared.users -= 1


def _lend(model: nn.Module, undo: ExitStack, *, gradients: bool) -> None:
    """Switch the owner's model itself, until ``undo`` closes: for a model that cannot be copied."""
    for module in model.modules():
        if module.training:
            undo.callback(setattr, module, "training", True)
            module.training = False
        if module._compiled_call_impl is not None:
            undo.callback(setattr, module, "_compiled_call_impl", module._compiled_call_impl)
            module._compiled_call_impl = None
    for parameter in model.parameters() if gradients else ():
        if parameter.requires_grad:
            undo.callback(parameter.requires_grad_, True)
            parameter.requires_grad_(False)


Forward = Callable[..., Any]


def patch_forward(undo: ExitStack, module: nn.Module, make: Callable[[Forward], Forward]) -> None:
    """Replace the forward function of a module of the copy by ``make(original)``, until ``undo`` closes."""
    original = module.forward
    if "forward" in vars(module):
        undo.callback(setattr, module, "forward", original)
    else:
        undo.callback(vars(module).pop, "forward", None)
    module.forward = make(original)
