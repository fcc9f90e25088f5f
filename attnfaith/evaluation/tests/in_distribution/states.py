"""The vectors that the model's last layer reads, of texts as they are and with items erased."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from attnfaith.adapters.head_input import reading_head_input
from attnfaith.adapters.inference_state import inference_state
from attnfaith.evaluation.batch import Batch
from attnfaith.evaluation.removal import Eraser, TokenEraser
from attnfaith.functional.erasure import erase
from attnfaith.functional.rationale import run_unique_sets

_NUMBERS = 2**24  # of the values of all texts that are averaged at once
READING = "in_distribution: the adapter that reads the last layer"


def states_of(eraser: Eraser, texts: Tensor, removed: Tensor) -> Tensor:
    """The vectors ``[M, D]`` that the last layer reads of texts ``[M]`` without sets of items ``[M, N]``.

    They are the logits for a model whose logits are not the output of a layer, and, at the attention level, for an
    adapter that runs its tail in a way of its own.
    """
    keep = eraser.items[texts] & ~removed
    all_gone = removed.sum(1) == eraser.counts[texts]
    keep = torch.where(all_gone.unsqueeze(1), eraser.always_kept[texts], keep)
    return run_unique_sets(texts, keep, _reader(eraser))


def _reader(eraser: Eraser) -> Callable[[Tensor, Tensor], Tensor]:
    """The function from texts ``[M]`` and what is kept ``[M, N]`` to the vectors."""
    batch = eraser.batch
    adapter, capture = batch.config.cut.adapter, batch.capture
    if eraser.level == "attention" and adapter.affine(capture) is not None:
        return lambda texts, keep: _attended(batch, texts, keep)
    with inference_state(adapter.model, gradients=False):
        if READING not in batch.config.cache:
            batch.config.cache[READING] = reading_head_input(adapter, batch.inputs)
        reading = batch.config.cache[READING] or adapter
    cut = copy.copy(batch.config.cut)
    cut.adapter = reading

    def read(texts: Tensor, keep: Tensor) -> Tensor:
        if isinstance(eraser, TokenEraser):
            result = replace(eraser.hiding, cut=cut).run(batch.inputs, eraser.deciding, texts, keep)
        else:
            result = cut.rerun_sets(capture, texts, keep)
        classes = capture.logits.shape[-1]
        return result[:, classes:] if result.shape[-1] > classes else result

    return read


def _attended(batch: Batch, texts: Tensor, keep: Tensor) -> Tensor:
    """The weighted means of an affine tail, whose last layer reads nothing else."""
    capture, values = batch.capture, batch.config.cut.adapter.attended(batch.capture)[:, 0]
    parts = []
    for part in torch.arange(len(texts), device=texts.device).split(max(1, _NUMBERS // values[0].numel())):
        text = texts[part]
        logs = None if capture.log_weights is None else capture.log_weights[text]
        weights = erase(capture.weights[text], keep[part], logs).to(values.dtype)
        parts.append((weights @ values[text]).squeeze(1))
    return torch.cat(parts)
