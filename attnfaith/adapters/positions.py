"""Selecting, repeating and replacing texts of a batch and positions of a text, in tensors and model inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

Dims = tuple[str | int, ...]
"""The dimensions of a tensor: "B" for the batch, "N" for the length, else a size."""


def select_query_rows(tensor: Tensor, rows: Tensor | None) -> Tensor:
    """Select query rows ``[B, R]`` from ``[B, H, Q, X]``, to ``[B, H, R, X]``; None selects all."""
    if rows is None:
        return tensor
    return tensor.gather(2, rows[:, None, :, None].expand(-1, tensor.shape[1], -1, tensor.shape[3]))


def repeat_index(batch: int, count: int, device: torch.device | None = None) -> Tensor:
    """The index of each of ``batch`` texts, repeated ``count`` times: 0, 0, ..., 1, 1, ..."""
    return torch.arange(batch, device=device).repeat_interleave(count)


def repeat_inputs(inputs: Mapping[str, Any], batch: int, count: int) -> dict[str, Any]:
    """Repeat the inputs of every text ``count`` times."""
    return select_texts(inputs, batch, repeat_index(batch, count, inputs["input_ids"].device))


def index_within_text(texts: Tensor, batch: int) -> Tensor:
    """For the texts ``[M]`` of candidates, the index of each candidate among those of its text.

    Example:
        >>> index_within_text(torch.tensor([1, 0, 1, 1]), batch=2)
        tensor([0, 0, 1, 2])
    """
    counts = texts.bincount(minlength=batch)
    by_text = texts.argsort(stable=True)
    index = torch.empty_like(texts)
    index[by_text] = torch.arange(len(texts), device=texts.device) - (counts.cumsum(0) - counts)[texts[by_text]]
    return index


def select_texts(inputs: Mapping[str, Any], batch: int, texts: Tensor) -> dict[str, Any]:
    """Select the inputs of texts ``[M]`` from a batch; a text may be selected several times."""
    return {
        name: value.index_select(0, texts)
        if isinstance(value, Tensor) and value.dim() > 0 and value.shape[0] == batch
        else value
        for name, value in inputs.items()
    }


def first_positions(inputs: Mapping[str, Any], length: int, width: int) -> dict[str, Any]:
    """The first positions of a batch's inputs ``[B, L, ...]``; what has no positions stays as it is.

    Args:
        inputs: the inputs.
        length: L.
        width: how many positions stay.
    """
    return {
        name: value[:, :width] if isinstance(value, Tensor) and value.dim() > 1 and value.shape[1] == length else value
        for name, value in inputs.items()
    }


def select_positions(tensor: Tensor, dims: Dims, rows: Tensor) -> Tensor | None:
    """Select each text's positions ``rows`` ``[B, R]`` along every "N" dimension of a tensor.

    None for a tensor with positions but without a batch (a table of position biases): texts with other rows cannot
    share it.
    """
    lengths = [dim for dim, size in enumerate(dims) if size == "N"]
    if not lengths:
        return tensor
    if "B" not in dims:
        return None
    batch = dims.index("B")
    if tensor.shape[batch] == 1:
        tensor = tensor.expand([rows.shape[0] if dim == batch else size for dim, size in enumerate(tensor.shape)])
    for dim in lengths:
        shape = [1] * tensor.dim()
        shape[batch], shape[dim] = rows.shape
        index = (rows if batch < dim else rows.T).reshape(shape)
        sizes = list(tensor.shape)
        sizes[dim] = rows.shape[1]
        tensor = tensor.gather(dim, index.expand(sizes))
    return tensor


def select_input_positions(tensor: Tensor, rows: Tensor) -> Tensor:
    """Select each text's positions of a model input ``[B, L, ...]``."""
    return tensor[torch.arange(rows.shape[0], device=rows.device).unsqueeze(-1), rows]


def select_cached_texts(tensor: Tensor, dims: Dims, batch: int, texts: Tensor) -> Tensor:
    """Select texts ``[M]`` from a cached tensor; a tensor that broadcasts over the batch is copied as it is."""
    if "B" not in dims or tensor.shape[dims.index("B")] != batch:
        return tensor.clone()
    return tensor.index_select(dims.index("B"), texts)


def replace_query_rows(context: Tensor, edited: Tensor, rows: Tensor, row_mask: Tensor) -> Tensor:
    """Replace rows of ``[B, H, Q, D]`` by ``[B, H, R, D]``; rows that do not exist change nothing.

    A difference is added and not written: rows that do not exist have index 0, which may be a row that does exist, and
    of two writes to one index either may win.
    """
    index = rows[:, None, :, None].expand(edited.shape)
    delta = torch.where(row_mask[:, None, :, None], edited - context.gather(2, index), 0)
    return context.scatter_add(2, index, delta)
