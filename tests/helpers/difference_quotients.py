"""Shared by the slow twins of gradients: difference quotients of an explained quantity, and their accuracy."""

import numpy as np
import pytest
import torch

OUTPUTS = ["probability", "logit", "log_odds"]
STEP = 1e-4  # of central differences: their error is about STEP**2, beside roundings of 1e-16 / STEP
CLOSE = 2e-6
FLOAT32 = {"llama", "eurobert", "t5"}
"""Their norms and softmaxes compute in float32 whatever the dtype: roundings of 1e-7, seen by a difference quotient."""


def step_of(family):
    return 2e-2 if family in FLOAT32 else STEP


def close_of(family):
    return 5e-3 if family in FLOAT32 else CLOSE


def also(*slow):
    return [pytest.param(family, marks=pytest.mark.slow) for family in slow]


def explained(logits, target, output):
    """The number explained, of one text's logits [C], from PROTOCOLS 0 and 2."""
    logits = [float(value) for value in logits]
    if output == "logit":
        return logits[target]
    if output == "log_odds":
        return logits[target] - max(value for index, value in enumerate(logits) if index != target)
    return float(np.exp(logits[target]) / np.exp(logits).sum())


def close(got, expected, tolerance=CLOSE):
    expected = torch.as_tensor(expected, dtype=torch.float64)
    assert got.shape == expected.shape
    scale = expected.abs().max().item()
    assert scale > 1e-4, f"scores of {scale} prove nothing"
    off = (got.double() - expected).abs().max().item() / scale
    assert off <= tolerance, f"off by {off:.1e} of the largest score, {tolerance:.0e} allowed"
