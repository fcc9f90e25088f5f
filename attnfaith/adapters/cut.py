"""`cut`: the door. What a user gives is checked here, once; inside, everything is known to be right."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from attnfaith.adapters import selfcheck
from attnfaith.adapters.base import Adapter, adapter_for
from attnfaith.adapters.borrow import borrowed, unwrap
from attnfaith.adapters.probe import made_up_inputs
from attnfaith.adapters.search import traced_adapter
from attnfaith.adapters.selfcheck import SelfCheck
from attnfaith.errors import InputError, NumericalError, UnsupportedModelError
from attnfaith.types import Capture

MEMORY = 128 * 2**20


class Cut:
    """A classifier, cut at its final attention. Made by `cut`.

    Attributes:
        adapter: what touches the inside of the model.
        check: what was proved when the model was cut; None where that was skipped.
        rows: which rows decide, in words.
        memory: bytes that the candidates of one pass of the tail may take.
    """

    def __init__(self, adapter: Adapter, check: SelfCheck | None, rows: str, memory: int) -> None:
        self.adapter, self.check, self.rows, self.memory = adapter, check, rows, memory

    @property
    def model(self) -> nn.Module:
        """The model that was cut (without wrappers)."""
        return self.adapter.model

    def capture(self, **inputs: Any) -> Capture:
        """Run the model once on a batch, and keep what its final attention did.

        Args:
            **inputs: what the model's forward takes: ``input_ids`` and ``attention_mask`` (``[B, L]``), and whatever
                else it needs; ``labels`` are left out.

        Returns:
            A `Capture`: weights ``[B, G, N]``, mask ``[B, N]``, logits ``[B, C]``, items.

        Example:
            >>> import attnfaith as af
            >>> from attnfaith.families import tiny_model
            >>> cut = af.cut(tiny_model("bert"))
            >>> capture = cut.capture(input_ids=torch.tensor([[5, 6, 7, 8]]))
            >>> capture.weights.shape, capture.logits.shape
            (torch.Size([1, 4, 4]), torch.Size([1, 3]))
        """
        inputs = check_inputs(self.model, inputs)
        with borrowed(self.model):
            capture = self.adapter.capture(**inputs)
        for name in ("logits", "weights"):
            finite = getattr(capture, name).isfinite().flatten(1).all(1)
            if not bool(finite.all()):
                bad = (~finite).nonzero().flatten().tolist()
                raise NumericalError(
                    f"The model's {name} are NaN or infinite for texts {bad} of this batch. Look for NaN in its weights "
                    "or for overflow in half precision."
                )
        return capture

    def rerun(self, capture: Capture, *, keep: Tensor | None = None, weights: Tensor | None = None) -> Tensor:
        """Run only what follows the final attention, on edited attention.

        Args:
            capture: from `capture`.
            keep: ``[B, K, N]`` bool: erase all other items and rescale (`attnfaith.functional.erasure.erase`).
            weights: ``[B, K, G, N]``: any counterfactual attention; the result is differentiable in it.

        Returns:
            Logits ``[B, K, C]``.

        Example:
            >>> import attnfaith as af
            >>> from attnfaith.families import tiny_model
            >>> cut = af.cut(tiny_model("bert"))
            >>> capture = cut.capture(input_ids=torch.tensor([[5, 6, 7, 8]]))
            >>> keep = torch.tensor([[[True, True, True, True], [True, False, False, True]]])
            >>> logits = cut.rerun(capture, keep=keep)
            >>> torch.allclose(logits[:, 0], capture.logits, atol=1e-5), logits.shape
            (True, torch.Size([1, 2, 3]))
        """
        if (keep is None) == (weights is None):
            raise InputError("Give either keep= (which items stay) or weights= (the attention to use), not both or none.")
        if keep is not None:
            edit = _check_keep(capture, keep)
            run = self.adapter.rerun_keep
        else:
            assert weights is not None
            edit = _check_weights(capture, weights)
            run = self.adapter.rerun
        with borrowed(self.model, gradients=edit.requires_grad and torch.is_grad_enabled()):
            parts = [run(capture, edit[:, piece]) for piece in self._chunks(capture, edit.shape[1])]
        if not parts:
            return capture.logits.new_zeros(edit.shape[0], 0, capture.logits.shape[-1])
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)

    def prefixes(self, capture: Capture, order: Tensor) -> Tensor:
        """The logits after removing 0, 1, ..., N items of an order: every step of an erasure in one go.

        Args:
            capture: from `capture`.
            order: ``[B, N]``, each row a permutation of the positions, items first, then padding.

        Returns:
            Logits ``[B, N + 1, C]``; rows past a text's number of items repeat the state with nothing left.

        Example:
            >>> import attnfaith as af
            >>> from attnfaith.families import tiny_model
            >>> cut = af.cut(tiny_model("bert"))
            >>> capture = cut.capture(input_ids=torch.tensor([[5, 6, 7, 8]]))
            >>> cut.prefixes(capture, capture.weights.mean(1).argsort(descending=True)).shape
            torch.Size([1, 5, 3])
        """
        order = _check_order(capture, order)
        longest = int(capture.lengths.max())
        with borrowed(self.model, gradients=False):
            parts = [
                self.adapter.rerun_prefixes(capture, order, piece.start, piece.stop)
                for piece in self._chunks(capture, longest + 1)
            ]
        logits = torch.cat(parts, dim=1)
        rest = capture.shape[2] - longest
        return logits if rest == 0 else torch.cat((logits, logits[:, -1:].expand(-1, rest, -1)), dim=1)

    def _chunks(self, capture: Capture, count: int) -> Iterator[slice]:
        size = max(1, self.memory // max(1, capture.shape[0] * self.adapter.candidate_bytes(capture)))
        pieces = -(-count // size)
        size = -(-count // max(1, pieces))  # equal pieces
        return (slice(start, min(start + size, count)) for start in range(0, count, max(1, size)))

    def __repr__(self) -> str:
        """Family, mechanism, which rows decide, fast path, self-check figures."""
        config = getattr(self.model, "config", None)
        lines = {
            "model": f"{type(self.model).__name__} ({getattr(config, 'model_type', 'no family')})",
            "mechanism": self.adapter.mechanism,
            **self.adapter.describe(),
            "decides": self.rows,
            "tail": self.adapter.path,
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
        model: any text classifier: Transformers, attnfaith's own, or a torch module of yours; data-parallel and
            compiled wrappers are seen through.
        layer: which attention of the forward pass, in the order in which they happen (negative from the end); the
            last by default.
        heads: which heads to cut; all by default. The others keep their weights.
        example: model inputs to try the cut on; made up for the family by default.
        check: False skips the self-check: nothing is then proved, and the slowest path is taken.
        memory: bytes that the candidates of one pass of the tail may take.

    Returns:
        A `Cut`; ``print`` it.

    Raises:
        UnsupportedModelError: the model cannot be cut faithfully; the message says why.

    Example:
        >>> import attnfaith as af
        >>> from attnfaith.families import tiny_model
        >>> print(af.cut(tiny_model("bert")))  # doctest: +ELLIPSIS
        Cut
          model      BertForSequenceClassification (bert)
          mechanism  watched
          attention  bert.encoder.layer.1.attention.self (seen as one fused call)
          decides    1 of 4 heads x 1 row: the first position
          tail       one position
          self-check identity ...
    """
    if not isinstance(model, nn.Module):
        raise InputError(f"Expected a torch module, got {type(model).__name__}. Load the model first, then cut it.")
    model = unwrap(model)
    _check_model(model)
    known = adapter_for(model)
    if example is None:
        example = _made_up(model)
    inputs = check_inputs(model, dict(example))
    with borrowed(model):
        if known is None:
            adapter, report, rows = traced_adapter(model, inputs, layer=layer, heads=heads, check=check)
        else:
            if layer is not None or heads is not None:
                raise InputError(f"layer= and heads= are for Transformers; {known.__name__} has one attention to cut.")
            adapter = known(model)
            report, rows = _check_adapter(adapter, inputs) if check else (None, "not looked at")
    return Cut(adapter, report, rows, memory)


def _made_up(model: nn.Module) -> dict[str, Any]:
    """One text, of a length that no weight and no setting of the model has, so that lengths are told from widths."""
    sizes = {size for parameter in model.parameters() for size in parameter.shape}
    config = getattr(model, "config", None)
    sizes |= {value for value in vars(config).values() if isinstance(value, int)} if config is not None else set()
    length = next((size for size in (9, 11, 13, 17, 19, 23) if size not in sizes), 9)
    return made_up_inputs(model, lengths=(length,))


def _check_adapter(adapter: Adapter, inputs: dict[str, Any]) -> tuple[SelfCheck, str]:
    """Prove a described cut: identity, effect, both forms of the edit, padding."""
    single = selfcheck.alone(inputs)
    capture = adapter.capture(**single)
    _check_capture(adapter, capture)
    scale, tolerance = selfcheck.scale_of(capture.logits), selfcheck.tolerance_of(capture.logits)
    with torch.no_grad():
        identity = selfcheck.identity_of(adapter, capture)
        selfcheck.require(identity <= tolerance, f"its tail does not reproduce its own logits (off by {identity:.1e}).")
        weights, effect = selfcheck.trial_weights(capture, adapter)
        selfcheck.require(effect > 1e-6, "its logits do not depend on the attention.")
        keep = capture.mask.unsqueeze(1)
        erased = selfcheck.gap(adapter.rerun_keep(capture, keep)[:, 0], capture.logits, scale)
        selfcheck.require(erased <= tolerance, f"erasing nothing changes its logits (by {erased:.1e}).")
    padding, texts = float("nan"), 1
    pad_id = getattr(getattr(adapter.model, "config", None), "pad_token_id", 0)
    if pad_id is not None:
        longer = adapter.capture(**selfcheck.padded(single, pad_id))
        padding, texts = selfcheck.gap(longer.logits, capture.logits, scale), 2
        selfcheck.require(padding <= tolerance, f"padding changes its logits (by {padding:.1e}): it ignores the mask.")
    return SelfCheck(identity, effect, float("nan"), padding, texts), f"{capture.shape[1]} distribution(s)"


def _check_capture(adapter: Adapter, capture: Capture) -> None:
    batch, groups, items = capture.shape
    for name, expected in {"mask": (batch, items), "logits": (batch, capture.logits.shape[-1])}.items():
        got = tuple(getattr(capture, name).shape)
        if got != expected:
            raise UnsupportedModelError(f"{type(adapter).__name__}.capture: {name} is {got}, expected {expected}.")
    loose = (capture.weights * ~capture.mask.unsqueeze(1)).abs().max().item()
    selfcheck.require(loose == 0, f"padding carries attention (up to {loose:.1e}).")


def _check_model(model: nn.Module) -> None:
    parameters = [*model.parameters(), *model.buffers()]
    if any(parameter.is_meta for parameter in parameters):
        raise UnsupportedModelError(
            "Some of the model's weights are on the meta device, so it cannot run. Load it with real weights (without "
            "device_map offloading) and cut it again."
        )
    broken = [name for name, value in model.named_parameters() if value.is_floating_point() and value.isnan().any()]
    if broken:
        raise NumericalError(f"The model's weights contain NaN: {', '.join(broken[:3])}. Load or train it again.")


def check_inputs(model: nn.Module, inputs: dict[str, Any]) -> dict[str, Any]:
    """The model's inputs, checked, on its device, with a mask and without labels."""
    inputs = {name: value for name, value in inputs.items() if name != "labels" and value is not None}
    ids = inputs.get("input_ids")
    if not isinstance(ids, Tensor) or ids.dim() != 2 or ids.dtype not in (torch.int64, torch.int32):
        got = type(ids).__name__ if not isinstance(ids, Tensor) else f"{ids.dtype} of shape {tuple(ids.shape)}"
        raise InputError(f"Expected input_ids as a tensor of token ids [batch, length], got {got}.")
    if ids.numel() == 0:
        raise InputError(f"input_ids is empty, of shape {tuple(ids.shape)}: expected at least one text and one token.")
    mask = inputs.get("attention_mask")
    if mask is None:
        pad = getattr(getattr(model, "config", None), "pad_token_id", None)
        if pad is not None and ids.shape[0] > 1 and bool((ids == pad).any()):
            raise InputError(
                "input_ids holds padding but there is no attention_mask. Pass the tokenizer's attention_mask too: "
                "without it padding would be read as text."
            )
        mask = torch.ones_like(ids)
    if not isinstance(mask, Tensor) or mask.shape != ids.shape:
        got = type(mask).__name__ if not isinstance(mask, Tensor) else tuple(mask.shape)
        raise InputError(f"Expected attention_mask of the shape of input_ids, {tuple(ids.shape)}, got {got}.")
    empty = (mask == 0).all(-1).nonzero().flatten().tolist()
    if empty:
        raise InputError(f"The attention_mask of texts {empty} hides every token: there is nothing to attend.")
    device = next((parameter.device for parameter in model.parameters()), ids.device)
    inputs["attention_mask"] = mask
    return {name: value.to(device) if isinstance(value, Tensor) else value for name, value in inputs.items()}


def _check_keep(capture: Capture, keep: Tensor) -> Tensor:
    batch, _, items = capture.shape
    if not isinstance(keep, Tensor) or keep.dim() != 3 or (keep.shape[0], keep.shape[2]) != (batch, items):
        got = tuple(keep.shape) if isinstance(keep, Tensor) else type(keep).__name__
        raise InputError(f"Expected keep of shape [batch, candidates, items] = [{batch}, K, {items}], got {got}.")
    if keep.dtype != torch.bool:
        raise InputError(f"Expected keep as bool (True = the item stays), got {keep.dtype}. Use keep.bool().")
    keep = keep.to(capture.mask.device)
    wrong = (keep & ~capture.mask.unsqueeze(1)).any(-1).any(-1).nonzero().flatten().tolist()
    if wrong:
        raise InputError(f"keep holds on to padding in texts {wrong}. Use keep & capture.mask[:, None].")
    return keep


def _check_weights(capture: Capture, weights: Tensor) -> Tensor:
    batch, groups, items = capture.shape
    expected = (batch, groups, items)
    if not isinstance(weights, Tensor) or weights.dim() != 4 or (weights.shape[0], *weights.shape[2:]) != expected:
        got = tuple(weights.shape) if isinstance(weights, Tensor) else type(weights).__name__
        raise InputError(
            f"Expected weights of shape [batch, candidates, distributions, items] = [{batch}, K, {groups}, {items}], "
            f"got {got}."
        )
    if not bool(weights.isfinite().all()):
        raise InputError("weights holds NaN or infinity; every counterfactual weight must be a finite number.")
    if bool((weights * ~capture.mask[:, None, None].to(weights.device)).any()):
        raise InputError("weights gives padding a weight. Use weights * capture.mask[:, None, None].")
    return weights.to(capture.weights.device)


def _check_order(capture: Capture, order: Tensor) -> Tensor:
    batch, _, items = capture.shape
    if not isinstance(order, Tensor) or order.shape != (batch, items) or order.is_floating_point():
        got = f"{order.dtype} {tuple(order.shape)}" if isinstance(order, Tensor) else type(order).__name__
        raise InputError(f"Expected order as positions of shape [batch, items] = [{batch}, {items}], got {got}.")
    order = order.to(capture.mask.device).long()
    places = torch.arange(items, device=order.device)
    if not torch.equal(order.sort(-1).values, places.expand_as(order)):
        raise InputError(f"Each row of order must hold every position 0..{items - 1} once.")
    if not torch.equal(capture.mask.gather(1, order), places < capture.lengths.unsqueeze(-1)):
        raise InputError("order must list the items first and padding last. Sort scores with padding at -inf.")
    return order
