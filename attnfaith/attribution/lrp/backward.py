"""The backward passes of LRP-lite for linear layers, activations, normalisation, and recurrent layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def damping_factors(output: Tensor, epsilon: float, feature_dim: int) -> Tensor | None:
    """The factors ``z / (z + epsilon s sign z)`` of the epsilon rule; ``s`` is the mean size of ``z`` at a position."""
    if not epsilon:
        return None
    size = output.abs()
    stabiliser = size.mean(feature_dim, keepdim=True).mul_(epsilon)
    return size.div_(size + stabiliser).nan_to_num_(1.0)


class Linear(torch.autograd.Function):
    """``F.linear`` with the epsilon rule; reports the relevance that the bias absorbs."""

    @staticmethod
    def forward(
        ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor | None, epsilon: float, note: Callable[[Tensor], None]
    ) -> Tensor:
        """The output of the layer."""
        output = F.linear(inputs, weight, bias)
        # Some models change the output in place, which torch refuses for a view from a custom function.
        if output._is_view():
            output = output.clone()
        ctx.save_for_backward(weight, bias, damping_factors(output, epsilon, -1))
        ctx.note = note
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Damp the gradient where the output is small, and multiply by the weights."""
        weight, bias, factors = ctx.saved_tensors
        gradient = gradients[0] if factors is None else factors.mul_(gradients[0])
        if bias is not None:
            ctx.note(gradient @ bias)
        return gradient @ weight, None, None, None, None


class Damped(torch.autograd.Function):
    """The epsilon rule after any other linear operation; reports the relevance that its bias absorbs."""

    @staticmethod
    def forward(
        ctx: Any, output: Tensor, bias: Tensor | None, epsilon: float, feature_dim: int, note: Callable[[Tensor], None]
    ) -> Tensor:
        """Return a copy of the output, since some models change it in place."""
        ctx.save_for_backward(bias, damping_factors(output, epsilon, feature_dim))
        ctx.note, ctx.feature_dim = note, feature_dim
        return output.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Damp the gradient where the output is small."""
        bias, factors = ctx.saved_tensors
        gradient = gradients[0] if factors is None else gradients[0] * factors
        if bias is not None:
            ctx.note((gradient * bias).sum(ctx.feature_dim))
        return gradient, None, None, None, None


class Pointwise(torch.autograd.Function):
    """An activation that passes relevance in proportion f(x)/x; at 0 the limit, at a kink the mean of both sides."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
        """The output of the activation."""
        output = function(inputs)
        # f(x)/x is 0/0 at 0. Its limit there is the derivative, or the mean of the two one-sided ones at a kink (ReLU).
        near = torch.tensor([1e-4, -1e-4], dtype=inputs.dtype, device=inputs.device)
        limit = float((function(near) / near).mean())
        ctx.save_for_backward((output / inputs).nan_to_num_(limit, limit, limit))
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Multiply the gradient by f(x)/x."""
        (slope,) = ctx.saved_tensors
        return slope.mul_(gradients[0]), None


class LayerNorm(torch.autograd.Function):
    """``F.layer_norm`` with a constant normaliser; reports the relevance that the bias absorbs."""

    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        shape: list[int],
        weight: Tensor | None,
        bias: Tensor | None,
        norm_eps: float,
        lrp_epsilon: float,
        note: Callable[[Tensor], None],
    ) -> Tensor:
        """The output of the layer."""
        output, _, scale = torch.native_layer_norm(inputs, shape, weight, bias, norm_eps)
        factors = None if bias is None else damping_factors(output, lrp_epsilon, -1)
        ctx.save_for_backward(weight, bias, scale, factors)
        ctx.note, ctx.dims = note, tuple(range(-len(shape), 0))
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """The gradient of centring and of dividing by a constant."""
        weight, bias, scale, factors = ctx.saved_tensors
        gradient = gradients[0] if factors is None else factors.mul_(gradients[0])
        if bias is not None:
            ctx.note((gradient * bias).sum(ctx.dims))
        gradient = gradient * scale if weight is None else (gradient * weight).mul_(scale)
        return gradient - gradient.mean(ctx.dims, keepdim=True), None, None, None, None, None, None


def unrolled(kind: str, *args: Any) -> tuple[Tensor, ...]:
    """Compute ``torch.lstm`` or ``torch.gru``, packed or not, from linear layers and pointwise products.

    In products such as ``forget_gate * cell + input_gate * candidate`` the gates are constants and the signal gets all
    relevance.
    """
    packed = isinstance(args[1], Tensor) and args[1].dtype == torch.int64 and args[1].dim() == 1
    if packed:
        data, sizes, initial, weights, biased, layers, _, _, bidirectional = args
        steps = data.split(sizes.tolist())
    else:
        data, initial, weights, biased, layers, _, _, bidirectional, batch_first = args
        steps = (data.transpose(0, 1) if batch_first else data).unbind(0)
    states = initial if isinstance(initial, (tuple, list)) else (initial,)
    # add 0 * data so that the initial state is in the graph; otherwise the relevance that the first step's biases
    # absorb is lost
    states = tuple(state + 0 * data.flatten()[:1] for state in states)
    directions, weights_per_direction = 2 if bidirectional else 1, 4 if biased else 2
    ends: list[list[Tensor]] = [[] for _ in states]
    for layer in range(layers):  # states and weights are ordered by layer, then by direction
        by_direction = []
        for direction in range(directions):
            index = layer * directions + direction
            parts = weights[index * weights_per_direction : (index + 1) * weights_per_direction]
            outputs, last = _direction(kind, steps, [state[index] for state in states], parts, backward=direction == 1)
            by_direction.append(outputs)
            for values, value in zip(ends, last, strict=True):
                values.append(value)
        steps = [torch.cat(pair, dim=-1) for pair in zip(*by_direction, strict=True)]
    joined = torch.cat(list(steps)) if packed else torch.stack(list(steps), dim=1 if batch_first else 0)
    return (joined, *(torch.stack(values) for values in ends))


def _direction(
    kind: str, steps: Any, state: list[Tensor], weights: list[Tensor], *, backward: bool
) -> tuple[list[Tensor], list[Tensor]]:
    """Run one direction of one layer: the outputs of each step in the order of the text, and the last state.

    Steps of a packed batch get smaller: texts are sorted by length, longest first. Forward, a text that has ended keeps
    its state; backward, a text begins when its last step is reached.
    """
    cell = _lstm_cell if kind == "lstm" else _gru_cell
    outputs: list[Tensor] = []
    for inputs in reversed(steps) if backward else steps:
        count = len(inputs)
        updated = cell(inputs, [part[:count] for part in state], weights)
        outputs.append(updated[0])
        state = [torch.cat((new, old[count:])) for new, old in zip(updated, state, strict=True)]
    return (outputs[::-1] if backward else outputs), state


def _linear_parts(inputs: Tensor, hidden: Tensor, weights: list[Tensor]) -> tuple[Tensor, Tensor]:
    """What the input and the hidden state contribute to the gates, ``[B, gates * D]`` each, in torch's gate order."""
    input_weight, hidden_weight, *biases = weights
    input_bias, hidden_bias = biases if biases else (None, None)
    return F.linear(inputs, input_weight, input_bias), F.linear(hidden, hidden_weight, hidden_bias)


def _lstm_cell(inputs: Tensor, state: list[Tensor], weights: list[Tensor]) -> list[Tensor]:
    """One step of an LSTM: the new hidden state and cell, with the gates as constants."""
    hidden, cell = state
    from_input, from_state = _linear_parts(inputs, hidden, weights)
    input_gate, forget_gate, candidate, output_gate = (from_input + from_state).chunk(4, dim=-1)
    cell = torch.sigmoid(forget_gate).detach() * cell + torch.sigmoid(input_gate).detach() * torch.tanh(candidate)
    return [torch.sigmoid(output_gate).detach() * torch.tanh(cell), cell]


def _gru_cell(inputs: Tensor, state: list[Tensor], weights: list[Tensor]) -> list[Tensor]:
    """One step of a GRU: the new hidden state, with the gates as constants; the reset gate acts after the product."""
    hidden = state[0]
    from_input, from_state = _linear_parts(inputs, hidden, weights)
    input_reset, input_keep, input_new = from_input.chunk(3, dim=-1)
    state_reset, state_keep, state_new = from_state.chunk(3, dim=-1)
    reset = torch.sigmoid(input_reset + state_reset).detach()
    keep = torch.sigmoid(input_keep + state_keep).detach()
    return [(1 - keep) * torch.tanh(input_new + reset * state_new) + keep * hidden]
