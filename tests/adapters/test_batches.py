"""Numbers of a text do not depend on the other texts of the batch, on its padding, or on the size of chunks."""

import pytest
import torch

import attnfaith as af
from attnfaith.adapters.tail import LAST_BLOCK, ONE_POSITION
from attnfaith.adapters.traced import TracedAdapter
from tests.helpers.comparing import (
    LEFT,
    PRESETS,
    assert_close,
    assert_same,
    cases,
    effect_of,
    families,
    inputs_of,
    keeps_of,
    model_of,
    orders_of,
    prepared,
    tolerance_of,
    weights_of,
)

DECIDES_ON_PADDING = {"deberta", "deberta-v2", "flaubert", "longformer", "xlm"}
"""Decide at the first position, and let padding attend nothing (or everything): on the left, no text is read."""


def single(inputs, text):
    """One text of a batch, its padding taken away."""
    batch, length = inputs["input_ids"].shape
    real = inputs["attention_mask"][text].bool()
    alone = {}
    for name, value in inputs.items():
        value = value[text : text + 1] if value.shape[:1] == (batch,) else value
        alone[name] = value[:, real] if value.dim() > 1 and value.shape[1] == length else value
    return alone


@pytest.mark.parametrize("case", cases())
def test_a_batch_equals_its_texts_one_by_one(case):
    done = prepared(*case)
    cut, capture, order, keep = done.cut, done.capture, orders_of(done.capture), keeps_of(done.capture)
    together, prefixes = cut.rerun(capture, keep=keep), cut.prefixes(capture, order)
    for text in range(capture.shape[0]):
        alone = cut.capture(**single(done.inputs, text))
        items, rows = alone.shape[2], slice(text, text + 1)
        mine = capture.mask[text]
        logits = capture.logits[rows]
        assert_close(alone.logits, logits, done.tolerance)
        assert_same(cut.rerun(alone, keep=keep[rows][:, :, mine]), together[rows], logits, done.tolerance)
        indices = mine.cumsum(0)[order[rows, :items]] - 1
        assert_same(cut.prefixes(alone, indices), prefixes[rows, : items + 1], logits, done.tolerance)


@pytest.mark.parametrize("family", families())
def test_more_padding_changes_nothing(family):
    """Padding on the side where the family's tokenizer puts it, twelve positions more than needed."""
    done = prepared(family, torch.float32)
    cut, capture, keep = done.cut, done.capture, keeps_of(done.capture)
    side = "left" if family in LEFT else "right"
    wide = inputs_of(done.model, lengths=(9, 6, 21))
    narrow = inputs_of(done.model, lengths=(9, 6))
    if wide["input_ids"].shape[0] == 1:
        pytest.skip("the family has no padding")
    longer = cut.capture(**{name: value[:2] if value.shape[:1] == (3,) else value for name, value in wide.items()})
    torch.testing.assert_close(narrow["input_ids"], done.inputs["input_ids"])
    assert longer.lengths.equal(capture.lengths)
    assert_close(longer.logits, capture.logits, done.tolerance)
    extra = longer.shape[2] - capture.shape[2]
    keep = torch.nn.functional.pad(keep, (extra, 0) if side == "left" else (0, extra))
    got = cut.rerun(longer, keep=keep)
    assert_same(got, cut.rerun(capture, keep=keeps_of(capture)), capture.logits, done.tolerance)


@pytest.mark.parametrize("family", families())
def test_left_padding_gives_the_models_own_logits(family):
    """Captured as the model itself runs it; and where the model is invariant to the side, so is the tail."""
    done = prepared(family, torch.float32)
    cut, model, tolerance = done.cut, done.model, done.tolerance
    left, right = inputs_of(model, side="left"), inputs_of(model, side="right")
    with torch.no_grad():
        expected, other = model(**left).logits, model(**right).logits
    if family in DECIDES_ON_PADDING:
        with pytest.raises(af.AttnFaithError, match=r"text.*1"):
            cut.capture(**left)
        return
    captured = cut.capture(**left)
    assert_close(captured.logits, expected, tolerance)
    assert_close(cut.rerun(captured, weights=captured.weights.unsqueeze(1))[:, 0], expected, tolerance)
    if family in LEFT or (expected - other).abs().max() > tolerance * expected.abs().max():
        return
    reference = cut.capture(**right)
    keep = keeps_of(reference)
    moved = torch.zeros(2, keep.shape[1], captured.shape[2], dtype=torch.bool)
    for text in range(2):
        moved[text][:, captured.mask[text]] = keep[text][:, reference.mask[text]]
    assert_same(cut.rerun(captured, keep=moved), cut.rerun(reference, keep=keep), reference.logits, tolerance)


@pytest.mark.parametrize("family", ["llama", "mistral", "gpt_oss", "eurobert", "FLANrnn", "HANrnn"])
def test_families_that_accept_padding_on_both_sides(family):
    """So that the test above is known to compare something. Others count positions, or decide, at a row's end."""
    model = model_of(family)
    left, right = inputs_of(model, side="left"), inputs_of(model, side="right")
    with torch.no_grad():
        assert_close(model(**left).logits, model(**right).logits, 1e-5)


def test_a_family_that_decides_at_the_last_position_is_refused_on_its_padding():
    """Right-padded, XLNet's deciding row is padding that attends itself: no capture may pass that off as the text's."""
    done = prepared("xlnet", torch.float32)
    try:
        capture = done.cut.capture(**inputs_of(done.model, side="right"))
    except af.AttnFaithError as error:
        assert "pad" in str(error)  # noqa: PT017 (either it is refused, or what is captured is sound)
        return
    assert not (capture.weights * ~capture.mask.unsqueeze(1)).any()
    done.cut.rerun(capture, weights=capture.weights.unsqueeze(1))


@pytest.mark.parametrize("family", families())
def test_the_order_of_the_batch_changes_nothing(family):
    model = model_of(family)
    inputs = inputs_of(model, lengths=(9, 6, 8, 3))
    if inputs["input_ids"].shape[0] == 1:
        pytest.skip("the family has no padding")
    cut, shuffle = af.cut(model), torch.tensor([2, 0, 3, 1])
    other = {name: value[shuffle] if value.shape[:1] == (4,) else value for name, value in inputs.items()}
    capture, shuffled = cut.capture(**inputs), cut.capture(**other)
    tolerance = tolerance_of(model, inputs)
    assert_close(shuffled.logits, capture.logits[shuffle], tolerance)
    assert_close(shuffled.weights, capture.weights[shuffle], tolerance)
    keep, order = keeps_of(capture), orders_of(capture)
    keeping = cut.rerun(capture, keep=keep)
    assert effect_of(keeping, capture.logits).max() > 0.01 * capture.logits.abs().max()
    assert_close(cut.rerun(shuffled, keep=keep[shuffle]), keeping[shuffle], tolerance)
    assert_close(cut.prefixes(shuffled, order[shuffle]), cut.prefixes(capture, order)[shuffle], tolerance)


@pytest.mark.parametrize("family", families())
def test_chunks_of_one_candidate_change_nothing(family):
    done = prepared(family, torch.float32)
    tiny = af.cut(done.model, memory=1)
    capture, keep, order = tiny.capture(**done.inputs), keeps_of(done.capture), orders_of(done.capture)
    weights = weights_of(done.capture)
    whole, captured = done.cut, done.capture
    assert_same(tiny.prefixes(capture, order), whole.prefixes(captured, order), captured.logits, done.tolerance)
    assert_same(tiny.rerun(capture, keep=keep), whole.rerun(captured, keep=keep), captured.logits, done.tolerance)
    assert_same(
        tiny.rerun(capture, weights=weights), whole.rerun(captured, weights=weights), captured.logits, done.tolerance
    )


@pytest.mark.parametrize("length", [3, 4, 8, 16, 17, 40])
@pytest.mark.parametrize("family", families())
def test_texts_longer_and_shorter_than_the_example(family, length):
    """Lengths around the windows, head widths and numbers of heads, so that no size is taken for another."""
    done = prepared(family, torch.float32)
    inputs = inputs_of(done.model, lengths=(length,))
    capture = done.cut.capture(**inputs)
    with torch.no_grad():
        assert_close(capture.logits, done.model(**inputs).logits, done.tolerance)
    keep, weights = keeps_of(capture, count=4), weights_of(capture)
    edits = [{"weights": weights}, {"keep": keep}]
    for edit in edits[: 1 if capture.shape[2] < 3 else 2]:  # a HAN may have one sentence only
        got = done.cut.rerun(capture, **edit)
        if family in PRESETS:
            assert got.isfinite().all()
            continue
        slow = af.Cut(done.cut.adapter.with_tail("full forward"), None, "", done.cut.memory)
        expected = slow.rerun(slow.capture(**inputs), **edit)
        assert_same(got, expected, capture.logits, 10 * done.tolerance, least=1e-3)


def test_without_candidates_there_are_no_logits():
    done = prepared("bert", torch.float32)
    empty = torch.zeros(2, 0, done.capture.shape[2], dtype=torch.bool)
    assert done.cut.rerun(done.capture, keep=empty).shape == (2, 0, 3)


def test_a_tail_that_is_wrong_beside_a_longer_text_alone_is_not_chosen(monkeypatch):
    """It passes the comparisons on one text; the next tail is slower, and right."""
    original = TracedAdapter.rerun

    def rerun(self, capture, weights):
        wrong = self.tail == ONE_POSITION and capture.shape[0] > 1
        return original(self, capture, weights) + wrong * torch.tensor([1e-3, 0.0, 0.0])

    monkeypatch.setattr(TracedAdapter, "rerun", rerun)
    cut = af.cut(model_of("bert"))
    assert cut.adapter.tail == LAST_BLOCK
    assert cut.adapter.reasons[ONE_POSITION].startswith("in a padded batch, edit")
    assert cut.check.padding <= 1e-5
