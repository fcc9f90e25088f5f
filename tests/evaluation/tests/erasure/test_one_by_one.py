"""Erasure until the decision flips, against a slow twin that removes one item from one text at a time."""

import pytest
import torch

from attnfaith.evaluation.removal import ERASERS
from attnfaith.evaluation.tests.erasure.test import Erasure
from tests.helpers.removal_batches import LENGTHS, batch_of, slowly, table
from tests.helpers.slow_erasure import RANKINGS, check

AFFINE = ("FLANrnn", "HANrnn")


def assert_telling(flips, seen, early):
    """A good share of the texts flips, many of them before the last two steps."""
    assert flips >= 0.3 * seen, f"only {flips} of {seen} flip"
    assert early >= 0.2 * seen, f"only {early} of {seen} flip before the end"


@pytest.mark.parametrize("kind", ["multiclass", "sigmoid", "multilabel", "regression"])
@pytest.mark.parametrize("family", ["FLANrnn", "bert", *slowly("HANrnn", "llama")])
def test_the_final_attention_one_removal_at_a_time(family, kind):
    lengths = tuple(3 * length for length in LENGTHS) if family == "HANrnn" else LENGTHS  # as many sentences
    batch = batch_of(family, kind, rankings={"attention": RANKINGS["attention"]}, lengths=lengths)
    assert_telling(*check(batch, "attention"))


@pytest.mark.parametrize("kind", ["multiclass", pytest.param("regression", marks=pytest.mark.slow)])
@pytest.mark.parametrize("family", ["FLANrnn", "HANrnn", "bert", "llama", "bart", *slowly("gpt2")])
def test_the_whole_model_one_removal_at_a_time(family, kind):
    batch = batch_of(family, kind, rankings={"input": RANKINGS["input"]})
    assert batch.config.hiding.hide == ("delete" if family in (*AFFINE, "bart") else "attention_mask")
    assert_telling(*check(batch, "input"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sigmoid", "multilabel"])
@pytest.mark.parametrize("family", ["FLANrnn", "bert", "llama", "bart"])
def test_the_whole_model_for_the_other_kinds_of_decision(family, kind):
    check(batch_of(family, kind, rankings={"input": RANKINGS["input"]}), "input")


@pytest.mark.slow
@pytest.mark.parametrize("family", ["gpt2", "bart", "roberta", "opt", "distilbert", "t5"])
def test_the_final_attention_of_more_families(family):
    flips, seen, _ = check(batch_of(family, rankings={"attention": RANKINGS["attention"]}), "attention")
    assert flips >= 0.2 * seen


@pytest.mark.parametrize("family", ["bert", *slowly("llama")])
def test_rankings_of_one_level_erased_at_the_other(family):
    crossed = {"attention": RANKINGS["input"][1:], "input": RANKINGS["attention"][1:]}
    batch = batch_of(family, rankings=crossed)
    for level in crossed:
        check(batch, level)


@pytest.mark.parametrize("family", ["bert", *slowly("llama")])
def test_special_tokens_that_are_protected_stay(family):
    batch = batch_of(family, rankings=RANKINGS, special_tokens="protect")
    special = batch.special
    ordinary = (batch.inputs["attention_mask"].bool() & ~special).sum(1).tolist()
    assert special.any()
    assert ordinary != batch.inputs["attention_mask"].sum(1).tolist()
    for level in RANKINGS:
        flips, seen, _ = check(batch, level)
        assert 0 < flips < seen
        rows = table(Erasure().run(batch))
        assert {key[0]: row["items"] for key, row in rows.items() if key[3] == level} == {
            text: count for text, count in enumerate(ordinary) if count >= 2
        }


@pytest.mark.parametrize("family", ["bert", *slowly("llama")])
def test_the_deciding_token_can_be_protected(family):
    """At the input level only: at the final attention it is an item like any other."""
    plain = batch_of(family, rankings=RANKINGS)
    batch = batch_of(family, rankings=RANKINGS, protect_deciding=True)
    for level in RANKINGS:
        check(batch, level)
    more, fewer = table(Erasure().run(plain)), table(Erasure().run(batch))
    for key, row in fewer.items():
        assert row["items"] == more[key]["items"] - (key[3] == "input")


@pytest.mark.parametrize(("family", "hide"), [("bart", None), ("bert", "delete"), ("bert", "pad"), ("llama", "pad")])
def test_a_deciding_token_that_stays_as_it_is_is_no_item(family, hide):
    """Its removal would change nothing, and would count as one."""
    batch = batch_of(family, rankings=RANKINGS, hide=hide)
    check(batch, "input") if hide != "pad" else None
    rows = table(Erasure().run(batch))
    lengths = batch.inputs["attention_mask"].sum(1).tolist()
    for (text, _, _, level), row in rows.items():
        assert row["items"] == lengths[text] - (level == "input")


@pytest.mark.parametrize("hide", ["attention_mask", "mask_token", "zero"])
def test_a_deciding_token_that_can_be_hidden_is_an_item(hide):
    batch = batch_of("bert", rankings={"input": RANKINGS["input"]}, hide=hide)
    rows = table(Erasure().run(batch))
    lengths = batch.inputs["attention_mask"].sum(1).tolist()
    assert {row["items"] - lengths[key[0]] for key, row in rows.items()} == {0}
    eraser = ERASERS["input"](batch)
    everything = eraser.items
    without = everything.clone()
    without.scatter_(1, eraser.deciding.unsqueeze(1), False)
    logits = eraser.logits_of(torch.arange(len(without)), without)
    assert float((logits - batch.logits).abs().max()) > 1e-2
