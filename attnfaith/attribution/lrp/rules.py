"""The rules of LRP-lite: they change the graph of what a model computes, while they are entered.

Layer-wise relevance propagation by one backward pass: where a rule differs from the derivative, the forward values stay
equal and the graph is changed, by treating something as a constant. Attention weights are constants; so is the
normaliser of LayerNorm and RMSNorm; a pointwise activation passes relevance in proportion f(x)/x; in a gated product
the gate is a constant and the signal gets all relevance (Arras et al. 2017 for recurrent layers, Ali et al. 2022 and
Achtibat et al. 2024 for Transformers). Linear layers use the epsilon rule (Bach et al. 2015). "Input times gradient" of
such a graph is the relevance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnfaith.adapters.inference_state import inference_state, patch_forward
from attnfaith.adapters.torch_mode import FunctionInterceptor
from attnfaith.attribution.lrp.backward import Damped, LayerNorm, Linear, Pointwise, unrolled

POINTWISE = {"relu", "gelu", "silu", "tanh", "leaky_relu", "elu", "selu", "mish", "hardswish", "relu6"}
CONSTANT = {"softmax", "sigmoid", "rsqrt", "sqrt", "hardsigmoid"}
LINEAR = {"conv1d", "addmm", "matmul", "__matmul__", "baddbmm", "bmm"}
KEEPS_GATE = {"dropout", "to", "type_as", "contiguous", "view", "reshape", "transpose", "float", "unsqueeze", "squeeze"}


class Rules(FunctionInterceptor):
    """While entered, torch functions build the graph of LRP-lite.

    Args:
        epsilon: the stabiliser of linear layers, relative to the mean size of a layer's output at each position; 0 for
            none.
        batch: the number of texts in a pass.
        length: the number of positions of each.
    """

    def __init__(self, epsilon: float, batch: int, length: int) -> None:
        super().__init__()
        self.epsilon, self.batch, self.length = epsilon, batch, length
        self.gates: dict[int, Tensor] = {}  # by id; held, so that no other tensor can get the id of a gate
        self.absorbed: Tensor | None = None

    def note(self, relevance: Tensor) -> None:
        """Add the relevance that a bias absorbed, by text if the first dimension of the layer's output is the batch."""
        if self.batch == 1:
            relevance = relevance.reshape(1, -1)  # of one text, whatever the order of the dimensions
        elif relevance.dim() == 1 and relevance.numel() == self.batch * self.length:  # XLNet has [L, B]
            relevance = relevance.reshape(self.batch, -1)
        batch_is_first = relevance.shape[0] == self.batch  # [B], or [B, ...]
        if self.batch > 1 and relevance.shape[:2] == (self.batch, self.batch) and self.length == self.batch:
            batch_is_first = False  # [B, L] or [L, B]: an ambiguous shape gives NaN
        if batch_is_first:
            part = relevance.reshape(self.batch, -1).sum(1)
        else:
            part = relevance.sum().expand(self.batch) * torch.nan
        self.absorbed = part if self.absorbed is None else self.absorbed + part

    def handle(self, func: Any, name: str, args: Any, kwargs: dict[str, Any]) -> Any:
        """Apply the rule for a function, if there is one."""
        if not torch.is_grad_enabled():
            return func(*args, **kwargs)
        if name in ("lstm", "gru") and isinstance(args[0], Tensor):
            with self.reentered():
                return unrolled(name, *args, **kwargs)
        if name == "scaled_dot_product_attention":
            # The weights depend on query and key alone, so the weights are constants if these two are.
            query, key, *others = args
            return func(query.detach(), key.detach(), *others, **kwargs)
        if name == "layer_norm":
            return self._layer_norm(*args, **kwargs)
        if name == "linear":
            return self._linear(*args, **kwargs)
        if name in POINTWISE:
            # a copy, since the activation may work in place
            return self.pointwise(lambda inputs: func(inputs.clone(), *args[1:], **kwargs), args[0])
        if name == "rms_norm":
            return self._rms_norm(*args, **kwargs)
        if name == "glu":
            signal, gate = args[0].chunk(2, dim=kwargs.get("dim", args[1] if len(args) > 1 else -1))
            return signal * torch.sigmoid(gate).detach()
        if name in ("mul", "__mul__", "multiply"):
            args = self._gated(args)
        output = func(*args, **kwargs)
        if name in CONSTANT:
            output = output.detach()
            self.gates[id(output)] = output
        elif name in LINEAR and isinstance(output, Tensor) and output.requires_grad:
            output = self._damped(name, args, kwargs, output)
        elif name in KEEPS_GATE and args and id(args[0]) in self.gates:
            self.gates[id(output)] = output
        return output

    def pointwise(self, function: Callable[[Tensor], Tensor], inputs: Tensor) -> Tensor:
        """Apply an activation, whose result can be the gate of a product."""
        output = Pointwise.apply(inputs, function)
        self.gates[id(output)] = output
        return output

    def __exit__(self, *exception: Any) -> None:
        """Forget the gates; the absorbed relevance is kept."""
        self.gates.clear()
        super().__exit__(*exception)

    def _gated(self, args: Any) -> Any:
        """The arguments of a product, with its gate as a constant, if one of the two factors is a gate."""
        tensors = [arg for arg in args if isinstance(arg, Tensor)]
        if len(tensors) != 2 or not all(tensor.requires_grad for tensor in tensors):
            return args
        for index, tensor in enumerate(args):
            if id(tensor) in self.gates:
                return tuple(arg.detach() if index == position else arg for position, arg in enumerate(args))
        return args

    def _layer_norm(
        self,
        inputs: Tensor,
        shape: Any,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        eps: float = 1e-5,
    ) -> Tensor:
        return LayerNorm.apply(inputs, list(shape), weight, bias, eps, self.epsilon, self.note)

    def _rms_norm(self, inputs: Tensor, shape: Any, weight: Tensor | None = None, eps: float | None = None) -> Tensor:
        dims = tuple(range(-len(shape), 0))
        norm_eps = torch.finfo(inputs.dtype).eps if eps is None else eps
        normaliser = torch.rsqrt(inputs.detach().square().mean(dims, keepdim=True) + norm_eps)
        return inputs * normaliser if weight is None else inputs * (normaliser * weight)

    def _linear(self, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        return Linear.apply(input, weight, bias, self.epsilon, self.note)

    def _damped(self, name: str, args: Any, kwargs: Any, output: Tensor) -> Tensor:
        """Apply the epsilon rule to a convolution or a matrix product with a parameter."""
        bias = None
        if name == "conv1d":
            bias = kwargs.get("bias", args[2] if len(args) > 2 else None)
            bias = None if bias is None else bias.unsqueeze(-1)
        elif name == "addmm":
            bias = args[0]
        elif not any(isinstance(arg, nn.Parameter) for arg in args):
            return output  # a product of two activations is attention, whose weights are constants already
        if bias is None and not self.epsilon:
            return output
        return Damped.apply(output, bias, self.epsilon, -2 if name == "conv1d" else -1, self.note)


@contextmanager
def relevance_rules(
    model: nn.Module, epsilon: float, shape: tuple[int, int], on_enter: Callable[[Rules], None] = lambda rules: None
) -> Iterator[Rules]:
    """Enter `Rules` for a model; modules that are activations are patched as a whole.

    Args:
        model: the model.
        epsilon: see `Rules`.
        shape: the number of texts and of positions.
        on_enter: called with the rules.
    """
    rules = Rules(epsilon, *shape)
    on_enter(rules)

    def as_activation(original: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def forward(inputs: Tensor) -> Tensor:
            return rules.pointwise(lambda inputs: original(inputs.clone()), inputs)  # the activation can work in place

        return forward

    with ExitStack() as undo:
        undo.enter_context(inference_state(model))  # before patching: other threads wait until it is undone
        for module in model.modules():
            kind = type(module)
            torch_kind = getattr(F, kind.__name__.lower(), None) is not None and kind.__name__.lower() in POINTWISE
            if torch_kind or kind.__module__ == "transformers.activations":
                patch_forward(undo, module, as_activation)
        undo.enter_context(rules)
        yield rules
