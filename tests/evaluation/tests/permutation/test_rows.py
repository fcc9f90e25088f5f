"""Shuffled attention, against loops over shuffles and full forward passes; models whose answer is known beforehand."""

import copy
import itertools
import math
from dataclasses import replace

import pytest
import torch

import attnfaith as af
from attnfaith.errors import InputError
from attnfaith.evaluation.tests.permutation.test import COLUMNS, Permutation
from tests.helpers.comparing import inputs_of
from tests.helpers.removal_batches import LENGTHS, SIZES, batch_of, model_of, one_of
from tests.helpers.slow_erasure import flipped
from tests.helpers.slow_permutation import NUMBERS, SHUFFLES, compare, distance, full_pass, rows_of, shuffles_of

SHORT = (5, 3, 4)


@pytest.mark.parametrize("kind", list(SIZES))
@pytest.mark.parametrize("family", ["FLANrnn", "HANrnn", "bert", "llama", "FLANnoenc"])
def test_equals_loops_and_full_forward_passes(family, kind):
    lengths = (3, *LENGTHS) if family.startswith(("FLAN", "HAN")) else SHORT
    batch = batch_of(family, kind, lengths=lengths, numbers=[7 * index + 2 for index in range(len(lengths))])
    effect, flips = compare(batch, kind)
    assert effect > 1e-4  # far above what is allowed for rounding
    assert flips > 0 or not family.startswith("FLAN")


@pytest.mark.parametrize("family", ["eurobert", "llama"])
def test_equals_full_forward_passes_where_every_token_decides(family):
    """Heads x rows: all of them are shuffled alike, and those that a shorter text does not have stay nothing."""
    batch = batch_of(family, lengths=SHORT)
    assert batch.capture.shape[1] == (4 * max(SHORT) if family == "eurobert" else 4)
    effect, _ = compare(batch, "multiclass")
    assert effect > 1e-4


def test_protected_items_keep_their_weights():
    batch = batch_of("bert", lengths=(6, 5, 4), special_tokens="protect")
    special = [row.nonzero().flatten().tolist() for row in batch.special_items]
    assert any(special)
    effect, _ = compare(batch, "multiclass", stays=lambda text: special[text])
    assert effect > 1e-4
    apart = rows_of(Permutation(SHUFFLES).run(batch_of("bert", lengths=(6, 5, 4))))
    assert any(row["items"] > rows_of(Permutation(SHUFFLES).run(batch))[text]["items"] for text, row in apart.items())


@pytest.mark.parametrize("family", ["FLANrnn", "HANrnn", "bert", "eurobert", "llama"])
def test_rows_depend_on_the_text_only(family):
    """One by one, in another order and without padding; another seed shuffles otherwise."""
    numbers = [40, 7, 19, 3, 100, 12, 55, 8]
    inputs = inputs_of(model_of(family), lengths=LENGTHS, seed=2)
    together = rows_of(Permutation(20).run(batch_of(family, numbers=numbers, inputs=inputs)))
    apart = {}
    for text in reversed(range(len(numbers))):
        apart |= rows_of(Permutation(20).run(batch_of(family, numbers=[numbers[text]], inputs=one_of(inputs, text))))
    assert together.keys() == apart.keys()
    for number, row in together.items():
        for name, value in row.items():
            expected = pytest.approx(apart[number][name], abs=1e-9) if isinstance(value, float) else apart[number][name]
            assert value == expected, (number, name)
    others = rows_of(Permutation(20).run(batch_of(family, numbers=numbers, inputs=inputs, seed=1)))
    assert any(others[key]["mean_tvd"] != pytest.approx(row["mean_tvd"]) for key, row in together.items())


def test_padding_on_the_left_is_like_padding_on_the_right():
    """Of a model that knows only how far its tokens stand apart."""
    sides = ("right", "left")
    right, left = (
        batch_of("llama", inputs=inputs_of(model_of("llama"), lengths=(9, 5), seed=2, side=side)) for side in sides
    )
    assert not left.capture.mask[1, 0]
    first, other = (rows_of(Permutation(20).run(batch)) for batch in (right, left))
    for number, row in first.items():
        assert row["mean_tvd"] > 1e-4
        for name in NUMBERS:
            assert other[number][name] == pytest.approx(row[name], abs=1e-6), name


@pytest.mark.parametrize("family", ["FLANrnn", "bert", "eurobert"])
def test_little_memory_means_more_passes_and_the_same_rows(family):
    batch, tight = batch_of(family), batch_of(family, cut=af.cut(model_of(family), memory=1))
    whole, parts = (rows_of(Permutation(9).run(item)) for item in (batch, tight))
    for number, row in whole.items():
        assert [parts[number][name] for name in NUMBERS] == pytest.approx([row[name] for name in NUMBERS], abs=1e-12)


def test_more_shuffles_begin_with_the_same_ones():
    """The largest distance can only grow."""
    batch = batch_of("FLANrnn")
    result = [rows_of(Permutation(count).run(batch)) for count in (1, 10, 100)]
    for few, more in itertools.pairwise(result):
        assert all(few[number]["max_tvd"] <= more[number]["max_tvd"] for number in few)
        assert any(few[number]["max_tvd"] < more[number]["max_tvd"] for number in few)


def words(*lengths):
    """Inputs of texts so short that no tokenizer makes them, with padding on the right."""
    mask = torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)
    ids = torch.arange(5, 5 + mask.numel()).view(mask.shape)
    return {"input_ids": torch.where(mask, ids, 0), "attention_mask": mask.long()}


def test_texts_of_one_item_have_no_row():
    result = rows_of(Permutation(SHUFFLES).run(batch_of("FLANrnn", inputs=words(1, 4, 1, 2))))
    assert {number: row["items"] for number, row in result.items()} == {1: 4, 3: 2}
    compare(batch_of("FLANrnn", inputs=words(1, 4, 1, 2)), "multiclass")
    assert Permutation().run(batch_of("FLANrnn", inputs=words(1, 1))) == {name: [] for name, _ in COLUMNS}


def test_of_two_items_half_of_the_shuffles_change_them():
    """A swap or nothing, so that every figure is known from the number of swaps."""
    batch = batch_of("FLANrnn", inputs=words(*(2,) * 8))
    for row in batch.rows:
        swaps = sum(giver[0] == 1 for giver in shuffles_of(row.number, [0, 1], 400))
        assert abs(swaps - 200) < 5 * math.sqrt(100)
        text = row.number
        swapped = batch.capture.weights[text : text + 1].flip(-1)
        after = full_pass(batch, text, swapped[0]).tolist()
        far = distance("multiclass", batch.logits[text].tolist(), after)
        flips = flipped("multiclass", batch.logits[text].tolist(), after, None)
        got = rows_of(Permutation(400).run(batch))[text]
        assert got["max_tvd"] == pytest.approx(far)
        assert got["mean_tvd"] == pytest.approx(far * swaps / 400)
        assert got["median_tvd"] == pytest.approx(far if swaps > 200 else far / 2 if swaps == 200 else 0, abs=1e-12)
        assert got["flips"] == pytest.approx(flips * swaps / 400)
        assert got["never_changes"] == (not flips)


def flat(family, dtype):
    """A model of the family with uniform attention."""
    model = copy.deepcopy(model_of(family)).to(dtype)
    names = ("query", "q_proj") if family != "FLANrnn" else ("attention",)
    changed = 0
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if any(part in name.split(".") for part in names):
                parameter.zero_()
                changed += 1
    assert changed
    return af.cut(model)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("family", ["FLANrnn", "bert", "eurobert", "llama"])
def test_shuffling_constant_attention_changes_nothing(family, dtype):
    batch = batch_of(family, cut=flat(family, dtype))
    equal = batch.capture.weights.masked_select(batch.capture.mask.unsqueeze(1) & (batch.capture.weights > 0))
    assert len(equal.unique()) <= 2 * len(set(LENGTHS))
    for row in rows_of(Permutation().run(batch)).values():
        assert row["max_tvd"] <= (1e-5 if dtype == torch.float32 else 1e-10)
        assert (row["flips"], row["never_changes"]) == (0, True)


def planted(weights, pushes, bias=0.0):
    """A text whose item i pushes for class 1 by so much and has this weight."""
    model = af.models.from_preset("FLANnoenc", num_labels=2, vocab_size=64, embedding_size=4).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        for index, push in enumerate(pushes):
            model.get_input_embeddings().weight[5 + index, 0] = push
        model.classifier.weight[1, 0] = 1.0
        model.classifier.bias[0] = bias
    cut = af.cut(model, check=False)
    ids = torch.arange(5, 5 + len(pushes)).unsqueeze(0)
    batch = batch_of("FLANnoenc", cut=cut, inputs={"input_ids": ids, "attention_mask": torch.ones_like(ids)})
    given = torch.tensor([[weights]], dtype=torch.float64)
    made = replace(batch.capture, weights=given, log_weights=given.log())
    batch.capture = replace(made, logits=cut.rerun(made, weights=given.unsqueeze(1))[:, 0])
    return batch


def test_attention_that_decides_is_distinguished_from_attention_that_is_ignored():
    """One heavy word speaks for class 1 and all others against it: only where it stays is the decision the same."""
    count, shuffles = 8, 1000
    heavy = [0.93] + [0.01] * (count - 1)
    decides = rows_of(Permutation(shuffles).run(planted(heavy, [6.0] + [-6.0] * (count - 1))))[0]
    stays = sum(giver[0] == 0 for giver in shuffles_of(0, list(range(count)), shuffles))
    assert abs(stays - shuffles / count) < 5 * math.sqrt(shuffles / count)
    here, there = (1 / (1 + math.exp(-6 * value)) for value in (0.93 - 0.07, 0.01 - 0.99))
    assert decides["flips"] == pytest.approx(1 - stays / shuffles)
    assert decides["median_tvd"] == decides["max_tvd"] == pytest.approx(here - there)
    assert decides["median_tvd"] > 0.95
    assert (decides["never_changes"], decides["max_weight"]) == (False, pytest.approx(0.93))
    ignored = {
        "uniform": planted([1 / count] * count, [6.0] + [-1.0] * (count - 1)),
        "alike": planted(heavy, [3.0] * count),
    }
    for batch in ignored.values():
        row = rows_of(Permutation(shuffles).run(batch))[0]
        assert row["max_tvd"] == pytest.approx(0, abs=1e-12)
        assert (row["flips"], row["never_changes"]) == (0, True)


def test_a_shuffle_that_ends_in_a_tie_is_marginal():
    """The bias is where one of the two orders of the weights leaves nothing to choose."""
    for near, expected in ((1e-14, True), (1e-6, False)):
        row = rows_of(Permutation(20).run(planted([0.75, 0.25], [2.0, 0.0], bias=0.5 - near)))[0]
        assert row["marginal"] == expected


@pytest.mark.parametrize("wrong", [0, -3, 2.5, "100", True, None])
def test_what_is_no_number_of_shuffles_is_refused(wrong):
    with pytest.raises(InputError, match=r"permutations to be a whole number of at least 1, got"):
        Permutation(wrong)
