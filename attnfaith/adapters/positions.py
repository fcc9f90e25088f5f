"""Selecting, repeating and replacing the rows (positions) of tensors, text by text."""

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
    """The numbers of ``batch`` texts, ``count`` times in a row each."""
    return torch.arange(batch, device=device).repeat_interleave(count)


def repeat_inputs(inputs: Mapping[str, Any], batch: int, count: int) -> dict[str, Any]:
    """Every text's inputs ``count`` times in a row."""
    return select_texts(inputs, batch, repeat_index(batch, count, inputs["input_ids"].device))


def select_texts(inputs: Mapping[str, Any], batch: int, texts: Tensor) -> dict[str, Any]:
    """The inputs of texts ``[M]`` out of a batch, any of them any number of times."""
    return {
        name: value.index_select(0, texts)
        if isinstance(value, Tensor) and value.dim() > 0 and value.shape[0] == batch
        else value
        for name, value in inputs.items()
    }


def select_positions(tensor: Tensor, dims: Dims, rows: Tensor) -> Tensor | None:
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


def select_input_positions(tensor: Tensor, rows: Tensor) -> Tensor:
    """Select each text's rows of a model input ``[B, L, ...]``."""
    return tensor[torch.arange(rows.shape[0], device=rows.device).unsqueeze(-1), rows]


def select_cached_texts(tensor: Tensor, dims: Dims, batch: int, texts: Tensor) -> Tensor:
    """The parts of texts ``[M]``; what broadcasts over the batch goes on doing so."""
    if "B" not in dims or tensor.shape[dims.index("B")] != batch:
        return tensor.clone()
    return tensor.index_select(dims.index("B"), texts)


def replace_query_rows(context: Tensor, edited: Tensor, rows: Tensor, row_mask: Tensor) -> Tensor:
    """Replace rows of ``[B, H, Q, D]`` by ``[B, H, R, D]``; rows that do not exist change nothing."""
    index = rows[:, None, :, None].expand(edited.shape)
    delta = torch.where(row_mask[:, None, :, None], edited - context.gather(2, index), 0)
    return context.scatter_add(2, index, delta)
