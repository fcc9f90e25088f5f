"""What a cut asks of a model: weights out, weights in."""

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
from attnfaith.adapters.positions import each
from attnfaith.errors import UnsupportedModelError
from attnfaith.functional.erasure import erase, prefix_keeps, prefix_sums, sums_without_each
from attnfaith.registry import Registry
from attnfaith.types import Capture


@dataclass(frozen=True)
class Affine:
    """A tail that is affine in the attended vector, with one distribution: ``sum_i w_i contributions_i + bias``.

    Attributes:
        contributions: ``[B, N, C]``, what each item would add to the logits at weight 1.
        bias: ``[B, C]``, the logits of the zero vector.
    """

    contributions: Tensor
    bias: Tensor


class Adapter(ABC):
    """The only code that touches the inside of a model.

    An adapter for a model of your own implements `capture` and `rerun`; the rest follows from them. ``model`` is a copy
    that shares the owner's weights: it is in evaluation mode, and its parameters do not require gradients.
    """

    mechanism: str = "yours"
    path: str = "as written"
    heads: Sequence[int] | None = None  # the numbers of those that were cut; None for all there are
    rows_are_tokens: bool = True  # whether the query rows of the final attention are the tokens of the text

    def __init__(self, model: nn.Module) -> None:
        self.model = model

    @abstractmethod
    def capture(self, **inputs: Any) -> Capture:
        """Run the model; return its logits, its final attention, and in ``state`` what `rerun` needs."""

    @abstractmethod
    def rerun(self, capture: Capture, weights: Tensor) -> Tensor:
        """Run what follows the attention on other weights, ``[B, K, G, N]`` to ``[B, K, C]``."""

    def affine(self, capture: Capture) -> Affine | None:
        """The tail's affine form, where it has one and there is a single distribution; else None."""
        return None

    def rerun_sets(self, capture: Capture, texts: Tensor, keep: Tensor, room: int) -> Tensor:
        """Run what follows the attention on erased weights, some candidates of every text.

        Args:
            capture: the batch.
            texts: ``[M]``, the text that each candidate is one of.
            keep: ``[M, N]``, the items that stay.
            room: at most this many candidates at once.

        Returns:
            Logits ``[M, C]``.
        """
        counts = texts.bincount(minlength=capture.shape[0])
        by_text = texts.argsort(stable=True)
        place = torch.empty_like(texts)  # a candidate's number among those of its text
        place[by_text] = torch.arange(len(texts), device=texts.device) - (counts.cumsum(0) - counts)[texts[by_text]]
        whole = capture.mask.unsqueeze(1).repeat(1, int(counts.max()), 1)
        whole[texts, place] = keep
        logs = None if capture.log_weights is None else capture.log_weights.unsqueeze(1)
        parts = [
            self.rerun(capture, erase(capture.weights.unsqueeze(1), piece, logs))
            for piece in whole.split(max(1, room // capture.shape[0]), dim=1)
        ]
        return torch.cat(parts, dim=1)[texts, place]

    def rerun_prefixes(self, capture: Capture, order: Tensor, start: int, stop: int, room: int) -> Tensor:
        """The logits ``[B, stop - start, C]`` after removing the first ``start``, ..., ``stop - 1`` items."""
        affine = self.affine(capture)
        if affine is None:
            keep = prefix_keeps(order, capture.mask, start, stop)
            texts = each(keep.shape[0], keep.shape[1], keep.device)
            return self.rerun_sets(capture, texts, keep.flatten(0, 1), room).unflatten(0, keep.shape[:2])
        assert capture.log_weights is not None
        mass = capture.weights[:, 0].double().sum(-1)
        sums = prefix_sums(capture.log_weights[:, 0], mass, affine.contributions, order)
        return (sums[:, start:stop] + affine.bias.double().unsqueeze(1)).to(capture.logits.dtype)

    def rerun_without_each(self, capture: Capture, room: int) -> Tensor:
        """The logits ``[B, N, C]`` when one item is erased; at padding, those of the text as it is."""
        mask, affine = capture.mask, self.affine(capture)
        logits = capture.logits.unsqueeze(1).repeat(1, mask.shape[1], 1)
        if affine is not None:
            assert capture.log_weights is not None
            total = capture.weights[:, 0].double().sum(-1)
            sums = sums_without_each(capture.log_weights[:, 0], total, affine.contributions)
            return torch.where(mask.unsqueeze(-1), (sums + affine.bias.double().unsqueeze(1)).to(logits.dtype), logits)
        text, item = mask.nonzero(as_tuple=True)
        keep = mask[text]
        keep[torch.arange(len(item), device=item.device), item] = False
        logits[text, item] = self.rerun_sets(capture, text, keep, room)
        return logits

    def forward(self, inputs: Mapping[str, Any]) -> Tensor:
        """The model's logits ``[B, C]``."""
        return logits_of(self.model(**inputs))

    def vectors(self, inputs: Mapping[str, Any]) -> Tensor:
        """The word vectors ``[B, L, E]`` that the model reads at each position."""
        return read_vectors(self.model, inputs["input_ids"])

    def forward_on(self, vectors: Tensor, inputs: Mapping[str, Any]) -> Tensor:
        """The model's logits when it reads other word vectors; differentiable in them."""
        return run_on_vectors(self.model, lambda: self.forward(inputs), inputs["input_ids"], vectors)

    def logits_at(
        self, rows: tuple[Tensor, Tensor], inputs: Mapping[str, Any], vectors: Tensor | None = None
    ) -> Tensor:
        """The model's logits, without gradients, and as fast as can be when it is known which rows decide.

        Args:
            rows: as `deciding_rows` returns them, for these inputs.
            inputs: the model's.
            vectors: ``[B, L, E]``, word vectors to be read in the place of the model's own.
        """
        return self.forward(inputs) if vectors is None else self.forward_on(vectors, inputs)

    def attentions(self, inputs: Mapping[str, Any]) -> list[Tensor]:
        """Every attention of a forward pass, ``[B, Q, N]``, the mean over heads, in the order in which they happen."""
        raise UnsupportedModelError(
            f"{type(self).__name__} knows one attention only. Use layer='final', or another method."
        )

    def watching(self, batch: int, on_product: Callable[[AttentionCall], None]) -> AbstractContextManager[Any]:
        """While entered, every attention that can be seen is passed to ``on_product``; none where it is not known how.

        Args:
            batch: the batch size of the forward passes inside.
            on_product: reads the attention, and changes nothing.
        """
        return nullcontext()

    def deciding_rows(self, capture: Capture) -> tuple[Tensor, Tensor]:
        """The query rows that decide, ``[B, R]``, and which of them exist."""
        rows = torch.zeros(capture.shape[0], 1, dtype=torch.long, device=capture.mask.device)
        return rows, torch.ones_like(rows, dtype=torch.bool)

    def deciding_tokens(self, capture: Capture) -> Tensor | None:
        """The position ``[B]`` of the token that alone decides each text; None where no token does."""
        return None

    def attended(self, capture: Capture) -> Tensor:
        """What the final attention averages: a vector for each item, ``[B, H, N, D]`` (H heads, or 1)."""
        raise UnsupportedModelError(
            f"{type(self).__name__} does not say what its attention averages. Define attended(capture), which returns "
            "a vector for each item, [B, H, N, D] (H heads, or 1), to measure how much those vectors say."
        )

    def word_weights(self, inputs: Mapping[str, Any]) -> Tensor:
        """For a model of sentences, the weight of each word within its sentence, ``[B, L]``."""
        raise UnsupportedModelError(f"{type(self).__name__} has no weights of words within sentences.")

    def candidate_bytes(self, capture: Capture) -> int:
        """About how much memory one candidate of one text needs while the tail runs; the basis of chunking."""
        _, groups, items = capture.shape
        return 8 * (groups * items + 64 * capture.logits.shape[-1])

    def describe(self) -> dict[str, str]:
        """More lines for ``print(cut)``."""
        return {}


adapters: Registry[Any, type[Adapter]] = Registry("adapter")
"""Adapters by the class of model they cut; a subclass of the model is cut by its nearest ancestor's."""


def register_adapter(model_class: type[nn.Module]) -> Any:
    """Return a decorator that makes an `Adapter` the one for a class of models (and its subclasses).

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
    """The registered adapter class for a model, if any."""
    return next((adapters[kind] for kind in type(model).__mro__ if kind in adapters), None)
