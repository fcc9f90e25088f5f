"""The vector that the last layer turns into logits, read by a hook on that layer."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from attnfaith.adapters.adapter import Adapter
from attnfaith.adapters.self_check import relative_difference, scale_of, tolerance_of

Call = tuple[nn.Module, Tensor, Tensor]


def reading_head_input(adapter: Adapter, inputs: Mapping[str, Any]) -> Adapter | None:
    """A copy of an adapter whose ``forward`` appends the input of the last layer to the logits, ``[B, C + D]``.

    Whatever the adapter runs by `Adapter.forward` then returns both: a fast tail too, in whatever order it runs texts.
    The last layer is found by its output: a module without children whose output, at some position, is the logits.

    Args:
        adapter: of the model, inside `attnfaith.adapters.inference_state.inference_state`.
        inputs: of some texts, to find the layer with.

    Returns:
        The copy; None for a model whose logits are not the output of a layer.
    """
    layers = [module for module in adapter.model.modules() if not any(module.children())]
    calls: list[Call] = []
    logits = _watched(layers, calls.append, lambda: adapter.forward(inputs))
    scale, tolerance = scale_of(logits), tolerance_of(logits)

    def makes_logits(given: Tensor, output: Tensor) -> bool:
        if not _fits(given, output, logits):
            return False
        return relative_difference(_at_logits(output, output, logits), logits, scale) <= tolerance

    head = next((layer for layer, given, output in reversed(calls) if makes_logits(given, output)), None)
    if head is None:
        return None
    reading = copy.copy(adapter)

    def forward(inputs: Mapping[str, Any]) -> Tensor:
        last: list[Call] = []
        logits = _watched([head], last.append, lambda: adapter.forward(inputs))
        _, given, output = last[-1]
        return torch.cat((logits, _at_logits(given, output, logits).to(logits.dtype)), dim=-1)

    reading.forward = forward  # type: ignore[method-assign]
    return reading


def _watched(layers: list[nn.Module], on_call: Callable[[Call], None], run: Callable[[], Tensor]) -> Tensor:
    """Run something, and report each call of some layers that has a tensor as its first input and as its output."""

    def hook(layer: nn.Module, given: tuple[Any, ...], output: Any) -> None:
        if given and isinstance(given[0], Tensor) and isinstance(output, Tensor):
            on_call((layer, given[0].detach(), output.detach()))

    with ExitStack() as undo:
        for layer in layers:
            undo.callback(layer.register_forward_hook(hook).remove)
        return run()


def _fits(given: Tensor, output: Tensor, logits: Tensor) -> bool:
    """Whether a layer's output can be the logits ``[B, C]``, or those of each position ``[B, L, C]``."""
    batch, classes = logits.shape
    return (
        output.dim() in (2, 3)
        and given.shape[:-1] == output.shape[:-1]
        and (len(output), output.shape[-1]) == (batch, classes)
        and given.shape[-1] > 1
    )


def _at_logits(values: Tensor, output: Tensor, logits: Tensor) -> Tensor:
    """The rows ``[B, D]`` of values where a layer's output is the logits; of values ``[B, L, D]`` one position each."""
    if output.dim() == 2:
        return values
    position = (output - logits.unsqueeze(1)).abs().sum(-1).argmin(1)
    return values[torch.arange(len(values), device=values.device), position]
