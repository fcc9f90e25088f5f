"""Re-initialised weights: the same scale, the same for the same seed, and the original weights are not changed."""

import itertools

import pytest
import torch

from attnfaith.errors import InputError
from attnfaith.functional.reinitialize import WAYS, evenly_spaced, reinitialize


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("how", WAYS)
def test_shape_and_scale_are_kept_and_positions_are_not(how, dtype):
    values = (torch.randn(40, 70, generator=seeded(), dtype=torch.float64) * 0.02 + 0.01).to(dtype)
    before = values.clone()
    drawn = reinitialize(values, seeded(1), how)
    assert (drawn.shape, drawn.dtype) == (values.shape, dtype)
    assert torch.equal(values, before)
    assert drawn.data_ptr() != values.data_ptr()
    old, new = values.double().flatten(), drawn.double().flatten()
    assert abs(float(new.mean() - old.mean())) < 0.002
    assert float(new.std() / old.std()) == pytest.approx(1, abs=0.05)
    assert abs(float(torch.corrcoef(torch.stack((old, new)))[0, 1])) < 0.08


def test_permuted_values_are_the_same_values():
    values = torch.randn(3, 5, 7, generator=seeded())
    drawn = reinitialize(values, seeded(1))
    assert torch.equal(drawn.flatten().sort().values, values.flatten().sort().values)
    assert not torch.equal(drawn, values)


def test_a_slice_of_a_larger_tensor_is_drawn_from_its_own_values():
    whole = torch.arange(24.0).view(4, 6)
    for values in (whole.T, whole[:, ::2], whole[1:3, 1:3]):
        assert sorted(reinitialize(values, seeded(2)).flatten().tolist()) == sorted(values.flatten().tolist())


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("values", [torch.tensor(3.5), torch.tensor([2.0]), torch.ones(6), torch.zeros(0, 4)])
def test_values_without_spread_stay(values, how):
    assert torch.equal(reinitialize(values, seeded(), how), values)


@pytest.mark.parametrize("how", WAYS)
def test_weights_depend_on_the_seed_only(how):
    values = torch.randn(50, generator=seeded())
    torch.manual_seed(1)
    item, state = reinitialize(values, seeded(7), how), torch.get_rng_state()
    torch.manual_seed(2)
    assert torch.equal(item, reinitialize(values, seeded(7), how))
    assert not torch.equal(item, reinitialize(values, seeded(8), how))
    torch.manual_seed(1)
    assert torch.equal(torch.get_rng_state(), state)


def test_invalid_arguments_are_refused():
    with pytest.raises(InputError, match="'permuted', 'normal'"):
        reinitialize(torch.ones(2), seeded(), "uniform")
    with pytest.raises(InputError, match=r"torch\.int8"):
        reinitialize(torch.ones(2, dtype=torch.int8), seeded())


def test_evenly_spaced_numbers_include_both_ends():
    for count in range(1, 40):
        assert evenly_spaced(count) == list(range(1, count + 1))
        for chosen in range(1, 45):
            result = evenly_spaced(count, chosen)
            assert len(result) == min(count, chosen)
            assert result == sorted(set(result))
            assert result[-1] == count
            assert chosen == 1 or result[0] == 1
            gaps = {after - before for before, after in itertools.pairwise(result)}
            assert max(gaps, default=0) - min(gaps, default=0) <= 1
