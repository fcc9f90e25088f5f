"""Cutting a model that nobody described: its attentions are watched, its way to the final one is learnt, and walked."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from attnfaith.adapters.base import Adapter
from attnfaith.adapters.follow import Dims, Memory, Trail, Walk
from attnfaith.adapters.watch import Product
from attnfaith.errors import UnsupportedModelError
from attnfaith.functional.erasure import erase
from attnfaith.types import Capture, Items

PATHS = {
    "one position": "earlier blocks from memory, the last one and the head on the deciding rows alone",
    "last block": "earlier blocks from memory, everything from the attention on at full length",
    "full forward": "the whole model again, with the edit",
}


@dataclass(frozen=True)
class TracedState:
    """What a tail needs of a capture.

    Attributes:
        inputs: the model's inputs.
        rows: ``[B, R]`` query rows that decide; 0 where a text has fewer.
        row_mask: ``[B, R]``, which of them exist.
        values: ``[B, H, N, D]``.
        context: ``[B, H, Q, D]``, what all rows read; None where only the deciding rows are run again.
        memories: tensors by memory and place; None for those that the logits do not depend on.
    """

    inputs: Mapping[str, Any]
    rows: Tensor
    row_mask: Tensor
    values: Tensor
    context: Tensor | None
    memories: Mapping[int, Sequence[Tensor | None]]


class TracedAdapter(Adapter):
    """Cuts any model along a `Trail`.

    Args:
        model: the model, unwrapped.
        trail: the way to the attention to cut at.
        heads: the heads to cut; all by default. The others keep their weights.
        path: one of `PATHS`.
        live: which tensors of which memories the logits depend on; all by default.
        block_leaf: whether the deciding rows may be found at the block's result instead of the attention's.
    """

    mechanism: ClassVar[str] = "watched"

    def __init__(
        self,
        model: nn.Module,
        trail: Trail,
        *,
        heads: Sequence[int] | None = None,
        path: str = "one position",
        live: Mapping[int, frozenset[int]] | None = None,
        block_leaf: bool = True,
    ) -> None:
        super().__init__(model)
        self.trail, self.heads, self.path, self.block_leaf = trail, heads, path, block_leaf
        everything = {
            index: frozenset(place for place, dims in enumerate(memory.dims) if dims is not None)
            for index, memory in enumerate(trail.memories)
        }
        self.live = everything if live is None else live
        self.reasons: Mapping[str, str] = {}

    def with_path(self, path: str, **changes: Any) -> TracedAdapter:
        """The same cut, its tail run another way."""
        settings = {"heads": self.heads, "live": self.live, "block_leaf": self.block_leaf, **changes}
        return TracedAdapter(self.model, self.trail, path=path, **settings)

    def forward(self, inputs: Mapping[str, Any]) -> Tensor:
        """The model's logits."""
        return logits_of(self.model(**inputs))

    # ---- capture

    def capture(self, **inputs: Any) -> Capture:
        """Run the model once, watching its final attention."""
        batch, _ = inputs["input_ids"].shape[:2]
        held: dict[int, list[Any]] = {}
        products: list[Product] = []
        leaves: list[Tensor] = []
        at_block = self.block_leaf and self.trail.block is not None

        def on_product(product: Product) -> Tensor | None:
            products.append(product)
            if at_block:
                return None
            leaves.append(product.output.detach().requires_grad_())
            return leaves[0].clone()  # some models go on in place, which a leaf forbids

        def on_block(output: Any) -> Any:
            flat, structure = pytree.tree_flatten(output)
            for place, leaf in enumerate(flat):
                if isinstance(leaf, Tensor) and leaf.is_floating_point() and leaf.dim() > 1:
                    leaves.append(leaf.detach().requires_grad_())
                    flat[place] = leaves[-1].clone()
            return pytree.tree_unflatten(flat, structure)

        wanted = [] if self.path == "full forward" else [index for index, places in self.live.items() if places]
        walk = Walk(
            self.trail,
            batch,
            on_product,
            remember={index: _keeper(held, index) for index in wanted},
            on_block=on_block if at_block else None,
        )
        logits = walk.run(lambda: self.forward(inputs))
        product = products[0]
        rows, row_mask = self._deciding_rows(logits, leaves, product, batch, at_block)
        weights, logs = product.distributions(rows)
        heads = list(range(weights.shape[1])) if self.heads is None else list(self.heads)
        exists = row_mask[:, None, :, None].expand(-1, len(heads), -1, -1)
        mask, items = self._items(inputs["attention_mask"].bool(), logs)
        weights = torch.where(exists, weights[:, heads, :, : mask.shape[1]], 0)
        logs = torch.where(exists, logs[:, heads, :, : mask.shape[1]], -torch.inf)
        sliced = self.path == "one position"
        state = TracedState(
            inputs=inputs,
            rows=rows,
            row_mask=row_mask,
            values=product.values()[:, :, : mask.shape[1]].detach(),
            context=None if sliced and self.heads is None else product.layout.read(product.output),
            memories={
                index: [
                    (take_rows(leaf, dims, rows) if sliced else leaf) if place in self.live[index] else None
                    for place, (leaf, dims) in enumerate(zip(tensors, self.trail.memories[index].dims, strict=True))
                ]
                for index, tensors in held.items()
            },
        )
        return Capture(
            weights=weights.flatten(1, 2).detach(),
            mask=mask,
            logits=logits.detach(),
            items=items,
            groups=exists[..., 0].flatten(1, 2),
            log_weights=logs.flatten(1, 2).detach(),
            state=state,
        )

    def _items(self, tokens: Tensor, logs: Tensor) -> tuple[Tensor, Items]:
        """The mask of the items and what they are; ``tokens`` is the mask of the input, ``logs`` ``[B, H, R, N]``."""
        seen = (logs > -torch.inf).any(1).any(1)
        count, length = seen.shape[1], tokens.shape[1]
        if count < length:
            return seen, Items("pooled", None)
        if bool(seen[:, length:].any()):
            raise UnsupportedModelError(
                f"The attention in {self.trail.name} attends {count} items where the text has {length} tokens, so its "
                "items are not the tokens. Choose another with layer=, or write an adapter (register_adapter)."
            )
        return tokens, Items.tokens(tokens)

    def _deciding_rows(
        self, logits: Tensor, leaves: list[Tensor], product: Product, batch: int, at_block: bool
    ) -> tuple[Tensor, Tensor]:
        """The query rows with a gradient: ``[B, R]`` and which of them exist."""
        if not logits.requires_grad:
            raise UnsupportedModelError(
                "No logit depends on the attention in "
                f"{self.trail.name}. If another attention decides, name it with layer=."
            )
        gradients = torch.autograd.grad(mixed(logits), leaves, allow_unused=True)
        _, _, queries, _ = product.shape
        read = torch.zeros(batch, queries, dtype=torch.bool, device=logits.device)
        for gradient in gradients:
            if gradient is None:
                continue
            touched = gradient != 0
            if not at_block:
                read |= product.layout.read(touched).any(-1).any(1)
            elif gradient.shape[:2] == (batch, queries):
                read |= touched.flatten(2).any(-1)
            elif gradient.dim() > 2 and gradient.shape[:2] == (queries, batch):
                read |= touched.flatten(2).any(-1).T
            else:
                raise UnsupportedModelError(f"The layer around {self.trail.name} returns no row for each position.")
        count = read.sum(-1)
        if not bool(count.all()):
            text = int((count == 0).nonzero()[0])
            raise UnsupportedModelError(
                f"No logit of text {text} of the batch depends on the attention in {self.trail.name}: its gradient is zero."
            )
        width = int(count.max())
        rows = read.int().argsort(dim=-1, descending=True, stable=True)[:, :width]
        exists = torch.arange(width, device=rows.device) < count.unsqueeze(-1)
        return torch.where(exists, rows, 0), exists

    # ---- tail

    def rerun(self, capture: Capture, weights: Tensor) -> Tensor:
        """Run the tail on other weights, ``[B, K, G, N]``."""
        state: TracedState = capture.state
        shaped = weights.unflatten(2, (-1, state.rows.shape[1]))
        return self._tail(capture, shaped.to(_precise(state.values)) @ self._values(state).unsqueeze(1))

    def rerun_keep(self, capture: Capture, keep: Tensor) -> Tensor:
        """Run the tail on erased weights, ``[B, K, N]``; one deciding row never makes the ``[B, K, G, N]`` weights."""
        state: TracedState = capture.state
        if state.rows.shape[1] > 1 or capture.log_weights is None:
            return super().rerun_keep(capture, keep)
        values = self._values(state)
        shares, mass = _shares(capture, values.dtype)
        kept = keep.to(values.dtype)
        total = kept @ shares.transpose(1, 2)  # [B, K, H]
        sums = kept @ (shares.unsqueeze(-1) * values).transpose(1, 2).flatten(2)  # [B, K, H * D]
        context = sums.unflatten(2, (shares.shape[1], 1, -1))  # [B, K, H, 1, D]
        context = context * (mass.unsqueeze(1) / total).nan_to_num(0.0, 0.0)[..., None, None]
        small = (total < 1e-20).any(2)
        if bool(small.any()):
            text, candidate = small.nonzero(as_tuple=True)
            exact = erase(capture.weights[text], keep[text, candidate], capture.log_weights[text])
            context[text, candidate] = exact.to(values.dtype).unsqueeze(2) @ values[text]
        return self._tail(capture, context)

    def _values(self, state: TracedState) -> Tensor:
        values = state.values if self.heads is None else state.values[:, list(self.heads)]
        return values.to(_precise(values))

    def _tail(self, capture: Capture, context: Tensor) -> Tensor:
        """Everything after the attention, on contexts ``[B, K, H, R, D]``."""
        state: TracedState = capture.state
        batch, count = context.shape[:2]
        if self.heads is not None:
            assert state.context is not None
            whole = _rows_of(state.context, state.rows).unsqueeze(1).expand(-1, count, -1, -1, -1).clone()
            whole[:, :, list(self.heads)] = context.to(whole.dtype)
            context = whole
        context = context.to(state.values.dtype).flatten(0, 1)
        rows = state.rows.repeat_interleave(count, 0)
        row_mask = state.row_mask.repeat_interleave(count, 0)

        def on_product(product: Product) -> Tensor:
            if self.path == "one position":
                return product.layout.write(context)
            if self.path == "last block":
                assert state.context is not None
                return product.layout.write(_put_rows(state.context.repeat_interleave(count, 0), context, rows, row_mask))
            return product.layout.write(_put_rows(product.layout.read(product.output), context, rows, row_mask))

        blanks: dict[Any, Tensor] = {}

        def recall(index: int) -> list[Any]:
            return self._recall(self.trail.memories[index], state, index, count, blanks)

        full = self.path == "full forward"
        inputs = repeat_inputs(state.inputs, batch, count)
        if self.path == "one position":
            inputs = self._row_inputs(state, count)
        walk = Walk(self.trail, batch * count, on_product, recall=None if full else recall)
        return walk.run(lambda: self.forward(inputs)).unflatten(0, (batch, count))

    def _recall(
        self, memory: Memory, state: TracedState, index: int, count: int, blanks: dict[Any, Tensor]
    ) -> list[Any]:
        """What a completed call returned; tensors that the logits do not depend on share blank ones."""
        batch, rows = state.rows.shape
        length = rows if self.path == "one position" else state.inputs["input_ids"].shape[1]
        stored = state.memories.get(index)
        leaves: list[Any] = list(memory.leaves)
        for place, dims in enumerate(memory.dims):
            if dims is None:
                continue
            tensor = None if stored is None else stored[place]
            if tensor is not None:
                leaves[place] = _repeated(tensor, dims, batch, count)
            else:
                named = {"B": batch * count, "N": length}
                sizes = tuple(named[size] if isinstance(size, str) else size for size in dims)
                key = (sizes, memory.dtypes[place])
                if key not in blanks:
                    blanks[key] = torch.zeros(sizes, dtype=memory.dtypes[place], device=state.values.device)
                leaves[place] = blanks[key]
        return leaves

    def _row_inputs(self, state: TracedState, count: int) -> dict[str, Any]:
        batch, length = state.inputs["input_ids"].shape[:2]
        picked: dict[str, Any] = {}
        for name, value in state.inputs.items():
            if isinstance(value, Tensor) and value.dim() > 1 and value.shape[:2] == (batch, length):
                value = _picked(value, state.rows)
                if name == "attention_mask":
                    value = value * state.row_mask.to(value.dtype)
                elif name == "input_ids" and not bool(state.row_mask.all()):
                    pad = getattr(getattr(self.model, "config", None), "pad_token_id", None)
                    value = value.masked_fill(~state.row_mask, 0 if pad is None else pad)
            picked[name] = value
        return repeat_inputs(picked, batch, count)

    def candidate_bytes(self, capture: Capture) -> int:
        """About what one candidate holds while a layer runs: some widest activations for each position that is run."""
        state: TracedState = capture.state
        length = state.rows.shape[1] if self.path == "one position" else state.inputs["input_ids"].shape[1]
        inside = self.trail.chain[0 if self.trail.block is None else self.trail.block].module if self.trail.chain else self.model
        widest = max((max(parameter.shape) for parameter in inside.parameters() if parameter.dim() > 1), default=1)
        weights = capture.weights[0].numel() * 8 if state.rows.shape[1] > 1 else 0
        square = 0 if self.path == "one position" else state.values.shape[1] * length**2 * 4
        return length * widest * 8 * state.values.element_size() + weights + square

    def describe(self) -> dict[str, str]:
        """Where the cut is."""
        seen = "one fused call" if self.trail.fused else "a softmax and a product"
        return {"attention": f"{self.trail.name} (seen as {seen})"}


def _keeper(held: dict[int, list[Any]], index: int) -> Callable[[list[Any]], None]:
    return lambda leaves: held.__setitem__(index, leaves)


def _precise(values: Tensor) -> torch.dtype:
    return torch.float32 if values.element_size() < 4 else values.dtype


def _shares(capture: Capture, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Each distribution relative to its largest weight, and its mass: ``[B, G, N]`` and ``[B, G]``."""
    assert capture.log_weights is not None
    top = capture.log_weights.amax(-1, keepdim=True).nan_to_num(neginf=0.0)
    return (capture.log_weights - top).exp().to(dtype), capture.weights.double().sum(-1).to(dtype)


def logits_of(output: Any) -> Tensor:
    """The logits in what a classifier returns: ``.logits``, the first of a tuple, or the tensor itself."""
    if isinstance(output, Tensor):
        return output
    logits = getattr(output, "logits", None)
    if logits is None and isinstance(output, Mapping):
        logits = output.get("logits")
    if logits is None and isinstance(output, Sequence):
        logits = next((value for value in output if isinstance(value, Tensor)), None)
    if not isinstance(logits, Tensor) or logits.dim() != 2:
        raise UnsupportedModelError(
            f"Expected a classifier that returns logits [batch, classes]; {type(output).__name__} has none. "
            "For another output, write an adapter (register_adapter)."
        )
    return logits


def mixed(logits: Tensor) -> Tensor:
    """One number that depends on every logit: coefficients without a pattern that the logits could cancel."""
    coefficients = torch.cos(1 + torch.arange(logits.shape[-1], device=logits.device, dtype=torch.float64))
    return (logits.double() * coefficients).sum()


def accepts(model: nn.Module, name: str) -> bool:
    """Whether the forward of a model takes an argument of this name."""
    return name in inspect.signature(model.forward).parameters


def repeat_inputs(inputs: Mapping[str, Any], batch: int, count: int) -> dict[str, Any]:
    """Every text's inputs ``count`` times in a row."""
    return {
        name: value.repeat_interleave(count, 0)
        if isinstance(value, Tensor) and value.dim() > 0 and value.shape[0] == batch
        else value
        for name, value in inputs.items()
    }


def take_rows(tensor: Tensor, dims: Dims, rows: Tensor) -> Tensor | None:
    """Select each text's rows along every "N" dimension of a tensor, ``rows`` being ``[B, R]``.

    None for a tensor with positions but no batch (a table of position biases): texts with other rows cannot share it.
    """
    lengths = [place for place, size in enumerate(dims) if size == "N"]
    if not lengths:
        return tensor
    if "B" not in dims:
        return None
    batch = dims.index("B")
    if tensor.shape[batch] == 1:
        tensor = tensor.expand([rows.shape[0] if place == batch else size for place, size in enumerate(tensor.shape)])
    for place in lengths:
        shape = [1] * tensor.dim()
        shape[batch], shape[place] = rows.shape
        index = (rows if batch < place else rows.T).reshape(shape)
        sizes = list(tensor.shape)
        sizes[place] = rows.shape[1]
        tensor = tensor.gather(place, index.expand(sizes))
    return tensor


def _picked(tensor: Tensor, rows: Tensor) -> Tensor:
    """Select each text's rows of a model input ``[B, L, ...]``."""
    return tensor[torch.arange(rows.shape[0], device=rows.device).unsqueeze(-1), rows]


def _repeated(tensor: Tensor, dims: Dims, batch: int, count: int) -> Tensor:
    """Every text's part ``count`` times in a row; what broadcasts over the batch goes on doing so."""
    if "B" not in dims or tensor.shape[dims.index("B")] != batch:
        return tensor.clone()
    return tensor.repeat_interleave(count, dims.index("B"))


def _rows_of(context: Tensor, rows: Tensor) -> Tensor:
    return context.gather(2, rows[:, None, :, None].expand(-1, context.shape[1], -1, context.shape[3]))


def _put_rows(context: Tensor, edited: Tensor, rows: Tensor, row_mask: Tensor) -> Tensor:
    """Replace rows of ``[B, H, Q, D]`` by ``[B, H, R, D]``; rows that do not exist change nothing."""
    index = rows[:, None, :, None].expand(edited.shape)
    delta = torch.where(row_mask[:, None, :, None], edited - context.gather(2, index), 0)
    return context.scatter_add(2, index, delta)
