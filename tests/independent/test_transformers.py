"""Erasure on every family of Transformers, against full forward passes with one removal at a time."""

from collections import Counter

import pandas as pd
import pytest

import attnfaith as af
from attnfaith.errors import AttnFaithError
from attnfaith.tiny_models import model_types, tiny_model
from tests.helpers.installed_families import and_others
from tests.independent.comparing import RANKINGS, Seen, compare, compute
from tests.independent.families import (
    BY_MASK,
    DECIDES_ON_PADDING,
    QUICK,
    SEEDS,
    SINGLE,
    SIZES,
    UNCOVERED,
    covered,
    family_of,
)
from tests.independent.passes import mechanism_of
from tests.independent.texts import LENGTHS, ids_of, rows_of, tokenizer_of
from tests.independent.transformer import inputs_of

GIVEN = {"given": "given"}
SHIFTED = 1e-6
"""Positions that are shifted by padding are equal up to the float32 in which most families compute their angles."""


def check(family, level, side, batch_size, special="include", protect_deciding=False, seen=None, **options):
    """One run of the library against the table that full forward passes give."""
    evaluator = af.Evaluator(family.cut, tokenizer_of(side), **options)
    results = compute(
        evaluator,
        rows_of(),
        rankings=list(RANKINGS),
        explanations=GIVEN,
        level=level,
        special_tokens=special,
        protect_deciding=protect_deciding,
        batch_size=batch_size,
    )
    way = results.manifest["run"]["hide"]
    if way == "attention_mask":
        assert family.texts[0].way == ("mask" if family.name in BY_MASK else "keys")

    def expected(row):
        text = family.texts[row["text_id"]]
        at_input = row["erase_level"] == "input"
        fixed = {0, len(text.ids) - 1} if special == "protect" else set()
        if at_input and text.deciding is not None and (protect_deciding or protects(row, text, fixed)):
            fixed.add(text.deciding)
        return text.row(row["erase_level"], row["ranking"], frozenset(fixed), way == "delete")

    tolerance = max(family.tolerance, SHIFTED if side == "left" else 0.0)
    count = len(LENGTHS) * (len(RANKINGS) + 1) * (2 if level == "both" else 1)
    return compare(results, expected, tolerance=tolerance, rows=count, seen=seen)


def protects(row, text, fixed):
    """Whether the library keeps the deciding token: it may, where hiding it is not what the definition says."""
    return row["items"] == len(text.ids) - len(fixed) - 1


by_family = pytest.mark.parametrize("name", covered(), scope="module")
"""In a scope wider than the tests, so that pytest runs the tests of one family together: `family_of` keeps few."""


def one_by_one(name):
    """Whether texts are also evaluated one by one: where batches are refused, and in a few families."""
    return name in QUICK or name in DECIDES_ON_PADDING


@by_family
def test_the_final_attention(name):
    family, seen = family_of(name), Seen()
    if one_by_one(name):
        check(family, "attention", "right", 1, seen=seen)
    if name not in DECIDES_ON_PADDING:
        check(family, "attention", "right", 3, "protect", seen=seen)
        check(family, "attention", "right", 8, seen=seen)
    seen.check()


@by_family
def test_the_whole_model(name):
    family, seen = family_of(name), Seen()
    if one_by_one(name):
        check(family, "input", "right", 1, seen=seen)
    if name not in DECIDES_ON_PADDING:
        check(family, "input", "right", 3, protect_deciding=True, seen=seen)
        check(family, "input", "right", 8, "protect", seen=seen)
    seen.check()


@by_family
def test_padding_on_the_left(name):
    family, seen = family_of(name), Seen()
    if name in QUICK:
        check(family, "both", "left", 3, "protect", seen=seen)
    check(family, "both", "left", 8, protect_deciding=True, seen=seen)
    seen.check()


@pytest.mark.slow
@pytest.mark.parametrize("special", ["include", "protect"])
@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("name", and_others([], ["bert", "llama", "t5", "gpt_oss", "bart", "qwen3_moe"]))
def test_every_combination(name, side, special):
    family, seen = family_of(name), Seen()
    for batch_size, protect_deciding in ((1, False), (3, True), (8, False), (8, True)):
        check(family, "both", side, batch_size, special, protect_deciding, seen=seen)
    seen.check()


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in SIZES if kind != "multiclass"])
@pytest.mark.parametrize("name", and_others(["bert"], ["llama", "bart", "eurobert"]))
def test_other_kinds_of_decision(name, kind):
    limit = 0.4 if kind == "regression" else 0.0
    family = family_of(name, kind, limit)
    seen = Seen()
    options = {} if kind == "binary" else {"decision": kind}
    if kind == "regression":
        options["tolerance"] = limit
    check(family, "both", "right", 3, seen=seen, **options)
    check(family, "both", "left", 8, "protect", seen=seen, **options)
    seen.check()


@pytest.mark.filterwarnings("ignore:The scores of .* are inexact")
@pytest.mark.parametrize(
    "name", and_others(["bert"], ["llama", "t5", "gpt_oss", "deberta-v2", "eurobert", "longformer"])
)
def test_the_smallest_set_lies_between_its_bounds(name):
    family = family_of(name)
    short = [number for number, text in enumerate(family.texts) if len(text.ids) <= 6]
    evaluator = af.Evaluator(family.cut, tokenizer_of("right"))
    data, bounds = [rows_of()[number] for number in short], [af.tests.Erasure(bounds=True)]
    results = evaluator.compute(data, tests=bounds, rankings=["attention"], level="attention", quiet=True)
    known = 0
    for row in results.table("erasure").to_dict("records"):
        exact = family.texts[short[row["text_id"]]].smallest(frozenset())
        low, high = (None if pd.isna(row[name]) else int(row[name]) for name in ("minimum_low", "minimum_high"))
        assert low is None or exact is None or low <= exact
        assert high is None or (exact is not None and exact <= high)
        known += high is not None
        if row["removed"] == 1:
            assert (low, exact, high) == (1, 1, 1)
    assert known >= 2


def test_every_family_is_covered_or_listed():
    named = {item.values[0] for item in covered()}
    assert named | set(UNCOVERED) == set(model_types())
    assert not named & set(UNCOVERED)
    assert {*QUICK, *SEEDS, *SINGLE, *BY_MASK, *DECIDES_ON_PADDING} <= named
    assert len(named) >= 110


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(UNCOVERED))
def test_what_is_not_covered_is_refused_by_the_library(name):
    with pytest.raises(AttnFaithError):
        af.cut(tiny_model(name))


@pytest.mark.families
def test_both_mechanisms_are_at_work():
    """The attention interface where a model asks it; replaced softmaxes give the same logits there (`mechanism_of`)."""
    used = Counter()
    for item in covered():
        name = item.values[0]
        model = tiny_model(name, attn_implementation="eager")
        used[mechanism_of(model, inputs_of(ids_of(rows_of()[1])))] += 1
    assert used["interface"] >= 60
    assert used["softmax"] >= 20
