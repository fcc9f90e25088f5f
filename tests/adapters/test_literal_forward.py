"""Cuts against a full forward pass through Transformers' own attention interface, computed row by row."""

import pytest
import torch

import attnfaith as af
from attnfaith.errors import AttnFaithError
from attnfaith.functional.erasure import erase
from attnfaith.tiny_models import model_types
from tests.helpers.comparing import (
    NO_DOUBLE,
    REFUSED,
    assert_close,
    assert_same,
    inputs_of,
    keeps_of,
    model_of,
    tolerance_of,
)
from tests.helpers.comparing import weights_of as any_weights
from tests.helpers.full_forward import Edit, OffInterfaceError, interface_logits
from tests.helpers.installed_families import need_interface

NAMED = """bert roberta distilbert electra albert modernbert gpt2 llama qwen2 opt gpt_neox mistral phi bart t5 esm
xlm-roberta eurobert""".split()
UNLIKE = {"axk2"}  # it chooses the items to attend inside the attention function, which the twin replaces


def prepared(family):
    model = model_of(family, torch.float32 if family in NO_DOUBLE else torch.float64)
    inputs = inputs_of(model)
    return model, inputs, tolerance_of(model, inputs)


def check_twin(model, inputs, tolerance):
    """The twin without an edit is the model, and with edits it is the cut."""
    expected = interface_logits(model, inputs)
    with torch.no_grad():
        assert_close(expected, model(**inputs).logits, max(tolerance, 1e-10))
    cut = af.cut(model)
    capture = cut.capture(**inputs)
    state, keep = capture.state, keeps_of(capture)
    erased = erase(capture.weights.unsqueeze(1), keep, capture.log_weights.unsqueeze(1))
    for weights in (erased, any_weights(capture)):
        twin = [interface_logits(model, inputs, Edit(state.rows, edit, state.row_mask)) for edit in weights.unbind(1)]
        assert_same(cut.rerun(capture, weights=weights), torch.stack(twin, 1), expected, tolerance)
        if weights is erased:
            assert_same(cut.rerun(capture, keep=keep), torch.stack(twin, 1), expected, tolerance)


@pytest.mark.parametrize("family", NAMED)
def test_equals_a_literal_forward_pass(family):
    model, inputs, tolerance = prepared(family)
    need_interface(model)
    check_twin(model, inputs, tolerance)


@pytest.mark.parametrize("family", ["eurobert"])
def test_distributions_are_counted_heads_first(family):
    """G = h * R + r: with several heads and several rows, counting rows first is another edit."""
    model, inputs, tolerance = prepared(family)
    cut = af.cut(model)
    capture = cut.capture(**inputs)
    count = capture.state.rows.shape[1]
    weights = any_weights(capture, count=1)
    rows_first = weights.unflatten(2, (-1, count)).transpose(2, 3).flatten(2, 3)
    expected = interface_logits(model, inputs)
    twin = interface_logits(model, inputs, Edit(capture.state.rows, weights[:, 0], capture.state.row_mask)).unsqueeze(1)
    assert_same(cut.rerun(capture, weights=weights), twin, expected, tolerance)
    with pytest.raises(AssertionError, match="off by"):
        assert_same(cut.rerun(capture, weights=rows_first), twin, expected, tolerance)


def test_weights_are_those_of_the_literal_attention():
    """The captured weights, put into the twin by hand, change nothing; other rows of weights would."""
    for family in ("bert", "llama", "bart"):
        model, inputs, tolerance = prepared(family)
        capture = af.cut(model).capture(**inputs)
        twin = interface_logits(model, inputs, Edit(capture.state.rows, capture.weights, capture.state.row_mask))
        assert_close(twin, capture.logits, tolerance)


@pytest.mark.families
def test_equals_a_literal_forward_pass_in_at_least_forty_families():
    agreeing, unlike = [], []
    for family in model_types():
        if family in REFUSED or family in NO_DOUBLE:
            continue
        try:
            model, inputs, tolerance = prepared(family)
            expected = interface_logits(model, inputs)
        except (AttnFaithError, OffInterfaceError):
            continue
        with torch.no_grad():
            if (expected - model(**inputs).logits).abs().max() > 1e-6 * expected.abs().max():
                unlike.append(family)
                continue
        check_twin(model, inputs, tolerance)
        agreeing.append(family)
    assert set(NAMED) <= set(agreeing)
    assert set(unlike) <= UNLIKE
    assert len(agreeing) >= 40, agreeing


def test_the_twin_leaves_nothing_behind():
    from transformers import AttentionInterface, AttentionMaskInterface

    model, inputs, _ = prepared("bert")
    before = dict(AttentionInterface()), dict(AttentionMaskInterface()), model.config._attn_implementation
    interface_logits(model, inputs)
    assert before == (dict(AttentionInterface()), dict(AttentionMaskInterface()), model.config._attn_implementation)
