"""The interface of an adapter (capture attention, run what follows on other attention), and the registry."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from attnfaith.adapters.attention_watch import AttentionCall
from attnfaith.adapters.embeddings import read_vectors, run_on_vectors
from attnfaith.adapters.forward_pass import logits_of
from attnfaith.adapters.positions import index_within_text, repeat_index
from attnfaith.errors import UnsupportedModelError
from attnfaith.functional.erasure import erase, prefix_keeps, sums_from_the_end, sums_without_each
from attnfaith.registry import Registry
from attnfaith.types import Capture

SUMS = 2**18
"""The largest number of sums over items that are made at once: few enough for the processor's cache."""


@dataclass(frozen=True)
class Affine:
    """The affine form of a tail with one attention distribution: logits are ``sum_i w_i contributions_i + bias``.

    Attributes:
        contributions: ``[B, N, C]``, what each item adds to the logits at weight 1.
        bias: ``[B, C]``, the logits of the zero vector.
    """

    contributions: Tensor
    bias: Tensor


class Adapter(ABC):
    """Base class of adapters, the only code that touches the inside of a model.

    An adapter for a model of your own implements `capture` and `rerun`; the other methods build on these two.
    ``model`` is a copy that shares the owner's weights: it is in evaluation mode, and its parameters do not require
    gradients.

    Attributes:
        mechanism: how the attention is reached, for ``print(cut)``.
        tail: how what follows the attention is run, for ``print(cut)``.
        heads: the indices of the heads that were cut; None for all.
        rows_are_tokens: whether the query rows of the final attention are the tokens of the text.
    """

    mechanism: str = "yours"
    tail: str = "as written"
    heads: Sequence[int] | None = None
    rows_are_tokens: bool = True

    def __init__(self, model: nn.Module) -> None:
        self.model = model

    @abstractmethod
    def capture(self, **inputs: Any) -> Capture:
        """Run the model, and return its logits, its final attention, and in ``state`` what `rerun` needs."""

    @abstractmethod
    def rerun(self, capture: Capture, weights: Tensor) -> Tensor:
        """Run what follows the attention on other weights ``[B, K, G, N]``, and return logits ``[B, K, C]``."""

    @property
    def may_be_affine(self) -> bool:
        """Whether the adapter defines `affine`: known before any text is captured."""
        return type(self).affine is not Adapter.affine

    def affine(self, capture: Capture) -> Affine | None:
        """The affine form of the tail; None where it has none, or where there are several distributions."""
        return None

    def rerun_sets(self, capture: Capture, texts: Tensor, keep: Tensor, room: int) -> Tensor:
        """Run what follows the attention with items erased, for any number of candidates of each text.

        Args:
            capture: the batch.
            texts: ``[M]``, the text that each candidate is a version of.
            keep: ``[M, N]``, the items that stay.
            room: the largest number of candidates to run at once.

        Returns:
            Logits ``[M, C]``.
        """
        index = index_within_text(texts, capture.shape[0])
        # texts with fewer candidates: nothing erased
        padded = capture.mask.unsqueeze(1).repeat(1, int(index.max()) + 1, 1)
        padded[texts, index] = keep
        logs = None if capture.log_weights is None else capture.log_weights.unsqueeze(1)
        logits = [
            self.rerun(capture, erase(capture.weights.unsqueeze(1), chunk, logs))
            for chunk in padded.split(max(1, room // capture.shape[0]), dim=1)
        ]
        return torch.cat(logits, dim=1)[texts, index]

    def rerun_prefixes(self, capture: Capture, order: Tensor, start: int, stop: int, room: int) -> Tensor:
        """The logits ``[..., stop - start, C]`` after removing the first ``start``, ..., ``stop - 1`` items.

        The orders are ``[B, N]``, or several of each text, ``[O, B, N]``.
        """
        affine, texts = self.affine(capture), capture.shape[0]
        if affine is None:
            keep = prefix_keeps(order, capture.mask, start, stop)
            index = repeat_index(texts, stop - start, keep.device).repeat(keep[..., 0, 0].numel() // texts)
            return self.rerun_sets(capture, index, keep.flatten(0, -2), room).unflatten(0, keep.shape[:-1])
        assert capture.log_weights is not None
        logs, mass = capture.log_weights[:, 0], capture.weights[:, 0].double().sum(-1)
        bias = affine.bias.double().T.unsqueeze(1).unsqueeze(-1)
        kept = order.reshape(-1, *order.shape[-2:]).flip(-1)
        # classes first: to compare them with one another is then many times as fast
        logits = capture.logits.new_empty(len(bias), *kept.shape[:2], kept.shape[2] + 1)
        logits[..., :1] = bias
        size = max(1, SUMS // (kept[0].numel() * len(bias)))
        for piece, part in zip(kept.split(size), logits.split(size, dim=1), strict=True):
            part[..., 1:] = sums_from_the_end(logs, mass, affine.contributions, piece) + bias
        steps = logits.flip(-1)[..., start:stop].movedim(0, -1)
        return steps if order.dim() > 2 else steps[0]

    def rerun_without_each(self, capture: Capture, room: int) -> Tensor:
        """The logits ``[B, N, C]`` with each item erased by itself; at padding, those of the unchanged text."""
        mask, affine = capture.mask, self.affine(capture)
        logits = capture.logits.unsqueeze(1).expand(-1, mask.shape[1], -1)
        if affine is not None:
            assert capture.log_weights is not None
            total = capture.weights[:, 0].double().sum(-1)
            sums = sums_without_each(capture.log_weights[:, 0], total, affine.contributions)
            without = (sums + affine.bias.double().unsqueeze(1)).to(logits.dtype)
            return without if bool(mask.all()) else torch.where(mask.unsqueeze(-1), without, logits)
        text, item = mask.nonzero(as_tuple=True)
        keep = mask[text]
        keep[torch.arange(len(item), device=item.device), item] = False
        logits = logits.clone()
        logits[text, item] = self.rerun_sets(capture, text, keep, room)
        return logits

    def forward(self, inputs: Mapping[str, Any]) -> Tensor:
        """The model's logits ``[B, C]``."""
        return logits_of(self.model(**inputs))

    def vectors(self, inputs: Mapping[str, Any]) -> Tensor:
        """The word vectors ``[B, L, E]`` that the model reads at each position."""
        return read_vectors(self.model, inputs["input_ids"])

    def forward_on(self, vectors: Tensor, inputs: Mapping[str, Any]) -> Tensor:
        """The model's logits with other word vectors ``[B, L, E]``; differentiable in them."""
        return run_on_vectors(self.model, lambda: self.forward(inputs), inputs["input_ids"], vectors)

    def logits_at(
        self, rows: tuple[Tensor, Tensor], inputs: Mapping[str, Any], vectors: Tensor | None = None
    ) -> Tensor:
        """The model's logits without gradients, computed faster where it is known which rows decide.

        Args:
            rows: the result of `deciding_rows` for these inputs.
            inputs: the model's inputs.
            vectors: ``[B, L, E]``, word vectors to use instead of the model's own.
        """
        return self.forward(inputs) if vectors is None else self.forward_on(vectors, inputs)

    def logits_on(self, rows: tuple[Tensor, Tensor], inputs: Mapping[str, Any], vectors: Tensor) -> Tensor:
        """The model's logits on other word vectors, differentiable in them; faster where it is known which rows decide.

        Args:
            rows: the result of `deciding_rows` for these inputs.
            inputs: the model's inputs.
            vectors: ``[B, L, E]``.
        """
        return self.forward_on(vectors, inputs)

    def attentions(self, inputs: Mapping[str, Any]) -> list[Tensor]:
        """Every attention of a forward pass in order, ``[B, Q, N]``, averaged over heads."""
        raise UnsupportedModelError(
            f"{type(self).__name__} knows only the final attention. Use layer='final', or another method.",
            code="unsupported-ranking",
        )

    def watching(self, batch: int, on_attention: Callable[[AttentionCall], None]) -> AbstractContextManager[Any]:
        """A context in which ``on_attention`` receives every attention that the adapter can watch; by default none.

        Args:
            batch: the batch size of the forward passes inside.
            on_attention: reads the attention, and changes nothing.
        """
        return nullcontext()

    def deciding_rows(self, capture: Capture) -> tuple[Tensor, Tensor]:
        """The query rows that the logits read, ``[B, R]``, and which of them exist."""
        rows = torch.zeros(capture.shape[0], 1, dtype=torch.long, device=capture.mask.device)
        return rows, torch.ones_like(rows, dtype=torch.bool)

    def deciding_tokens(self, capture: Capture) -> Tensor | None:
        """The position ``[B]`` of the one token that decides each text; None where no single token does."""
        return None

    def attended(self, capture: Capture) -> Tensor:
        """The vectors that the final attention averages, one for each item, ``[B, H, N, D]`` (H heads, or 1)."""
        raise UnsupportedModelError(
            f"{type(self).__name__} does not return the vectors that its attention averages. To measure their "
            "information, define attended(capture), which returns a vector for each item, [B, H, N, D] (H "
            "heads, or 1).",
            code="unsupported-ranking",
        )

    def word_weights(self, inputs: Mapping[str, Any]) -> Tensor:
        """For a model that attends sentences, the weight of each word within its sentence, ``[B, L]``."""
        raise UnsupportedModelError(
            f"{type(self).__name__} has no weights of words within sentences.", code="unsupported-ranking"
        )

    def candidate_bytes(self, capture: Capture) -> int:
        """Roughly the memory in bytes that one candidate of one text needs while the tail runs."""
        _, groups, items = capture.shape
        return 8 * (groups * items + 64 * capture.logits.shape[-1])

    def describe(self) -> dict[str, str]:
        """Additional lines for ``print(cut)``."""
        return {}


adapters: Registry[Any, type[Adapter]] = Registry("adapter")
"""Adapters by the class of model they cut; a subclass of a model is cut by the adapter of its nearest ancestor."""


def register_adapter(model_class: type[nn.Module]) -> Any:
    """Return a decorator that registers an `Adapter` for a class of models and its subclasses.

    Example:
        >>> import attnfaith as af
        >>> class MyModel(nn.Module): ...
        >>> @af.register_adapter(MyModel)
        ... class MyAdapter(af.Adapter):
        ...     def capture(self, **inputs): ...
        ...     def rerun(self, capture, weights): ...
        >>> adapter_for(MyModel()).__name__
        'MyAdapter'
    """
    return adapters.register(model_class)


def adapter_for(model: nn.Module) -> type[Adapter] | None:
    """The adapter class registered for a model; None if there is none."""
    return next((adapters[model_class] for model_class in type(model).__mro__ if model_class in adapters), None)
