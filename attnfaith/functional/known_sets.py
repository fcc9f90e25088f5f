"""Logits of sets of items, each set of a text run once, whoever asks for it."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Run = Callable[[Tensor, Tensor], Tensor]
"""From texts ``[M]`` and kept items ``[M, N]`` to logits ``[M, C]``."""


class KnownSets:
    """The logits of the sets of kept items that were run already, of all texts of a batch.

    To look a set up without comparing masks, each item has a random 64-bit number, and the key of a set is the sum of
    the numbers of its items. Sums may wrap around: two different sets still have the same key with a probability of
    about 2**-63 only.

    Args:
        width: the number of items N.

    Example:
        >>> known = KnownSets(2)
        >>> texts, keep = torch.tensor([0, 0, 1]), torch.tensor([[True, False], [True, False], [True, False]])
        >>> known.logits(texts, keep, lambda some, sets: (print(len(some)), sets.double())[1]).shape
        2
        torch.Size([3, 2])
        >>> known.logits(texts[:1], keep[:1], lambda some, sets: print("not run again"))
        tensor([[1., 0.]], dtype=torch.float64)
    """

    def __init__(self, width: int) -> None:
        generator = torch.Generator().manual_seed(0)
        self._numbers = torch.randint(-(2**62), 2**62, (width,), generator=generator)
        self._keys = torch.empty(0, dtype=torch.long)  # sorted
        self._logits: Tensor | None = None

    def logits(self, texts: Tensor, keep: Tensor, run: Run) -> Tensor:
        """The logits ``[M, C]`` of sets ``[M, N]`` of texts ``[M]``; ``run`` gets those that are not known yet."""
        keys, inverse = self._keys_of(texts, keep).unique(return_inverse=True)
        new = ~torch.isin(keys, self._keys)
        if bool(new.any()):
            # any representative of equal sets will do; unique() does not return an index of one
            chosen = torch.empty_like(keys)
            chosen[inverse] = torch.arange(len(inverse), device=keys.device)
            self._add(keys[new], run(texts[chosen[new]], keep[chosen[new]]))
        assert self._logits is not None
        return self._logits[torch.searchsorted(self._keys, keys)[inverse]]

    def _add(self, keys: Tensor, logits: Tensor) -> None:
        joined = keys if self._logits is None else torch.cat((self._keys, keys))
        values = logits if self._logits is None else torch.cat((self._logits, logits))
        self._keys, order = joined.sort()
        self._logits = values[order]

    def _keys_of(self, texts: Tensor, keep: Tensor) -> Tensor:
        numbers = self._numbers.to(keep.device)
        self._keys = self._keys.to(keep.device)
        sums = [torch.where(part, numbers, 0).sum(1) for part in keep.split(4096)]
        # equal sets of different texts are different runs: each text shifts its keys by a multiple of one odd constant
        return torch.cat(sums) + texts * 0x9E3779B97F4A7C1
