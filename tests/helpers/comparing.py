"""Shared by the adapter tests: the families they are drawn over, edits with an effect, and strict comparisons."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

import attnfaith as af
from attnfaith.adapters.dummy_inputs import make_dummy_inputs
from attnfaith.tiny_models import model_types, tiny_model
from tests.helpers.installed_families import and_others, installed

PRESETS = ["FLANrnn", "HANrnn", "FLANnoenc"]
QUICK = installed("""bert distilbert albert modernbert gpt2 llama gemma2 gpt_oss bart t5 deberta-v2 mpnet bloom xlnet
mixtral eurobert jamba""")
PATHS = ["one position", "last block", "full forward"]
REFUSED = installed("""canine convbert diffllama fnet funnel layoutlmv2 mra nystromformer perceiver reformer t5gemma
t5gemma2 yoso""")
"""No cut without an argument: why, is in the families table; layoutlmv2 needs a package that is not installed."""
NO_DOUBLE = {
    "gemma2": "its own logits are NaN: float64's smallest number is -inf to its float32 softmax",
    "xlnet": "its segment encoding stays float32",
    "mra": "its kernel knows float32 only",
}
EXACT = {"t5", "mt5", "umt5", "modernbert", "modernbert-decoder", "modernvbert", "flaubert", "xlm"}
"""Float32 shows up in them, but only in what both computations share (masks, angles): held to 1e-10 all the same."""
LEFT = {"xlnet": "it decides at the last position, padding or not: its tokenizer pads on the left"}


def families(also_presets: bool = True) -> list[Any]:
    """The quick families, and every other supported one under the ``families`` marker."""
    quick = [*QUICK, *(PRESETS if also_presets else [])]
    return and_others(quick, [name for name in model_types() if name not in REFUSED])


def model_of(family: str, dtype: torch.dtype = torch.float32, seed: int = 0) -> nn.Module:
    """A tiny classifier of a family, or of one of the papers' presets, whose decision depends on its attention."""
    if family in model_types():
        return tiny_model(family, dtype=dtype, seed=seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = af.models.from_preset(family, num_labels=3, vocab_size=64)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.normal_(0, 1.5 * parameter.shape[-1] ** -0.5)
    return model.to(dtype).eval()


def inputs_of(
    model: nn.Module, lengths: tuple[int, ...] = (9, 6), side: str | None = None, seed: int = 0
) -> dict[str, Any]:
    """Made-up texts, padded as the family's tokenizer pads; a HAN's are given sentences, by its full stop."""
    side = side or ("left" if model.config.model_type in LEFT else "right")
    inputs = make_dummy_inputs(model, lengths=lengths, padding_side=side, seed=seed)
    stop = getattr(model.config, "sentence_token_id", None)
    if getattr(model.config, "by_sentences", False) and stop is not None:
        for row, length in enumerate(inputs["attention_mask"].sum(-1).tolist()):
            first = inputs["attention_mask"].shape[1] - length if side == "left" else 0
            inputs["input_ids"][row, first + 2 : first + length - 1 : 3] = stop
    return inputs


def computes_in_float32(model: nn.Module, inputs: dict[str, Any]) -> str:
    """Where a float64 model computes in float32 all the same, by looking at every torch function; "" if nowhere."""

    class Look(TorchFunctionMode):
        found = ""

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            source = args[0] if args else None
            both = isinstance(result, Tensor) and isinstance(source, Tensor) and source.dim() > 1
            if both and (source.dtype, result.dtype) == (torch.float64, torch.float32):
                self.found = self.found or getattr(func, "__name__", "?")
            return result

    with Look() as look, torch.no_grad():
        model(**inputs)
    return look.found


def tolerance_of(model: nn.Module, inputs: dict[str, Any]) -> float:
    """How far two computations of one edit may lie apart, relative to its effect.

    Float32: 1e-5, some 100 roundings of 6e-8 on an effect of a tenth of the scale. Float64: 1e-10, but 1e-6 for
    families that go through float32 whatever their dtype (a softmax, as in Bloom, or a norm, as in Llama).
    """
    dtype = next(model.parameters()).dtype
    if dtype == torch.float32:
        return 1e-5
    coarse = model.config.model_type not in EXACT and computes_in_float32(model, inputs)
    return 1e-6 if coarse else 1e-10


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
    """Equal relative to the effect of the edit, which must be ``least`` of the logits' scale or more for every text."""
    effect = effect_of(expected, unedited) / unedited.double().abs().amax()
    assert effect.min() >= least, f"the edit moves the logits by {effect.tolist()} of their scale: this proves nothing"
    result = gap(got, expected, unedited)
    assert result <= tolerance, f"off by {result:.1e} of the effect, {tolerance:.0e} allowed"


def assert_close(got: Tensor, expected: Tensor, tolerance: float) -> None:
    """Equal relative to the scale of what is expected."""
    assert got.shape == expected.shape, f"{tuple(got.shape)} against {tuple(expected.shape)}"
    scale = expected.double().abs().amax()
    result = ((got.double() - expected.double()).abs().amax() / scale).item()
    assert result <= tolerance, f"off by {result:.1e} of the scale, {tolerance:.0e} allowed"


def cases(also_presets: bool = True) -> list[Any]:
    """Every family in float64 and in float32, named "family-dtype"."""
    listed = []
    for family in families(also_presets):
        name, marks = (family.values[0], family.marks) if hasattr(family, "values") else (family, ())
        for dtype in (torch.float64, torch.float32):
            if dtype == torch.float32 or name not in NO_DOUBLE:
                listed.append(pytest.param((name, dtype), marks=marks, id=f"{name}-{str(dtype)[6:]}"))
    return listed


@dataclass(frozen=True)
class Prepared:
    """A cut family with a captured batch; shared between tests, so nobody changes any of it."""

    model: nn.Module
    inputs: dict[str, Any]
    cut: af.Cut
    capture: af.Capture
    tolerance: float

    @functools.cached_property
    def in_float32(self) -> bool:
        """Whether any part of it computes in float32."""
        double = next(self.model.parameters()).dtype == torch.float64
        return not double or bool(computes_in_float32(self.model, self.inputs))


@functools.lru_cache(maxsize=256)
def prepared(family: str, dtype: torch.dtype) -> Prepared:
    """Cut a family's tiny model and capture a padded batch of two texts."""
    model = model_of(family, dtype)
    inputs = inputs_of(model)
    cut = af.cut(model)
    return Prepared(model, inputs, cut, cut.capture(**inputs), tolerance_of(model, inputs))
