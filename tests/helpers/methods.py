"""What the method tests share: the families they are drawn over, the methods of the registry, and how to ask one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import attnfaith as af
from attnfaith.attribution.attributor import Attributor
from attnfaith.attribution.method import methods
from attnfaith.attribution.request import Request
from attnfaith.attribution.scores import Scores
from attnfaith.tiny_models import model_types
from tests.helpers.comparing import NO_DOUBLE, REFUSED, Prepared, prepared
from tests.helpers.installed_families import and_others, installed

METHODS = sorted(methods)
PRESETS = ["FLANrnn", "HANrnn", "FLANconv", "FLANnoenc"]
QUICK = [*PRESETS, *installed("bert gpt2 llama bart t5 deberta-v2 xlnet eurobert modernbert")]
FEW_STEPS = pytest.mark.filterwarnings("ignore:The scores of integrated gradients are inexact")
"""Of a few steps, integrated gradients warn; these tests compare like with like."""


def families() -> list[Any]:
    """The quick families, and every other supported one under the ``families`` marker."""
    return and_others(QUICK, [name for name in model_types() if name not in REFUSED])


def in_double(family: str) -> Prepared:
    """A cut family with a captured batch, in float64 where the family can."""
    return prepared(family, torch.float32 if family in NO_DOUBLE else torch.float64)


def tolerance_for(done: Prepared) -> float:
    """How far two computations of one score may lie apart, relative to the text's largest.

    A score can be a difference of two numbers of the logits' scale, some hundred times its size: 1e-8 in float64. It is
    1e-3 where a family computes in float32, whatever its dtype: 1e-5 of the logits, seen through such a difference.
    """
    return 1e-3 if done.in_float32 else 1e-8


def ask(cut: af.Cut, level: str, name: str, inputs: dict[str, Any], **settings: Any) -> tuple[Request, Scores]:
    """Score a batch; the steps of integrated paths are few, since every test compares like with like."""
    given = {key: settings.pop(key) for key in ("target", "text_ids") if key in settings}
    return Attributor(cut, method=name, level=level, **{"steps": 4} | settings).score(inputs, **given)


def asked(cut: af.Cut, level: str, name: str, inputs: dict[str, Any], **settings: Any) -> Scores:
    """As `ask`; a method that this model does not have skips the test (`test_methods` says which may be missing)."""
    try:
        return ask(cut, level, name, inputs, **settings)[1]
    except af.UnsupportedModelError as error:
        pytest.skip(str(error))


def alone(inputs: dict[str, Any], text: int) -> dict[str, Any]:
    """One text of a batch, its padding taken away."""
    batch, length = inputs["input_ids"].shape
    real = inputs["attention_mask"][text].bool()
    single = {}
    for name, value in inputs.items():
        value = value[text : text + 1] if value.shape[:1] == (batch,) else value
        single[name] = value[:, real] if value.dim() > 1 and value.shape[1] == length else value
    return single


def items(scores: Scores, text: int) -> Tensor:
    """One text's scores, its items only, float64."""
    return scores.values[text][scores.mask[text]].double()


def assert_scores(got: Tensor, expected: Tensor, tolerance: float) -> None:
    """Equal relative to the largest score of the text, which must not be nothing; undefined at the same places."""
    assert got.shape == expected.shape
    assert torch.equal(got.isnan(), expected.isnan())
    got, expected = got[~got.isnan()], expected[~expected.isnan()]
    scale = expected.abs().amax().item()
    assert scale > 1e-6, f"scores of {scale} prove nothing"
    off = (got - expected).abs().amax().item() / scale
    assert off <= tolerance, f"off by {off:.1e} of the largest score, {tolerance:.0e} allowed"
