"""The rows of erasure: which texts have one, that no other text changes it, and what it carries along."""

import pytest
import torch

import attnfaith as af
from attnfaith.attribution.method import methods
from attnfaith.errors import InputError
from attnfaith.evaluation.tests.erasure.test import COLUMNS, Erasure
from tests.helpers.comparing import inputs_of
from tests.helpers.removal_batches import LENGTHS, batch_of, model_of, one_of, ranked, slowly, table
from tests.helpers.slow_erasure import RANKINGS, check


def test_texts_with_one_item_have_no_row_and_change_nothing():
    """Sentences of a HAN: one, two, none that may be counted twice; the words of the same texts have their rows."""
    lengths = (3, 12, 3, 9)
    batch = batch_of("HANrnn", rankings=RANKINGS, lengths=lengths)
    assert batch.capture.lengths.tolist()[0] == batch.capture.lengths.tolist()[2] == 1
    rows = table(Erasure().run(batch))
    assert {key[0] for key in rows if key[3] == "attention"} == {1, 3}
    assert {key[0] for key in rows if key[3] == "input"} == {0, 1, 2, 3}
    check(batch, "attention")
    alone = batch_of("HANrnn", rankings={"attention": RANKINGS["attention"]}, lengths=(3, 3))
    assert Erasure().run(alone) == {name: [] for name, _ in COLUMNS}


@pytest.mark.parametrize("family", ["HANrnn", *slowly("FLANrnn", "bert")])
def test_a_batch_is_its_texts_one_by_one_in_any_order(family):
    """Integers, labels and draws; a text's draw hangs on its row number, not on its place in a batch."""
    numbers = [40, 7, 19, 3, 100, 12, 55, 8]
    together = table(Erasure().run(batch_of(family, rankings=RANKINGS, numbers=numbers)))
    inputs = inputs_of(model_of(family), lengths=LENGTHS, seed=2)
    apart = {}
    for text in reversed(range(len(numbers))):
        single = one_of(inputs, text)
        apart |= table(Erasure().run(batch_of(family, rankings=RANKINGS, numbers=[numbers[text]], inputs=single)))
    assert together.keys() == apart.keys()
    for key, row in together.items():
        for name, value in row.items():
            if isinstance(value, float):
                assert value == pytest.approx(apart[key][name], rel=1e-6, nan_ok=True)
            else:
                assert value == apart[key][name], (key, name)


def test_another_seed_draws_another_random_order_and_nothing_else():
    rows = [table(Erasure().run(batch_of("bert", rankings=RANKINGS, seed=seed))) for seed in (0, 1)]
    same = [rows[0][key] == rows[1][key] or "nan" in str(rows[0][key]) for key in rows[0] if key[2] != "random"]
    random = [rows[0][key]["removed"] == rows[1][key]["removed"] for key in rows[0] if key[2] == "random"]
    assert all(same)
    assert not all(random)


def test_labels_and_targets_are_carried_and_undefined_and_tied_scores_counted():
    @af.register_method("half_of_it", level="attention")
    def half_of_it(capture, cut, target):
        scores = torch.where(torch.arange(capture.shape[2]) % 2 == 0, 1.0, torch.nan)
        return scores.expand(capture.shape[0], -1).clone()

    try:
        rankings = {"attention": ranked("attention/half_of_it")}
        batch = batch_of(
            "FLANrnn",
            rankings=rankings,
            labels=[0, 1, 2, 0, None, 1, 2, 0],
            target="gold",
            lengths=(12, 7, 9, 4, 10, 5, 8, 6),
        )
        with pytest.raises(TypeError):  # no label, no target
            Erasure().run(batch)
        batch = batch_of("FLANrnn", rankings=rankings, labels=[0, 1, 2, 0, 1, 1, 2, 0], target="gold")
        rows = table(Erasure().run(batch))
        for text, label in enumerate([0, 1, 2, 0, 1, 1, 2, 0]):
            row = rows[text, "attention", "half_of_it", "attention"]
            assert (row["gold"], row["target"]) == (label, label)
            assert row["undefined"] == LENGTHS[text] // 2
            assert row["ties"] == (LENGTHS[text] + 1) // 2 - 1
    finally:
        del methods["attention", "half_of_it"]


def test_a_reference_that_does_not_exist_is_refused():
    with pytest.raises(InputError, match="'paper' or None"):
        Erasure(reference="released-code")
