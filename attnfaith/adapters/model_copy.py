"""A copy of a model that shares its weights: modules and configurations of its own, the same numbers in memory."""

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

NO_PADDING = -1  # an id that no text holds: every token is real
ATTENTION = "_attn_implementation_internal"  # where a Transformers configuration keeps the name of its attention
_MARK = "_attnfaith_shared_copy"  # leads from the copy's outermost module to its `SharedCopy`
_PLAIN = (type(None), bool, int, float, str, bytes, type, torch.dtype, torch.device, types.ModuleType)


@dataclass
class _Node:
    """A module, configuration or other object, its copy, and what it held when it was copied."""

    owner: Any
    copy: Any
    seen: list[dict[Any, Any]]


class SharedCopy:
    """A copy of a model whose parameters are the owner's memory, without gradients, in evaluation mode.

    Modules and configurations are objects of the copy, so training flags, ``requires_grad``, a patched ``forward`` and
    switched configurations of the copy do not reach the owner's model. Whatever refers to a module or a parameter is
    translated: containers, bound methods, partial functions, closures, hooks, weak references, and objects that hold a
    module. Everything else, buffers included, is shared.

    A module that is reached in another way, through a global variable, say, stays the owner's. Where that matters
    (`lend`), the owner's model itself is used: `root` is then `owner`.

    Args:
        owner: the model, which is only read.

    Attributes:
        root: the copy.
        attention: the implementation that replaces each of ``hidden``; None where nothing is replaced.
        hidden: names of attention implementations.
        lock: held while the copy is in use.
        draws: whether a forward pass in evaluation mode draws from the global random state.
        users: how many nested uses there are, in the thread that holds the lock.
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
        except Exception:  # whatever the constructor of a class of the model's own raises
            self.lend()

    def __deepcopy__(self, memo: dict[int, Any]) -> SharedCopy:
        """A deep copy has weights of its own, and no owner to follow."""
        alone = object.__new__(SharedCopy)
        memo[id(self)] = alone
        alone.__dict__.update(vars(self), lock=threading.RLock(), users=0, _nodes={}, _aliases={})
        alone.root = alone.owner = copy.deepcopy(self.root, memo)
        vars(alone.root)[_MARK] = alone
        return alone

    def lend(self) -> None:
        """From now on use the owner's model itself."""
        self.root = self.owner
        self._nodes, self._aliases = {}, {}

    def replace_attention(self, hidden: Iterable[str], attention: str | None) -> None:
        """Give the copy's configurations another attention implementation than those of these names."""
        self.hidden, self.attention = frozenset(hidden), attention
        self._build()

    def implementations(self) -> set[str]:
        """The names of the attention implementations in the owner's configurations."""
        configs = [module.config for module in self.owner.modules() if hasattr(module, "config")]
        return {getattr(config, ATTENTION) or "eager" for config in configs if hasattr(config, ATTENTION)}

    def aliased(self) -> set[int]:
        """The ids of the owner's parameters that the copy has others for."""
        return {key for key, (own, alias) in self._aliases.items() if alias is not own}

    def follow(self) -> None:
        """Bring the copy up to date with the owner's model."""
        if self.root is not self.owner and not self._in_step():
            self._build()

    def _in_step(self) -> bool:
        return all(_aliases(*pair) for pair in self._aliases.values()) and all(
            _same(_holdings(node.owner), node.seen) for node in self._nodes.values()
        )

    def _build(self) -> None:
        """Copy everything anew, into the objects that there are: others may hold them."""
        translation = _Translation(self._nodes, self._aliases)
        translation.node(self.owner, self.root)
        self._nodes, self._aliases = translation.nodes, translation.aliases
        vars(self.root)[_MARK] = self
        for node in list(self._nodes.values()):
            if isinstance(node.copy, nn.Module):
                node.copy.training = False
                node.copy._compiled_call_impl = None
                config = getattr(node.copy, "config", None)
                for part in (config, getattr(config, "text_config", None)):
                    # a decoder without a padding token refuses two texts at once although neither has padding
                    if getattr(part, "pad_token_id", 0) is None and part is not getattr(node.owner, "config", None):
                        part.pad_token_id = NO_PADDING  # type: ignore[union-attr]
            elif (getattr(node.owner, ATTENTION, None) or "eager") in self.hidden and hasattr(node.owner, ATTENTION):
                setattr(node.copy, ATTENTION, self.attention)


def _aliases(own: nn.Parameter, alias: nn.Parameter) -> bool:
    """Whether a parameter of the copy is still the owner's memory, seen in the same way."""
    if type(own) is not nn.Parameter:
        return True
    return own.dtype is alias.dtype and own.device == alias.device and own.is_set_to(alias)


def _blank(owner: Any) -> Any:
    kind: Any = type(owner)
    return kind.__new__(kind)


def _holdings(owner: Any) -> list[dict[Any, Any]]:
    """What an object holds, and what its dictionaries hold: copies, since other threads may change them meanwhile."""
    own = dict(vars(owner))
    return [own, *[dict(value) for value in own.values() if isinstance(value, dict) and value]]


def _same(now: list[dict[Any, Any]], then: list[dict[Any, Any]]) -> bool:
    """The very same objects under the same names."""
    if len(now) != len(then):
        return False
    for left, right in zip(now, then, strict=True):
        if len(left) != len(right) or not all(map(is_, left.values(), right.values())) or left.keys() != right.keys():
            return False
    return True


class _Translation:
    """One pass over the owner's objects; every object is translated once."""

    def __init__(self, nodes: dict[int, _Node], aliases: dict[int, tuple[nn.Parameter, nn.Parameter]]) -> None:
        self.known_nodes, self.known_aliases = nodes, aliases
        self.nodes: dict[int, _Node] = {}
        self.aliases: dict[int, tuple[nn.Parameter, nn.Parameter]] = {}
        self.used: set[int] = set()
        self.memo: dict[int, tuple[Any, Any]] = {}

    def node(self, owner: Any, place: Any = None) -> Any:
        """The copy of a module or of another object with attributes; ``place`` is what stood in its place before."""
        if id(owner) in self.nodes:
            return self.nodes[id(owner)].copy
        known = self.known_nodes.get(id(owner))
        made = known.copy if known is not None and known.owner is owner else place
        if made is None or id(made) in self.used:
            made = _blank(owner)
        elif type(made) is not type(owner):
            made.__class__ = type(owner)
        self.used.add(id(made))
        seen = _holdings(owner)
        self.nodes[id(owner)] = _Node(owner, made, seen)
        children = vars(made).get("_modules", {})
        held: dict[str, Any] = {}
        for name, value in seen[0].items():
            if name == "_modules":
                held[name] = {key: child and self.node(child, children.get(key)) for key, child in value.items()}
            elif name.endswith("config") and hasattr(value, "__dict__"):
                held[name] = self.node(value)
            else:
                held[name] = self.of(value)
                if held[name] is value and isinstance(owner, nn.Module) and isinstance(value, dict | set):
                    held[name] = copy.copy(value)  # a forward pass may register buffers and hooks
        vars(made).clear()
        vars(made).update(held)
        return made

    def alias(self, own: nn.Parameter) -> nn.Parameter:
        """A parameter of the copy: the owner's memory, without gradients, and without the owner's version counter.

        With its counter, an optimizer's step in another thread would be an error in the middle of a forward pass.
        """
        if id(own) not in self.aliases:
            known = self.known_aliases.get(id(own))
            if known is not None and known[0] is own and _aliases(*known):
                alias = known[1]
            elif type(own) is nn.Parameter:
                alias = nn.Parameter(own.data, requires_grad=False)
                alias.__dict__.update(own.__dict__)
            else:  # a class of its own: quantised, distributed
                alias = own.detach() if own.requires_grad else own  # type: ignore[assignment]
            self.aliases[id(own)] = (own, alias)
        return self.aliases[id(own)][1]

    def of(self, value: Any) -> Any:
        """What stands in the copy in the place of a value: itself, unless it refers to what is copied."""
        if isinstance(value, _PLAIN):
            return value
        if isinstance(value, nn.Module) or hasattr(type(value), "to_diff_dict"):
            return self.node(value)
        if isinstance(value, nn.Parameter):
            return self.alias(value)
        if isinstance(value, Tensor):
            return value.detach() if value.requires_grad else value
        if id(value) not in self.memo:
            self.memo[id(value)] = (value, value)  # for what contains itself
            self.memo[id(value)] = (value, self._translated(value))
        return self.memo[id(value)][1]

    def _translated(self, value: Any) -> Any:
        if isinstance(value, dict):
            return self._items(value, dict(value))
        if isinstance(value, list | tuple | set | frozenset):
            parts = [self.of(part) for part in list(value)]
            if all(map(is_, parts, value)):
                return value
            return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
        if isinstance(value, types.MethodType):
            bound = self.of(value.__self__)
            return value if bound is value.__self__ else types.MethodType(value.__func__, bound)
        if isinstance(value, partial):
            function, given, named = self.of(value.func), self.of(value.args), self.of(value.keywords)
            if function is value.func and given is value.args and named is value.keywords:
                return value
            made = type(value)(function, *given, **named)
            vars(made).update(vars(value))
            return made
        if isinstance(value, types.FunctionType):
            return self._function(value)
        if isinstance(value, weakref.ref):
            target = value()
            meant = None if target is None else self.of(target)
            return value if meant is target else weakref.ref(meant)
        holds = hasattr(value, "__dict__") and any(isinstance(part, nn.Module) for part in vars(value).values())
        return self.node(value) if holds else value

    def _items(self, value: Any, items: dict[Any, Any]) -> Any:
        parts = {key: self.of(part) for key, part in items.items()}
        if all(map(is_, parts.values(), items.values())):
            return value
        made = copy.copy(value)
        for key, part in parts.items():
            made[key] = part
        return made

    def _function(self, value: types.FunctionType) -> types.FunctionType:
        cells = value.__closure__ or ()
        filled = [cell for cell in cells if _content(cell) is not cell]
        contents = {id(cell): self.of(_content(cell)) for cell in filled}
        if all(contents[id(cell)] is _content(cell) for cell in filled):
            return value
        closure = tuple(  # a cell that refers to nothing copied is shared, and so are counters in it
            types.CellType(contents[id(cell)])
            if id(cell) in contents and contents[id(cell)] is not _content(cell)
            else cell
            for cell in cells
        )
        made = types.FunctionType(value.__code__, value.__globals__, value.__name__, value.__defaults__, closure)
        made.__kwdefaults__ = value.__kwdefaults__
        made.__dict__.update(value.__dict__)
        return made


def _content(cell: Any) -> Any:
    """What a closure's cell holds; the cell itself where it holds nothing yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return cell


def preserve_random_state() -> AbstractContextManager[None]:
    """Restore the global random state on the way out; for other threads it goes back as well, so only where needed."""
    return torch.random.fork_rng(devices=range(torch.cuda.device_count()) if torch.cuda.is_available() else ())


_COPIES: weakref.WeakKeyDictionary[nn.Module, weakref.ref[SharedCopy]] = weakref.WeakKeyDictionary()
_GUARD = threading.Lock()


def shared_copy(model: nn.Module) -> SharedCopy:
    """The one copy of a model that all its cuts use, made where there is none; given a copy, that one."""
    mark: SharedCopy | None = vars(model).get(_MARK)
    if mark is not None:
        return mark
    with _GUARD:
        reference = _COPIES.get(model)
        found = None if reference is None else reference()
        if found is None:
            found = SharedCopy(model)
            _COPIES[model] = weakref.ref(found)
        return found
