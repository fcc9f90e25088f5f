"""Running a model once while its attention is watched: what it read, by which rows, and what it remembers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from attnfaith.adapters.attention_watch import AttentionCall
from attnfaith.adapters.call_path import CallPath, TracedRun
from attnfaith.errors import InputError, NumericalError, UnsupportedModelError
from attnfaith.types import Items


@dataclass(frozen=True)
class Observation:
    """One forward pass.

    Attributes:
        logits: ``[B, C]``.
        product: the attention.
        rows: ``[B, R]`` query rows that decide; 0 where a text has fewer.
        row_mask: ``[B, R]``, which of them exist.
        remembered: what the completed calls asked for returned.
        token: ``[B]``, the only position of the layer's result that the logits read, where the attention has query
            rows that are not the tokens (one row for a global token, say); else None.
    """

    logits: Tensor
    product: AttentionCall
    rows: Tensor
    row_mask: Tensor
    remembered: Mapping[int, Sequence[Any]]
    token: Tensor | None = None


def observe(
    run: Callable[[], Tensor],
    trail: CallPath,
    batch: int,
    wanted: Sequence[int],
    at_block: bool,
    tokens: Tensor | None = None,
    rows_second: bool = True,
) -> Observation:
    """Run a borrowed model along a trail.

    The deciding rows are those with a gradient of the logits. It is taken where that is cheapest: at the result of the
    layer around the attention (``at_block``), since a layer treats each row by itself from its attention on; otherwise
    at the attention's own result. Given ``tokens`` ``[B, L]``, all of them are taken for deciding.
    The layer's result is ``[B, Q, ...]``, or ``[Q, B, ...]`` where rows do not stand second.
    """
    remembered: dict[int, list[Any]] = {}
    products: list[AttentionCall] = []
    leaves: list[Tensor] = []
    states: list[Tensor] = []  # what the layer returns, where the gradient is not taken there

    def leaf(tensor: Tensor) -> Tensor:
        leaves.append(tensor.detach().requires_grad_())
        return leaves[-1].clone()  # some models go on in place, which a leaf forbids

    def on_product(product: AttentionCall) -> Tensor | None:
        products.append(product)
        return None if at_block else leaf(product.output)

    def on_block(output: Any) -> Any:
        def through(value: Any) -> Any:
            rows = isinstance(value, Tensor) and value.is_floating_point() and value.dim() > 1
            return leaf(value) if rows else value

        return pytree.tree_map(through, output)

    def note(output: Any) -> Any:
        found = [one for one in pytree.tree_leaves(output) if isinstance(one, Tensor) and one.requires_grad]
        states.extend(found)
        return output

    def keeper(index: int) -> Callable[[list[Any]], None]:
        return lambda tensors: remembered.__setitem__(index, tensors)

    remember = {index: keeper(index) for index in wanted}
    other_rows = trail.block is not None and trail.shape[2] != trail.shape[3]
    at_result = on_block if at_block else note if other_rows else None
    walk = TracedRun(trail, batch, on_product, remember=remember, on_block=at_result)
    logits = walk.run(run)
    check_finite("logits", logits)
    if not logits.requires_grad:
        raise UnsupportedModelError(
            f"No logit depends on the attention in {trail.name}. If another attention decides, name it with layer=."
        )
    gradients = torch.autograd.grad(mix_logits(logits), [*leaves, *states], allow_unused=True)
    gradients, passed = gradients[: len(leaves)], gradients[len(leaves) :]
    read = read_rows(gradients, products[0], batch, trail.name, "QB"[rows_second] if at_block else None)
    count = read.sum(-1)
    if not bool(count.all()):
        text = int((count == 0).nonzero()[0])
        raise UnsupportedModelError(
            f"No logit of text {text} of the batch depends on the attention in {trail.name}: its gradient is zero."
        )
    rows, row_mask = pack_rows(read if tokens is None else tokens)
    return Observation(
        logits.detach(), products[0], rows, row_mask, remembered, _token(passed, batch, products[0].shape[3])
    )


def _token(gradients: Sequence[Tensor | None], batch: int, items: int) -> Tensor | None:
    """The position ``[B]`` of a layer's result ``[B, N, ...]`` that alone has a gradient in each text; else None."""
    found = [gradient for gradient in gradients if gradient is not None]
    if len(found) != 1 or found[0].dim() < 3 or found[0].shape[:2] != (batch, items):
        return None
    read = (found[0] != 0).flatten(2).any(-1)
    return read.int().argmax(-1) if bool((read.sum(-1) == 1).all()) else None


def read_rows(
    gradients: Sequence[Tensor | None], product: AttentionCall, batch: int, name: str, first: str | None = None
) -> Tensor:
    """``[B, Q]``, which query rows the logits read: those with a gradient.

    Args:
        gradients: of the product's result; or of a layer's results, whose ``first`` dimension is "B" or "Q".
        product: the attention.
        batch: the batch size.
        name: of the attention's module.
        first: None for the product's result.
    """
    queries = product.shape[2]
    read = torch.zeros(batch, queries, dtype=torch.bool, device=product.operand.device)
    for gradient in gradients:
        if gradient is None:
            continue
        touched = gradient != 0
        if first is None:
            read |= product.layout.read(touched).any(-1).any(1)
        elif first == "B" and gradient.shape[:2] == (batch, queries):
            read |= touched.flatten(2).any(-1)
        elif first == "Q" and gradient.dim() > 2 and gradient.shape[:2] == (queries, batch):
            read |= touched.flatten(2).any(-1).T
        else:
            raise UnsupportedModelError(f"The layer around {name} returns no row for each position.")
    return read


def pack_rows(read: Tensor) -> tuple[Tensor, Tensor]:
    """Rows ``[B, Q]`` as positions: ``[B, R]``, 0 where a text has fewer, and which of them exist."""
    count = read.sum(-1)
    width = int(count.max())
    rows = read.int().argsort(dim=-1, descending=True, stable=True)[:, :width]
    exists = torch.arange(width, device=rows.device) < count.unsqueeze(-1)
    return torch.where(exists, rows, 0), exists


def check_attended(logs: Tensor, exists: Tensor, mask: Tensor) -> None:
    """Every deciding row attends items, and items only; one that stands on padding may do neither."""
    attended = logs > -torch.inf
    loose = (attended & ~mask[:, None, None]).any(-1)
    wrong = (exists & (loose | ~attended.any(-1))).flatten(1).any(-1).nonzero().flatten().tolist()
    if wrong:
        raise InputError(
            f"The model decides texts {wrong} of this batch at a padding position, which attends padding or nothing. "
            "Pad on the other side (tokenizer.padding_side), as the model was trained."
        )


def attended_items(tokens: Tensor, logs: Tensor, name: str) -> tuple[Tensor, Items]:
    """The mask of the items and what they are; ``tokens`` is the mask of the input, ``logs`` ``[B, H, R, N]``."""
    seen = (logs > -torch.inf).any(1).any(1)
    count, length = seen.shape[1], tokens.shape[1]
    if count < length:
        return seen, Items("pooled", None)
    if bool(seen[:, length:].any()):
        raise UnsupportedModelError(
            f"The attention in {name} attends {count} items where the text has {length} tokens, so its items are not "
            "the tokens. Choose another with layer=, or write an adapter (register_adapter)."
        )
    return tokens, Items.tokens(tokens)


def logits_of(output: Any) -> Tensor:
    """The logits in what a classifier returns: ``.logits``, the first of a tuple, or the tensor itself."""
    if isinstance(output, Tensor):
        return output
    logits = getattr(output, "logits", None)
    if logits is None and isinstance(output, Mapping):
        logits = output.get("logits")
    if logits is None and isinstance(output, Sequence):
        logits = next((value for value in output if isinstance(value, Tensor)), None)
    if not isinstance(logits, Tensor) or logits.dim() != 2:
        raise UnsupportedModelError(
            f"Expected a classifier that returns logits [batch, classes]; {type(output).__name__} has none. "
            "For another output, write an adapter (register_adapter)."
        )
    return logits


def check_finite(name: str, values: Tensor) -> None:
    """Refuse a batch with NaN or infinity in it, naming the texts."""
    finite = values.isfinite().flatten(1).all(1)
    if not bool(finite.all()):
        bad = (~finite).nonzero().flatten().tolist()
        raise NumericalError(
            f"The model's {name} are NaN or infinite for texts {bad} of this batch. Look for NaN in its weights, or "
            "for overflow in half precision."
        )


def mix_logits(logits: Tensor) -> Tensor:
    """One number that depends on every logit: coefficients without a pattern that the logits could cancel."""
    coefficients = torch.cos(1 + torch.arange(logits.shape[-1], device=logits.device, dtype=torch.float64))
    return (logits.double() * coefficients).sum()
