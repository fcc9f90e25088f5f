"""Seeing an attention where it happens: a softmax, and the product that averages values with its result.

Every attention a model computes is one of two things to torch: one call of ``scaled_dot_product_attention``, or a
``softmax`` whose result (cast, reshaped, passed through dropout) multiplies the values. An `AttentionWatch` is a torch
function mode that recognises both while it is entered, in the calling thread only, so no model code, configuration or
registry has to be switched, and whatever particularity a family has (soft caps, sinks, position biases, grouped heads)
is computed by its own code.
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

HIDDEN = -5000.0  # a log-weight below this is a mask (additive masks are -10000 or lower), not a small weight

SOFTMAX = {"softmax", "_softmax"}
CARRY = {
    *("to", "type", "type_as", "float", "double", "half", "bfloat16", "contiguous", "clone", "detach"),
    *("dropout", "alpha_dropout", "view", "reshape", "unsqueeze", "squeeze", "flatten", "unflatten", "expand"),
    *("__getitem__", "narrow", "masked_fill", "masked_fill_", "where", "nan_to_num", "mul", "multiply", "add"),
    *("transpose", "permute", "swapaxes", "movedim", "view_as", "reshape_as"),
}
PRODUCTS = {"matmul", "__matmul__", "bmm", "einsum"}


@dataclass
class AttentionCall:
    """One attention of a forward pass: what was averaged, by which weights, with which result.

    ``query``, ``key``, ``bias``, ``causal`` and ``scale`` are set for a fused attention; for the others ``given`` (the
    weights as they entered the product), ``scores`` (what their softmax was taken of, where it can still be aligned)
    and ``lineage`` (the ids of the tensors they came through, the softmax's first result among them).
    """

    layout: AttentionLayout
    operand: Tensor
    run: Callable[[], Tensor]
    query: Tensor | None = None
    key: Tensor | None = None
    bias: Tensor | None = None
    causal: bool = False
    scale: float | None = None
    given: Tensor | None = None
    scores: Tensor | None = None
    lineage: frozenset[int] = frozenset()

    @cached_property
    def output(self) -> Tensor:
        """The product's result; a fused one is not computed before it is asked for."""
        return self.run()

    @property
    def fused(self) -> bool:
        """Whether torch computed scores, softmax and product in one call."""
        return self.query is not None

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """The sizes ``(B, H, Q, N)``."""
        like = self.layout.values(self.query) if self.query is not None else self.layout.read(self.output)
        batch, heads, queries, _ = like.shape
        return batch, heads, queries, self.layout.values(self.operand).shape[-2]

    def values(self) -> Tensor:
        """``[B, H, N, D]``, one value vector per item and head (grouped heads repeated)."""
        values, (batch, heads, _, _) = self.layout.values(self.operand), self.shape
        if values.shape[1] not in (1, heads):
            values = values.repeat_interleave(heads // values.shape[1], dim=1)
        return values.expand(batch, heads, *values.shape[2:])

    def distributions(self, rows: Tensor | None) -> tuple[Tensor, Tensor]:
        """Weights and float64 log-weights ``[B, H, R, N]`` of the query rows ``[B, R]`` (of all rows for None)."""
        if self.fused:
            logs = _mask_hidden(torch.log_softmax(self._fused_scores(rows), dim=-1).double())
            return logs.exp().to(self.operand.dtype), logs
        assert self.given is not None
        weights = select_query_rows(self.layout.weights(self.given).expand(self.shape), rows)
        exact = weights.double().clamp_min(0).log()
        if self.scores is not None:
            scores = select_query_rows(self.layout.weights(self.scores).expand(self.shape), rows).double()
            logs = _mask_hidden(torch.log_softmax(scores, dim=-1))
            agree = (logs.exp() - weights.double()).abs().amax(-1, keepdim=True) < 1e-2
            exact = torch.where(agree & (weights < 1e-25), logs, exact)
        return weights, exact

    def _fused_scores(self, rows: Tensor | None) -> Tensor:
        assert self.query is not None
        assert self.key is not None
        query, key = self.layout.values(self.query), self.layout.values(self.key)
        total = query.shape[-2]
        heads = query.shape[1]
        if key.shape[1] not in (1, heads):
            key = key.repeat_interleave(heads // key.shape[1], dim=1)
        precise = torch.float64 if query.dtype == torch.float64 else torch.float32
        scale = 1 / math.sqrt(query.shape[-1]) if self.scale is None else self.scale
        scores = select_query_rows(query, rows).to(precise) @ key.to(precise).transpose(-1, -2) * scale
        bias = self.bias
        if self.causal:
            bias = torch.ones(total, key.shape[-2], dtype=torch.bool, device=query.device).tril()
        if bias is None:
            return scores
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
    """A tensor that is attention weights: what its softmax was taken of, and the tensors it came through."""

    tensor: Tensor
    scores: Tensor | None
    lineage: frozenset[int]


def _mask_hidden(logs: Tensor) -> Tensor:
    return logs.nan_to_num(nan=-torch.inf).masked_fill(logs < HIDDEN, -torch.inf)


class AttentionWatch(FunctionInterceptor):
    """While entered, calls ``on_product`` with every attention product; what it returns replaces the product's result.

    Args:
        batch: the batch size, by which merged batch and head dimensions are told apart.
        on_product: receives an `AttentionCall`; returns None to leave it, or a replacement of the same shape.
        any_distribution: also take for attention weights what no softmax made, when it is not negative and sums to 1
            along its last dimension: sparse and hand-written normalisers.
    """

    def __init__(
        self, batch: int, on_product: Callable[[AttentionCall], Tensor | None], *, any_distribution: bool = False
    ) -> None:
        super().__init__()
        self.batch = batch
        self.on_product = on_product
        self.any_distribution = any_distribution
        self.live: dict[int, _Weights] = {}
        self.weighted: dict[int, tuple[Tensor, Tensor, Tensor]] = {}

    def __exit__(self, *exception: Any) -> None:
        """Forget every tensor that was seen."""
        self.live.clear()
        self.weighted.clear()
        super().__exit__(*exception)

    def _recognise(self, name: str, args: Any) -> None:
        if name not in PRODUCTS and name not in ("mul", "multiply", "unsqueeze", "view", "reshape", "transpose"):
            return
        for tensor in (arg for arg in args if isinstance(arg, Tensor) and id(arg) not in self.live):
            if tensor.is_floating_point() and tensor.dim() > 1 and tensor.shape[-1] > 1:
                values = tensor.detach().double()
                if bool((values >= 0).all()) and bool(((values.sum(-1) - 1).abs() < 1e-3).all()):
                    self.live[id(tensor)] = _Weights(tensor, None, frozenset((id(tensor),)))

    def handle(self, func: Any, name: str, args: Any, kwargs: dict[str, Any]) -> Any:
        """Run a torch function; look at it where it may be part of an attention."""
        if self.any_distribution:
            self._recognise(name, args)
        if name == "scaled_dot_product_attention":
            product = self._fused(partial(func, *args, **kwargs), *args, **kwargs)
            return func(*args, **kwargs) if product is None else self._replaced(product)
        output = func(*args, **kwargs)
        if name in SOFTMAX:
            self.live[id(output)] = _Weights(output, args[0] if args else kwargs["input"], frozenset((id(output),)))
        elif self.live:
            if name in PRODUCTS:
                product = self._product(name, args, kwargs, output)
                return output if product is None else self._replaced(product)
            if name in ("sum", "mean") and args and id(args[0]) in self.weighted:
                product = self._pooled(args, kwargs, output)
                return output if product is None else self._replaced(product)
            if name in CARRY:
                self._carry(func, name, args, kwargs, output)
        return output

    def _replaced(self, product: AttentionCall) -> Tensor:
        answer = self.on_product(product)
        return product.output if answer is None else answer

    def _carry(self, func: Any, name: str, args: Any, kwargs: Any, output: Any) -> None:
        source = next((arg for arg in args if isinstance(arg, Tensor) and id(arg) in self.live), None)
        if source is None or not isinstance(output, Tensor):
            return
        scores, lineage = self.live[id(source)].scores, self.live[id(source)].lineage
        if name in ("mul", "multiply") and output.shape != source.shape:
            other = next(arg for arg in args if arg is not source)
            pooled = source.dim() == output.dim() == 3 and source.shape[-1] == 1 and len(source) == self.batch
            if isinstance(other, Tensor) and pooled:
                self.weighted[id(output)] = (output, source, other)
            return
        moved = None
        if scores is not None and scores.shape == source.shape:
            if name in ("to", "type", "type_as", "float", "double", "half", "bfloat16", "dropout", "contiguous"):
                moved = scores
            elif name not in ("masked_fill", "masked_fill_", "where", "nan_to_num", "mul", "multiply", "add"):
                rest = [scores if arg is source else arg for arg in args]
                moved = func(*rest, **kwargs)
        self.live[id(output)] = _Weights(output, moved, lineage | {id(output)})

    def _product(self, name: str, args: Any, kwargs: Any, output: Tensor) -> AttentionCall | None:
        equation = args[0].replace(" ", "") if name == "einsum" else ""
        operands = list(args[1:] if equation else args)
        if not operands:
            operands = [kwargs.get("input"), kwargs.get("other", kwargs.get("mat2"))]
        elif len(operands) == 1 and not isinstance(operands[0], Tensor):
            operands = list(operands[0])
        elif len(operands) == 1:
            operands.append(kwargs.get("other", kwargs.get("mat2")))
        if len(operands) != 2:
            return None
        weights, values = operands
        if equation and id(weights) not in self.live and id(values) in self.live:
            left, right = equation.split("->")[0].split(",")
            equation = f"{right},{left}->{equation.split('->')[1]}"
            weights, values = values, weights
        columns = id(values) in self.live and id(weights) not in self.live and not equation
        if columns and values.dim() == 3 and isinstance(weights, Tensor) and weights.dim() == 3:
            return (
                self._averaged(AttentionLayout("columns"), values, weights, output)
                if len(values) == self.batch
                else None
            )
        if id(weights) not in self.live or not isinstance(values, Tensor) or not isinstance(output, Tensor):
            return None
        layout = self._layout(equation, weights, values, output)
        if layout is None:
            return None
        return self._averaged(layout, weights, values, output)

    def _pooled(self, args: Any, kwargs: Any, output: Tensor) -> AttentionCall | None:
        _, weights, values = self.weighted[id(args[0])]
        dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
        if dim not in (1, -2, [1], (1,)) or kwargs.get("keepdim") or output.dim() != 2 or values.dim() != 3:
            return None
        return self._averaged(AttentionLayout("pooled"), weights, values, output)

    def _averaged(self, layout: AttentionLayout, weights: Tensor, values: Tensor, output: Tensor) -> AttentionCall:
        seen = self.live[id(weights)]
        return AttentionCall(layout, values, lambda: output, given=weights, scores=seen.scores, lineage=seen.lineage)

    def _layout(self, equation: str, weights: Tensor, values: Tensor, output: Tensor) -> AttentionLayout | None:
        if equation:
            inputs, out = equation.split("->")
            left, right = inputs.split(",")
            contracted = [letter for letter in left if letter in right and letter not in out]
            outside = [letter for letter in right if letter not in left]
            simple = len(contracted) == 1 and len(outside) == 1 and "." not in equation
            return AttentionLayout("einsum", equation=(left, right, out)) if simple else None
        if weights.dim() == 4 and output.dim() == 4:
            return AttentionLayout("heads")
        if weights.dim() == 3 and output.dim() == 3 and values.dim() == 3:
            heads, rest = divmod(weights.shape[0], self.batch)
            if rest:
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
    """How the operands of a product are laid out, and how to bring them to ``[B, H, Q, N]`` and back.

    Attributes:
        kind: "heads" ``[B, H, Q, .]``, "merged" ``[B * H, Q, .]``, "single" ``[B, Q, .]``, "einsum", "pooled"
            (``[B, N, 1]`` weights multiplied with ``[B, N, D]`` and summed), or "columns" (values first, ``[B, D, N]``,
            then weights ``[B, N, Q]``).
        equation: the letters of an einsum: weights, values, output.
        heads: H where the layout merges it with the batch.
    """

    kind: str
    heads: int = 1
    equation: tuple[str, str, str] = ("", "", "")

    def weights(self, tensor: Tensor) -> Tensor:
        """Bring attention weights to ``[B, H, Q, N]``."""
        if self.kind == "einsum":
            return self._arrange(tensor, self.equation[0], self._order("weights"))
        if self.kind == "pooled":
            return tensor.reshape(tensor.shape[0], 1, 1, -1)
        return self._split(tensor)

    def values(self, tensor: Tensor) -> Tensor:
        """Bring values to ``[B, H, N, D]``."""
        if self.kind == "einsum":
            return self._arrange(tensor, self.equation[1], self._order("values"))
        return tensor.unsqueeze(1) if self.kind == "pooled" else self._split(tensor)

    def read(self, output: Tensor) -> Tensor:
        """Bring the product's result to ``[B, H, Q, D]``."""
        if self.kind == "einsum":
            return self._arrange(output, self.equation[2], self._order("output"))
        return output[:, None, None] if self.kind == "pooled" else self._split(output)

    def write(self, context: Tensor) -> Tensor:
        """Bring ``[B, H, Q, D]`` to the layout of the product's result."""
        if self.kind == "heads":
            return context
        if self.kind == "pooled":
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

    def _order(self, what: str) -> list[str]:
        """The letters of batch, heads, and the two last dimensions; "1" where there are no heads."""
        weights, values, output = self.equation
        shared = [letter for letter in weights if letter in values and letter in output]
        contracted = next(letter for letter in weights if letter in values and letter not in output)
        query = next((letter for letter in weights if letter not in values), "1")
        width = next(letter for letter in values if letter not in weights)
        batch = [*shared, "1"][:2]
        return [
            *batch,
            *{"weights": (query, contracted), "values": (contracted, width), "output": (query, width)}[what],
        ]

    @staticmethod
    def _arrange(tensor: Tensor, letters: str, order: list[str]) -> Tensor:
        present = [letter for letter in order if letter != "1"]
        arranged = tensor.permute([letters.index(letter) for letter in present])
        for place, letter in enumerate(order):
            if letter == "1":
                arranged = arranged.unsqueeze(place)
        return arranged
