"""LSTM and GRU layers written out step by step, gates as constants (Arras et al. 2017)."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def unrolled(kind: str, *args: Any) -> tuple[Tensor, ...]:
    """What ``torch.lstm`` and ``torch.gru`` compute, packed or not, as linear layers and pointwise products.

    In ``forget * cell + enter * candidate`` and its like, the gates are constants and the signal takes all.
    """
    packed = isinstance(args[1], Tensor) and args[1].dtype == torch.int64 and args[1].dim() == 1
    if packed:
        data, sizes, start, weights, biased, layers, _, _, both = args
        steps = data.split(sizes.tolist())
    else:
        data, start, weights, biased, layers, _, _, both, batch_first = args
        steps = (data.transpose(0, 1) if batch_first else data).unbind(0)
    states = start if isinstance(start, (tuple, list)) else (start,)
    # the start hangs on the data by a zero: else no backward pass reaches what the first step's biases absorb
    states = tuple(state + 0 * data.flatten()[:1] for state in states)
    directions, per = 2 if both else 1, 4 if biased else 2
    ends: list[list[Tensor]] = [[] for _ in states]
    for layer in range(layers):
        sides = []
        for direction in range(directions):
            place = layer * directions + direction
            parts = weights[place * per : (place + 1) * per]
            outputs, last = _direction(kind, steps, [state[place] for state in states], parts, backward=direction == 1)
            sides.append(outputs)
            for kept, value in zip(ends, last, strict=True):
                kept.append(value)
        steps = [torch.cat(pair, dim=-1) for pair in zip(*sides, strict=True)]
    joined = torch.cat(list(steps)) if packed else torch.stack(list(steps), dim=1 if batch_first else 0)
    return (joined, *(torch.stack(values) for values in ends))


def _direction(
    kind: str, steps: Any, state: list[Tensor], weights: list[Tensor], *, backward: bool
) -> tuple[list[Tensor], list[Tensor]]:
    """One direction of one layer: the results of each step in the order of the text, and the last state.

    Steps of a packed batch get shorter: texts are sorted by length, longest first. Forward, a text that has ended keeps
    its state; backward, a text begins when its last step is reached.
    """
    cell = _lstm_cell if kind == "lstm" else _gru_cell
    outputs: list[Tensor] = []
    for given in reversed(steps) if backward else steps:
        count = len(given)
        moved = cell(given, [part[:count] for part in state], weights)
        outputs.append(moved[0])
        state = [torch.cat((new, old[count:])) for new, old in zip(moved, state, strict=True)]
    return (outputs[::-1] if backward else outputs), state


def _sums(given: Tensor, hidden: Tensor, weights: list[Tensor]) -> tuple[Tensor, Tensor]:
    from_input, from_hidden, *biases = weights
    first, second = biases if biases else (None, None)
    return F.linear(given, from_input, first), F.linear(hidden, from_hidden, second)


def _lstm_cell(given: Tensor, state: list[Tensor], weights: list[Tensor]) -> list[Tensor]:
    hidden, cell = state
    left, right = _sums(given, hidden, weights)
    enter, forget, candidate, leave = (left + right).chunk(4, dim=-1)
    cell = torch.sigmoid(forget).detach() * cell + torch.sigmoid(enter).detach() * torch.tanh(candidate)
    return [torch.sigmoid(leave).detach() * torch.tanh(cell), cell]


def _gru_cell(given: Tensor, state: list[Tensor], weights: list[Tensor]) -> list[Tensor]:
    hidden = state[0]
    left, right = _sums(given, hidden, weights)
    left_reset, left_keep, left_new = left.chunk(3, dim=-1)
    right_reset, right_keep, right_new = right.chunk(3, dim=-1)
    reset = torch.sigmoid(left_reset + right_reset).detach()
    keep = torch.sigmoid(left_keep + right_keep).detach()
    return [(1 - keep) * torch.tanh(left_new + reset * right_new) + keep * hidden]
