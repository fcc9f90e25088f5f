"""Ragged batches: sequences of unequal length, concatenated without padding, so that no layer ever sees padding."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Layout(NamedTuple):
    """The positions of the items of a ragged batch: ``M`` items in ``G`` sequences of at most ``N`` items.

    Attributes:
        rows: [M] the sequence that each item belongs to, ascending.
        slots: [M] its index in that sequence, from 0.
        lengths: [G] the number of items of each sequence; 0 is allowed.

    Example:
        >>> Layout.of(torch.tensor([0, 0, 2]), sequences=3).lengths
        tensor([2, 0, 1])
    """

    rows: Tensor
    slots: Tensor
    lengths: Tensor

    @classmethod
    def of(cls, rows: Tensor, *, sequences: int) -> Layout:
        """The layout of items, from the (ascending) sequence number of each."""
        lengths = torch.bincount(rows, minlength=sequences)
        starts = lengths.cumsum(0) - lengths
        return cls(rows, torch.arange(len(rows), device=rows.device) - starts[rows], lengths)

    @property
    def starts(self) -> Tensor:
        """[G] the index of each sequence's first item."""
        return self.lengths.cumsum(0) - self.lengths

    def pad(self, items: Tensor, fill: float = 0) -> Tensor:
        """Pad items [M, ...] -> [G, N, ...], with ``fill`` where a sequence has no item."""
        longest = int(self.lengths.max()) if len(self.lengths) else 0
        padded = items.new_full((len(self.lengths), longest, *items.shape[1:]), fill)
        padded[self.rows, self.slots] = items
        return padded

    def unpad(self, padded: Tensor) -> Tensor:
        """Undo `pad`: [G, N, ...] -> [M, ...]."""
        return padded[self.rows, self.slots]

    def sum(self, items: Tensor) -> Tensor:
        """Sum each sequence: [M, D] -> [G, D], zeros for a sequence without items."""
        return items.new_zeros(len(self.lengths), items.shape[1]).index_add(0, self.rows, items)

    def mean(self, items: Tensor) -> Tensor:
        """Average each sequence: [M, D] -> [G, D], zeros for a sequence without items."""
        return self.sum(items) / self.lengths.clamp(min=1).unsqueeze(1)

    def max(self, items: Tensor) -> Tensor:
        """Maximum of each sequence: [M, D] -> [G, D], zeros for a sequence without items."""
        zeros = items.new_zeros(len(self.lengths), items.shape[1])
        index = self.rows.unsqueeze(1).expand_as(items)
        return zeros.scatter_reduce(0, index, items, reduce="amax", include_self=False)


def split_sentences(words: Tensor, boundaries: Tensor) -> tuple[Layout, Layout, Tensor]:
    """Words and boundaries [B, T] (bool) -> (layout of words in sentences, of sentences in texts, spans [S, 2]).

    A sentence is a sequence of words without a boundary between them; two boundaries in a row make no sentence.
    """
    texts, positions = words.nonzero(as_tuple=True)
    number = texts * (words.shape[1] + 1) + boundaries.cumsum(1)[texts, positions]
    sentence, rows = torch.unique_consecutive(number, return_inverse=True)
    inside = Layout.of(rows, sequences=len(sentence))
    outside = Layout.of(sentence // (words.shape[1] + 1), sequences=len(words))
    spans = torch.stack([positions[inside.starts], positions[inside.starts + inside.lengths - 1] + 1], dim=1)
    return inside, outside, spans
