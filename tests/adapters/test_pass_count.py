"""Full forward passes are counted, the tail alone is not, and nothing is left behind."""

import pytest
import torch

import attnfaith as af
from attnfaith.adapters.inference_state import inference_state
from attnfaith.adapters.pass_count import count_passes
from attnfaith.errors import InputError
from attnfaith.tiny_models import tiny_model

IDS = torch.tensor([[5, 6, 7, 8], [9, 4, 6, 5]])


@pytest.fixture(scope="module")
def cut():
    return af.cut(tiny_model("bert", num_labels=2))


def test_a_capture_is_one_pass_and_the_tail_is_none(cut):
    with count_passes() as count:
        capture = cut.capture(input_ids=IDS)
        assert (count.calls, count.rows, count.positions) == (1, 2, 8)
        cut.without_each(capture)
        cut.prefixes(capture, torch.arange(4).expand(2, 4))
    assert count.rows == 2


def test_a_tail_that_runs_the_whole_model_is_counted(cut):
    whole = af.Cut(cut.adapter.with_tail("full forward"), None, cut.decides, cut.memory)
    with count_passes() as count:
        whole.without_each(whole.capture(input_ids=IDS))
    assert count.rows == 2 + 8


def test_a_pass_that_stops_at_the_attention_is_one(cut):
    capture = cut.capture(input_ids=IDS)
    assert cut.adapter.tail == "one position"
    with count_passes() as count, inference_state(cut.model, gradients=False):
        cut.adapter.logits_at(cut.adapter.deciding_rows(capture), capture.state.inputs)
    assert (count.calls, count.positions) == (1, 8)


def test_an_outer_count_includes_an_inner_one_even_when_that_fails(cut):
    with count_passes() as outer:
        cut.capture(input_ids=IDS)
        with pytest.raises(InputError), count_passes() as inner:
            cut.rerun(cut.capture(input_ids=IDS[:1]), weights=None)
    assert (inner.rows, outer.rows, outer.positions) == (1, 3, 12)


def test_no_hook_is_left(cut):
    with count_passes() as count:
        cut.capture(input_ids=IDS)
    cut.capture(input_ids=IDS)
    assert count.rows == 2
    assert not cut.model._forward_pre_hooks
    assert not cut.adapter.model._forward_pre_hooks
