"""Running what follows an attention, on other contents for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attnfaith.adapters.attention_watch import AttentionCall
from attnfaith.adapters.call_path import CachedCall, CallPath, TracedRun
from attnfaith.adapters.positions import replace_query_rows, select_cached_texts, select_input_positions, select_texts

ONE_POSITION, LAST_BLOCK, FULL_FORWARD = "one position", "last block", "full forward"
PATHS = {
    ONE_POSITION: "what came before from memory, what follows on the deciding rows alone",
    LAST_BLOCK: "what came before from memory, what follows at full length",
    FULL_FORWARD: "the whole model again, with the edit",
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
        shapes: their shapes, where a path runs at full length: some models pad their inputs further.
        token: ``[B]``, the token that alone decides, where the query rows are not the tokens and there is one.
    """

    inputs: Mapping[str, Any]
    rows: Tensor
    row_mask: Tensor
    values: Tensor
    context: Tensor | None
    memories: Mapping[int, Sequence[Tensor | None]]
    shapes: Mapping[int, Sequence[Any]]
    token: Tensor | None = None

    @property
    def length(self) -> int:
        """The length of the inputs."""
        return int(self.inputs["input_ids"].shape[1])


def run_tail(
    forward: Callable[[Mapping[str, Any]], Tensor],
    trail: CallPath,
    path: str,
    state: TracedState,
    context: Tensor,
    texts: Tensor,
    pad: int,
) -> Tensor:
    """The logits ``[M, C]`` of candidates whose deciding rows read something else.

    Args:
        forward: the model, from inputs to logits.
        trail: the way to the attention.
        path: one of `PATHS`.
        state: of the capture.
        context: ``[M, H, R, D]``, what the deciding rows read.
        texts: ``[M]``, the captured text that each candidate is one of.
        pad: the id of padding, for rows that do not exist.
    """
    batch = len(state.rows)
    context = context.to(state.values.dtype)
    rows, row_mask = state.rows[texts], state.row_mask[texts]
    blanks: dict[Any, Tensor] = {}

    def on_product(product: AttentionCall) -> Tensor:
        if path == ONE_POSITION:
            whole = context
        elif path == LAST_BLOCK:
            assert state.context is not None
            whole = replace_query_rows(state.context[texts], context, rows, row_mask)
        else:
            whole = replace_query_rows(product.layout.read(product.output), context, rows, row_mask)
        return product.layout.write(whole)

    def recall(index: int) -> list[Any]:
        length = rows.shape[1] if path == ONE_POSITION else state.length
        stored, shapes = state.memories.get(index), state.shapes.get(index)
        return _recalled(trail.memories[index], stored, shapes, batch, texts, length, blanks)

    inputs = _row_inputs(state, pad) if path == ONE_POSITION else state.inputs
    walk = TracedRun(trail, len(texts), on_product, recall=None if path == FULL_FORWARD else recall)
    return walk.run(lambda: forward(select_texts(inputs, batch, texts)))


def _recalled(
    memory: CachedCall,
    stored: Sequence[Tensor | None] | None,
    shapes: Sequence[Any] | None,
    batch: int,
    texts: Tensor,
    length: int,
    blanks: dict[Any, Tensor],
) -> list[Any]:
    """What a completed call returned; tensors that the logits do not depend on share blank ones."""
    leaves: list[Any] = list(memory.leaves)
    named = {"B": len(texts), "N": length}
    for place, dims in enumerate(memory.dims):
        if dims is None:
            continue
        tensor = None if stored is None else stored[place]
        if tensor is not None:
            leaves[place] = select_cached_texts(tensor, dims, batch, texts)
            continue
        seen = dims if shapes is None else shapes[place]
        sizes = tuple(
            named[name] if name == "B" or (name == "N" and shapes is None) else size
            for name, size in zip(dims, seen, strict=True)
        )
        key = (sizes, memory.dtypes[place])
        if key not in blanks:
            blanks[key] = torch.zeros(sizes, dtype=memory.dtypes[place], device=memory.device)
        leaves[place] = blanks[key]
    return leaves


def _row_inputs(state: TracedState, pad: int) -> dict[str, Any]:
    """The model's inputs at the deciding rows; rows that do not exist are padding."""
    batch = state.rows.shape[0]
    picked: dict[str, Any] = dict(state.inputs)
    for name, value in state.inputs.items():
        if isinstance(value, Tensor) and value.dim() > 1 and value.shape[:2] == (batch, state.length):
            picked[name] = select_input_positions(value, state.rows)
    picked["attention_mask"] = state.row_mask.to(picked["attention_mask"].dtype)  # a row that decides is read
    picked["input_ids"] = torch.where(state.row_mask, picked["input_ids"], pad)
    return picked
