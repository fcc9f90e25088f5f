"""The call path: how a forward pass reaches one attention through the calls of its modules, and running along it again.

`find_call_paths` watches one forward pass and describes, for every attention, the chain of module calls that are open
when it happens and the calls that were complete before it. A `TracedRun` then runs the model and intervenes in exactly
these calls. It can store what the completed calls return, replace the result of the attention, or answer the completed
calls from storage, so that only what follows the attention is computed.

A call is identified by its parent call, its module, and how often the parent has called this module before. The module
alone does not identify a call: ALBERT runs one layer many times, and modules may be shared between layers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from attnfaith.adapters.attention_watch import AttentionCall, AttentionWatch
from attnfaith.adapters.inference_state import patch_forward
from attnfaith.adapters.positions import Dims

Forward = Callable[..., Any]


@dataclass(frozen=True)
class CallStep:
    """One module call within its parent call: the ``index``-th call of ``module`` there, from 0."""

    module: nn.Module
    index: int


@dataclass(frozen=True)
class CachedCall:
    """A call that is complete before the attention happens: where it is, and the form of its result.

    Attributes:
        depth: the number of open calls of the chain around it.
        step: the call.
        structure: the pytree of its result.
        non_tensor_leaves: each leaf of the result; None in the place of a tensor.
        dims: the dimensions of each tensor: "B" for the batch, "N" for the length, else a size; None for other leaves.
        dtypes: the dtype of each tensor.
        device: the device of the tensors.
    """

    depth: int
    step: CallStep
    structure: Any
    non_tensor_leaves: tuple[Any, ...]
    dims: tuple[Dims | None, ...]
    dtypes: tuple[torch.dtype | None, ...]
    device: torch.device | None


@dataclass(frozen=True)
class CallPath:
    """How a forward pass reaches one attention.

    Attributes:
        chain: the module calls that are open at the attention, the outermost first, without the model itself.
        ordinal: the number of the attention among those directly inside the innermost call, from 0.
        cached_calls: the calls that are complete before it.
        block: the depth of the call whose result is the residual stream (an element of a list of layers), if any.
        name: the name of the innermost module in the model.
        shape: the sizes ``(B, H, Q, N)`` of the attention.
        fused: whether the attention was one call to torch.
        any_distribution: how it was recognised, see `AttentionWatch`.
    """

    chain: tuple[CallStep, ...]
    ordinal: int
    cached_calls: tuple[CachedCall, ...]
    block: int | None
    name: str
    shape: tuple[int, int, int, int]
    fused: bool
    any_distribution: bool = False


class _Call:
    """A module call of the recorded forward pass."""

    def __init__(self, module: nn.Module, index: int, parent: _Call | None) -> None:
        self.step = CallStep(module, index)
        self.parent = parent
        self.counts: Counter[int] = Counter()  # how often each module was called directly inside, by id
        self.children: list[_Call] = []
        self.attentions = 0  # how many happened directly inside
        self.lineage: frozenset[int] = frozenset()
        self.output: Any = None
        self.completed = False

    def chain(self) -> list[_Call]:
        """The open calls down to this one, without the model itself."""
        return [] if self.parent is None else [*self.parent.chain(), self]


@dataclass(frozen=True)
class _RecordedAttention:
    """What the recorder notes at the moment when an attention happens."""

    call: _Call
    chain: list[_Call]
    ordinal: int
    completed: list[tuple[int, _Call]]  # the calls that were complete at that moment, each with its depth
    shape: tuple[int, int, int, int]
    fused: bool
    lineage: frozenset[int]


class _Recorder:
    """Records the module calls and the attentions of one forward pass."""

    def __init__(
        self,
        model: nn.Module,
        length: int,
        on_attention: Callable[[AttentionCall], Tensor],
        *,
        any_distribution: bool,
    ) -> None:
        self.model, self.length, self.on_attention = model, length, on_attention
        self.any_distribution = any_distribution
        self.root = _Call(model, 0, None)
        self.open_calls = [self.root]
        self.attentions: list[_RecordedAttention] = []
        self.names = {module: name for name, module in model.named_modules()}
        lists = [module for module in model.modules() if isinstance(module, nn.ModuleList | nn.Sequential)]
        self.layers = {child for module in lists for child in module.children()}
        # torch.nn.TransformerEncoder has a fused fast path of its own, which it takes where no torch function mode is
        # active. A watch that is entered at a layer only would find the layers already fused, so such a model is
        # watched from the start: it has no block.
        self.has_fast_path = any(isinstance(module, nn.TransformerEncoder) for module in model.modules())

    def record(self, run: Callable[[], Any]) -> tuple[list[CallPath], Any]:
        """Run the model; return the call path of every attention, and what ``run`` returned."""
        with ExitStack() as patches:
            for module in self.model.modules():
                if module is not self.model:
                    patch_forward(patches, module, partial(self._recording, module))
            with AttentionWatch(1, self._on_attention, any_distribution=self.any_distribution):
                result = run()
            return [self._call_path(attention) for attention in self.attentions], result

    def _recording(self, module: nn.Module, original: Forward) -> Forward:
        """A forward function of ``module`` that records its calls."""

        def forward(*args: Any, **kwargs: Any) -> Any:
            parent = self.open_calls[-1]
            call = _Call(module, parent.counts[id(module)], parent)
            parent.counts[id(module)] += 1
            parent.children.append(call)
            self.open_calls.append(call)
            try:
                call.output = original(*args, **kwargs)
            finally:
                self.open_calls.pop()
            call.completed = True
            return call.output

        return forward

    def _on_attention(self, attention: AttentionCall) -> Tensor:
        call = self.open_calls[-1]
        ordinal, call.attentions = call.attentions, call.attentions + 1
        chain = call.chain()
        # The open calls contain the attention. What they have completed cannot depend on its result, so it can be
        # stored, and restored when the attention is edited.
        completed = [
            (depth, child)
            for depth, open_call in enumerate([self.root, *chain])
            for child in open_call.children
            if child.completed
        ]
        # A traced run counts the attentions within a call to find its own, so it must run the modules behind the
        # earlier ones again. Their lineage is kept, so that these modules are not cached.
        call.lineage = call.lineage | attention.lineage
        self.attentions.append(
            _RecordedAttention(call, chain, ordinal, completed, attention.shape, attention.fused, call.lineage)
        )
        return self.on_attention(attention)

    def _call_path(self, attention: _RecordedAttention) -> CallPath:
        # A module between softmax and product (a dropout, say) must run again, although it is complete. If its result
        # came from storage, the product would not be connected to its softmax, and the attention not be recognised.
        cached_calls = tuple(
            _cached_call(depth, child, self.length)
            for depth, child in attention.completed
            if not any(id(leaf) in attention.lineage for leaf in pytree.tree_leaves(child.output))
        )
        chain = tuple(open_call.step for open_call in attention.chain)
        layers = [] if self.has_fast_path else [depth for depth, step in enumerate(chain) if step.module in self.layers]
        block = layers[0] if layers else None
        name = self.names.get(attention.call.step.module, "?") or "the model"
        return CallPath(
            chain, attention.ordinal, cached_calls, block, name, attention.shape, attention.fused, self.any_distribution
        )


def find_call_paths(
    model: nn.Module,
    run: Callable[[], Any],
    length: int,
    on_attention: Callable[[AttentionCall], Tensor],
    *,
    any_distribution: bool = False,
) -> tuple[list[CallPath], Any]:
    """Run a model once on one text, and return the call path of every attention, in the order of the forward pass.

    Args:
        model: the model, inside `inference_state`.
        run: runs the model's forward pass on one text.
        length: the text's length. No weight of the model should have a dimension of this size: lengths and widths are
            told apart by their sizes.
        on_attention: receives every attention, and returns what takes the place of its result.
        any_distribution: see `AttentionWatch`.

    Returns:
        The call paths, and what ``run`` returned.
    """
    return _Recorder(model, length, on_attention, any_distribution=any_distribution).record(run)


def _cached_call(depth: int, call: _Call, length: int) -> CachedCall:
    """Describe a completed call by the form of its result, which is a tensor or any nesting of tensors and values."""
    leaves, structure = pytree.tree_flatten(call.output)
    dims = tuple(_dims(leaf.shape, length) if isinstance(leaf, Tensor) else None for leaf in leaves)
    dtypes = tuple(leaf.dtype if isinstance(leaf, Tensor) else None for leaf in leaves)
    non_tensors = tuple(None if isinstance(leaf, Tensor) else leaf for leaf in leaves)
    device = next((leaf.device for leaf in leaves if isinstance(leaf, Tensor)), None)
    return CachedCall(depth, call.step, structure, non_tensors, dims, dtypes, device)


def _dims(shape: torch.Size, length: int) -> Dims:
    """Name the dimensions of a tensor in a pass of one text: the first of size 1 is the batch, or broadcast over it."""
    names: list[str | int] = ["N" if size == length else size for size in shape]
    if 1 in names:
        names[names.index(1)] = "B"
    return tuple(names)


class TracedRun:
    """One run of the model along a call path.

    Args:
        path: the call path.
        batch: the batch size of this run.
        on_attention: receives the attention; what it returns takes the place of the attention's result.
        store: by index of a cached call, a function that receives the leaves of its result.
        restore: returns the leaves of a cached call, given its index; the call is then skipped.
        on_block: receives what the block returned, and returns what is passed on.
    """

    def __init__(
        self,
        path: CallPath,
        batch: int,
        on_attention: Callable[[AttentionCall], Tensor | None],
        *,
        store: Mapping[int, Callable[[list[Any]], None]] | None = None,
        restore: Callable[[int], list[Any]] | None = None,
        on_block: Callable[[Any], Any] | None = None,
    ) -> None:
        self.path, self.batch, self.on_attention = path, batch, on_attention
        self.store, self.restore, self.on_block = store or {}, restore, on_block
        self.depth = 0  # how many calls of the chain are open
        self.off_path = 0  # how many open calls are not in the chain; what happens inside them is ignored
        self.attentions = 0  # attentions so far, directly inside the innermost call
        self.reached = False
        self.counts: list[Counter[int]] = [Counter()]  # for each open call, how often it has called each module
        self.index_by_call = {
            (call.depth, id(call.step.module), call.step.index): index for index, call in enumerate(path.cached_calls)
        }

    def run(self, forward: Callable[[], Any]) -> Any:
        """Run the model and intervene along the path; fails if the attention is not reached."""
        watch = AttentionWatch(self.batch, self._on_attention, any_distribution=self.path.any_distribution)
        with ExitStack() as patches:
            modules = {id(step.module): step.module for step in self.path.chain}
            modules |= {id(call.step.module): call.step.module for call in self.path.cached_calls}
            for module in modules.values():
                patch_forward(patches, module, partial(self._traced, module, watch))
            with watch if self.path.block is None else nullcontext():
                result = forward()
        if not self.reached:
            raise RuntimeError(f"the attention in {self.path.name} was not reached")
        return result

    def _on_attention(self, attention: AttentionCall) -> Tensor | None:
        if self.off_path or self.depth != len(self.path.chain):
            return None
        self.attentions += 1
        if self.attentions - 1 != self.path.ordinal:
            return None
        self.reached = True
        return self.on_attention(attention)

    def _traced(self, module: nn.Module, watch: AttentionWatch, original: Forward) -> Forward:
        """A forward function of ``module`` that follows the path: it enters, skips, stores, or just runs a call."""

        def forward(*args: Any, **kwargs: Any) -> Any:
            if self.off_path:
                return original(*args, **kwargs)
            count = self.counts[-1][id(module)]
            self.counts[-1][id(module)] += 1
            if self._is_next_step(module, count):
                return self._enter(original, watch, args, kwargs)
            # Only calls before the attention are cached. What follows it may call the same module again.
            index = None if self.reached else self.index_by_call.get((self.depth, id(module), count))
            if index is not None and self.restore is not None:
                return pytree.tree_unflatten(self.restore(index), self.path.cached_calls[index].structure)
            self.off_path += 1
            try:
                output = original(*args, **kwargs)
            finally:
                self.off_path -= 1
            if index is not None and index in self.store:
                self.store[index](pytree.tree_leaves(output))
            return output

        return forward

    def _is_next_step(self, module: nn.Module, count: int) -> bool:
        if self.reached or self.depth >= len(self.path.chain):
            return False
        step = self.path.chain[self.depth]
        return step.module is module and step.index == count

    def _enter(self, original: Forward, watch: AttentionWatch, args: Any, kwargs: Any) -> Any:
        """Run a call of the chain."""
        depth = self.depth
        self.depth += 1
        self.counts.append(Counter())
        try:
            # Watching is slow, so it starts at the block. It cannot start later, at the innermost call: softmax and
            # product may be in two modules of a layer.
            with watch if depth == self.path.block else nullcontext():
                output = original(*args, **kwargs)
        finally:
            self.depth -= 1
            self.counts.pop()
        if self.on_block is not None and depth == self.path.block:
            output = self.on_block(output)
        return output
