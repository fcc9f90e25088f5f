"""Encoders: the layers from word vectors to the representations that attention averages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence
from transformers.activations import ACT2FN

from attnfaith.models.ragged import Layout

if TYPE_CHECKING:
    from attnfaith.models.configuration import AttentionClassifierConfig


class Encoder(nn.Module):
    """Base class of encoders: items [M, E] -> (representations [M, D], one summary for each sequence [G, D]).

    The summary represents a whole sequence, and is what is read of a query; that of an empty sequence is zero.
    """

    size: int

    def forward(self, items: Tensor, layout: Layout) -> tuple[Tensor, Tensor]:
        """Encode the items of a layout."""
        raise NotImplementedError


class Recurrent(Encoder):
    """A bidirectional GRU or LSTM of one layer; the summary is the last state of both directions."""

    def __init__(self, config: AttentionClassifierConfig, input_size: int) -> None:
        super().__init__()
        kind = {"gru": nn.GRU, "lstm": nn.LSTM}[config.encoder]
        self.rnn = kind(input_size, config.hidden_size, bidirectional=True)
        self.size = 2 * config.hidden_size

    def forward(self, items: Tensor, layout: Layout) -> tuple[Tensor, Tensor]:
        """Encode each sequence in both directions."""
        summary = items.new_zeros(len(layout.lengths), self.size)
        if len(items) == 0:
            return items.new_zeros(0, self.size), summary
        # A PackedSequence has its longest sequence first, and the first items of all sequences before the second ones.
        longest_first = layout.lengths.argsort(descending=True, stable=True)
        rank = longest_first.argsort()
        order = (layout.slots * len(rank) + rank[layout.rows]).argsort()
        packed = PackedSequence(items[order], torch.bincount(layout.slots).cpu())
        output, state = self.rnn(packed)
        last = state[0] if isinstance(state, tuple) else state  # [2, sequences with items, hidden]
        filled = longest_first[: last.shape[1]]
        summary = summary.index_copy(0, filled, last.transpose(0, 1).flatten(1))
        return output.data[order.argsort()], summary


class Convolution(Encoder):
    """Convolutions of several widths side by side, each centred on its word; the summary is their maximum."""

    def __init__(self, config: AttentionClassifierConfig, input_size: int) -> None:
        super().__init__()
        self.widths = [width for width, _ in config.kernels]
        self.convolutions = nn.ModuleList(nn.Conv1d(input_size, channels, width) for width, channels in config.kernels)
        self.activation = ACT2FN[config.activation]
        self.size = sum(channels for _, channels in config.kernels)

    def forward(self, items: Tensor, layout: Layout) -> tuple[Tensor, Tensor]:
        """Convolve each sequence separately."""
        if len(items) == 0:
            return items.new_zeros(0, self.size), items.new_zeros(len(layout.lengths), self.size)
        gap = max(self.widths) - 1
        # All sequences in one long line with `gap` zeros around each: no kernel reaches from one into another.
        index = torch.arange(len(items), device=items.device) + (layout.rows + 1) * gap
        line = items.new_zeros(len(items) + (len(layout.lengths) + 1) * gap, items.shape[1])
        line = line.index_copy(0, index, items).t().unsqueeze(0)
        outputs = []
        for convolution, width in zip(self.convolutions, self.widths, strict=True):
            left = (width - 1) // 2  # an even kernel reaches one word further to the right
            outputs.append(convolution(F.pad(line, (left, width - 1 - left)))[0].t()[index])
        encoded = self.activation(torch.cat(outputs, dim=1))
        return encoded, layout.max(encoded)


class Feedforward(Encoder):
    """One layer applied to each word separately; the summary is the mean."""

    def __init__(self, config: AttentionClassifierConfig, input_size: int) -> None:
        super().__init__()
        self.linear = nn.Linear(input_size, config.hidden_size)
        self.activation = ACT2FN[config.activation]
        self.size = config.hidden_size

    def forward(self, items: Tensor, layout: Layout) -> tuple[Tensor, Tensor]:
        """Encode each word separately."""
        encoded = self.activation(self.linear(items))
        return encoded, layout.mean(encoded)


class Identity(Encoder):
    """No encoder: attention reads the word vectors themselves; the summary is the mean."""

    def __init__(self, config: AttentionClassifierConfig, input_size: int) -> None:
        super().__init__()
        self.size = input_size

    def forward(self, items: Tensor, layout: Layout) -> tuple[Tensor, Tensor]:
        """Return the items unchanged."""
        return items, layout.mean(items)


ENCODERS: dict[str, type[Encoder]] = {
    "gru": Recurrent,
    "lstm": Recurrent,
    "conv": Convolution,
    "mlp": Feedforward,
    "none": Identity,
}
