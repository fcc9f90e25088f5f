"""The attention classifiers of the papers, one text at a time, from the equations of their layers.

Nothing here runs a module of the library: weights are read from the state dict, and every layer is a loop.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import torch
from torch import Tensor

from tests.independent.decisions import Logits, Rule, erased, ordered, row_of, walk


def linear(states: Mapping[str, Tensor], name: str, vector: Tensor) -> Tensor:
    """``W x + b``; without a bias where there is none."""
    result = states[f"{name}.weight"] @ vector
    return result + states[f"{name}.bias"] if f"{name}.bias" in states else result


def activated(kind: str, vector: Tensor) -> Tensor:
    """relu, tanh, or the vector itself."""
    return {"relu": vector.clamp_min(0), "tanh": torch.tanh(vector), "linear": vector}[kind]


def softmax(scores: Sequence[float]) -> list[float]:
    """Shifted by the largest score."""
    top = max(scores)
    powers = [math.exp(score - top) for score in scores]
    return [power / math.fsum(powers) for power in powers]


def gru(states: Mapping[str, Tensor], suffix: str, vectors: Sequence[Tensor]) -> list[Tensor]:
    """The hidden states of a gated recurrent unit (Cho et al. 2014), in the order of the vectors."""
    w, u, b, c = (states[f"{part}_l0{suffix}"] for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
    hidden, result = torch.zeros(u.shape[1], dtype=u.dtype), []
    for vector in vectors:
        ours, theirs = (w @ vector + b).chunk(3), (u @ hidden + c).chunk(3)
        reset, update = torch.sigmoid(ours[0] + theirs[0]), torch.sigmoid(ours[1] + theirs[1])
        new = torch.tanh(ours[2] + reset * theirs[2])
        hidden = (1 - update) * new + update * hidden
        result.append(hidden)
    return result


def lstm(states: Mapping[str, Tensor], suffix: str, vectors: Sequence[Tensor]) -> list[Tensor]:
    """The hidden states of a long short-term memory."""
    w, u, b, c = (states[f"{part}_l0{suffix}"] for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
    hidden = cell = torch.zeros(u.shape[1], dtype=u.dtype)
    result = []
    for vector in vectors:
        enter, forget, new, leave = (w @ vector + b + u @ hidden + c).chunk(4)
        cell = torch.sigmoid(forget) * cell + torch.sigmoid(enter) * torch.tanh(new)
        hidden = torch.sigmoid(leave) * torch.tanh(cell)
        result.append(hidden)
    return result


@dataclass(frozen=True)
class Layers:
    """A model's configuration and weights."""

    config: Any
    states: Mapping[str, Tensor]

    def part(self, name: str) -> dict[str, Tensor]:
        """The weights below a name."""
        return {key[len(name) + 1 :]: value for key, value in self.states.items() if key.startswith(f"{name}.")}

    def encoded(self, name: str, vectors: Sequence[Tensor]) -> list[Tensor]:
        """Each vector of one sequence in its context."""
        kind, states = self.config.encoder, self.part(name)
        if kind in ("gru", "lstm"):
            unit, states = {"gru": gru, "lstm": lstm}[kind], self.part(f"{name}.rnn")
            forward = unit(states, "", vectors)
            backward = unit(states, "_reverse", vectors[::-1])[::-1]
            return [torch.cat(pair) for pair in zip(forward, backward, strict=True)]
        if kind == "conv":
            return [self._convolved(states, vectors, index) for index in range(len(vectors))]
        if kind == "mlp":
            return [activated(self.config.activation, linear(states, "linear", vector)) for vector in vectors]
        return list(vectors)

    def _convolved(self, states: Mapping[str, Tensor], vectors: Sequence[Tensor], index: int) -> Tensor:
        """Kernels centred on a word; an even one reaches one word further to the right."""
        parts = []
        for number, (width, _) in enumerate(self.config.kernels):
            weight, total = states[f"convolutions.{number}.weight"], states[f"convolutions.{number}.bias"]
            for tap in range(width):
                other = index + tap - (width - 1) // 2
                if 0 <= other < len(vectors):
                    total = total + weight[:, :, tap] @ vectors[other]
            parts.append(total)
        return activated(self.config.activation, torch.cat(parts))

    def weighed(self, name: str, vectors: Sequence[Tensor]) -> list[float]:
        """The attention over the vectors of one sequence."""
        config, states, scores = self.config, self.part(name), []
        for vector in vectors:
            if config.attention == "additive":
                vector = torch.tanh(linear(states, "project", vector))
            elif config.attention == "dot":
                vector = vector / math.sqrt(len(vector)) if config.dot_scale else vector
            else:
                vector = linear(states, "project", vector)
                for layer in range(config.deep_layers - 1):
                    vector = linear(states, f"layers.{layer}", vector.clamp_min(0))
                vector = vector.clamp_min(0)
            scores.append(float(linear(states, "context", vector)))
        if config.normaliser == "gumbel":
            scores = [score / config.temperature for score in scores]
        return softmax(scores)


@dataclass(frozen=True)
class Attended:
    """Items with their weights; for sentences also the words' weights by position."""

    vectors: list[Tensor]
    weights: list[float]
    words: dict[int, float]


class WordText:
    """One text of such a model: its logits with items erased from the final attention, and with words left out.

    Args:
        layers: the model's.
        ids: of the words and of the marks between sentences.
        rule: how logits decide.
        given: a score for each token.
    """

    def __init__(self, layers: Layers, ids: Sequence[int], rule: Rule, given: Sequence[float] = ()) -> None:
        self.layers, self.ids, self.rule, self.given = layers, list(ids), rule, list(given)
        self._shortened: dict[frozenset[int], Logits] = {}
        self.whole = self._attended(range(len(self.ids)))
        self.logits = self._decided(self.whole.vectors, self.whole.weights)

    def is_mark(self, index: int) -> bool:
        """Whether a position is an end of a sentence, and no word."""
        return self.ids[index] == self.layers.config.sentence_token_id

    @property
    def words(self) -> list[int]:
        """The positions of the words."""
        return [index for index in range(len(self.ids)) if not self.is_mark(index)]

    def _attended(self, kept: Sequence[int]) -> Attended:
        """Everything up to the final attention, of the positions that are kept."""
        layers, table = self.layers, self.layers.states["embeddings.weight"]
        if not layers.config.by_sentences:
            indices = [index for index in kept if not self.is_mark(index)]
            vectors = layers.encoded("encoder", [table[self.ids[index]] for index in indices])
            weights = layers.weighed("attention", vectors) if vectors else []
            return Attended(vectors, weights, dict(zip(indices, weights, strict=True)))
        sentences: list[list[int]] = [[]]
        for position in kept:
            if self.is_mark(position):
                sentences.append([])
            else:
                sentences[-1].append(position)
        sentences = [sentence for sentence in sentences if sentence]
        within, averages = [], []
        for sentence in sentences:
            vectors = layers.encoded("word_encoder", [table[self.ids[index]] for index in sentence])
            weights = layers.weighed("word_attention", vectors)
            within.append(weights)
            averages.append(average(vectors, weights))
        vectors = layers.encoded("encoder", averages)
        weights = layers.weighed("attention", vectors) if vectors else []
        by_word = {
            index: weight * part
            for sentence, weight, parts in zip(sentences, weights, within, strict=True)
            for index, part in zip(sentence, parts, strict=True)
        }
        return Attended(vectors, weights, by_word)

    def _decided(self, vectors: Sequence[Tensor], weights: Sequence[float]) -> Logits:
        """The linear layer on the average; on the zero vector where there is nothing."""
        states = self.layers.states
        size = states["classifier.weight"].shape[1]
        context = average(vectors, weights) if vectors else torch.zeros(size, dtype=states["classifier.weight"].dtype)
        return [float(value) for value in linear(states, "classifier", context)]

    def erased(self, removed: frozenset[int]) -> Logits:
        """The logits after erasing items from the final attention."""
        kept = frozenset(range(len(self.whole.weights))) - removed
        return self._decided(self.whole.vectors, erased(self.whole.weights, kept))

    def shortened(self, removed: frozenset[int]) -> Logits:
        """The logits of the text without some of its words."""
        if removed not in self._shortened:
            left = self._attended([index for index in range(len(self.ids)) if index not in removed])
            self._shortened[removed] = self._decided(left.vectors, left.weights)
        return self._shortened[removed]

    @cached_property
    def gradient(self) -> list[float]:
        """``dp_t/dw_i`` of each item; of an affine tail that is ``p_t (m_t - sum_k p_k m_k)`` with ``m = W h_i``."""
        target, kind = self.rule.explained(self.logits), self.rule.kind
        parts = [(self.layers.states["classifier.weight"] @ vector).tolist() for vector in self.whole.vectors]
        if kind == "regression":
            return [part[target] for part in parts]
        if kind in ("sigmoid", "multilabel"):
            output = 0 if kind == "sigmoid" else target
            p = 1 / (1 + math.exp(-self.logits[output]))
            sign = -1 if kind == "sigmoid" and target == 0 else 1
            return [sign * p * (1 - p) * part[output] for part in parts]
        p = softmax(self.logits)
        return [p[target] * (part[target] - math.fsum(q * m for q, m in zip(p, part, strict=True))) for part in parts]

    @cached_property
    def smallest(self) -> int | None:
        """The size of the smallest set of items whose erasure flips the decision, by trying all of them."""
        items = range(len(self.whole.weights))
        for size in range(1, len(items) + 1):
            for removed in combinations(items, size):
                if self.rule.flips(self.logits, self.erased(frozenset(removed))):
                    return size
        return None

    def row(self, level: str, ranking: str) -> dict[str, Any]:
        """What a row of the library's table should say."""
        if level == "input":
            items = self.words
            weights = [self.whole.words.get(index, 0.0) for index in range(len(self.ids))]
            scores = weights if ranking == "attention" else self.given
        else:
            items, weights = list(range(len(self.whole.weights))), self.whole.weights
            product = [weight * part for weight, part in zip(weights, self.gradient, strict=True)]
            scores = {"attention": weights, "gradient": self.gradient, "gradient_x_attention": product}[ranking]
        last = len(items) - (level == "input")  # no model is given an empty text
        run = self.shortened if level == "input" else self.erased
        signs = self.rule.directions(self.logits, signed=ranking not in ("attention", "given"))
        orders = [ordered(scores, items, sign) for sign in signs]
        walks = [walk(self.rule, self.logits, order, last, lambda removed, _: run(removed)) for order in orders]
        return row_of(self.rule, self.logits, walks, weights)


def average(vectors: Sequence[Tensor], weights: Sequence[float]) -> Tensor:
    """``sum_i w_i h_i``."""
    total = torch.zeros_like(vectors[0])
    for vector, weight in zip(vectors, weights, strict=True):
        total = total + weight * vector
    return total
