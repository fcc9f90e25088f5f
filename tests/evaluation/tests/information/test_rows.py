"""The rows of the information test, against loops over texts and items; and its options."""

import copy

import numpy as np
import pytest
import torch

import attnfaith as af
from attnfaith.errors import InputError, UnsupportedModelError
from attnfaith.evaluation.tests.information.test import COLUMNS, Information
from attnfaith.tiny_models import tiny_model
from tests.helpers.comparing import inputs_of
from tests.helpers.removal_batches import LENGTHS, batch_of, cut_of, model_of, one_of, slowly


def rows_of(columns):
    """Rows by (text, group, rank); each is there once."""
    result = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    table = {(row["text_id"], row["group"], row["rank"]): row for row in result}
    assert len(table) == len(result)
    return table


def slow_rows(batch, text, number, group, heads, protected=()):
    """The items of one text in the order of a group's weights: (weight, vector), the first of equals first."""
    capture = batch.capture
    vectors = batch.config.cut.adapter.attended(capture)[text].tolist()
    weights, count = capture.weights[text].tolist(), len(vectors)
    there = [True] * len(weights) if capture.groups is None else capture.groups[text].tolist()
    per_head = len(weights) // count
    numbers = range(len(weights)) if group == "all" else range(number * per_head, (number + 1) * per_head)
    numbers = [index for index in numbers if there[index]]
    items = [item for item, real in enumerate(capture.mask[text].tolist()) if real and item not in protected]
    mean = {item: sum(weights[index][item] for index in numbers) / len(numbers) for item in items}
    chosen = range(count) if group == "all" else [number]
    return [
        (mean[item], [entry for head in chosen for entry in vectors[head][item]])
        for item in sorted(items, key=lambda item: (-mean[item], item))
    ]


@pytest.mark.parametrize("kind", ["multiclass", *slowly("sigmoid", "multilabel", "regression")])
@pytest.mark.parametrize(
    "family", ["FLANrnn", "HANrnn", "bert", "llama", "bart", *slowly("t5", "albert", "deberta-v2")]
)
def test_rows_are_the_items_in_the_order_of_their_weights(family, kind):
    batch = batch_of(family, kind, lengths=(*LENGTHS, 3))
    rows = rows_of(Information(most_ranks=6).run(batch))
    heads = batch.config.cut.adapter.attended(batch.capture).shape[1]
    groups = ["all", *map(str, range(heads if heads > 1 else 0))]
    assert heads == 1 or not family.startswith(("FLAN", "HAN"))
    total = 0
    for text, items in enumerate(batch.capture.lengths.tolist()):
        for number, group in enumerate(groups, -1):
            expected = slow_rows(batch, text, number, group, heads)[:6]
            total += len(expected)
            for rank, (weight, vector) in enumerate(expected):
                row = rows[text, group, rank]
                assert list(row) == [name for name, _ in COLUMNS]
                assert row["items"] == items
                assert row["weight"] == pytest.approx(weight, rel=1e-9)
                assert row["vector"].dtype == np.float32
                assert row["vector"].tolist() == pytest.approx(vector, rel=1e-6, abs=1e-9)
                told = batch.logits[text].tolist() if group == "all" and rank == 0 else None
                assert row["logits"] == told
    assert len(rows) == total


def test_a_text_by_itself_has_the_rows_it_has_in_a_batch():
    for family in ("FLANrnn", "bert"):
        inputs = inputs_of(model_of(family), lengths=LENGTHS, seed=2)
        together = rows_of(Information().run(batch_of(family, inputs=inputs)))
        apart = {}
        for text in range(len(LENGTHS)):
            apart |= rows_of(Information().run(batch_of(family, inputs=one_of(inputs, text), numbers=[text])))
        assert together.keys() == apart.keys()
        for key, row in together.items():
            np.testing.assert_allclose(row["vector"], apart[key]["vector"], rtol=1e-6, atol=1e-8)
            assert row["weight"] == pytest.approx(apart[key]["weight"], rel=1e-9)


def test_mean_pooling_means_over_the_rows_that_exist():
    """A model that averages all its positions: shorter texts of a batch have fewer rows that decide."""
    pooled = tiny_model("modernbert", dtype=torch.float64)
    pooled.config.classifier_pooling = "mean"
    batch = batch_of("modernbert", cut=af.cut(pooled), lengths=(9, 4))
    heads = batch.config.cut.adapter.attended(batch.capture).shape[1]
    assert batch.capture.shape[1] == 9 * heads
    rows = rows_of(Information().run(batch))
    for text, number in ((0, 0), (1, 0), (1, heads - 1)):
        for rank, (weight, _) in enumerate(slow_rows(batch, text, number, str(number), heads)):
            assert rows[text, str(number), rank]["weight"] == pytest.approx(weight)
    ends = [sum(row["weight"] for key, row in rows.items() if key[:2] == (text, "1")) for text in (0, 1)]
    assert ends == pytest.approx([1.0, 1.0]), "each head's mean is a distribution"


def test_a_text_of_one_item_has_one_row():
    ids = torch.tensor([[5, 0, 0], [6, 7, 8]])
    rows = rows_of(
        Information().run(batch_of("FLANnoenc", inputs={"input_ids": ids, "attention_mask": (ids > 0).long()}))
    )
    assert sorted(rows) == [(0, "all", 0), (1, "all", 0), (1, "all", 1), (1, "all", 2)]
    assert rows[0, "all", 0]["weight"] == 1.0


def test_protected_tokens_have_no_rank():
    batch = batch_of("bert", special_tokens="protect")
    special = batch.special_items
    assert special.any()
    rows = rows_of(Information(heads=False).run(batch))
    assert {group for _, group, _ in rows} == {"all"}
    for text, indices in enumerate(special):
        protected = indices.nonzero().flatten().tolist()
        expected = slow_rows(batch, text, -1, "all", 4, protected)
        mine = [rows[text, "all", rank] for rank in range(len(expected))]
        assert [row["weight"] for row in mine] == pytest.approx([weight for weight, _ in expected])
        assert {row["items"] for row in mine} == {len(expected)}
        assert (text, "all", len(expected)) not in rows


def test_heads_keep_their_numbers_when_some_are_cut():
    batch = batch_of("bert", cut=af.cut(model_of("bert"), heads=[3, 1]))
    assert {group for _, group, _ in rows_of(Information().run(batch))} == {"all", "3", "1"}


def test_a_model_that_does_not_say_what_it_attends_is_refused():
    class Quiet(type(cut_of("FLANrnn").adapter)):
        attended = af.Adapter.attended

    cut = copy.copy(cut_of("FLANrnn"))
    cut.adapter = Quiet(cut.model)
    with pytest.raises(UnsupportedModelError, match="Quiet does not return the vectors that its attention averages"):
        Information().run(batch_of("FLANrnn", cut=cut))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clusters": 1}, "clusters to be None, 'paper' or a whole number of at least 2"),
        ({"clusters": "most"}, "clusters"),
        ({"clusters": True}, "clusters"),
        ({"ranks": 1}, "ranks to be None or a whole number of at least 2"),
        ({"ranks": "paper"}, "ranks"),
        ({"ranks": 40}, "more than most_ranks=32 keeps"),
        ({"kmeans_seeds": 0}, "kmeans_seeds"),
        ({"permutations": 2.5}, "permutations"),
        ({"heads": 1}, "heads to be True or False"),
        ({"weights": "shieh"}, "'product', 'additive', 'hyperbolic'"),
        ({"fewest": 3}, "fewest"),
        ({"most_ranks": 0}, "most_ranks"),
        ({"most_texts": None}, "most_texts"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        Information(**options)
