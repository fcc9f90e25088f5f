"""What a model gives for texts: the probabilities of the classes, and its attention, of items and of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnfaith.adapters.cut import Cut
from attnfaith.attribution.attention import attention_at_input, mean_distribution
from attnfaith.attribution.request import Request
from attnfaith.functional.decision import Decision, jensen_shannon, total_variation
from attnfaith.text.encoded import EncodedText
from attnfaith.text.encoder import TextEncoder

Array = NDArray[np.float64]
BATCH = 32


@dataclass(frozen=True, eq=False)
class Outputs:
    """The outputs of one model for ``n`` texts.

    Attributes:
        probabilities: ``[n, C]``.
        items: the attention of each text over the items of the cut, averaged over the distributions that the decision
            reads, and scaled to sum to 1.
        tokens: the same by token of the input; in a HAN the weight of a sentence is divided among its words. None for a
            model whose items do not correspond to tokens.
    """

    probabilities: Array
    items: tuple[Array, ...]
    tokens: tuple[Array, ...] | None

    @property
    def predictions(self) -> NDArray[np.int64]:
        """The class that is decided, ``[n]``."""
        return self.probabilities.argmax(-1)

    def table(self) -> pa.Table:
        """The outputs as a table with a row for each text."""
        tokens = [None] * len(self.items) if self.tokens is None else [list(weights) for weights in self.tokens]
        lists = pa.list_(pa.float64())
        return pa.table(
            {
                "probabilities": pa.array(self.probabilities.tolist(), lists),
                "items": pa.array([weights.tolist() for weights in self.items], lists),
                "tokens": pa.array(tokens, lists),
            }
        )

    @classmethod
    def from_table(cls, table: pa.Table) -> Outputs:
        """The outputs that `table` stored."""
        columns = {name: table[name].to_pylist() for name in ("probabilities", "items", "tokens")}
        missing = any(weights is None for weights in columns["tokens"])
        return cls(
            np.array(columns["probabilities"], dtype=np.float64),
            tuple(np.array(weights, dtype=np.float64) for weights in columns["items"]),
            None if missing else tuple(np.array(weights, dtype=np.float64) for weights in columns["tokens"]),
        )


def outputs_of(
    cut: Cut, encoder: TextEncoder, encoded: Sequence[EncodedText], decision: Decision, *, batch_size: int = BATCH
) -> Outputs:
    """Run a model on texts, and capture its attention.

    Args:
        cut: the model, cut at its final attention.
        encoder: collates for the model.
        encoded: the texts.
        decision: how the model decides.
        batch_size: texts in a batch; it changes numbers by rounding only.
    """
    probabilities: list[Array] = [np.empty(0)] * len(encoded)
    items, tokens = list(probabilities), list(probabilities)
    by_token = True
    for batch in encoder.batches(encoded, batch_size):
        inputs = encoder.collate([encoded[index] for index in batch])
        capture = cut.capture(**inputs)
        target = torch.zeros(len(batch), dtype=torch.long)
        request = Request(cut, inputs, target, "logit", decision, known_capture=capture)
        weights = mean_distribution(request)
        by_token = by_token and capture.items is not None and capture.items.spans is not None
        of_tokens = attention_at_input(request).values if by_token else None
        chosen = decision.probabilities(capture.logits.double()).cpu().numpy()
        for row, index in enumerate(batch):
            probabilities[index] = chosen[row]
            items[index] = _distribution(weights[row][capture.mask[row]])
            if of_tokens is not None:
                tokens[index] = _distribution(of_tokens[row][request.tokens[row]])
    return Outputs(np.stack(probabilities), tuple(items), tuple(tokens) if by_token else None)


def _distribution(weights: Tensor) -> Array:
    values = weights.double().cpu().numpy()
    total = values.sum()
    return values / total if total > 0 else np.full(len(values), 1 / max(len(values), 1))


def attention_distances(first: Outputs, second: Outputs) -> Array:
    """The Jensen-Shannon divergence of the attention of two models on each text, ``[n]``, in nats.

    Example:
        >>> one = Outputs(np.array([[0.5, 0.5]]), (np.array([1.0, 0.0]),), None)
        >>> other = Outputs(np.array([[0.9, 0.1]]), (np.array([0.0, 1.0]),), None)
        >>> attention_distances(one, other).round(4), output_distances(one, other).round(4)
        (array([0.6931]), array([0.4]))
    """
    pairs = zip(first.items, second.items, strict=True)
    return np.array([float(jensen_shannon(torch.from_numpy(a), torch.from_numpy(b))) for a, b in pairs])


def output_distances(first: Outputs, second: Outputs) -> Array:
    """The total variation distance of the outputs of two models for each text, ``[n]``, from 0 to 1."""
    left, right = torch.from_numpy(first.probabilities), torch.from_numpy(second.probabilities)
    result: Array = total_variation(left, right).numpy()
    return result


def uniform_like(outputs: Outputs) -> Outputs:
    """The same outputs with uniform attention."""

    def even(weights: Array) -> Array:
        return np.full(len(weights), 1 / len(weights))

    return Outputs(
        outputs.probabilities,
        tuple(map(even, outputs.items)),
        None if outputs.tokens is None else tuple(map(even, outputs.tokens)),
    )


def largest_weights(outputs: Outputs) -> Array:
    """The largest attention weight of each text, ``[n]``."""
    return np.array([weights.max() for weights in outputs.items])
