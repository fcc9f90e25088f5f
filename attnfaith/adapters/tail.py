"""The tail: running what follows an attention, on edited results of that attention.

There are three ways, from fast to slow. "one position" answers the calls before the attention from the capture and runs
the rest on the deciding rows alone: a sequence of one position where one row decides. It works because from the last
attention on a Transformer treats each position by itself. "last block" answers them too, but runs at full length.
"full forward" runs the whole model again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attnfaith.adapters.attention_watch import AttentionCall
from attnfaith.adapters.call_path import CachedCall, CallPath, TracedRun
from attnfaith.adapters.pass_count import no_full_pass
from attnfaith.adapters.positions import replace_query_rows, select_cached_texts, select_input_positions, select_texts

ONE_POSITION, LAST_BLOCK, FULL_FORWARD = "one position", "last block", "full forward"
TAILS = {
    ONE_POSITION: "earlier calls from the capture, the rest on the deciding rows alone",
    LAST_BLOCK: "earlier calls from the capture, the rest at full length",
    FULL_FORWARD: "the whole model, with the edit",
}


@dataclass(frozen=True)
class TracedState:
    """What a tail needs from a capture.

    Attributes:
        inputs: the model's inputs.
        rows: ``[B, R]`` query rows that decide; 0 where a text has fewer.
        row_mask: ``[B, R]``, which of them exist.
        values: ``[B, H, N, D]``, the value vectors of the attention.
        context: ``[B, H, Q, D]``, the attention's result for all rows; None where only the deciding rows are run again.
        cached: for each cached call, the tensors of its result; None for those that the logits do not depend on.
        shapes: the shapes of these tensors, for a tail at full length: some models pad their inputs further.
        token: ``[B]``, the only token that decides, where the query rows are not the tokens and there is one.
    """

    inputs: Mapping[str, Any]
    rows: Tensor
    row_mask: Tensor
    values: Tensor
    context: Tensor | None
    cached: Mapping[int, Sequence[Tensor | None]]
    shapes: Mapping[int, Sequence[Any]]
    token: Tensor | None = None

    @property
    def length(self) -> int:
        """The length of the inputs."""
        return int(self.inputs["input_ids"].shape[1])


def run_tail(
    forward: Callable[[Mapping[str, Any]], Tensor],
    call_path: CallPath,
    tail: str,
    state: TracedState,
    context: Tensor,
    texts: Tensor,
    pad: int,
) -> Tensor:
    """Run the tail on edited results of the attention, and return the logits ``[M, C]`` of the candidates.

    Args:
        forward: the model, from inputs to logits.
        call_path: the call path of the attention.
        tail: one of `TAILS`.
        state: the state of the capture.
        context: ``[M, H, R, D]``, the attention's result for the deciding rows of each candidate.
        texts: ``[M]``, the captured text that each candidate is a version of.
        pad: the id of padding, for rows that do not exist.
    """
    batch = len(state.rows)
    context = context.to(state.values.dtype)
    rows, row_mask = state.rows[texts], state.row_mask[texts]
    blanks: dict[Any, Tensor] = {}

    def on_attention(attention: AttentionCall) -> Tensor:
        if tail == ONE_POSITION:
            every_row = context
        elif tail == LAST_BLOCK:
            assert state.context is not None
            every_row = replace_query_rows(state.context[texts], context, rows, row_mask)
        else:
            every_row = replace_query_rows(attention.layout.read(attention.output), context, rows, row_mask)
        return attention.layout.write(every_row)

    def restore(index: int) -> list[Any]:
        length = rows.shape[1] if tail == ONE_POSITION else state.length
        stored, shapes = state.cached.get(index), state.shapes.get(index)
        return _restored_leaves(call_path.cached_calls[index], stored, shapes, batch, texts, length, blanks)

    inputs = _row_inputs(state, pad) if tail == ONE_POSITION else state.inputs
    traced = TracedRun(call_path, len(texts), on_attention, restore=None if tail == FULL_FORWARD else restore)
    with nullcontext() if tail == FULL_FORWARD else no_full_pass():
        return traced.run(lambda: forward(select_texts(inputs, batch, texts)))


def _restored_leaves(
    cached_call: CachedCall,
    stored: Sequence[Tensor | None] | None,
    shapes: Sequence[Any] | None,
    batch: int,
    texts: Tensor,
    length: int,
    blanks: dict[Any, Tensor],
) -> list[Any]:
    """The leaves of a cached call's result, for the candidates.

    Tensors that the logits do not depend on were not stored. The model's code still expects tensors of the right shape,
    so all of them share zeros from ``blanks``.
    """
    leaves: list[Any] = list(cached_call.non_tensor_leaves)
    sizes_by_name = {"B": len(texts), "N": length}
    for index, dims in enumerate(cached_call.dims):
        if dims is None:
            continue
        tensor = None if stored is None else stored[index]
        if tensor is not None:
            leaves[index] = select_cached_texts(tensor, dims, batch, texts)
            continue
        original = dims if shapes is None else shapes[index]
        sizes = tuple(
            sizes_by_name[name] if name == "B" or (name == "N" and shapes is None) else size
            for name, size in zip(dims, original, strict=True)
        )
        key = (sizes, cached_call.dtypes[index])
        if key not in blanks:
            blanks[key] = torch.zeros(sizes, dtype=cached_call.dtypes[index], device=cached_call.device)
        leaves[index] = blanks[key]
    return leaves


def _row_inputs(state: TracedState, pad: int) -> dict[str, Any]:
    """The model's inputs at the deciding rows; rows that do not exist are padding."""
    batch = state.rows.shape[0]
    inputs: dict[str, Any] = dict(state.inputs)
    for name, value in state.inputs.items():
        if isinstance(value, Tensor) and value.dim() > 1 and value.shape[:2] == (batch, state.length):
            inputs[name] = select_input_positions(value, state.rows)
    # Deciding rows become tokens and missing rows padding. Both inputs must say so: pooling reads the mask, and
    # decoders that look for the last token read the ids.
    inputs["attention_mask"] = state.row_mask.to(inputs["attention_mask"].dtype)
    inputs["input_ids"] = torch.where(state.row_mask, inputs["input_ids"], pad)
    return inputs
