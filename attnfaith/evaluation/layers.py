"""A model's layers, from the top to the bottom, whatever its family."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn
from torch.utils import _pytree as pytree

from attnfaith.adapters.borrow import borrowed
from attnfaith.errors import UnsupportedModelError
from attnfaith.modes import Mode

_STACKS = (nn.ModuleList, nn.Sequential)


@dataclass(frozen=True)
class Layer:
    """Some of a model's parameters, drawn anew together.

    Attributes:
        name: of the module that they are in.
        parameters: their names.
    """

    name: str
    parameters: tuple[str, ...]


def layers_of(model: nn.Module, inputs: Mapping[str, Any]) -> list[Layer]:
    """A model's layers from the top to the bottom: in the reverse of the order in which a forward pass uses them.

    Each module in a stack of blocks (an entry of the outermost `nn.ModuleList` or `nn.Sequential` whose entries have
    modules of their own) is a layer, and so is each module beside the stacks: a classifier, a pooler, the embeddings. A
    parameter that is used in several places is of the layer that is named first, which stands where it is first used.
    What the pass does not use is of the lowest layer.

    Args:
        model: not changed, and not hooked.
        inputs: of the pass.

    Example:
        >>> import torch
        >>> from attnfaith.families import tiny_model
        >>> inputs = {"input_ids": torch.tensor([[5, 6, 7]])}
        >>> [layer.name for layer in layers_of(tiny_model("bert"), inputs)]
        ['classifier', 'bert.pooler', 'bert.encoder.layer.1', 'bert.encoder.layer.0', 'bert.embeddings']
    """
    found: dict[str, list[str]] = {name: [] for name in _names(model)}
    for parameter in dict(model.named_parameters()):
        owner = next(name for name in _ancestors(parameter) if name in found)
        found[owner].append(parameter)
    order = _used(model, inputs)
    place = {name: min((order[one] for one in own if one in order), default=-1) for name, own in found.items() if own}
    used = sorted((name for name in place if place[name] >= 0), key=lambda name: -place[name])
    if not used:
        raise UnsupportedModelError("The model uses no parameter that can be seen: there is nothing to draw anew.")
    unused = [parameter for name in place if place[name] < 0 for parameter in found[name]]
    layers = [Layer(name, tuple(found[name])) for name in used]
    return [*layers[:-1], Layer(layers[-1].name, (*layers[-1].parameters, *unused))]


class _Uses(Mode):
    """Notes which parameters are used, in the order in which they first are."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.names = {id(parameter): name for name, parameter in model.named_parameters()}
        self.order: dict[str, int] = {}

    def handle(self, func: Any, name: str, args: Any, kwargs: dict[str, Any]) -> Any:
        """Run it; looking at an attribute of a parameter is no use of it."""
        if name != "__get__":
            for leaf in pytree.tree_leaves((args, kwargs)):
                if id(leaf) in self.names:
                    self.order.setdefault(self.names[id(leaf)], len(self.order))
        return func(*args, **kwargs)


def _used(model: nn.Module, inputs: Mapping[str, Any]) -> dict[str, int]:
    with borrowed(model, gradients=False) as copy, _Uses(copy) as uses:
        copy(**inputs)
    return uses.order


def _names(module: nn.Module, prefix: str = "") -> Iterator[str]:
    """Names of layers: what is beside stacks of blocks, and the blocks."""
    for name, _ in module.named_parameters(recurse=False):
        yield prefix + name
    for name, child in module.named_children():
        if _has_parameters(child):
            block = isinstance(module, _STACKS) and _is_stack(module) and not _is_stack(child)
            if block or not any(_is_stack(one) for one in child.modules()):
                yield prefix + name
            else:
                yield from _names(child, f"{prefix}{name}.")


def _is_stack(module: nn.Module) -> bool:
    """Whether these are blocks, and not single layers side by side or one after another."""
    return isinstance(module, _STACKS) and any(map(_has_parameters, (one for it in module for one in it.children())))


def _has_parameters(module: nn.Module) -> bool:
    return next(module.parameters(), None) is not None


def _ancestors(name: str) -> Iterator[str]:
    """The parameter, the module it is in, and so on outwards."""
    while name:
        yield name
        name = name.rpartition(".")[0]
