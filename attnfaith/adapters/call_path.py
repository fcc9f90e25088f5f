"""Finding the way to one attention through a model's module calls, and walking it again.

A `CallPath` is learnt once from a forward pass: the chain of module calls that are open when the attention happens, and
the calls that were completed before it (cached). A `TracedRun` runs the model and intervenes in exactly these
calls: it can remember what the completed calls return, put something else in the place of the attention's result, or
answer the completed calls from memory so that only what follows the attention is computed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from attnfaith.adapters.attention_watch import AttentionCall, AttentionWatch
from attnfaith.adapters.inference_state import patch_forward
from attnfaith.adapters.positions import Dims


@dataclass(frozen=True)
class CallStep:
    """One module call, named by what called it: the ``count``-th call of ``module`` inside its parent call."""

    module: nn.Module
    count: int


@dataclass(frozen=True)
class CachedCall:
    """A call that is complete before the attention: where it happens, and what it returns.

    Attributes:
        depth: how many links of the chain are open around it.
        link: the call.
        structure: the pytree of its result.
        leaves: the results that are not tensors, at their places; None for a tensor.
        dims: for each tensor its dimensions, "B" for the batch, "N" for the length, else a number; None for no tensor.
        dtypes: for each tensor its dtype.
        device: where the tensors are.
    """

    depth: int
    link: CallStep
    structure: Any
    leaves: tuple[Any, ...]
    dims: tuple[Dims | None, ...]
    dtypes: tuple[torch.dtype | None, ...]
    device: torch.device | None


@dataclass(frozen=True)
class CallPath:
    """The way to one attention.

    Attributes:
        chain: the module calls open at the attention, outermost first (the model itself left out).
        ordinal: which attention it is among those that happen directly inside the innermost call.
        memories: the completed calls.
        block: the depth of the call whose result is the residual stream (an element of a list of layers), if any.
        name: the innermost module's name in the model.
        shape: the sizes ``(B, H, Q, N)`` it had.
        fused: whether it was one call to torch.
        any_distribution: how it was recognised, see `AttentionWatch`.
    """

    chain: tuple[CallStep, ...]
    ordinal: int
    memories: tuple[CachedCall, ...]
    block: int | None
    name: str
    shape: tuple[int, int, int, int]
    fused: bool
    any_distribution: bool = False


class _Call:
    def __init__(self, module: nn.Module, count: int, parent: _Call | None) -> None:
        self.link = CallStep(module, count)
        self.parent = parent
        self.counts: Counter[int] = Counter()
        self.children: list[_Call] = []
        self.products = 0
        self.lineage: frozenset[int] = frozenset()
        self.output: Any = None
        self.done = False

    def chain(self) -> list[_Call]:
        return [] if self.parent is None else [*self.parent.chain(), self]


def find_call_paths(
    model: nn.Module,
    run: Callable[[], Any],
    length: int,
    on_product: Callable[[AttentionCall], Tensor],
    *,
    any_distribution: bool = False,
) -> tuple[list[CallPath], Any]:
    """Run a model once on one text, and describe the way to every attention, in the order in which they happened.

    Args:
        model: the model, borrowed.
        run: runs the model's forward pass on one text.
        length: the text's length; no weight of the model should have a dimension of this size.
        on_product: sees every attention, and returns what is passed on in the place of its result.
        any_distribution: see `AttentionWatch`.

    Returns:
        The trails, and what ``run`` returned.
    """
    root = _Call(model, 0, None)
    open_calls = [root]
    found: list[Callable[[], CallPath]] = []
    names = {module: name for name, module in model.named_modules()}
    lists = [module for module in model.modules() if isinstance(module, nn.ModuleList | nn.Sequential)]
    listed = {child for module in lists for child in module.children()}

    def note(product: AttentionCall) -> Tensor:
        call = open_calls[-1]
        ordinal, call.products = call.products, call.products + 1
        chain = call.chain()
        done = [
            (depth, child) for depth, around in enumerate([root, *chain]) for child in around.children if child.done
        ]
        shape, fused = product.shape, product.fused
        lineage = call.lineage = call.lineage | product.lineage  # earlier ones too: they are counted again in a walk

        def trail() -> CallPath:
            memories = tuple(
                _memory(depth, child, length)
                for depth, child in done
                if not any(id(leaf) in lineage for leaf in pytree.tree_leaves(child.output))
            )
            links = tuple(around.link for around in chain)
            layers = [] if nested else [depth for depth, link in enumerate(links) if link.module in listed]
            block = layers[0] if layers else None
            name = names.get(call.link.module, "?") or "the model"
            return CallPath(links, ordinal, memories, block, name, shape, fused, any_distribution)

        found.append(trail)
        return on_product(product)

    watch = AttentionWatch(1, note, any_distribution=any_distribution)
    # torch's own encoder takes a path of its own where nobody watches
    nested = any(isinstance(module, nn.TransformerEncoder) for module in model.modules())

    def record(module: nn.Module) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def forward(*args: Any, **kwargs: Any) -> Any:
                parent = open_calls[-1]
                call = _Call(module, parent.counts[id(module)], parent)
                parent.counts[id(module)] += 1
                parent.children.append(call)
                open_calls.append(call)
                try:
                    call.output = original(*args, **kwargs)
                finally:
                    open_calls.pop()
                call.done = True
                return call.output

            return forward

        return make

    with ExitStack() as patches:
        for module in model.modules():
            if module is not model:
                patch_forward(patches, module, record(module))
        with watch:
            result = run()
        return [trail() for trail in found], result


def _memory(depth: int, call: _Call, length: int) -> CachedCall:
    leaves, structure = pytree.tree_flatten(call.output)
    dims = tuple(_dims(leaf.shape, length) if isinstance(leaf, Tensor) else None for leaf in leaves)
    dtypes = tuple(leaf.dtype if isinstance(leaf, Tensor) else None for leaf in leaves)
    others = tuple(None if isinstance(leaf, Tensor) else leaf for leaf in leaves)
    device = next((leaf.device for leaf in leaves if isinstance(leaf, Tensor)), None)
    return CachedCall(depth, call.link, structure, others, dims, dtypes, device)


def _dims(shape: torch.Size, length: int) -> Dims:
    """Name the dimensions of a tensor seen with one text: the first of size 1 is the batch (or broadcasts over it)."""
    names: list[str | int] = ["N" if size == length else size for size in shape]
    if 1 in names:
        names[names.index(1)] = "B"
    return tuple(names)


class TracedRun:
    """One run of the model along a trail.

    Args:
        trail: the way.
        batch: the batch size of this run.
        on_product: sees the attention; what it returns takes the place of its result.
        remember: called with ``(index, leaves)`` when the memory of that index has been made; ``wanted`` says which.
        recall: gives ``leaves`` for a memory's index, so that its call is skipped.
        on_block: receives what the block returned, and returns what is passed on.
    """

    def __init__(
        self,
        trail: CallPath,
        batch: int,
        on_product: Callable[[AttentionCall], Tensor | None],
        *,
        remember: Mapping[int, Callable[[list[Any]], None]] | None = None,
        recall: Callable[[int], list[Any]] | None = None,
        on_block: Callable[[Any], Any] | None = None,
    ) -> None:
        self.trail, self.batch, self.on_product = trail, batch, on_product
        self.remember, self.recall, self.on_block = remember or {}, recall, on_block
        self.depth, self.opaque, self.seen, self.reached = 0, 0, 0, False
        self.counts: list[Counter[int]] = [Counter()]
        self.memories = {
            (memory.depth, id(memory.link.module), memory.link.count): index
            for index, memory in enumerate(trail.memories)
        }

    def run(self, forward: Callable[[], Any]) -> Any:
        """Run the model under this walk's hands; fails if the attention is not reached."""
        watch = AttentionWatch(self.batch, self._product, any_distribution=self.trail.any_distribution)
        with ExitStack() as patches:
            modules = {id(link.module): link.module for link in self.trail.chain}
            modules |= {id(memory.link.module): memory.link.module for memory in self.trail.memories}
            for module in modules.values():
                patch_forward(patches, module, self._hand(module, watch))
            with watch if self.trail.block is None else nullcontext():
                result = forward()
        if not self.reached:
            raise RuntimeError(f"the attention in {self.trail.name} was not reached")
        return result

    def _product(self, product: AttentionCall) -> Tensor | None:
        if self.opaque or self.depth != len(self.trail.chain):
            return None
        self.seen += 1
        if self.seen - 1 != self.trail.ordinal:
            return None
        self.reached = True
        return self.on_product(product)

    def _hand(self, module: nn.Module, watch: AttentionWatch) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def forward(*args: Any, **kwargs: Any) -> Any:
                if self.opaque:
                    return original(*args, **kwargs)
                depth, count = self.depth, self.counts[-1][id(module)]
                self.counts[-1][id(module)] += 1
                chain = self.trail.chain
                if (
                    depth < len(chain)
                    and chain[depth].module is module
                    and chain[depth].count == count
                    and not self.reached
                ):
                    return self._enter(original, watch, args, kwargs)
                index = None if self.reached else self.memories.get((depth, id(module), count))
                if index is not None and self.recall is not None:
                    return pytree.tree_unflatten(self.recall(index), self.trail.memories[index].structure)
                self.opaque += 1
                try:
                    output = original(*args, **kwargs)
                finally:
                    self.opaque -= 1
                if index is not None and index in self.remember:
                    self.remember[index](pytree.tree_leaves(output))
                return output

            return forward

        return make

    def _enter(self, original: Callable[..., Any], watch: AttentionWatch, args: Any, kwargs: Any) -> Any:
        depth = self.depth
        self.depth += 1
        self.counts.append(Counter())
        try:
            # from the layer on, not from the innermost call: softmax and product may stand in two modules of a layer
            with watch if depth == self.trail.block else nullcontext():
                output = original(*args, **kwargs)
        finally:
            self.depth -= 1
            self.counts.pop()
        if self.on_block is not None and depth == self.trail.block:
            output = self.on_block(output)
        return output
