"""Soft comprehensiveness and sufficiency beside a slow twin, and what must hold whatever the model."""

import math

import pytest
import torch

from attnfaith.errors import InputError
from attnfaith.evaluation.rankings import Ranking
from attnfaith.evaluation.removal import ERASERS
from attnfaith.evaluation.tests.rationales.soft import COLUMNS, soft_scores
from attnfaith.evaluation.tests.rationales.test import Rationales
from attnfaith.functional.soft_erasure import importance, soft_comprehensiveness, soft_sufficiency
from attnfaith.randomness import keyed_generator
from tests.helpers.removal_batches import batch_of, table
from tests.helpers.slow_rationales import probability

RANKINGS = {"input": (Ranking("gradient_x_input", "input"), Ranking("random", "input"))}
DRAWS = 3


def slow_soft(batch, ranking, text, draws):
    """One text by itself, element by element, from the definition in the paper."""
    there = batch.inputs["attention_mask"][text].bool()
    inputs = {"input_ids": batch.inputs["input_ids"][text : text + 1, there]}
    inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
    scores = batch.scores(ranking, "input")[text, there].tolist()
    low, high = min(scores), max(scores)
    shares = [(score - low) / (high - low) for score in scores]
    adapter, target = batch.config.cut.adapter, int(batch.target[text])
    vectors = adapter.vectors(inputs).detach()

    def after(keep):
        changed = vectors.clone()
        for token, elements in enumerate(keep):
            for element, kept in enumerate(elements):
                if not kept:
                    changed[0, token, element] = 0.0
        return probability("multiclass", adapter.forward_on(changed, inputs)[0].tolist(), target)

    width = vectors.shape[-1]
    before = probability("multiclass", batch.logits[text].tolist(), target)
    nothing = 1 - max(0.0, before - after([[False] * width for _ in shares]))  # S(X, y, 0)
    if nothing == 1:
        return [math.nan, math.nan]
    results = [0.0, 0.0]
    for number in range(draws):
        generator = keyed_generator(batch.config.settings.seed, batch.rows[text].number, "rationales", "soft", number)
        uniform = torch.rand(len(shares), width, generator=generator, dtype=torch.float64).tolist()
        without = after([[draw < 1 - share for draw in line] for share, line in zip(shares, uniform, strict=True)])
        alone = after([[draw < share for draw in line] for share, line in zip(shares, uniform, strict=True)])
        results[0] += min(1.0, max(0.0, before - without) / (1 - nothing)) / draws
        results[1] += max(0.0, (1 - max(0.0, before - alone) - nothing) / (1 - nothing)) / draws
    return results


@pytest.mark.parametrize("family", ["FLANrnn", "bert"])
def test_equals_one_text_and_one_element_at_a_time(family):
    batch = batch_of(family, rankings=RANKINGS)
    rows, known = table(Rationales(soft=DRAWS).run(batch)), 0
    for (text, level, name, erase_level), row in rows.items():
        assert erase_level == "input"
        with torch.no_grad():
            expected = slow_soft(batch, Ranking(name, level), text, DRAWS)
        assert [row[column] for column in COLUMNS] == pytest.approx(expected, abs=1e-9, nan_ok=True)
        known += any(0.01 < value < 0.99 for value in expected)
    assert known > 2


def test_only_with_draws_and_only_at_the_input():
    batch = batch_of("bert", rankings={"attention": (Ranking("gradient", "attention"),), **RANKINGS})
    plain, soft = (table(test.run(batch)) for test in (Rationales(), Rationales(soft=1)))
    for key, row in soft.items():
        assert [row.pop(name) is None for name in COLUMNS] == [key[-1] == "attention"] * 2
        assert repr(row) == repr(plain[key])  # nothing else changes
    with pytest.raises(InputError, match="soft"):
        Rationales(soft=-1)


def test_a_regression_has_none():
    batch = batch_of("bert", "regression", rankings=RANKINGS)
    assert all(math.isnan(row[name]) for row in table(Rationales(soft=1).run(batch)).values() for name in COLUMNS)


@pytest.mark.parametrize("family", ["FLANnoenc"])
def test_the_tokens_that_decide_score_higher_than_those_that_do_not(family):
    """Planted: what each token by itself adds to the log-odds, against the same turned round."""
    batch = batch_of(family, rankings=RANKINGS)
    eraser = ERASERS["input"](batch)
    found = batch.scores(Ranking("gradient_x_input", "input"), "input")
    results = soft_scores(eraser, [found, -found], 8)
    for values in results.values():
        good, bad = values.nanmean(1).tolist()
        assert good > bad + 0.1


def test_the_ends_of_the_scale():
    before, empty = torch.tensor([0.9, 0.9, 0.9, 0.4]), torch.tensor([0.5, 0.5, 0.5, 0.5])
    after = torch.tensor([0.9, 0.5, 0.3, 0.1])  # as before, as empty, beyond, and where an empty text lowers nothing
    torch.testing.assert_close(
        soft_sufficiency(before, after, empty), torch.tensor([1.0, 0, 0, math.nan]), equal_nan=True
    )
    torch.testing.assert_close(
        soft_comprehensiveness(before, after, empty), torch.tensor([0, 1.0, 1.0, math.nan]), equal_nan=True
    )
    scores = torch.tensor([[2.0, math.nan, 4.0], [1.0, 1.0, 7.0]])
    mask = torch.tensor([[True, True, True], [True, True, False]])
    assert importance(scores, mask).tolist() == [[0.0, 0.0, 1.0], [0.5, 0.5, 0.0]]
