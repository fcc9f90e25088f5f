"""A copy of a model that shares its weights: separate modules and configurations, the same parameters in memory.

The copy exists so that attnfaith can patch, switch and watch a model without changing the owner's. The traps are
whatever still leads from the copy to the owner's modules: bound methods, closures, hooks and other objects that hold a
module. Each of them is translated, and a forward pass that uses one of the owner's parameters all the same is noticed
(`attnfaith.adapters.original_model.inspect_copy`).
"""

from __future__ import annotations

import copy
import threading
import types
import weakref
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from operator import is_
from typing import Any

import torch
from torch import Tensor, nn

from attnfaith.adapters.linear_layers import speed_up

NO_PADDING = -1  # a padding id that no text contains: every token is real
ATTENTION = "_attn_implementation_internal"  # the attribute of a Transformers configuration with its attention's name
_MARK = "_attnfaith_shared_copy"  # the attribute of the copy's outermost module with its `SharedCopy`
_PLAIN = (type(None), bool, int, float, str, bytes, type, torch.dtype, torch.device, types.ModuleType)


@dataclass
class _Node:
    """A module, configuration or other object, its copy, and its attributes when it was copied.

    Attributes:
        owner: the object.
        copy: its copy.
        attributes: the object's attributes, noted.
        contents: each dictionary among them, with its contents, noted.
    """

    owner: Any
    copy: Any
    attributes: dict[str, Any]
    contents: list[tuple[dict[Any, Any], dict[Any, Any]]]

    def is_current(self) -> bool:
        """Whether the object still has these attributes; asked before every forward pass, so nothing is copied."""
        return _identical(vars(self.owner), self.attributes) and all(
            _identical(now, noted) for now, noted in self.contents if now or noted
        )


class SharedCopy:
    """A copy of a model that shares the memory of its parameters, without gradients, in evaluation mode.

    Modules and configurations are separate objects, so training flags, ``requires_grad``, a patched ``forward`` and
    changed configurations of the copy do not affect the owner's model. Whatever refers to a module or a parameter is
    translated: containers, bound methods, partial functions, closures, hooks, weak references, and objects that hold a
    module. Everything else, also buffers, is shared.

    A module that is reached in another way (through a global variable, for example) is still the owner's. Where a
    forward pass uses one, the owner's model itself is used (`lend`): `root` is then `owner`.

    Args:
        owner: the model, which is only read.

    Attributes:
        root: the copy.
        attention: the attention implementation that replaces each of ``hidden``; None if nothing is replaced.
        hidden: the names of the attention implementations to replace.
        lock: held while the copy is in use.
        draws: whether a forward pass in evaluation mode draws from the global random state.
        users: the number of nested uses in the thread that holds the lock.
    """

    def __init__(self, owner: nn.Module) -> None:
        self.owner = owner
        self.attention: str | None = None
        self.hidden: frozenset[str] = frozenset()
        self.lock = threading.RLock()
        self.draws = False
        self.users = 0
        self._nodes: dict[int, _Node] = {}
        self._aliases: dict[int, tuple[nn.Parameter, nn.Parameter]] = {}
        self.root = _blank(owner)
        try:
            self._build()
        except Exception:  # the model's own classes may raise anything while they are copied
            self.lend()

    def __deepcopy__(self, memo: dict[int, Any]) -> SharedCopy:
        """A deep copy has separate weights, and no owner to follow."""
        alone = object.__new__(SharedCopy)
        memo[id(self)] = alone
        alone.__dict__.update(vars(self), lock=threading.RLock(), users=0, _nodes={}, _aliases={})
        alone.root = alone.owner = copy.deepcopy(self.root, memo)
        vars(alone.root)[_MARK] = alone
        return alone

    def lend(self) -> None:
        """Use the owner's model itself from now on, in the place of a copy."""
        self.root = self.owner
        self._nodes, self._aliases = {}, {}

    def replace_attention(self, hidden: Iterable[str], attention: str | None) -> None:
        """Replace the attention implementations of these names in the copy's configurations by another one."""
        self.hidden, self.attention = frozenset(hidden), attention
        self._build()

    def implementations(self) -> set[str]:
        """The names of the attention implementations in the owner's configurations."""
        configs = [module.config for module in self.owner.modules() if hasattr(module, "config")]
        return {getattr(config, ATTENTION) or "eager" for config in configs if hasattr(config, ATTENTION)}

    def aliased(self) -> set[int]:
        """The ids of the owner's parameters that have a separate parameter object in the copy."""
        return {key for key, (parameter, alias) in self._aliases.items() if alias is not parameter}

    def follow(self) -> None:
        """Update the copy if the owner's model has changed: other weights, modules, hooks or settings."""
        if self.root is not self.owner and not self._is_current():
            self._build()

    def _is_current(self) -> bool:
        return all(_share_memory(*pair) for pair in self._aliases.values()) and all(
            node.is_current() for node in self._nodes.values()
        )

    def _build(self) -> None:
        """Copy everything again, into the existing objects: cuts and adapters hold references to them."""
        translation = _Translation(self._nodes, self._aliases)
        translation.node(self.owner, self.root)
        self._nodes, self._aliases = translation.nodes, translation.aliases
        vars(self.root)[_MARK] = self
        for node in list(self._nodes.values()):
            if isinstance(node.copy, nn.Module):
                node.copy.training = False
                node.copy._compiled_call_impl = None
                speed_up(node.copy)
                config = getattr(node.copy, "config", None)
                for part in (config, getattr(config, "text_config", None)):
                    # a decoder without a padding token refuses two texts at once although neither has padding
                    if getattr(part, "pad_token_id", 0) is None and part is not getattr(node.owner, "config", None):
                        part.pad_token_id = NO_PADDING  # type: ignore[union-attr]
            elif (getattr(node.owner, ATTENTION, None) or "eager") in self.hidden and hasattr(node.owner, ATTENTION):
                setattr(node.copy, ATTENTION, self.attention)


def _share_memory(parameter: nn.Parameter, alias: nn.Parameter) -> bool:
    """Whether a parameter of the copy is still a view of the owner's parameter: same memory, shape and dtype."""
    if type(parameter) is not nn.Parameter:
        return True
    return parameter.dtype is alias.dtype and parameter.device == alias.device and parameter.is_set_to(alias)


def _blank(owner: Any) -> Any:
    """A new object of the same class, without calling its constructor."""
    owner_class: Any = type(owner)
    return owner_class.__new__(owner_class)


def _identical(now: dict[Any, Any], noted: dict[Any, Any]) -> bool:
    """Whether two dictionaries hold the same objects under the same names.

    Another thread may change the first: each comparison is one call into C, during which no other thread runs.
    """
    return len(now) == len(noted) and all(map(is_, now.values(), noted.values())) and now.keys() == noted.keys()


class _Translation:
    """One pass over the owner's objects, in which every object is translated once."""

    def __init__(self, nodes: dict[int, _Node], aliases: dict[int, tuple[nn.Parameter, nn.Parameter]]) -> None:
        self.known_nodes, self.known_aliases = nodes, aliases
        self.nodes: dict[int, _Node] = {}
        self.aliases: dict[int, tuple[nn.Parameter, nn.Parameter]] = {}
        self.used: set[int] = set()
        self.memo: dict[int, tuple[Any, Any]] = {}

    def node(self, owner: Any, previous: Any = None) -> Any:
        """The copy of a module or of another object with attributes.

        Args:
            owner: the object.
            previous: the object that had its position in the copy before; it is reused for a replaced module.
        """
        if id(owner) in self.nodes:
            return self.nodes[id(owner)].copy
        previous_node = self.known_nodes.get(id(owner))
        owner_copy = previous_node.copy if previous_node is not None and previous_node.owner is owner else previous
        if owner_copy is None or id(owner_copy) in self.used:
            owner_copy = _blank(owner)
        elif type(owner_copy) is not type(owner):
            owner_copy.__class__ = type(owner)
        self.used.add(id(owner_copy))
        owner_attributes = dict(vars(owner))
        contents = [(value, dict(value)) for value in owner_attributes.values() if isinstance(value, dict)]
        # Noted before the attributes are translated, since they may refer back to the owner.
        self.nodes[id(owner)] = _Node(owner, owner_copy, owner_attributes, contents)
        children = vars(owner_copy).get("_modules", {})
        attributes: dict[str, Any] = {}
        for name, value in owner_attributes.items():
            if name == "_modules":
                attributes[name] = {key: child and self.node(child, children.get(key)) for key, child in value.items()}
            elif name.endswith("config") and hasattr(value, "__dict__"):
                attributes[name] = self.node(value)
            else:
                attributes[name] = self.translate(value)
                if attributes[name] is value and isinstance(owner, nn.Module) and isinstance(value, dict | set):
                    attributes[name] = copy.copy(value)  # a forward pass may register buffers and hooks
        vars(owner_copy).clear()
        vars(owner_copy).update(attributes)
        return owner_copy

    def alias(self, parameter: nn.Parameter) -> nn.Parameter:
        """The copy's parameter: it shares the owner's memory, without gradients and without its version counter.

        With a shared counter, an optimizer's step in another thread would make autograd fail in the middle of a
        forward pass.
        """
        if id(parameter) not in self.aliases:
            entry = self.known_aliases.get(id(parameter))
            if entry is not None and entry[0] is parameter and _share_memory(*entry):
                alias = entry[1]
            elif type(parameter) is nn.Parameter:
                alias = nn.Parameter(parameter.data, requires_grad=False)
                alias.__dict__.update(parameter.__dict__)
            else:  # a subclass (quantised, distributed), which its constructor would not reproduce
                alias = parameter.detach() if parameter.requires_grad else parameter  # type: ignore[assignment]
            self.aliases[id(parameter)] = (parameter, alias)
        return self.aliases[id(parameter)][1]

    def translate(self, value: Any) -> Any:
        """The copy's version of a value: the value itself, unless it refers to an object that is copied."""
        if isinstance(value, _PLAIN):
            return value
        if isinstance(value, nn.Module) or hasattr(type(value), "to_diff_dict"):
            return self.node(value)
        if isinstance(value, nn.Parameter):
            return self.alias(value)
        if isinstance(value, Tensor):
            return value.detach() if value.requires_grad else value
        if id(value) not in self.memo:
            self.memo[id(value)] = (value, value)  # a container may contain itself
            self.memo[id(value)] = (value, self._translated(value))
        return self.memo[id(value)][1]

    def _translated(self, value: Any) -> Any:
        if isinstance(value, dict):
            return self._items(value, dict(value))
        if isinstance(value, list | tuple | set | frozenset):
            parts = [self.translate(part) for part in list(value)]
            if all(map(is_, parts, value)):
                return value
            return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
        if isinstance(value, types.MethodType):
            bound = self.translate(value.__self__)
            return value if bound is value.__self__ else types.MethodType(value.__func__, bound)
        if isinstance(value, partial):
            function = self.translate(value.func)
            arguments, keywords = self.translate(value.args), self.translate(value.keywords)
            if function is value.func and arguments is value.args and keywords is value.keywords:
                return value
            partial_copy = type(value)(function, *arguments, **keywords)
            vars(partial_copy).update(vars(value))
            return partial_copy
        if isinstance(value, types.FunctionType):
            return self._function(value)
        if isinstance(value, weakref.ref):
            target = value()
            translated = None if target is None else self.translate(target)
            return value if translated is target else weakref.ref(translated)
        holds_module = hasattr(value, "__dict__") and any(isinstance(part, nn.Module) for part in vars(value).values())
        return self.node(value) if holds_module else value

    def _items(self, value: Any, items: dict[Any, Any]) -> Any:
        parts = {key: self.translate(part) for key, part in items.items()}
        if all(map(is_, parts.values(), items.values())):
            return value
        container_copy = copy.copy(value)
        for key, part in parts.items():
            container_copy[key] = part
        return container_copy

    def _function(self, value: types.FunctionType) -> types.FunctionType:
        cells = value.__closure__ or ()
        filled = [cell for cell in cells if _cell_content(cell) is not cell]
        contents = {id(cell): self.translate(_cell_content(cell)) for cell in filled}
        if all(contents[id(cell)] is _cell_content(cell) for cell in filled):
            return value
        closure = tuple(  # a cell that refers to no copied object is shared, so that a counter in it goes on counting
            types.CellType(contents[id(cell)])
            if id(cell) in contents and contents[id(cell)] is not _cell_content(cell)
            else cell
            for cell in cells
        )
        function_copy = types.FunctionType(
            value.__code__, value.__globals__, value.__name__, value.__defaults__, closure
        )
        function_copy.__kwdefaults__ = value.__kwdefaults__
        function_copy.__dict__.update(value.__dict__)
        return function_copy


def _cell_content(cell: Any) -> Any:
    """The content of a closure's cell; the cell itself if it is still empty."""
    try:
        return cell.cell_contents
    except ValueError:
        return cell


def preserve_random_state() -> AbstractContextManager[None]:
    """Restore the global random state at the end. Other threads are affected too, so use it only where needed."""
    return torch.random.fork_rng(devices=range(torch.cuda.device_count()) if torch.cuda.is_available() else ())


_COPIES: weakref.WeakKeyDictionary[nn.Module, weakref.ref[SharedCopy]] = weakref.WeakKeyDictionary()
_GUARD = threading.Lock()


def shared_copy(model: nn.Module) -> SharedCopy:
    """The copy of a model, the same for all of its cuts; made on first use. For a copy, its own `SharedCopy`."""
    mark: SharedCopy | None = vars(model).get(_MARK)
    if mark is not None:
        return mark
    with _GUARD:
        reference = _COPIES.get(model)
        shared = None if reference is None else reference()
        if shared is None:
            shared = SharedCopy(model)
            _COPIES[model] = weakref.ref(shared)
        return shared
