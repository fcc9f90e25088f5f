"""Which sequences share a pass, so that little of it is padding."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby


def pass_sizes(lengths: Sequence[int], *, budget: int, overhead: int) -> list[int]:
    """How many sequences go into each pass, so that the passes cost the least.

    A pass costs its positions (all its sequences are padded to the longest of them), and as much as ``overhead``
    positions besides. A pass has sequences of neighbouring lengths; sequences of one length are only separated where
    the budget is used up.

    Args:
        lengths: of the sequences, descending.
        budget: the positions of a pass at most; a longer sequence has a pass to itself.
        overhead: what a pass costs by itself, in positions.

    Returns:
        The number of sequences of each pass; they sum to the number of sequences.

    Example:
        >>> pass_sizes([9, 9, 8, 2, 2, 2, 2], budget=100, overhead=10)
        [3, 4]
        >>> pass_sizes([9, 9, 8, 2, 2, 2, 2], budget=20, overhead=10)
        [2, 1, 4]
    """
    groups = [(length, len(list(same))) for length, same in groupby(lengths)]
    least = [0]  # of the first groups, what they cost
    start_of_last = [0]  # the group with which their last span of passes begins
    for end in range(1, len(groups) + 1):
        best, chosen, count = None, 0, 0
        for start in range(end - 1, -1, -1):
            length, members = groups[start]
            count += members
            passes = -(-count // max(1, budget // length))
            cost = least[start] + count * length + passes * overhead
            if best is None or cost < best:
                best, chosen = cost, start
        assert best is not None
        least.append(best)
        start_of_last.append(chosen)
    spans, end = [], len(groups)
    while end:
        spans.append(range(start_of_last[end], end))
        end = start_of_last[end]
    sizes: list[int] = []
    for span in reversed(spans):
        size = max(1, budget // groups[span.start][0])
        count = sum(groups[index][1] for index in span)
        sizes += [size] * (count // size) + ([count % size] if count % size else [])
    return sizes
