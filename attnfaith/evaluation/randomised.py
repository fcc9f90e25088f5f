"""Copies of a cut model whose layers are drawn anew from the top; what two copies have in common is there once."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from attnfaith.adapters.borrow import borrowed
from attnfaith.adapters.cut import Cut
from attnfaith.adapters.outputs import logits_of
from attnfaith.adapters.selfcheck import brief, gap, scale_of, tolerance_of
from attnfaith.attribution.controls import keyed_generator
from attnfaith.errors import AttnFaithError, InputError, NumericalError, UnsupportedModelError
from attnfaith.evaluation.layers import layers_of
from attnfaith.functional.randomise import evenly, redrawn


@dataclass(frozen=True)
class Other:
    """A model that the same is asked of as of the original.

    Attributes:
        layer: what was drawn anew last, or what else is different about the model.
        depth: how many layers were drawn anew, from the top; 0 for a model that was trained otherwise.
        cut: it, cut where the original is.
        problem: why nothing can be asked of it; empty where it can.
    """

    layer: str
    depth: int
    cut: Cut = field(repr=False)
    problem: str = ""


def randomised(
    cut: Cut,
    inputs: Mapping[str, Any],
    *,
    seed: int,
    how: str = "permuted",
    depths: int | None = None,
    draws: int = 1,
) -> list[list[Other]]:
    """The model with its top layer drawn anew, with its top two ..., to all of them; each several times.

    In one series of draws a layer has the same draw at every depth, and all copies together take as much memory as one
    more model: each parameter is there as it was, and drawn anew.

    Args:
        cut: the model, cut.
        inputs: to try the copies on.
        seed: of the draws; each hangs on it, the number of the series, and the parameter's name.
        how: one of `attnfaith.functional.randomise.WAYS`.
        depths: how many depths, evenly spaced; None for all.
        draws: how many series.

    Returns:
        For each depth, one copy of each series.
    """
    layers, own = layers_of(cut.model, inputs), dict(cut.model.named_parameters())
    whole = [name for name, value in own.items() if not value.is_floating_point()]
    if whole:
        raise UnsupportedModelError(
            f"The parameter {whole[0]!r} is of {own[whole[0]].dtype} numbers, so it cannot be drawn anew. Load the "
            "model without quantisation, or leave out the test 'sanity'."
        )
    padding = _padding(cut.model)
    found: dict[int, list[Other]] = {depth: [] for depth in evenly(len(layers), depths)}
    for draw in range(draws):
        drawn: dict[str, Tensor] = {}
        for depth, layer in enumerate(layers, start=1):
            for name in layer.parameters:
                generator = keyed_generator(seed, "sanity", draw, name)
                drawn[name] = _drawn(own[name], padding.get(id(own[name])), generator, how)
            if depth in found:
                found[depth].append(_tried(layer.name, depth, with_weights(cut, drawn), inputs))
    return list(found.values())


def retrained(cut: Cut, inputs: Mapping[str, Any], model: nn.Module, name: str) -> Other:
    """Another model of the same architecture, cut where this one is; refused if it is of another.

    Args:
        cut: this one.
        inputs: to try the other on.
        model: the other, moved to this one's device and precision.
        name: what is different about it.
    """
    own, other = dict(cut.model.named_parameters()), dict(model.named_parameters())
    apart = [one for one in dict.fromkeys((*own, *other)) if _shape(own, one) != _shape(other, one)]
    what = f"their parameters {apart[0]!r} have other shapes, or one has none" if apart else ""
    if not apart:
        found = with_weights(cut, {one: value.to(own[one]) for one, value in other.items()})
        model = model.to(next(iter(own.values())))
        with borrowed(model, gradients=False) as lent, borrowed(found.model, gradients=False):
            expected, logits = logits_of(lent(**inputs)), found.adapter.forward(inputs)
        if expected.shape == logits.shape and gap(logits, expected, scale_of(expected)) <= tolerance_of(expected):
            return _tried(name, 0, found, inputs)
        what = "with the same weights they have other logits, so their configurations differ"
    raise InputError(
        f"The model for {name} is not of the architecture of the model that is judged: {what}. Train another with the "
        "same configuration."
    )


def with_weights(cut: Cut, weights: Mapping[str, Tensor]) -> Cut:
    """A cut model with some other parameters, by name; all else, the original's other weights too, is shared with it.

    Nothing is proved anew: which code runs, and what the tail reads, does not hang on the weights.
    """
    memo: dict[int, Any] = {id(buffer): buffer for buffer in cut.adapter.model.buffers()}
    for name, own in cut.adapter.model.named_parameters():
        # one of its own: the copy follows the original's weights, and this model must not
        memo[id(own)] = nn.Parameter(weights.get(name, own).detach(), requires_grad=False)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the pytrees of what a module returned warn when they are copied
            return copy.deepcopy(cut, memo)
    except (TypeError, RuntimeError, ValueError, AttributeError, copy.Error) as error:
        raise UnsupportedModelError(
            f"{type(cut.model).__name__} cannot be copied ({brief(error)}), so its layers cannot be drawn anew. Leave "
            "out the test 'sanity'."
        ) from error


def _padding(model: nn.Module) -> dict[int, int]:
    """The row of padding of each table of vectors that has one, by the table's id."""
    tables = (module for module in model.modules() if isinstance(module, nn.Embedding))
    return {id(table.weight): table.padding_idx for table in tables if table.padding_idx is not None}


def _drawn(own: Tensor, padding: int | None, generator: torch.Generator, how: str) -> Tensor:
    """A parameter drawn anew; the vector of padding stays, or what is nothing to some models would be something."""
    if padding is None:
        return redrawn(own, generator, how)
    rows = torch.arange(len(own), device=own.device) != padding
    drawn = own.detach().clone()
    drawn[rows] = redrawn(own[rows], generator, how)
    return drawn


def _tried(layer: str, depth: int, cut: Cut, inputs: Mapping[str, Any]) -> Other:
    """A model that is asked nothing where its tail does not give its own logits."""
    try:
        capture = cut.capture(**inputs)
        logits = cut.rerun(capture, weights=capture.weights.unsqueeze(1))[:, 0]
    except NumericalError:
        return Other(layer, depth, cut, "its logits are not finite")
    except AttnFaithError as error:
        return Other(layer, depth, cut, brief(error))
    off = gap(logits, capture.logits, scale_of(capture.logits))
    wrong = off > tolerance_of(capture.logits)
    return Other(layer, depth, cut, f"its tail is off by {off:.0e} of the logits' scale" if wrong else "")


def _shape(parameters: Mapping[str, nn.Parameter], name: str) -> Sequence[int] | None:
    return parameters[name].shape if name in parameters else None
