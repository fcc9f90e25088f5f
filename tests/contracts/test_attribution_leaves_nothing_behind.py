"""Every method hands the model back as it was: when all went well, on bad input, and when the model raises."""

import contextlib

import pytest
import torch

import attnfaith as af
from attnfaith.attribution.attributor import Attributor
from tests.contracts.test_cut_leaves_nothing_behind import (
    MODES,
    Snapshot,
    TroubleError,
    assert_untouched,
    raise_on,
    used_model,
)
from tests.helpers.comparing import inputs_of
from tests.helpers.methods import FEW_STEPS, METHODS, families

pytestmark = FEW_STEPS


def untouched(model, before, cudnn):
    assert_untouched(model, before)
    assert torch.backends.cudnn.enabled == cudnn


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("family", families())
def test_methods_leave_nothing_behind(family, mode):
    model = used_model(family)
    cut, inputs = af.cut(model), inputs_of(model)
    given = {name: value.clone() for name, value in inputs.items()}
    cudnn = torch.backends.cudnn.enabled
    for level, name in METHODS:
        attributor = Attributor(cut, method=name, level=level, steps=2)
        before = Snapshot(model)
        if mode == "fine":
            with contextlib.suppress(af.UnsupportedModelError):
                attributor.score(inputs)
        elif mode == "bad input":
            bad = [({"target": 99}, inputs), ({}, {"input_ids": inputs["input_ids"].double()})]
            if name in ("integrated_gradients", "occlusion") and level == "input":
                bad.append(({"baseline": torch.zeros(5, 5, 5)}, inputs))
            for settings, wrong in bad:
                with pytest.raises(af.AttnFaithError):
                    attributor.score(wrong, **settings)
                untouched(model, before, cudnn)
        else:  # at the first, second, third time that the model runs
            for after in range(3):
                handle = raise_on(model, after)
                before = Snapshot(model)
                try:
                    attributor.score(inputs)
                    assert after > 0, "the capture cannot do without the model"
                except (TroubleError, af.AttnFaithError):
                    pass
                untouched(model, before, cudnn)
                handle.remove()
            continue
        untouched(model, before, cudnn)
    assert all(torch.equal(inputs[name], value) for name, value in given.items()), "the inputs were changed"
