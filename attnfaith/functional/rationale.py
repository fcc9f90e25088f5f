"""ERASER's scores of rationales (DeYoung et al. 2020): sets for sufficiency and comprehensiveness, and agreement.

Agreement with human annotations is average precision, F1 of items, and F1 of spans by intersection over union. Spans
are half-open ranges of positions, ``(start, stop)``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from attnfaith.functional.ranking import order_of, ranks_of

Span = tuple[int, int]
_ROUNDING = 1e-9  # 0.07 * 100 is a little more than 7, and must not be rounded up to 8


def top_count(share: float, items: int) -> int:
    """The number of items in a share of them, rounded up, and at least one.

    Example:
        >>> [top_count(share, 30) for share in (0.01, 0.1, 0.5, 1.0)]
        [1, 3, 15, 30]
    """
    return max(1, math.ceil(share * items - _ROUNDING))


def without_top(order: Tensor, counts: Tensor, items: Tensor, always_kept: Tensor, top: Tensor) -> Tensor:
    """The items kept when the top of an order is erased (for comprehensiveness).

    Args:
        order: ``[..., B, N]``, items in the order of removal; what cannot be erased comes last.
        counts: ``[B]``, how many items can be erased.
        items: ``[B, N]``, True for items.
        always_kept: ``[B, N]``, the items kept when everything that can be erased is.
        top: ``[B, S]``, how many items are erased.

    Returns:
        ``[..., B, S, N]``.

    Example:
        >>> all_three = torch.ones(1, 3, dtype=torch.bool)
        >>> none = torch.zeros(1, 3, dtype=torch.bool)
        >>> without_top(torch.tensor([[1, 0, 2]]), torch.tensor([3]), all_three, none, torch.tensor([[1, 3]])).int()
        tensor([[[1, 0, 1],
                 [0, 0, 0]]], dtype=torch.int32)
    """
    keep = (ranks_of(order).unsqueeze(-2) >= top.unsqueeze(-1)) & items.unsqueeze(-2)
    return torch.where((top == counts.unsqueeze(-1)).unsqueeze(-1), always_kept.unsqueeze(-2), keep)


def only_top(order: Tensor, items: Tensor, erasable: Tensor, top: Tensor) -> Tensor:
    """The items kept when all erasable items but the top of an order are erased (for sufficiency); see `without_top`.

    Example:
        >>> all_three = torch.ones(1, 3, dtype=torch.bool)
        >>> only_top(torch.tensor([[1, 0, 2]]), all_three, all_three, torch.tensor([[1, 2]])).int()
        tensor([[[0, 1, 0],
                 [1, 1, 0]]], dtype=torch.int32)
    """
    return ((ranks_of(order).unsqueeze(-2) < top.unsqueeze(-1)) | ~erasable.unsqueeze(-2)) & items.unsqueeze(-2)


def run_unique_sets(texts: Tensor, keep: Tensor, run: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Run the model on sets of kept items, equal sets of the same text only once.

    Args:
        texts: ``[M]``, the index of the text of each set.
        keep: ``[M, N]``, the items kept.
        run: from the texts and sets to run, to logits ``[m, C]``.

    Returns:
        ``[M, C]``.

    Example:
        >>> texts, keep = torch.tensor([0, 0, 1]), torch.tensor([[True, False], [True, False], [True, False]])
        >>> run_unique_sets(texts, keep, lambda some, sets: (print(len(some)), sets.double())[1]).shape
        2
        torch.Size([3, 2])
    """
    packed = np.packbits(keep.cpu().numpy(), axis=1)
    numbers = texts.cpu().numpy().astype(np.int64)[:, None].view(np.uint8)
    keys = np.ascontiguousarray(np.hstack((numbers, packed)))
    _, first, inverse = np.unique(keys.view(f"V{keys.shape[1]}").ravel(), return_index=True, return_inverse=True)
    chosen = torch.from_numpy(first).to(keep.device)
    return run(texts[chosen], keep[chosen])[torch.from_numpy(inverse).to(keep.device)]


def average_precision(scores: Tensor, relevant: Tensor, mask: Tensor) -> Tensor:
    """Average precision: the area under the precision-recall curve, as steps.

    Items with equal scores enter together, items with undefined scores (NaN) last. The result is NaN where no item is
    relevant, or every item is.

    Args:
        scores: ``[B, N]``, the highest first.
        relevant: ``[B, N]`` bool.
        mask: ``[B, N]``, True for items.

    Returns:
        ``[B]``, in float64.

    Example:
        >>> relevant = torch.tensor([[True, False, True, False]])
        >>> average_precision(torch.tensor([[0.9, 0.8, 0.7, 0.1]]), relevant, torch.ones_like(relevant)).round(
        ...     decimals=4
        ... )
        tensor([0.8333], dtype=torch.float64)
    """
    order = order_of(scores, mask)
    values, items = scores.double().gather(-1, order), mask.gather(-1, order)
    hits = (relevant & mask).gather(-1, order).double()
    equals_next = (values[:, 1:] == values[:, :-1]) | (values[:, 1:].isnan() & values[:, :-1].isnan())
    last = torch.ones_like(items)
    last[:, :-1] = ~(equals_next & items[:, 1:] & items[:, :-1])
    ranks = torch.arange(items.shape[1], device=items.device).expand_as(items)
    ends = torch.where(last, ranks, items.shape[1]).flip(1).cummin(1).values.flip(1)  # the last rank of each tied group
    precision = hits.cumsum(1).gather(1, ends) / (ends + 1)
    total = hits.sum(1)
    result = (hits * precision).sum(1) / total
    return result.masked_fill((total == 0) | (total == mask.sum(1)), torch.nan)


def marked_runs(marked: Iterable[bool]) -> list[Span]:
    """The maximal spans of consecutive marked positions.

    Example:
        >>> marked_runs([True, True, False, True])
        [(0, 2), (3, 4)]
    """
    flags = np.concatenate(([0], np.fromiter(marked, dtype=np.int8), [0]))
    edges = np.flatnonzero(np.diff(flags))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def count_matches(predicted: Sequence[Span], gold: Sequence[Span], threshold: float = 0.5) -> int:
    """Count the predicted spans whose intersection over union with some gold span reaches the threshold.

    Example:
        >>> count_matches([(0, 2), (5, 6)], [(0, 3), (5, 8)])
        1
    """
    if not predicted or not gold:
        return 0
    (start, stop), (first, end) = np.array(predicted).T[..., None], np.array(gold).T[:, None]
    shared = np.clip(np.minimum(stop, end) - np.maximum(start, first), 0, None)
    union = (stop - start) + (end - first) - shared
    return int(((shared >= threshold * union) & (shared > 0)).any(1).sum())


def agreement(chosen: Sequence[int], relevant: Iterable[int], gold: Sequence[Span]) -> tuple[float, float, float]:
    """Agreement of chosen positions with human annotations: F1 of positions, precision and recall of spans.

    Args:
        chosen: the positions chosen, at least one.
        relevant: the annotated positions, at least one.
        gold: the annotated spans, at least one.

    Returns:
        The F1 of the positions; and the precision and recall of the spans that the chosen positions make, where a span
        counts that matches a gold span (`count_matches`).

    Example:
        >>> agreement([0, 1, 5], [0, 1, 2, 3], [(0, 4)])
        (0.5714285714285714, 0.5, 1.0)
    """
    selected, annotated = set(np.asarray(chosen).tolist()), set(relevant)
    predicted = marked_runs(position in selected for position in range(max(selected) + 1))
    matches = count_matches(predicted, gold)
    common = len(selected & annotated)
    return 2 * common / (len(selected) + len(annotated)), matches / len(predicted), matches / len(gold)


def f1(precision: ArrayLike, recall: ArrayLike) -> NDArray[np.float64]:
    """F1, the harmonic mean of precision and recall; 0 where both are 0, NaN where one of them is.

    Example:
        >>> f1([0.5, 0.0], [1.0, 0.0]).round(4)
        array([0.6667, 0.    ])
    """
    precisions, recalls = np.asarray(precision, dtype=np.float64), np.asarray(recall, dtype=np.float64)
    total = precisions + recalls
    return np.where(total == 0, 0.0, 2 * precisions * recalls / np.where(total == 0, 1.0, total))
