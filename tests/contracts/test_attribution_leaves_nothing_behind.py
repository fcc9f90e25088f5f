"""Every method hands the model back as it was: when all went well, on bad input, and when the model raises."""

import contextlib

import pytest
import torch

import attnfaith as af
from attnfaith.attribution.attributor import Attributor
from tests.contracts.test_cut_leaves_nothing_behind import (
    Snapshot,
    TroubleError,
    assert_untouched,
    last_called,
    raise_on,
    used_model,
)
from tests.helpers.comparing import inputs_of
from tests.helpers.methods import FEW_STEPS, METHODS, QUICK, families

pytestmark = FEW_STEPS


def untouched(model, before, cudnn):
    assert_untouched(model, before)
    assert torch.backends.cudnn.enabled == cudnn


@pytest.mark.parametrize("family", families())
def test_methods_leave_nothing_behind(family):
    model = used_model(family)
    cut, inputs = af.cut(model), inputs_of(model)
    given = {name: value.clone() for name, value in inputs.items()}
    cudnn = torch.backends.cudnn.enabled
    before = Snapshot(model)
    for level, name in METHODS:
        with contextlib.suppress(af.UnsupportedModelError):
            Attributor(cut, method=name, level=level, steps=2).score(inputs)
        untouched(model, before, cudnn)
    assert all(torch.equal(inputs[name], value) for name, value in given.items()), "the inputs were changed"


@pytest.mark.parametrize("family", QUICK)
def test_bad_input_leaves_nothing_behind(family):
    """It is refused before anything that differs between families."""
    model = used_model(family)
    cut, inputs = af.cut(model), inputs_of(model)
    cudnn = torch.backends.cudnn.enabled
    before = Snapshot(model)
    for level, name in METHODS:
        attributor = Attributor(cut, method=name, level=level, steps=2)
        bad = [({"target": 99}, inputs), ({}, {"input_ids": inputs["input_ids"].double()})]
        if name in ("integrated_gradients", "occlusion") and level == "input":
            bad.append(({"baseline": torch.zeros(5, 5, 5)}, inputs))
        for settings, wrong in bad:
            with pytest.raises(af.AttnFaithError):
                attributor.score(wrong, **settings)
            untouched(model, before, cudnn)


@pytest.mark.parametrize("family", families())
def test_a_model_that_raises_is_left_as_it_was(family):
    """At the capture, which all methods share, and when a method runs the model for the first and second time."""
    model = used_model(family)
    cut, inputs = af.cut(model), inputs_of(model)
    cudnn = torch.backends.cudnn.enabled
    last = last_called(model)
    for after in range(3 if family in QUICK else 2):
        for level, name in METHODS if after else METHODS[:1]:
            handle = raise_on(last, after)
            before = Snapshot(model)
            try:
                Attributor(cut, method=name, level=level, steps=2).score(inputs)
                assert after > 0, "the capture cannot do without the model"
            except (TroubleError, af.AttnFaithError):
                pass
            untouched(model, before, cudnn)
            handle.remove()
