"""Flipping sets (items whose removal changes a decision): the prefix of an order as a set, and making a set smaller."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import torch
from torch import Tensor

from attnfaith.functional.ranking import ranks_of

FlipsDecision = Callable[[Tensor, Tensor], Tensor]
"""From indices of texts ``[M]`` and removed items ``[M, N]`` bool, to whether each decision flips, ``[M]`` bool."""


def prefix_set(order: Tensor, size: Tensor) -> Tensor:
    """The first ``size`` items of an order as a mask.

    Args:
        order: ``[B, N]``, items in the order of removal.
        size: ``[B]``, the number of items.

    Returns:
        ``[B, N]`` bool.

    Example:
        >>> prefix_set(torch.tensor([[2, 0, 1]]), torch.tensor([2]))
        tensor([[ True, False,  True]])
    """
    return ranks_of(order) < size.unsqueeze(-1)


def prune_set(removed: Tensor, order: Tensor, flips: FlipsDecision, *, room: float = 1) -> Tensor:
    """Make flipping sets smaller: restore items one at a time, as long as the decision stays flipped.

    The item that was removed last is tried first. A text is finished when no single item of its set can be restored.
    The decision is not monotone in the set: an item that could not be restored may become restorable after another item
    has been. Items that failed before the last success are therefore tried again; one sweep would leave sets larger.

    Most items cannot be restored, so several are tried at once; those tried after a success are tried again.

    Args:
        removed: ``[B, N]`` bool, one flipping set per text; an empty row stays empty.
        order: ``[B, N]``, the order in which items were removed.
        flips: evaluates sets.
        room: how many sets are worth evaluating at once, over all texts; the result does not depend on it.

    Returns:
        ``[B, N]`` bool, subsets of ``removed`` that still flip the decision.

    Example:
        >>> def flips(texts, removed):  # needs item 0, and one of the items 1 and 2
        ...     return removed[:, 0] & removed[:, 1:3].any(1)
        >>> prune_set(torch.tensor([[True, True, True, True]]), torch.tensor([[1, 3, 0, 2]]), flips)
        tensor([[ True,  True, False, False]])
    """
    removed = removed.clone()
    ranks = ranks_of(order).tolist()
    left = [  # of each text's sweep over its set, the items that were not tried yet
        sorted(row.nonzero().flatten().tolist(), key=ranks[text].__getitem__, reverse=True)
        for text, row in enumerate(removed)
    ]
    sizes = [len(items) for items in left]
    failed: list[list[int]] = [[] for _ in left]  # in this sweep, and
    retry: list[list[int]] = [[] for _ in left]  # before its last success
    # The last item of a set is not tried: with nothing removed, no decision flips.
    while texts := [text for text, items in enumerate(left) if items and sizes[text] > 1]:
        ahead = max(1, int(min(room / len(texts), removed.shape[1])))
        tried = [(text, item) for text in texts for item in left[text][:ahead]]
        rows, items = torch.tensor(tried, device=removed.device).unbind(1)
        still_flips = flips(rows, removed[rows].scatter(1, items.unsqueeze(1), False))
        restored = set()
        for (text, item), success in zip(tried, still_flips.tolist(), strict=True):
            if text in restored:  # the set is another one now
                continue
            left[text].pop(0)
            if success:
                restored.add(text)
                removed[text, item] = False
                sizes[text] -= 1
                retry[text] = list(failed[text])
            else:
                failed[text].append(item)
            if not left[text]:
                left[text], failed[text], retry[text] = retry[text], [], []
    return removed


def prune_blocks(removed: Tensor, order: Tensor, flips: FlipsDecision, most: int) -> Tensor:
    """Make flipping sets smaller at a bounded cost: restore blocks of items as long as the decision stays flipped.

    A set is cut in two halves of its order of removal. A block that cannot be restored is cut in two again, down to
    single items; large blocks are tried before small ones, and those that were removed last before others. Single items
    that failed before a success are tried again, as in `prune_set`, while the cost allows it.

    Args:
        removed: ``[B, N]`` bool, one flipping set per text; an empty row stays empty.
        order: ``[B, N]``, the order in which items were removed.
        flips: evaluates sets.
        most: the largest number of sets that are evaluated for each text.

    Returns:
        ``[B, N]`` bool, subsets of ``removed`` that still flip the decision.

    Example:
        >>> def flips(texts, removed):  # needs item 0, and one of the items 1 and 2
        ...     return removed[:, 0] & removed[:, 1:3].any(1)
        >>> prune_blocks(torch.tensor([[True, True, True, True]]), torch.tensor([[1, 3, 0, 2]]), flips, most=4)
        tensor([[ True, False,  True, False]])
    """
    removed = removed.clone()
    ranks = ranks_of(order).tolist()
    queues: list[deque[list[int]]] = []
    for text, row in enumerate(removed):
        items = sorted(row.nonzero().flatten().tolist(), key=ranks[text].__getitem__, reverse=True)
        queues.append(deque([items] if items else []))
    failed: list[list[int]] = [[] for _ in queues]  # single items that failed, and
    retry: list[list[int]] = [[] for _ in queues]  # those of them that failed before the last success
    for _ in range(most):
        sizes = removed.sum(1).tolist()
        for queue, size in zip(queues, sizes, strict=True):
            while queue and len(queue[0]) == size:  # with nothing removed, no decision flips
                queue.extendleft(reversed(_halves(queue.popleft())))
        texts = [text for text, queue in enumerate(queues) if queue]
        if not texts:
            break
        blocks = [queues[text].popleft() for text in texts]
        rows = torch.tensor(texts, device=removed.device)
        smaller = removed[rows]
        for index, block in enumerate(blocks):
            smaller[index, block] = False
        still_flips = flips(rows, smaller)
        removed[rows[still_flips]] = smaller[still_flips]
        for text, block, success in zip(texts, blocks, still_flips.tolist(), strict=True):
            if success:
                retry[text] = list(failed[text])
            elif len(block) > 1:
                queues[text].extend(_halves(block))
            else:
                failed[text].append(block[0])
            if not queues[text]:
                queues[text].extend([item] for item in retry[text])
                failed[text], retry[text] = [], []
    return removed


def _halves(items: list[int]) -> list[list[int]]:
    """The two halves of a list; none of a list of one."""
    middle = len(items) // 2
    return [items[:middle], items[middle:]] if middle else []
