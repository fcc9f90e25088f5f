"""`cut` cuts a model at its final attention; a `Cut` captures that attention and runs what follows on edits of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from attnfaith import validation
from attnfaith.adapters.adapter import Adapter, adapter_for
from attnfaith.adapters.choose_attention import traced_adapter
from attnfaith.adapters.choose_tail import prove_registered_adapter
from attnfaith.adapters.forward_pass import check_finite
from attnfaith.adapters.inference_state import inference_state, unwrapped
from attnfaith.adapters.input_checks import (
    check_inputs,
    check_keep,
    check_model,
    check_order,
    check_weights,
    example_for,
    known_ids,
)
from attnfaith.adapters.model_copy import shared_copy
from attnfaith.adapters.original_model import OriginalRun, inspect_copy, prove_copy
from attnfaith.adapters.positions import repeat_index
from attnfaith.adapters.self_check import SelfCheck, relative_difference, scale_of, tolerance_of
from attnfaith.adapters.tail import TAILS
from attnfaith.errors import InputError, NumericalError
from attnfaith.types import Capture

MEMORY = 128 * 2**20


class Cut:
    """A classifier cut at its final attention. Made by `cut`.

    Attributes:
        adapter: the adapter, which touches the inside of the model.
        check: the results of the self-check; None if it was skipped.
        decides: which rows of the attention decide, in words.
        memory: bytes that the candidates of one pass of the tail may take.
    """

    def __init__(self, adapter: Adapter, check: SelfCheck | None, decides: str, memory: int) -> None:
        self.adapter, self.check, self.decides, self.memory = adapter, check, decides, memory
        self._shared = shared_copy(adapter.model)

    @property
    def model(self) -> nn.Module:
        """The owner's model (without wrappers); ``adapter.model`` is the copy that shares its weights."""
        return self._shared.owner

    def capture(self, **inputs: Any) -> Capture:
        """Run the model once on a batch, and capture its final attention.

        Args:
            **inputs: the inputs of the model's forward: ``input_ids`` and ``attention_mask`` (``[B, L]``), and others
                that it needs; ``labels`` are left out.

        Returns:
            A `Capture`: weights ``[B, G, N]``, mask ``[B, N]``, logits ``[B, C]``, items.

        Example:
            >>> import attnfaith as af
            >>> from attnfaith.tiny_models import tiny_model
            >>> cut = af.cut(tiny_model("bert"))
            >>> capture = cut.capture(input_ids=torch.tensor([[5, 6, 7, 8]]))
            >>> capture.weights.shape, capture.logits.shape
            (torch.Size([1, 4, 4]), torch.Size([1, 3]))
        """
        inputs = check_inputs(self.model, inputs)
        with inference_state(self.model), known_ids():
            capture = self.adapter.capture(**inputs)
        check_finite("logits", capture.logits)
        check_finite("weights", capture.weights)
        logs = capture.log_weights
        return replace(
            capture,
            weights=capture.weights.detach(),
            logits=capture.logits.detach(),
            log_weights=None if logs is None else logs.detach(),
        )

    def rerun(self, capture: Capture, *, keep: Tensor | None = None, weights: Tensor | None = None) -> Tensor:
        """Run only what follows the final attention, on edited attention.

        Args:
            capture: from `capture`.
            keep: ``[B, K, N]`` bool: erase all other items and rescale (`attnfaith.functional.erasure.erase`).
            weights: ``[B, K, G, N]``: any counterfactual attention; the logits are differentiable in it.

        Returns:
            Logits ``[B, K, C]``.

        Example:
            >>> import attnfaith as af
            >>> from attnfaith.tiny_models import tiny_model
            >>> cut = af.cut(tiny_model("bert"))
            >>> capture = cut.capture(input_ids=torch.tensor([[5, 6, 7, 8]]))
            >>> keep = torch.tensor([[[True, True, True, True], [True, False, False, True]]])
            >>> logits = cut.rerun(capture, keep=keep)
            >>> torch.allclose(logits[:, 0], capture.logits, atol=1e-5), logits.shape
            (True, torch.Size([1, 2, 3]))
        """
        if (keep is None) == (weights is None):
            raise InputError("Pass either keep= (which items stay) or weights= (the attention to use), and not both.")
        if keep is not None:
            keep = check_keep(capture, keep)
            texts = repeat_index(keep.shape[0], keep.shape[1], keep.device)
            return self.rerun_sets(capture, texts, keep.flatten(0, 1)).unflatten(0, keep.shape[:2])
        edit = check_weights(capture, weights)
        if not edit.shape[1]:
            return capture.logits.new_zeros(edit.shape[0], 0, capture.logits.shape[-1])
        with inference_state(self.model, gradients=edit.requires_grad and torch.is_grad_enabled()):
            parts = [
                self.adapter.rerun(capture, piece) for piece in edit.split(max(1, self._room(capture) // len(edit)), 1)
            ]
        logits = parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)
        bad = (~logits.detach().isfinite()).flatten(1).any(1).nonzero().flatten().tolist()
        if bad:
            raise NumericalError(
                f"With these weights the logits of texts {bad} are NaN or infinite: the largest weight is "
                f"{float(edit.detach().abs().max()):.3g}. Use smaller weights (attention lies between 0 and 1), or a "
                "model in double precision."
            )
        return logits

    def rerun_sets(self, capture: Capture, texts: Tensor, keep: Tensor) -> Tensor:
        """Like ``rerun(keep=...)``, but with a different number of candidates for each text.

        Args:
            capture: from `capture`.
            texts: ``[M]``, the text that each candidate is a version of.
            keep: ``[M, N]`` bool, the items that stay.

        Returns:
            Logits ``[M, C]``.

        Example:
            >>> import attnfaith as af
            >>> from attnfaith.tiny_models import tiny_model
            >>> cut = af.cut(tiny_model("bert"))
            >>> capture = cut.capture(input_ids=torch.tensor([[5, 6, 7], [8, 9, 4]]))
            >>> keep = torch.tensor([[True, True, False], [False, True, True], [False, False, True]])
            >>> cut.rerun_sets(capture, torch.tensor([1, 1, 0]), keep).shape
            torch.Size([3, 3])
        """
        if not len(texts):
            return capture.logits.new_zeros(0, capture.logits.shape[-1])
        with inference_state(self.model, gradients=False):
            return self.adapter.rerun_sets(capture, texts, keep, self._room(capture))

    def without_each(self, capture: Capture) -> Tensor:
        """The logits ``[B, N, C]`` with each item erased by itself; at padding, those of the unchanged text."""
        with inference_state(self.model, gradients=False):
            return self.adapter.rerun_without_each(capture, self._room(capture))

    def prefixes(self, capture: Capture, order: Tensor) -> Tensor:
        """The logits after removing 0, 1, ..., N items in a given order, all steps at once.

        Args:
            capture: from `capture`.
            order: ``[B, N]``, each row a permutation of the positions, items first, then padding; or several orders of
                each text, ``[O, B, N]``.

        Returns:
            Logits ``[B, N + 1, C]`` or ``[O, B, N + 1, C]``; steps past a text's number of items repeat its last step,
            with no item left.

        Example:
            >>> import attnfaith as af
            >>> from attnfaith.tiny_models import tiny_model
            >>> cut = af.cut(tiny_model("bert"))
            >>> capture = cut.capture(input_ids=torch.tensor([[5, 6, 7, 8]]))
            >>> cut.prefixes(capture, capture.weights.mean(1).argsort(descending=True)).shape
            torch.Size([1, 5, 3])
        """
        return self.prefixes_of_orders(capture, check_order(capture, order))

    def prefixes_of_orders(self, capture: Capture, order: Tensor) -> Tensor:
        """`prefixes` for orders that are known to be permutations."""
        longest = int(capture.lengths.max())
        with inference_state(self.model, gradients=False):
            logits = self.adapter.rerun_prefixes(capture, order, 0, longest + 1, self._room(capture))
        difference = relative_difference(logits[..., 0, :], capture.logits, scale_of(capture.logits))
        if difference > 5 * tolerance_of(capture.logits):
            raise NumericalError(
                f"With nothing removed, the fast path is off by {difference:.1e} of the logits' scale on this batch, "
                "so it cannot be trusted here. Was the model changed after the capture? Cut and capture again."
            )
        if longest == capture.shape[2]:
            return logits
        return logits.index_select(-2, torch.arange(capture.shape[2] + 1, device=logits.device).clamp_max(longest))

    def _room(self, capture: Capture) -> int:
        """The largest number of candidates to run at once."""
        return max(1, self.memory // max(1, self.adapter.candidate_bytes(capture)))

    def __repr__(self) -> str:
        """Model, mechanism, deciding rows, tail, and results of the self-check, one line each."""
        config = getattr(self.model, "config", None)
        lines = {
            "model": f"{type(self.model).__name__} ({getattr(config, 'model_type', 'no family')})",
            "mechanism": self.adapter.mechanism,
            **self.adapter.describe(),
            "decides": self.decides,
            "tail": self.adapter.tail + (f": {TAILS[self.adapter.tail]}" if self.adapter.tail in TAILS else ""),
            "self-check": "skipped on request" if self.check is None else str(self.check),
        }
        return "Cut\n" + "\n".join(f"  {name:<11}{value}" for name, value in lines.items())


def cut(
    model: nn.Module,
    *,
    layer: int | None = None,
    heads: Sequence[int] | None = None,
    example: Mapping[str, Any] | None = None,
    check: bool = True,
    memory: int = MEMORY,
) -> Cut:
    """Cut a classifier at its final attention, and prove the cut.

    Args:
        model: any text classifier: of Transformers, of attnfaith, or your own torch module. In a data-parallel or
            compiled wrapper the module inside is cut, and compared with what the wrapper computes.
        layer: the number of the attention in the forward pass (negative from the end); by default the final one.
        heads: the heads to cut; all by default. The others keep their weights.
        example: model inputs to try the cut on; by default made up for the family.
        check: False skips the self-check: nothing is then proved, and the slowest tail is taken.
        memory: bytes that the candidates of one pass of the tail may take.

    Returns:
        A `Cut`; ``print`` it.

    Raises:
        UnsupportedModelError: the model cannot be cut faithfully; the message gives the reason.

    Example:
        >>> import attnfaith as af
        >>> from attnfaith.tiny_models import tiny_model
        >>> print(af.cut(tiny_model("bert")))  # doctest: +ELLIPSIS
        Cut
          model      BertForSequenceClassification (bert)
          mechanism  watched: a fused attention
          attention  bert.encoder.layer.1.attention.self
          decides    the first position, 4 heads
          tail       one position: earlier calls from the capture, the rest on the deciding rows alone
          self-check identity ...
    """
    if not isinstance(model, nn.Module):
        raise InputError(f"Expected a torch module, got {type(model).__name__}. Load the model first, then cut it.")
    layer = None if layer is None else validation.whole_number(layer, "layer")
    check, memory = validation.flag(check, "check"), validation.whole_number(memory, "memory", least=1)
    if heads is not None:
        heads = [validation.whole_number(head, "each of heads") for head in _list_of(heads)]
    wrapped, model = model, unwrapped(model)
    check_model(model)
    registered = adapter_for(model)
    if example is None:
        example = example_for(model)
    inputs = check_inputs(model, _inputs_of(example))
    if registered is not None and (layer is not None or heads is not None):
        raise InputError(f"layer= and heads= are for Transformers; {registered.__name__} has one attention to cut.")
    shared = shared_copy(model)
    with inference_state(model):
        inspect_copy(shared, inputs)
    # entered again: if the copy cannot be used, the owner's model takes its place from here on
    with inference_state(model) as copy:
        run = OriginalRun(wrapped, shared, inputs, registered)
        prove_copy(run, shared)
        if registered is None:
            result = Cut(*traced_adapter(copy, inputs, layer=layer, heads=heads, check=check), memory)
        else:
            adapter = registered(copy)
            report, decides = prove_registered_adapter(adapter, inputs) if check else (None, "not looked at")
            result = Cut(adapter, report, decides, memory)
        run.prove_capture(result.adapter.capture)
    return result


def _list_of(heads: Any) -> Sequence[Any]:
    if not isinstance(heads, Sequence) or isinstance(heads, str | bytes):
        raise InputError(f"Expected heads to be a list of numbers, got {validation.short_repr(heads)}.")
    return heads


def _inputs_of(example: Any) -> dict[str, Any]:
    if not isinstance(example, Mapping) or not all(isinstance(name, str) for name in example):
        raise InputError(f"Expected example to be model inputs by name (a dict), got {validation.short_repr(example)}.")
    return dict(example)
