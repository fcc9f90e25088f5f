"""What the adapter tests share: the families they are drawn over, edits that matter, and a comparison that can fail."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import attnfaith as af
from attnfaith.adapters.probe import made_up_inputs
from attnfaith.families import model_types, tiny_model

PRESETS = ["FLANrnn", "HANrnn", "FLANnoenc"]
QUICK = """bert distilbert albert modernbert gpt2 llama gemma2 gpt_oss bart t5 deberta-v2 mpnet bloom xlnet mixtral eurobert
jamba""".split()
PATHS = ["one position", "last block", "full forward"]
REFUSED = """canine convbert diffllama fnet funnel layoutlmv2 mra nystromformer perceiver reformer t5gemma t5gemma2
yoso""".split()
"""No cut without an argument: why, is in test_families; layoutlmv2 needs a package that is not installed."""


def families(also_presets: bool = True) -> list[Any]:
    """The quick families, and every other one under the ``slow`` marker."""
    others = [name for name in model_types() if name not in QUICK and name not in REFUSED]
    names = [*QUICK, *(PRESETS if also_presets else [])]
    return [*names, *(pytest.param(name, marks=pytest.mark.slow) for name in others)]


def model_of(family: str, dtype: torch.dtype = torch.float32, seed: int = 0) -> nn.Module:
    """A tiny classifier of a family, or of one of the papers' presets, whose decision depends on its attention."""
    if family not in PRESETS:
        return tiny_model(family, dtype=dtype, seed=seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = af.models.from_preset(family, num_labels=3, vocab_size=64)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.normal_(0, 1.5 * parameter.shape[-1] ** -0.5)
    return model.to(dtype).eval()


def inputs_of(model: nn.Module, lengths: tuple[int, ...] = (9, 6), side: str = "right", seed: int = 0) -> dict[str, Any]:
    """Made-up texts; a HAN's are given sentences, by its full stop."""
    inputs = made_up_inputs(model, lengths=lengths, padding_side=side, seed=seed)
    stop = getattr(model.config, "sentence_token_id", None)
    if getattr(model.config, "by_sentences", False) and stop is not None:
        for row, length in enumerate(inputs["attention_mask"].sum(-1).tolist()):
            first = inputs["attention_mask"].shape[1] - length if side == "left" else 0
            inputs["input_ids"][row, first + 2 : first + length - 1 : 3] = stop
    return inputs


def keeps_of(capture: af.Capture, count: int = 3, seed: int = 0) -> Tensor:
    """Masks ``[B, K, N]`` that keep about half of each text."""
    batch, _, items = capture.shape
    draws = torch.rand(batch, count, items, generator=torch.Generator().manual_seed(seed))
    return (draws < 0.5) & capture.mask.unsqueeze(1)


def weights_of(capture: af.Capture, count: int = 2, seed: int = 0) -> Tensor:
    """Counterfactual attention ``[B, K, G, N]``: any positive numbers, of any sum, on the items."""
    batch, groups, items = capture.shape
    draws = torch.rand(batch, count, groups, items, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    weights = (4 * draws / capture.lengths[:, None, None, None] * capture.mask[:, None, None]).to(capture.weights.dtype)
    return weights if capture.groups is None else weights * capture.groups[:, None, :, None]


def orders_of(capture: af.Capture, seed: int = 0) -> Tensor:
    """Random orders ``[B, N]``, items first."""
    draws = torch.rand(capture.mask.shape, generator=torch.Generator().manual_seed(seed))
    return draws.masked_fill(~capture.mask, 2).argsort(dim=-1)


def effect_of(edited: Tensor, unedited: Tensor) -> Tensor:
    """How far an edit moved each text's logits, ``[B, K, C]`` and ``[B, C]`` to ``[B]``."""
    return (edited.double() - unedited.double().unsqueeze(1)).abs().flatten(1).amax(1)


def gap(got: Tensor, expected: Tensor, unedited: Tensor) -> float:
    """The largest difference, text by text, relative to the effect of the edit on that text."""
    assert got.shape == expected.shape, f"{tuple(got.shape)} against {tuple(expected.shape)}"
    difference = (got.double() - expected.double()).abs().flatten(1).amax(1)
    return (difference / effect_of(expected, unedited)).max().item()


def assert_same(got: Tensor, expected: Tensor, unedited: Tensor, tolerance: float, least: float = 1e-2) -> None:
    """Equal relative to the effect of the edit, which must be at least ``least`` of the logits' scale for every text."""
    effect = effect_of(expected, unedited) / unedited.double().abs().amax()
    assert effect.min() >= least, f"the edit moves the logits by {effect.tolist()} of their scale: the test proves nothing"
    found = gap(got, expected, unedited)
    assert found <= tolerance, f"off by {found:.1e} of the effect, {tolerance:.0e} allowed"


def assert_close(got: Tensor, expected: Tensor, tolerance: float) -> None:
    """Equal relative to the scale of what is expected."""
    assert got.shape == expected.shape, f"{tuple(got.shape)} against {tuple(expected.shape)}"
    scale = expected.double().abs().amax()
    found = ((got.double() - expected.double()).abs().amax() / scale).item()
    assert found <= tolerance, f"off by {found:.1e} of the scale, {tolerance:.0e} allowed"
