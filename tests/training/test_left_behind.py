"""Training changes nothing but the weights: after success, bad input, and an error during training."""

import copy
import os
import random
import sys
import tempfile

import numpy as np
import pytest
import torch
import transformers
from accelerate import Accelerator
from accelerate.state import AcceleratorState, GradientState, PartialState

from attnfaith.errors import InputError
from attnfaith.training import fit
from attnfaith.training.best_epoch import BestEpoch
from tests.helpers.training_data import rows, small
from tests.training.test_fitting import transformer

DATA = rows(24)
OPTIONS = {"learning_rate": 0.01, "epochs": 2, "batch_size": 8}
HOOKS = """_forward_hooks _forward_pre_hooks _backward_hooks _backward_pre_hooks _state_dict_hooks
_load_state_dict_pre_hooks""".split()


def surroundings(model, tokenizer):
    modules = dict(model.named_modules())
    config = model.config.to_dict()
    config.pop("problem_type")  # Transformers' losses note there which of them was used
    return {
        "random": (random.getstate(), np.random.get_state()[1].tolist(), np.random.get_state()[2]),  # noqa: NPY002
        "torch": torch.get_rng_state().tolist(),
        "threads": torch.get_num_threads(),
        "modes": (torch.is_grad_enabled(), torch.get_default_dtype(), torch.are_deterministic_algorithms_enabled()),
        "environment": dict(os.environ),
        "folder": sorted(os.listdir()),
        "temporary": {name for name in os.listdir(tempfile.gettempdir()) if name.startswith("tmp")},
        "verbosity": transformers.logging.get_verbosity(),
        "accelerate": [dict(item._shared_state) for item in (AcceleratorState, PartialState, GradientState)],
        "hooks": {name: [list(getattr(module, kind)) for kind in HOOKS] for name, module in modules.items()},
        "attributes": {name: sorted(vars(module)) for name, module in modules.items()},
        "parameters": {name: (id(item), item.requires_grad, item.device) for name, item in model.named_parameters()},
        "config": copy.deepcopy(config),
        "config attributes": sorted(set(vars(model.config)) - {"problem_type"}),
        "tokenizer": (tokenizer.padding_side, tokenizer.truncation_side, tokenizer.init_kwargs.copy(), len(tokenizer)),
    }


class TroubleError(Exception):
    """Raised in the middle of training."""


@pytest.mark.parametrize("mode", ["fine", "bad input", "the model raises", "interrupted"])
@pytest.mark.parametrize("kind", ["FLANrnn", "HANrnn", "bert"])
def test_nothing_is_left_behind(kind, mode, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path.parent))
    model, tokenizer = transformer("bert") if kind == "bert" else small(kind)
    first = next(model.parameters())
    first.requires_grad_(False)
    model.train()
    data, caught = DATA, ()
    calls = []
    if mode == "bad input":
        data, caught = [*DATA, {"text": "good", "label": 17}], InputError
    elif mode != "fine":
        caught = TroubleError if mode == "the model raises" else KeyboardInterrupt

        def trouble(module, args):
            calls.append(1)
            if len(calls) == 5:  # in the second epoch, or while validating
                raise caught

        if mode == "the model raises":
            list(model.modules())[-1].register_forward_pre_hook(trouble)
        else:  # halfway through the backward pass, when there are gradients already
            list(model.parameters())[-4].register_hook(lambda gradient: trouble(None, gradient))
    random.seed(11)  # not what a Trainer seeds with
    np.random.seed(11)  # noqa: NPY002
    transformers.logging.set_verbosity(transformers.logging.ERROR)
    before = surroundings(model, tokenizer)
    if caught:
        with pytest.raises(caught):
            fit(model, tokenizer, data, data, freeze_vectors=True, quiet=False, **OPTIONS)
    else:
        fit(model, tokenizer, data, data, freeze_vectors=True, quiet=False, **OPTIONS)
    after = surroundings(model, tokenizer)
    for name, value in before.items():
        assert after[name] == value, f"{name} changed"
    assert model.training == (mode == "bad input")  # refused before anything began; else ready for use
    assert all(parameter.grad is None for parameter in model.parameters())
    output = capfd.readouterr()
    assert (output.out, output.err) == ("", "")


def test_the_check_for_side_effects_fails_when_there_are_some():
    model, tokenizer = small()
    before = surroundings(model, tokenizer)
    torch.rand(1)
    random.random()
    os.environ["ATTNFAITH_TRACE"] = "1"
    model.config.use_cache = not getattr(model.config, "use_cache", False)
    model.trace = 1
    after = surroundings(model, tokenizer)
    del os.environ["ATTNFAITH_TRACE"]
    differing = {name for name in before if before[name] != after[name]}
    assert differing == {"torch", "random", "environment", "config", "config attributes", "attributes"}


def test_an_accelerator_of_the_user_keeps_its_state():
    accelerator = Accelerator(cpu=True)
    try:
        model, tokenizer = small()
        fit(model, tokenizer, DATA, **OPTIONS)
        assert accelerator.num_processes == 1
        assert accelerator.device.type == "cpu"
        assert accelerator.prepare(torch.nn.Linear(1, 1)) is not None
    finally:
        AcceleratorState._reset_state(reset_partial_state=True)
        GradientState._reset_state()


def test_a_bar_on_a_terminal_only(monkeypatch, capfd):
    model, tokenizer = small("FLANnoenc")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    fit(model, tokenizer, DATA, quiet=True, **OPTIONS)
    output = capfd.readouterr()
    assert (output.out, output.err) == ("", "")
    fit(model, tokenizer, DATA, quiet=False, **OPTIONS)
    output = capfd.readouterr()
    assert output.out == ""
    assert "training" in output.err


def test_the_bar_is_closed_when_training_breaks_off(monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    watch = BestEpoch(torch.nn.Linear(1, 1), patience=None, epochs=2, quiet=False)
    watch.__enter__()
    bar = watch._log._bar
    assert bar.live.is_started
    watch.__exit__(TroubleError, TroubleError(), None)
    assert not bar.live.is_started
