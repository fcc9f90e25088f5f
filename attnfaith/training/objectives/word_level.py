"""Word-level objectives: what attention averages at a word must still tell which word it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnfaith import validation
from attnfaith.adapters.attention_in_training import AttentionInTraining, FinalAttention
from attnfaith.adapters.embeddings import find_embedding
from attnfaith.errors import UnsupportedModelError
from attnfaith.functional.penalties import squared_distance
from attnfaith.randomness import keyed_generator
from attnfaith.training.objectives.objective import Objective, Setting, Step


@dataclass(frozen=True)
class _Words:
    """What connects hidden states with words.

    Attributes:
        embedding: the module with the word vectors ``[V, E]``.
        to_words: a linear map from hidden states to word vectors, trained along; the identity where sizes agree.
        special: the ids that are no words.
        replacement: the id that stands for a masked word.
    """

    embedding: nn.Module
    to_words: nn.Module
    special: Tensor
    replacement: int | None

    def states(self, attention: FinalAttention) -> Tensor:
        """The hidden states, heads side by side, as word vectors ``[B, N, E]``."""
        return self.to_words(attention.values.transpose(1, 2).flatten(2))

    def is_word(self, ids: Tensor) -> Tensor:
        """True for ids that are words."""
        return ~torch.isin(ids, self.special.to(ids.device))


@contextmanager
def _words(setting: Setting, name: str) -> Iterator[_Words]:
    """Add the map to the model, so that optimizer and checkpoints have it, and remove it after training."""
    model, tokenizer = setting.model, setting.texts.tokenizer
    attention = AttentionInTraining(model, setting.example).of_example()
    if attention.positions is None:
        raise UnsupportedModelError(
            f"{type(model).__name__} attends sentences, and word-level objectives need hidden states of words. Use a "
            "model that attends words (FLAN), or a Transformer."
        )
    embedding = find_embedding(model)
    weight = next(embedding.parameters())
    size, width = attention.values.shape[1] * attention.values.shape[3], weight.shape[1]
    mask_id = getattr(tokenizer, "mask_token_id", None)
    to_words: nn.Module = nn.Identity()
    if size != width:
        to_words = nn.utils.skip_init(nn.Linear, size, width, bias=False)
        nn.init.xavier_uniform_(to_words.weight, generator=keyed_generator(setting.seed, name))  # type: ignore[arg-type]
        to_words.to(weight)
    special = torch.tensor(sorted(setting.texts.special_ids), dtype=torch.long)
    module = f"attnfaith_{name}"
    try:
        model.add_module(module, to_words)
        yield _Words(embedding, to_words, special, tokenizer.unk_token_id if mask_id is None else mask_id)
    finally:
        model._modules.pop(module, None)


def _ids_at_items(step: Step) -> tuple[Tensor, Tensor]:
    """The original id of each item ``[B, N]``, and which items are words of the text."""
    ids, attention, words = step.original_inputs["input_ids"], step.attention, step.state
    if ids.shape != step.inputs["input_ids"].shape:  # tokens were deleted
        ids = step.inputs["input_ids"]
    assert attention.positions is not None
    at_items = ids.gather(1, attention.positions)
    return at_items, attention.mask & words.is_word(at_items)


@dataclass(frozen=True)
class WordTying(Objective):
    """Penalises the squared distance of hidden states from the vectors of their words (Tutek & Snajder 2020, "tying").

    The hidden states are the vectors that the final attention averages; in a Transformer the values of all heads side
    by side. Where they have another size than the word vectors, a linear map between the two is trained along and
    dropped afterwards; the paper makes them of one size.

    ``History`` has "word_distance", the mean over texts.

    Args:
        weight: the factor of the term, delta in the paper.

    Example:
        >>> WordTying(0.1).weight
        0.1
    """

    weight: float = 1.0
    name: ClassVar[str] = "word_tying"
    needs_attention: ClassVar[bool] = True

    def __post_init__(self) -> None:
        validation.number(self.weight, "weight", least=0)

    @contextmanager
    def hold(self, setting: Setting) -> Iterator[_Words]:
        """Add the linear map, where sizes differ."""
        with _words(setting, self.name) as words:
            yield words

    def term(self, step: Step) -> Tensor:
        """The mean squared distance of each text."""
        words: _Words = step.state
        ids, mask = _ids_at_items(step)
        return squared_distance(words.states(step.attention), words.embedding(ids), mask)

    def figures(self, step: Step) -> dict[str, Tensor]:
        """The mean squared distance of each text."""
        return {"word_distance": self.term(step)}


@dataclass(frozen=True)
class WordPrediction(Objective):
    """Hidden states must predict their word, some of which are masked in training (Tutek & Snajder 2020, "MLM").

    In every batch a share of the words is replaced by the mask token (or the unknown word, where there is none); the
    hidden states at their positions predict the words by a softmax over the products with all word vectors. With
    ``masked=0`` nothing is replaced and every word is predicted. Sizes are matched as in `WordTying`. In validation
    nothing is replaced, and "validation_loss" has the term over all words.

    ``History`` has "word_accuracy", the mean share of the words of a text that are predicted.

    Args:
        weight: the factor of the term, the mean cross-entropy in nats.
        masked: the share of the words that are replaced and predicted.

    Example:
        >>> WordPrediction(0.5).masked
        0.15
    """

    weight: float = 1.0
    masked: float = 0.15
    name: ClassVar[str] = "word_prediction"
    needs_attention: ClassVar[bool] = True

    def __post_init__(self) -> None:
        validation.number(self.weight, "weight", least=0)
        validation.share(self.masked, "masked", zero=True)

    @contextmanager
    def hold(self, setting: Setting) -> Iterator[_Words]:
        """Add the linear map, where sizes differ."""
        with _words(setting, self.name) as words:
            if self.masked and words.replacement is None:
                raise UnsupportedModelError(
                    "The tokenizer has neither a mask token nor an unknown word that could replace a word. Use "
                    "WordPrediction(masked=0)."
                )
            yield words

    def change(self, step: Step) -> Mapping[str, Any]:
        """Replace a share of the words."""
        if not self.masked or not self.weight:
            return step.inputs
        words: _Words = step.state
        ids = step.inputs["input_ids"]
        draws = torch.rand(ids.shape, generator=step.generator(self.name)).to(ids.device)
        step.memory = step.tokens & words.is_word(ids) & (draws < self.masked)
        return {**step.inputs, "input_ids": ids.masked_fill(step.memory, words.replacement or 0)}

    def term(self, step: Step) -> Tensor:
        """The mean cross-entropy of each text, over the words that were replaced."""
        ids, mask = _ids_at_items(step)
        if step.memory is not None and step.memory.shape == step.tokens.shape:
            assert step.attention.positions is not None
            mask = mask & step.memory.gather(1, step.attention.positions)
        losses = torch.zeros(mask.shape, dtype=step.attention.values.dtype, device=mask.device)
        losses = losses.masked_scatter(mask, F.cross_entropy(self._scores(step, mask), ids[mask], reduction="none"))
        count = mask.sum(1)
        return (losses.sum(1) / count.clamp_min(1)).masked_fill(count == 0, torch.nan)

    def figures(self, step: Step) -> dict[str, Tensor]:
        """The share of the words of each text that are predicted."""
        ids, mask = _ids_at_items(step)
        right = torch.zeros(mask.shape, device=mask.device)
        right = right.masked_scatter(mask, (self._scores(step, mask).argmax(-1) == ids[mask]).to(right.dtype))
        return {"word_accuracy": right.sum(1) / mask.sum(1)}  # 0 / 0 is NaN

    @staticmethod
    def _scores(step: Step, mask: Tensor) -> Tensor:
        words: _Words = step.state
        return words.states(step.attention)[mask] @ next(words.embedding.parameters()).T
