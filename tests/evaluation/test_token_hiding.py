"""Hiding tokens from the whole model, against full forward passes written out."""

from dataclasses import replace

import pytest
import torch

import attnfaith as af
from attnfaith.adapters import pass_groups
from attnfaith.adapters.dummy_inputs import hidden_width
from attnfaith.adapters.pass_count import count_passes
from attnfaith.errors import InputError
from attnfaith.evaluation.token_hiding import WAYS, hiding_for
from attnfaith.tiny_models import tiny_model
from tests.helpers.comparing import inputs_of
from tests.helpers.hiding_by_hand import PAD_ID, assert_hidden, prepared, sets_of
from tests.helpers.removal_batches import MASK_ID, cut_of, model_of, one_of

PLAIN = ["bert", "roberta", "llama", "opt", "gpt2"]
WINDOWED = ["mistral", "modernbert"]
LONG = (40, 31)  # five windows


def first_of(family):
    return 2 if family == "roberta" else 0


@pytest.mark.parametrize("family", PLAIN)
def test_what_the_mask_hides_is_left_out_where_that_is_equal(family):
    model, inputs, deciding, hiding = prepared(family)
    proved = hiding.proved(inputs, deciding)
    assert (proved.hide, proved.leave_out, proved.first_position) == ("attention_mask", True, first_of(family))
    assert_hidden(model, inputs, proved, deciding, "attention_mask", first=first_of(family))


@pytest.mark.parametrize("family", PLAIN)
def test_the_plain_masked_pass_is_the_same(family):
    model, inputs, deciding, hiding = prepared(family)
    slow = replace(hiding, leave_out=False, fast=False)
    assert_hidden(model, inputs, slow, deciding, "attention_mask", first=first_of(family))


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_padding_on_the_left_changes_nothing(family):
    model, inputs, deciding, hiding = prepared(family, side="left")
    assert not inputs["attention_mask"][1, 0]
    if family == "bert":  # its table of positions counts left padding: such a text is not the same text
        assert hiding.pad is None
    proved = hiding.proved(inputs, deciding)
    if family == "llama":
        assert_hidden(model, inputs, proved, deciding, "attention_mask")


@pytest.mark.parametrize("family", WINDOWED)
def test_a_window_looks_at_positions_in_the_sequence_so_nothing_may_be_left_out(family):
    """Closing up would bring tokens into a window that were out of it."""
    model, inputs, deciding, hiding = prepared(family, lengths=LONG)
    assert hiding.hide == "attention_mask"
    proved = hiding.proved(inputs, deciding)
    assert not proved.leave_out or proved.reach < min(LONG)
    assert_hidden(model, inputs, proved, deciding, "attention_mask")
    texts, keep = sets_of(inputs, deciding)
    closed = replace(proved, leave_out=True, reach=None, fast=False).run(inputs, deciding, texts, keep)
    assert float((closed - proved.run(inputs, deciding, texts, keep)).abs().max()) > 1e-3


@pytest.mark.parametrize("hide", ["mask_token", "pad", "zero", "delete"])
@pytest.mark.parametrize("family", ["bert", "llama", "gpt2"])
def test_the_other_ways(family, hide):
    model, inputs, deciding, hiding = prepared(family, hide)
    assert (hiding.hide, hiding.token) == (hide, {"mask_token": MASK_ID, "pad": PAD_ID}.get(hide))
    assert_hidden(model, inputs, hiding.proved(inputs, deciding), deciding, hide)


@pytest.mark.parametrize("hide", ["delete", "zero", "mask_token"])
def test_the_ways_for_models_that_read_in_order(hide):
    model, inputs, deciding, hiding = prepared("FLANrnn", hide)
    assert deciding is None
    texts, keep = sets_of(inputs, None)
    got = hiding.proved(inputs, None).run(inputs, None, texts, keep)
    for row, text in enumerate(texts.tolist()):
        single = one_of(inputs, text)
        kept = keep[row, : single["input_ids"].shape[1]]
        if hide == "delete":
            single = {name: value[:, kept] for name, value in single.items()}
        elif hide == "mask_token":
            single["input_ids"] = single["input_ids"].masked_fill(~kept, MASK_ID)
        else:
            ids = single.pop("input_ids")
            single |= {"input_ids": ids, "inputs_embeds": model.get_input_embeddings()(ids) * kept[None, :, None]}
        with torch.no_grad():
            assert torch.allclose(got[row], model(**single).logits[0], rtol=0, atol=1e-10)


def test_the_order_and_the_size_of_passes_change_nothing():
    for family in ("bert", "llama", "FLANrnn"):
        _, inputs, deciding, hiding = prepared(family)
        proved = hiding.proved(inputs, deciding)
        texts, keep = sets_of(inputs, deciding)
        whole = proved.run(inputs, deciding, texts, keep)
        order = torch.randperm(len(texts), generator=torch.Generator().manual_seed(3))
        assert torch.allclose(proved.run(inputs, deciding, texts[order], keep[order]), whole[order], atol=1e-10)
        for budget in (1, 20, 40):
            assert torch.allclose(proved.run(inputs, deciding, texts, keep, budget=budget), whole, atol=1e-10)


@pytest.mark.parametrize("family", ["bert", "llama", "FLANrnn"])
def test_nothing_hidden_is_the_text_itself(family):
    model, inputs, deciding, hiding = prepared(family)
    tokens = inputs["attention_mask"].bool()
    with torch.no_grad():
        expected = model(**inputs).logits
    proved = hiding.proved(inputs, deciding)
    got = proved.run(inputs, deciding, torch.arange(len(tokens)), tokens)
    assert torch.allclose(got, expected, atol=1e-6 * float(expected.abs().max()))


def test_ways_that_do_not_exist_or_lack_their_token_are_refused():
    cut = cut_of("bert")
    single = one_of(inputs_of(model_of("bert"), lengths=(7,)), 0)
    options = {"left": False}
    with pytest.raises(InputError, match=", ".join(WAYS)):
        hiding_for(cut, single, hide="removed", mask_id=4, **options)
    with pytest.raises(InputError, match=r"needs a mask token.*hide='zero' or hide='delete'"):
        hiding_for(cut, single, hide="mask_token", mask_id=None, **options)
    model = tiny_model("gpt2", dtype=torch.float64)
    model.config.pad_token_id = None
    bare = one_of(inputs_of(model, lengths=(7,)), 0)
    with pytest.raises(InputError, match="needs a padding token"):
        hiding_for(af.cut(model, example=bare), bare, hide="pad", mask_id=4, **options)


def test_hiding_leaves_the_model_as_it_was():
    model, inputs, deciding, hiding = prepared("bert", "zero")
    before = {name: value.clone() for name, value in model.state_dict().items()}
    texts, keep = sets_of(inputs, deciding)
    hiding.run(inputs, deciding, texts, keep)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    assert all(parameter.requires_grad and parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize(("measured", "padded"), [(32, False), (384, True)])
def test_short_texts_are_not_padded_to_long_ones_unless_a_pass_costs_more(measured, padded, monkeypatch):
    """In a narrow model a token costs little beside a pass, and all share one."""
    monkeypatch.setattr(pass_groups, "MEASURED_WIDTH", measured)
    _, inputs, deciding, hiding = prepared("bert", lengths=LONG)
    assert hidden_width(hiding.cut.model) == 32
    proved = hiding.proved(inputs, deciding)
    tokens = inputs["attention_mask"].bool()
    short = torch.zeros_like(tokens)
    short[:, :3] = True
    texts = torch.tensor([0, 1] * 20)
    keep = torch.cat((tokens[[0, 1] * 10], short[[0, 1] * 10]))
    with count_passes() as count:
        proved.run(inputs, deciding, texts, keep)
    assert (count.rows, count.positions) == (40, 40 * max(LONG) if padded else 10 * sum(LONG) + 20 * 3)
