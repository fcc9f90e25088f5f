"""A classifier without context: word embeddings, one hidden layer for each word, and an average by given weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from attnfaith.randomness import keyed_generator

HIDDEN = 128
EPOCHS, STEPS = 30, 900
"""The most epochs: so many, or as many as have so many steps, where texts are few."""
PATIENCE, PATIENT_STEPS = 5, 200
"""The epochs without a better validation accuracy before training stops, at least so many steps."""
RATE = 1e-3
BATCH = 32
_READ = 512  # texts that are classified at once


class ProbeModel(nn.Module):
    """``softmax(U sum_i w_i tanh(W e_i + b) + c)`` with embeddings e and imposed weights w; or weights of its own.

    Args:
        embeddings: ``[V, E]``, what the embeddings begin with.
        classes: the number of classes.
        learned: whether it has additive attention of its own over the hidden vectors.
        hidden: the width of the hidden layer.
    """

    def __init__(self, embeddings: Tensor, classes: int, *, learned: bool = False, hidden: int = HIDDEN) -> None:
        super().__init__()
        self.embeddings = nn.Embedding.from_pretrained(embeddings.clone().float(), freeze=False, sparse=True)
        self.hidden = nn.Linear(embeddings.shape[1], hidden)
        self.output = nn.Linear(hidden, classes)
        self.score = nn.Sequential(nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, 1, bias=False))
        self.learned = learned

    def forward(self, words: Tensor, weights: Tensor, mask: Tensor) -> Tensor:
        """Words, weights and mask ``[B, L]`` to logits ``[B, C]``; weights are not read where it learns its own."""
        vectors = torch.tanh(self.hidden(self.embeddings(words)))
        if self.learned:
            scores = self.score(vectors).squeeze(-1).masked_fill(~mask, -torch.inf)
            weights = torch.softmax(scores, dim=-1)
        return self.output(torch.einsum("bl,blh->bh", weights, vectors))


@dataclass(frozen=True, eq=False)
class Guided:
    """Texts as the probe reads them.

    Attributes:
        words: the word numbers of each text.
        weights: the imposed weights of each text.
        labels: the class of each text.
    """

    words: Sequence[NDArray[np.int64]]
    weights: Sequence[NDArray[np.float64]]
    labels: NDArray[np.int64]

    def batch(self, index: Sequence[int]) -> tuple[Tensor, Tensor, Tensor]:
        """Words, weights and mask ``[B, L]`` of some texts, padded."""
        longest = max(len(self.words[number]) for number in index)
        words = torch.zeros(len(index), longest, dtype=torch.long)
        weights, mask = torch.zeros(len(index), longest), torch.zeros(len(index), longest, dtype=torch.bool)
        for row, number in enumerate(index):
            size = len(self.words[number])
            words[row, :size] = torch.from_numpy(self.words[number])
            weights[row, :size] = torch.from_numpy(self.weights[number]).float()
            mask[row, :size] = True
        return words, weights, mask


def train_probe(
    embeddings: Tensor,
    train: Guided,
    validation: Guided,
    classes: int,
    *,
    learned: bool = False,
    seed: int = 0,
    epochs: int | None = None,
) -> ProbeModel:
    """Train a probe, and keep the epoch with the best validation accuracy (the first of several).

    Args:
        embeddings: ``[V, E]``, what the embeddings begin with.
        train: texts for training.
        validation: texts for choosing the epoch.
        classes: the number of classes.
        learned: whether the probe learns weights of its own; those of the texts are then not read.
        seed: of the weights and the order of the texts.
        epochs: the most epochs; by default `EPOCHS`, and more where texts are few.

    Example:
        >>> words = [np.array([number % 2, 2]) for number in range(40)]
        >>> even = [np.array([0.5, 0.5])] * 40
        >>> texts = Guided(words, even, np.array([number % 2 for number in range(40)]))
        >>> probe = train_probe(torch.eye(3), texts, texts, 2)
        >>> bool((predict(probe, texts).argmax(1) == texts.labels).all())
        True
    """
    generator = keyed_generator(seed, "probe")
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(int(torch.randint(2**62, (1,), generator=generator)))
        model = ProbeModel(embeddings, classes, learned=learned)
    dense = [parameter for name, parameter in model.named_parameters() if not name.startswith("embeddings")]
    optimizers = [torch.optim.Adam(dense, lr=RATE), torch.optim.SparseAdam(model.embeddings.parameters(), lr=RATE)]
    best, kept, since = -1.0, {name: value.clone() for name, value in model.state_dict().items()}, 0
    labels = torch.from_numpy(train.labels)
    steps = -(-len(train.labels) // BATCH)
    patience = max(PATIENCE, -(-PATIENT_STEPS // steps))
    for _ in range(max(EPOCHS, -(-STEPS // steps)) if epochs is None else epochs):
        model.train()
        order = torch.randperm(len(train.labels), generator=generator).tolist()
        for start in range(0, len(order), BATCH):
            index = order[start : start + BATCH]
            loss = F.cross_entropy(model(*train.batch(index)), labels[index])
            for optimizer in optimizers:
                optimizer.zero_grad()
            loss.backward()
            for optimizer in optimizers:
                optimizer.step()
        accuracy = float((predict(model, validation).argmax(1) == validation.labels).mean())
        since += 1
        if accuracy > best:
            best, since = accuracy, 0
            kept = {name: value.clone() for name, value in model.state_dict().items()}
        if since >= patience:
            break
    model.load_state_dict(kept)
    return model.eval()


def predict(model: ProbeModel, texts: Guided) -> NDArray[np.float64]:
    """The probabilities ``[n, C]`` of texts."""
    model.eval()
    parts = []
    with torch.no_grad():
        for start in range(0, len(texts.labels), _READ):
            index = range(start, min(start + _READ, len(texts.labels)))
            parts.append(torch.softmax(model(*texts.batch(index)).double(), dim=-1))
    result: NDArray[np.float64] = torch.cat(parts).numpy()
    return result
