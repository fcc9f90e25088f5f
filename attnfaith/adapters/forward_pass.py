"""One forward pass along a call path: its attention, its logits, the rows that decide, and the cached calls.

Also what other modules need of a forward pass: its logits (`logits_of`), checks of NaN (`check_finite`), one number
that depends on every logit (`mix_logits`), and which items an attention attends (`attended_items`, `check_attended`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
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
    """What was observed in one forward pass.

    Attributes:
        logits: ``[B, C]``.
        attention: the attention.
        rows: ``[B, R]`` query rows that decide; 0 where a text has fewer.
        row_mask: ``[B, R]``, which of them exist.
        stored: the leaves of the results of the cached calls that were asked for.
        token: ``[B]``, the only position of the layer's result that the logits read, where the attention has query
            rows that are not the tokens (one row for a global token, for example); else None.
    """

    logits: Tensor
    attention: AttentionCall
    rows: Tensor
    row_mask: Tensor
    stored: Mapping[int, Sequence[Any]]
    token: Tensor | None = None


def observe(
    run: Callable[[], Tensor],
    call_path: CallPath,
    batch: int,
    stored_calls: Sequence[int],
    at_block: bool,
    tokens: Tensor | None = None,
    rows_second: bool = True,
) -> Observation:
    """Run the model along a call path and observe the attention.

    The deciding rows are those in which the logits have a gradient. With ``at_block`` the gradient is taken at the
    result of the layer around the attention, so that the backward pass stops there: from its attention on, a layer
    treats each row by itself, and the rows are the same. Otherwise it is taken at the attention's own result.

    Args:
        run: runs the forward pass, and returns logits.
        call_path: the call path of the attention.
        batch: the batch size.
        stored_calls: the indices of the cached calls whose results are stored.
        at_block: whether the gradient is taken at the layer's result.
        tokens: ``[B, L]``; if given, all of these rows are taken as deciding.
        rows_second: whether the layer's result is ``[B, Q, ...]``; otherwise it is ``[Q, B, ...]``.
    """
    stored: dict[int, list[Any]] = {}
    attentions: list[AttentionCall] = []
    leaves: list[Tensor] = []
    states: list[Tensor] = []  # results of the layer, if the gradient is not taken there

    def leaf(tensor: Tensor) -> Tensor:
        leaves.append(tensor.detach().requires_grad_())
        return leaves[-1].clone()  # some models write into it in place, which autograd forbids for a leaf

    def on_attention(attention: AttentionCall) -> Tensor | None:
        attentions.append(attention)
        return None if at_block else leaf(attention.output)

    def on_block(output: Any) -> Any:
        def as_leaf(value: Any) -> Any:
            has_rows = isinstance(value, Tensor) and value.is_floating_point() and value.dim() > 1
            return leaf(value) if has_rows else value

        return pytree.tree_map(as_leaf, output)

    def note_states(output: Any) -> Any:
        states.extend(
            value for value in pytree.tree_leaves(output) if isinstance(value, Tensor) and value.requires_grad
        )
        return output

    rows_are_not_tokens = call_path.block is not None and call_path.shape[2] != call_path.shape[3]
    traced = TracedRun(
        call_path,
        batch,
        on_attention,
        store={index: partial(stored.__setitem__, index) for index in stored_calls},
        on_block=on_block if at_block else note_states if rows_are_not_tokens else None,
    )
    logits = traced.run(run)
    check_finite("logits", logits)
    if not logits.requires_grad:
        raise UnsupportedModelError(
            f"No logit depends on the attention in {call_path.name}. If another attention decides, name it with "
            "layer=.",
            code="no-attention",
        )
    gradients = torch.autograd.grad(mix_logits(logits), [*leaves, *states], allow_unused=True)
    gradients, state_gradients = gradients[: len(leaves)], gradients[len(leaves) :]
    is_read = read_rows(gradients, attentions[0], batch, call_path.name, "QB"[rows_second] if at_block else None)
    count = is_read.sum(-1)
    if not bool(count.all()):
        text = int((count == 0).nonzero()[0])
        raise UnsupportedModelError(
            f"No logit of text {text} of the batch depends on the attention in {call_path.name}: its gradient is zero.",
            code="no-attention",
        )
    rows, row_mask = pack_rows(is_read if tokens is None else tokens)
    return Observation(
        logits.detach(),
        attentions[0],
        rows,
        row_mask,
        stored,
        _deciding_token(state_gradients, batch, attentions[0].shape[3]),
    )


def _deciding_token(gradients: Sequence[Tensor | None], batch: int, items: int) -> Tensor | None:
    """The only position ``[B]`` of a layer's result ``[B, N, ...]`` with a gradient; None if a text has several."""
    present = [gradient for gradient in gradients if gradient is not None]
    if len(present) != 1 or present[0].dim() < 3 or present[0].shape[:2] != (batch, items):
        return None
    has_gradient = (present[0] != 0).flatten(2).any(-1)
    return has_gradient.int().argmax(-1) if bool((has_gradient.sum(-1) == 1).all()) else None


def read_rows(
    gradients: Sequence[Tensor | None],
    attention: AttentionCall,
    batch: int,
    name: str,
    first_dimension: str | None = None,
) -> Tensor:
    """Which query rows the logits read, ``[B, Q]``: those with a gradient that is not zero.

    Args:
        gradients: with respect to the attention's result, or to the layer's results.
        attention: the attention.
        batch: the batch size.
        name: the name of the attention's module.
        first_dimension: the first dimension of the layer's results, "B" or "Q"; None for the attention's result.
    """
    queries = attention.shape[2]
    is_read = torch.zeros(batch, queries, dtype=torch.bool, device=attention.raw_values.device)
    for gradient in gradients:
        if gradient is None:
            continue
        touched = gradient != 0
        if first_dimension is None:
            is_read |= attention.layout.read(touched).any(-1).any(1)
        elif first_dimension == "B" and gradient.shape[:2] == (batch, queries):
            is_read |= touched.flatten(2).any(-1)
        elif first_dimension == "Q" and gradient.dim() > 2 and gradient.shape[:2] == (queries, batch):
            is_read |= touched.flatten(2).any(-1).T
        else:
            raise UnsupportedModelError(
                f"The layer around {name} does not return a vector for each position, so it is unknown which positions "
                "decide. Write an adapter (register_adapter)."
            )
    return is_read


def pack_rows(mask: Tensor) -> tuple[Tensor, Tensor]:
    """Turn a mask of rows ``[B, Q]`` into positions ``[B, R]`` (0 where a text has fewer), and which of them exist."""
    count = mask.sum(-1)
    width = int(count.max())
    rows = mask.int().argsort(dim=-1, descending=True, stable=True)[:, :width]
    exists = torch.arange(width, device=rows.device) < count.unsqueeze(-1)
    return torch.where(exists, rows, 0), exists


def check_attended(logs: Tensor, exists: Tensor, mask: Tensor) -> None:
    """Refuse a batch in which a deciding row attends padding, or nothing: such a row is itself padding."""
    attended = logs > -torch.inf
    attends_padding = (attended & ~mask[:, None, None]).any(-1)
    wrong = (exists & (attends_padding | ~attended.any(-1))).flatten(1).any(-1).nonzero().flatten().tolist()
    if wrong:
        raise InputError(
            f"The model decides texts {wrong} of this batch at a padding position, which attends to padding or to "
            "nothing. Pad on the other side (tokenizer.padding_side), as the model was trained."
        )


def attended_items(tokens: Tensor, logs: Tensor, name: str) -> tuple[Tensor, Items]:
    """The mask of the attended items, and what they are.

    Args:
        tokens: ``[B, L]``, the attention mask of the input.
        logs: ``[B, H, R, N]``, log-weights.
        name: the name of the attention's module.
    """
    attended = (logs > -torch.inf).any(1).any(1)
    count, length = attended.shape[1], tokens.shape[1]
    if count < length:
        return attended, Items("pooled", None)
    if bool(attended[:, length:].any()):  # more items than tokens are fine if the model only padded its inputs further
        raise UnsupportedModelError(
            f"The attention in {name} attends {count} items where the text has {length} tokens, so its items are not "
            "the tokens. Choose another with layer=, or write an adapter (register_adapter)."
        )
    return tokens, Items.tokens(tokens)


def logits_of(output: Any) -> Tensor:
    """The logits in the output of a classifier: ``.logits``, the first tensor of a tuple, or the tensor itself."""
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
    """Refuse a batch with NaN or infinity, and name the texts."""
    finite = values.isfinite().flatten(1).all(1)
    if not bool(finite.all()):
        bad = (~finite).nonzero().flatten().tolist()
        raise NumericalError(
            f"The model's {name} are NaN or infinite for texts {bad} of this batch. Look for NaN in its weights, or "
            "for overflow in half precision."
        )


def mix_logits(logits: Tensor) -> Tensor:
    """One number whose gradient shows what any logit depends on.

    The plain sum would not do: the logits of a head may sum to a constant, and its gradient would vanish. The
    coefficients are without a pattern, so no layer cancels them by accident.
    """
    coefficients = torch.cos(1 + torch.arange(logits.shape[-1], device=logits.device, dtype=torch.float64))
    return (logits.double() * coefficients).sum()
