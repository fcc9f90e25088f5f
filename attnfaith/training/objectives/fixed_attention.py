"""Fixed attention: uniform, or the weights of another model, in the place of what the model would learn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor, nn

from attnfaith.adapters.attention_in_training import AttentionInTraining, Replace, ReplaceableAttention
from attnfaith.adapters.cut import Cut, cut
from attnfaith.errors import InputError
from attnfaith.parameter_names import parameter
from attnfaith.storage.fingerprint import fingerprint_function, fingerprint_model
from attnfaith.training.objectives.objective import Objective, Setting
from attnfaith.validation import short_repr

UNIFORM = "uniform"


@dataclass(frozen=True)
class FixedAttention(Objective):
    """Holds the final attention of a model at given weights: the rest of the model is trained with these.

    After `fit` the model computes its own attention again, which was not trained. `on` fixes it for as long as a
    ``with`` lasts, to evaluate the model as it was trained.

    Args:
        weights: "uniform" over what each query may attend; another classifier (or a `Cut`) with the same items, whose
            captured weights are used; or a function from the model's inputs to weights ``[B, N]`` or ``[B, G, N]``.

    Example:
        >>> import torch
        >>> import attnfaith as af
        >>> model = af.models.from_preset("FLANnoenc", num_labels=2, vocab_size=20).eval()
        >>> with FixedAttention("uniform").on(model):
        ...     model(input_ids=torch.tensor([[5, 6, 7, 8]]), output_attentions=True).attentions[-1].tolist()
        [[0.25, 0.25, 0.25, 0.25]]
    """

    weights: Any = UNIFORM
    name: ClassVar[str] = "fixed_attention"

    def __post_init__(self) -> None:
        named = isinstance(self.weights, str) and self.weights == UNIFORM
        if not named and not isinstance(self.weights, nn.Module | Cut) and not callable(self.weights):
            raise InputError(
                f"Expected {parameter('weights')} to be 'uniform', a classifier, or a function from the model's inputs "
                f"to weights, got {short_repr(self.weights)}."
            )

    def identity(self) -> str:
        """The objective with its weights: a model by its parameters, a function by its code and what it holds."""
        source = self.weights.model if isinstance(self.weights, Cut) else self.weights
        if isinstance(source, nn.Module):
            source = fingerprint_model(source)
        return f"{self.name} {source if isinstance(source, str) else fingerprint_function(source)}"

    def replacement(self, state: Any) -> Replace:
        """The function that returns the fixed weights."""
        return state

    @contextmanager
    def hold(self, setting: Setting) -> Iterator[Replace]:
        """Cut the other model."""
        yield self._replace()

    @contextmanager
    def on(self, model: nn.Module) -> Iterator[nn.Module]:
        """Fix the final attention of a model while the context lasts.

        attnfaith's own models can be cut and evaluated meanwhile. A Transformer can only be run: a cut watches its
        queries and keys, which are not what it averages by now, and refuses it.
        """
        with AttentionInTraining(model).watching(self._replace()):
            yield model

    def _replace(self) -> Replace:
        if isinstance(self.weights, str):
            return _uniform
        source = self.weights
        if isinstance(source, nn.Module):
            source = cut(source)
        return _Imposed(_Captured(source) if isinstance(source, Cut) else source)


def _uniform(attention: ReplaceableAttention) -> Tensor:
    attended = attention.attended.to(attention.weights.dtype)
    return attended / attended.sum(-1, keepdim=True).clamp_min(1)


class _Captured:
    """The captured weights ``[B, G, N]`` of another model."""

    def __init__(self, source: Cut) -> None:
        self.source = source

    def __call__(self, inputs: dict[str, Any]) -> Tensor:
        """Run the other model."""
        given = {name: value for name, value in inputs.items() if isinstance(value, Tensor) and name != "labels"}
        return self.source.capture(**given).weights


class _Imposed:
    """Brings given weights to the layout of the model's own."""

    def __init__(self, given: Callable[[dict[str, Any]], Tensor]) -> None:
        self.given = given

    def __call__(self, attention: ReplaceableAttention) -> Tensor:
        """Weights ``[B, N]`` serve every head and query; ``[B, G, N]`` those of the same number, else their mean."""
        given: Any = self.given(attention.inputs)
        batch, heads, queries, items = attention.weights.shape
        fits = isinstance(given, Tensor) and given.dim() in (2, 3)
        if not fits or (len(given), given.shape[-1]) != (batch, items):
            got = tuple(given.shape) if isinstance(given, Tensor) else type(given).__name__
            raise InputError(
                f"Expected fixed attention of the shape [{batch}, {items}] (texts, items) or with distributions "
                f"between them, got {got}. Does the other model read the same items?",
                code="mismatched-scores",
            )
        given = given.detach().to(attention.weights)
        if bool((given < 0).any()) or not bool(given.isfinite().all()):
            raise InputError("Fixed attention must be finite and not negative.", code="mismatched-scores")
        if given.dim() == 2:
            return given[:, None, None]
        if given.shape[1] == heads:
            return given.unsqueeze(2)
        if given.shape[1] == heads * queries:
            return given.unflatten(1, (heads, queries))
        return given.mean(1)[:, None, None]
