"""The second device that is only pretended: it fails where a GPU would, and nowhere else."""

import copy

import pytest
import torch
from torch import nn

from tests.helpers.other_device import MixedDevicesError, OtherDevice, is_there


@pytest.fixture
def device():
    with OtherDevice() as result:
        yield result


MIXED = {
    "two operands": lambda there, here: there + here,
    "an index of no dimensions": lambda there, here: there.index_fill(0, torch.tensor(1), 0.0),
    "an index on the GPU into the CPU": lambda there, here: here[(there > 0).nonzero().flatten()],
    "a gather": lambda there, here: there.gather(0, torch.zeros(2, dtype=torch.long)),
    "an assignment": lambda there, here: there.__setitem__(torch.tensor([0, 1]), here[:2].clone()),
    "a stack": lambda there, here: torch.stack((there, here)),
    "an array": lambda there, here: there.numpy(),
    "draws of the CPU": lambda there, here: torch.rand(2, generator=torch.Generator(), device=there.device),
    "a tensor made without a device": lambda there, here: torch.where(there > 0, there, torch.zeros(3)),
    "what a model reads": lambda there, here: nn.Linear(3, 2)(there),
}
FINE = {
    "numbers": lambda there, here: there + torch.tensor(1.0),
    "an index of the CPU": lambda there, here: there[torch.tensor([0, 1])],
    "a mask of the CPU": lambda there, here: there[here > 0],
    "what is made beside it": lambda there, here: there + torch.arange(3, device=there.device),
    "what is made like it": lambda there, here: there * there.new_ones(3) + torch.zeros_like(there),
    "what is moved": lambda there, here: there + here.to(there.device) + here.to(there),
    "draws that are moved": lambda there, here: there + torch.rand(3, generator=torch.Generator()).to(there.device),
    "a number put in": lambda there, here: there.clone().index_fill_(0, here.to(there.device).long(), 0.0),
}


@pytest.mark.parametrize("name", MIXED)
def test_what_a_gpu_refuses_is_refused(device, name):
    here = torch.tensor([0.0, 1.0, 2.0])
    with pytest.raises(MixedDevicesError):
        MIXED[name](device.put(here), here)
    if name not in ("an array", "draws of the CPU"):
        MIXED[name](here, here)  # on one device all of it is fine


@pytest.mark.parametrize("name", FINE)
def test_what_a_gpu_takes_is_taken_and_stays_there(device, name):
    here = torch.tensor([0.0, 1.0, 2.0])
    result = FINE[name](device.put(here), here)
    assert is_there(result)
    assert result.device.type == "cuda"
    assert result.tolist() == FINE[name](here, here).tolist() or name == "draws that are moved"


def test_moving_copies_and_leaves_the_original_where_it_is(device):
    here = torch.ones(2)
    there = here.to("cuda")
    assert (is_there(here), is_there(there), is_there(there.cpu()), is_there(there)) == (False, True, False, True)
    assert not is_there(there.to("cpu"))
    assert is_there(there.to(torch.float64))
    assert is_there(here.to(there))
    assert there.to("cpu").numpy().tolist() == [1.0, 1.0]


def test_models_and_their_copies_compute_there():
    plain = nn.Parameter.__new__
    with OtherDevice() as device:
        model = device.put(nn.Sequential(nn.Embedding(5, 3), nn.LayerNorm(3), nn.Linear(3, 2)))
        for item in (model, copy.deepcopy(model)):
            result = item(device.put(torch.tensor([[1, 2]])))
            assert is_there(result)
            (gradient,) = torch.autograd.grad(result.sum(), [item[2].weight])
            assert is_there(gradient)
    assert nn.Parameter.__new__ is plain
    assert torch.ones(1).device.type == "cpu"
