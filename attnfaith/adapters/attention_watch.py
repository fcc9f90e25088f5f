"""Watching attention while a model computes it: a softmax, and the product that averages values by its result.

To torch, every attention of a model is one of two things: one call of ``scaled_dot_product_attention``, or a
``softmax`` whose result (cast, reshaped, passed through dropout) multiplies the values. An `AttentionWatch` is a torch
function mode that recognises both while it is entered, in the calling thread only. No model code, configuration or
registry has to be changed, and what is special to a family (soft caps, sinks, position biases, grouped heads) is
computed by its own code.

An `AttentionCall` holds the operands and the result of one attention in the model's own layout; an `AttentionLayout`
brings them to ``[B, H, Q, N]`` and back.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor

from attnfaith.adapters.positions import select_query_rows
from attnfaith.adapters.torch_mode import FunctionInterceptor

# A log-weight below this is a mask, not a small weight: additive masks are -10000 or lower, not always -inf. If it were
# read as a small weight, rescaling after an erasure could give a masked item real weight.
HIDDEN = -5000.0

SOFTMAX = {"softmax", "_softmax"}
KEEPS_LAYOUT = {"to", "type", "type_as", "float", "double", "half", "bfloat16", "dropout", "contiguous"}
REARRANGES = {
    *("view", "reshape", "view_as", "reshape_as", "unsqueeze", "squeeze", "flatten", "unflatten", "expand"),
    *("transpose", "permute", "swapaxes", "movedim", "__getitem__", "narrow", "clone", "detach", "alpha_dropout"),
}
CHANGES_NUMBERS = {"masked_fill", "masked_fill_", "where", "nan_to_num", "mul", "multiply", "add"}
CARRIES_WEIGHTS = KEEPS_LAYOUT | REARRANGES | CHANGES_NUMBERS
"""Functions whose result still holds attention weights if their argument does.

The argument of the softmax (the scores) stays aligned with the weights through the first set as it is, and through the
second if the function is applied to it too. After the third, its softmax is no longer the weights.
"""
PRODUCTS = {"matmul", "__matmul__", "bmm", "einsum"}


@dataclass
class AttentionCall:
    """One attention of a forward pass: the values, the weights, and the result.

    Attributes:
        layout: how the operands are laid out.
        raw_values: the values in the model's own layout.
        run: computes the result.
        query: fused only, as are ``key``, ``bias``, ``causal`` and ``scale``: the arguments of the call.
        weights: unfused only: the weights as they entered the product.
        scores: unfused only: the argument of the softmax, where it can still be aligned with the weights.
        lineage: unfused only: the ids of the tensors from the result of the softmax to the weights.
    """

    layout: AttentionLayout
    raw_values: Tensor
    run: Callable[[], Tensor]
    query: Tensor | None = None
    key: Tensor | None = None
    bias: Tensor | None = None
    causal: bool = False
    scale: float | None = None
    weights: Tensor | None = None
    scores: Tensor | None = None
    lineage: frozenset[int] = frozenset()

    @cached_property
    def output(self) -> Tensor:
        """The result of the attention; a fused attention is computed when this is first read."""
        return self.run()

    @property
    def fused(self) -> bool:
        """Whether torch computed scores, softmax and product in one call."""
        return self.query is not None

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """The sizes ``(B, H, Q, N)``."""
        queries_or_output = self.layout.values(self.query) if self.query is not None else self.layout.read(self.output)
        batch, heads, queries, _ = queries_or_output.shape
        return batch, heads, queries, self.layout.values(self.raw_values).shape[-2]

    def values(self) -> Tensor:
        """The value vectors, ``[B, H, N, D]``, one for each item and head (grouped heads repeated)."""
        values, (batch, heads, _, _) = self.layout.values(self.raw_values), self.shape
        if values.shape[1] not in (1, heads):
            values = values.repeat_interleave(heads // values.shape[1], dim=1)
        return values.expand(batch, heads, *values.shape[2:])

    def distributions(self, rows: Tensor | None) -> tuple[Tensor, Tensor]:
        """Weights and float64 log-weights ``[B, H, R, N]`` of the query rows ``[B, R]`` (None for all rows)."""
        if self.fused:
            logs = _mask_hidden(torch.log_softmax(self.fused_scores(rows), dim=-1).double())
            return logs.exp().to(self.raw_values.dtype), logs
        assert self.weights is not None
        weights = select_query_rows(self.layout.weights(self.weights).expand(self.shape), rows)
        log_weights = weights.double().clamp_min(0).log()
        if self.scores is not None:
            # The model used these weights, so their logarithm is right, except where they underflowed. Underflowed
            # entries are computed from the scores, and only in rows where softmax(scores) equals the weights: a model
            # may also drop or rescale weights after its softmax (sinks, head masks, further normalisation).
            scores = select_query_rows(self.layout.weights(self.scores).expand(self.shape), rows).double()
            logs = _mask_hidden(torch.log_softmax(scores, dim=-1))
            agree = (logs.exp() - weights.double()).abs().amax(-1, keepdim=True) < 1e-2
            log_weights = torch.where(agree & (weights < 1e-25), logs, log_weights)
        return weights, log_weights

    def fused_scores(self, rows: Tensor | None) -> Tensor:
        """Fused only: the argument of the softmax for the query rows ``[B, R]`` (None for all), ``[B, H, R, N]``."""
        assert self.query is not None
        assert self.key is not None
        query, key = self.layout.values(self.query), self.layout.values(self.key)
        total = query.shape[-2]
        heads = query.shape[1]
        if key.shape[1] not in (1, heads):
            key = key.repeat_interleave(heads // key.shape[1], dim=1)
        precise = torch.float64 if query.dtype == torch.float64 else torch.float32  # the kernels accumulate in float32
        scale = 1 / math.sqrt(query.shape[-1]) if self.scale is None else self.scale
        scores = select_query_rows(query, rows).to(precise) @ key.to(precise).transpose(-1, -2) * scale
        bias = self.bias
        if self.causal:
            bias = torch.ones(total, key.shape[-2], dtype=torch.bool, device=query.device).tril()
        if bias is None:
            return scores
        # Bring the bias to [B, H, Q, N]. Its dimensions may be missing on the left or have size 1, as in broadcasting;
        # with three of them, it has the layout of the queries.
        if self.layout.kind == "merged" and bias.dim() == 3 and bias.shape[0] != 1:
            bias = self.layout.values(bias)
        elif self.layout.kind == "single" and bias.dim() == 3:
            bias = bias.unsqueeze(1)
        while bias.dim() < 4:
            bias = bias.unsqueeze(0)
        bias = bias.expand(query.shape[0], bias.shape[1], total if rows is not None else bias.shape[2], bias.shape[3])
        bias = select_query_rows(bias, rows)
        if bias.dtype == torch.bool:
            return scores.masked_fill(~bias, -torch.inf)
        return scores + bias.to(precise)


@dataclass(frozen=True)
class _Weights:
    """A tensor that holds attention weights.

    Attributes:
        tensor: the tensor. Holding it keeps its id from being given to another tensor.
        scores: the argument of its softmax, in the same layout, if that is known.
        lineage: the ids of the tensors from the result of the softmax to this one.
    """

    tensor: Tensor
    scores: Tensor | None
    lineage: frozenset[int]


def _mask_hidden(logs: Tensor) -> Tensor:
    return logs.nan_to_num(nan=-torch.inf).masked_fill(logs < HIDDEN, -torch.inf)


class AttentionWatch(FunctionInterceptor):
    """While entered, calls ``on_attention`` with every attention, and replaces the result by what that returns.

    Tensors are recognised by ``id``: the result of a softmax is noted, and so is the result of any function in
    `CARRIES_WEIGHTS` that is given a noted tensor. A product of a noted tensor and other values is an attention. Each
    noted tensor is held until the watch is left. If it were not, Python could give its id to a new tensor, which would
    then be taken for attention weights.

    Args:
        batch: the batch size, by which merged batch and head dimensions are separated.
        on_attention: receives an `AttentionCall`; returns None to leave the result, or a replacement of the same shape.
        any_distribution: also take tensors for attention weights that no softmax made, if they are not negative and sum
            to 1 along their last dimension: sparse and hand-written normalisers.
    """

    def __init__(
        self, batch: int, on_attention: Callable[[AttentionCall], Tensor | None], *, any_distribution: bool = False
    ) -> None:
        super().__init__()
        self.batch = batch
        self.on_attention = on_attention
        self.any_distribution = any_distribution
        self.known_weights: dict[int, _Weights] = {}  # by id
        # by id: values times weights, before they are summed, with the weights and the values
        self.weighted_values: dict[int, tuple[Tensor, Tensor, Tensor]] = {}

    def __exit__(self, *exception: Any) -> None:
        """Forget every tensor that was noted."""
        self.known_weights.clear()
        self.weighted_values.clear()
        super().__exit__(*exception)

    def _note_distributions(self, name: str, args: Any) -> None:
        """Note the arguments of a function whose numbers form distributions.

        Looking at numbers is slow (it waits for a GPU), so only arguments of functions that attention weights usually
        go through are looked at.
        """
        if name not in PRODUCTS and name not in ("mul", "multiply", "unsqueeze", "view", "reshape", "transpose"):
            return
        for tensor in (arg for arg in args if isinstance(arg, Tensor) and id(arg) not in self.known_weights):
            if tensor.is_floating_point() and tensor.dim() > 1 and tensor.shape[-1] > 1:
                values = tensor.detach().double()
                if bool((values >= 0).all()) and bool(((values.sum(-1) - 1).abs() < 1e-3).all()):
                    self.known_weights[id(tensor)] = _Weights(tensor, None, frozenset((id(tensor),)))

    def handle(self, func: Any, name: str, args: Any, kwargs: dict[str, Any]) -> Any:
        """Run a torch function, and note or replace its result where it is part of an attention."""
        if self.any_distribution:
            self._note_distributions(name, args)
        if name == "scaled_dot_product_attention":
            attention = self._fused(partial(func, *args, **kwargs), *args, **kwargs)
            return func(*args, **kwargs) if attention is None else self._replaced(attention)
        output = func(*args, **kwargs)
        if name in SOFTMAX:
            self.known_weights[id(output)] = _Weights(
                output, args[0] if args else kwargs["input"], frozenset((id(output),))
            )
        elif self.known_weights:
            if name in PRODUCTS:
                attention = self._from_product(name, args, kwargs, output)
                return output if attention is None else self._replaced(attention)
            if name in ("sum", "mean") and args and id(args[0]) in self.weighted_values:
                attention = self._from_weighted_sum(args, kwargs, output)
                return output if attention is None else self._replaced(attention)
            if name in CARRIES_WEIGHTS:
                self._note_result(func, name, args, kwargs, output)
        return output

    def _replaced(self, attention: AttentionCall) -> Tensor:
        """The result of an attention that the model goes on with."""
        replacement = self.on_attention(attention)
        return attention.output if replacement is None else replacement

    def _note_result(self, func: Any, name: str, args: Any, kwargs: Any, output: Any) -> None:
        """Note the result of a function of attention weights as attention weights too."""
        source = next((arg for arg in args if isinstance(arg, Tensor) and id(arg) in self.known_weights), None)
        if source is None or not isinstance(output, Tensor):
            return
        scores, lineage = self.known_weights[id(source)].scores, self.known_weights[id(source)].lineage
        if name in ("mul", "multiply") and output.shape != source.shape:
            # weights [B, N, 1] times values [B, N, D]: the first half of an attention that a sum completes
            values = next(arg for arg in args if arg is not source)
            multiplies_values = source.dim() == output.dim() == 3 and source.shape[-1] == 1
            if isinstance(values, Tensor) and multiplies_values and len(source) == self.batch:
                self.weighted_values[id(output)] = (output, source, values)
            return
        # The scores follow the weights through reshaping, so that log-weights can be computed from them later.
        aligned = None
        if scores is not None and scores.shape == source.shape:
            if name in KEEPS_LAYOUT:
                aligned = scores
            elif name not in CHANGES_NUMBERS:
                aligned = func(*[scores if arg is source else arg for arg in args], **kwargs)
        self.known_weights[id(output)] = _Weights(output, aligned, lineage | {id(output)})

    def _from_product(self, name: str, args: Any, kwargs: Any, output: Tensor) -> AttentionCall | None:
        """Describe a matrix product or einsum as an attention; None unless one of its operands holds its weights."""
        equation = args[0].replace(" ", "") if name == "einsum" else ""
        operands = list(args[1:] if equation else args)
        # The operands may be positional, keywords, or, of an einsum, one list.
        if not operands:
            operands = [kwargs.get("input"), kwargs.get("other", kwargs.get("mat2"))]
        elif len(operands) == 1 and not isinstance(operands[0], Tensor):
            operands = list(operands[0])
        elif len(operands) == 1:
            operands.append(kwargs.get("other", kwargs.get("mat2")))
        if len(operands) != 2:
            return None
        # The weights are usually the first operand. In an einsum the two can simply be exchanged, with their letters.
        weights, values = operands
        if equation and id(weights) not in self.known_weights and id(values) in self.known_weights:
            left, right = equation.split("->")[0].split(",")
            equation = f"{right},{left}->{equation.split('->')[1]}"
            weights, values = values, weights
        # A product with the weights second computes (weights^T values)^T: values [B, D, N] times weights [B, N, Q].
        weights_second = id(values) in self.known_weights and id(weights) not in self.known_weights and not equation
        if weights_second and values.dim() == 3 and isinstance(weights, Tensor) and weights.dim() == 3:
            weights, values = values, weights
            if len(weights) != self.batch:
                return None
            return self._attention(AttentionLayout("columns"), weights, values, output)
        if id(weights) not in self.known_weights or not isinstance(values, Tensor) or not isinstance(output, Tensor):
            return None
        layout = self._layout(equation, weights, values, output)
        return None if layout is None else self._attention(layout, weights, values, output)

    def _from_weighted_sum(self, args: Any, kwargs: Any, output: Tensor) -> AttentionCall | None:
        """Describe a sum over values times weights as an attention; None for a sum along another dimension."""
        _, weights, values = self.weighted_values[id(args[0])]
        dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
        if dim not in (1, -2, [1], (1,)) or kwargs.get("keepdim") or output.dim() != 2 or values.dim() != 3:
            return None
        return self._attention(AttentionLayout("weighted_sum"), weights, values, output)

    def _attention(self, layout: AttentionLayout, weights: Tensor, values: Tensor, output: Tensor) -> AttentionCall:
        noted = self.known_weights[id(weights)]
        return AttentionCall(
            layout, values, lambda: output, weights=weights, scores=noted.scores, lineage=noted.lineage
        )

    def _layout(self, equation: str, weights: Tensor, values: Tensor, output: Tensor) -> AttentionLayout | None:
        """The layout of a product of weights and values; None where it is not known."""
        if equation:
            # An attention sums over one dimension (the items), and the values add one that the weights do not have
            # (the width). All other einsums are no attention.
            inputs, output_letters = equation.split("->")
            left, right = inputs.split(",")
            contracted = [letter for letter in left if letter in right and letter not in output_letters]
            only_in_values = [letter for letter in right if letter not in left]
            simple = len(contracted) == 1 and len(only_in_values) == 1 and "." not in equation
            return AttentionLayout("einsum", equation=(left, right, output_letters)) if simple else None
        if weights.dim() == 4 and output.dim() == 4:
            return AttentionLayout("heads")
        if weights.dim() == 3 and output.dim() == 3 and values.dim() == 3:
            # Three dimensions: either there is one head, or heads are merged with the batch, which is then a multiple.
            heads, remainder = divmod(weights.shape[0], self.batch)
            if remainder:
                return None
            return AttentionLayout("single") if heads == 1 else AttentionLayout("merged", heads)
        return None

    def _fused(
        self,
        run: Callable[[], Tensor],
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> AttentionCall | None:
        """Describe a call of ``scaled_dot_product_attention`` as an attention; the parameters are those of the call."""
        layout = AttentionLayout("heads")
        if query.dim() == 3:
            heads = query.shape[0] // self.batch
            layout = AttentionLayout("single") if heads == 1 else AttentionLayout("merged", heads)
        elif query.dim() != 4:
            return None
        return AttentionCall(
            layout, value, run, query=query, key=key, bias=attn_mask, causal=bool(is_causal), scale=scale
        )


@dataclass(frozen=True)
class AttentionLayout:
    """The layout of an attention's operands, and how to bring them to ``[B, H, Q, N]`` and back.

    Attributes:
        kind: "heads" ``[B, H, Q, .]``, "merged" ``[B * H, Q, .]``, "single" ``[B, Q, .]``, "einsum", "weighted_sum"
            (weights ``[B, N, 1]`` times values ``[B, N, D]``, summed), or "columns" (values ``[B, D, N]`` first, then
            weights ``[B, N, Q]``).
        heads: H, where the layout merges it with the batch.
        equation: of an einsum, the letters of weights, values and output.
    """

    kind: str
    heads: int = 1
    equation: tuple[str, str, str] = ("", "", "")

    def weights(self, tensor: Tensor) -> Tensor:
        """Bring attention weights to ``[B, H, Q, N]``."""
        if self.kind == "einsum":
            return self._arrange(tensor, self.equation[0], self._order("weights"))
        if self.kind == "weighted_sum":
            return tensor.reshape(tensor.shape[0], 1, 1, -1)
        return self._split(tensor)

    def values(self, tensor: Tensor) -> Tensor:
        """Bring values to ``[B, H, N, D]``."""
        if self.kind == "einsum":
            return self._arrange(tensor, self.equation[1], self._order("values"))
        return tensor.unsqueeze(1) if self.kind == "weighted_sum" else self._split(tensor)

    def read(self, output: Tensor) -> Tensor:
        """Bring the attention's result to ``[B, H, Q, D]``."""
        if self.kind == "einsum":
            return self._arrange(output, self.equation[2], self._order("output"))
        return output[:, None, None] if self.kind == "weighted_sum" else self._split(output)

    def write(self, context: Tensor) -> Tensor:
        """Bring ``[B, H, Q, D]`` to the layout of the attention's result."""
        if self.kind == "heads":
            return context
        if self.kind == "weighted_sum":
            return context[:, 0, 0]
        if self.kind == "single":
            return context.squeeze(1)
        if self.kind == "columns":
            return context.squeeze(1).transpose(1, 2)
        if self.kind == "merged":
            return context.flatten(0, 1)
        order = self._order("output")
        sizes = [size for size, letter in zip(context.shape, order, strict=True) if letter != "1"]
        present = [letter for letter in order if letter != "1"]
        return context.reshape(sizes).permute([present.index(letter) for letter in self.equation[2]])

    def _split(self, tensor: Tensor) -> Tensor:
        if self.kind == "columns":
            return tensor.transpose(1, 2).unsqueeze(1)
        if self.kind == "heads":
            return tensor
        if self.kind == "single":
            return tensor.unsqueeze(1)
        return tensor.unflatten(0, (-1, self.heads))

    def _order(self, operand: str) -> list[str]:
        """The einsum letters of batch, heads, and the two last dimensions of an operand; "1" for a missing one.

        In ``bhqn,bhnd->bhqd``, b and h are in all three operands, n is summed over, q is not in the values, and d is
        not in the weights.
        """
        weights, values, output = self.equation
        shared = [letter for letter in weights if letter in values and letter in output]
        contracted = next(letter for letter in weights if letter in values and letter not in output)
        query = next((letter for letter in weights if letter not in values), "1")
        width = next(letter for letter in values if letter not in weights)
        batch = [*shared, "1"][:2]
        return [
            *batch,
            *{"weights": (query, contracted), "values": (contracted, width), "output": (query, width)}[operand],
        ]

    @staticmethod
    def _arrange(tensor: Tensor, letters: str, order: list[str]) -> Tensor:
        present = [letter for letter in order if letter != "1"]
        arranged = tensor.permute([letters.index(letter) for letter in present])
        for dim, letter in enumerate(order):
            if letter == "1":
                arranged = arranged.unsqueeze(dim)
        return arranged
