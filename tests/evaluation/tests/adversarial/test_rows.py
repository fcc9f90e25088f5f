"""The adversarial test: what it finds is put through the model again, and compared with what is known beforehand."""

import copy
import math

import pytest
import torch

import attnfaith as af
from attnfaith.adapters.affine import AffineAdapter
from attnfaith.errors import InputError
from attnfaith.evaluation.tests.adversarial import test
from attnfaith.evaluation.tests.adversarial.test import COLUMNS, Adversarial
from attnfaith.functional.attention_limits import divergence_range
from attnfaith.functional.decision import Decision
from tests.helpers.comparing import inputs_of
from tests.helpers.removal_batches import LENGTHS, SIZES, TOLERANCE, batch_of, model_of, one_of, slowly
from tests.helpers.slow_erasure import decided
from tests.helpers.slow_permutation import distance

LN2 = math.log(2)
QUICK = Adversarial(steps=25, rate=0.1)
NUMBERS = ("max_weight", "js", "tvd", "js_low", "js_high", "js_most")


def rows_of(columns):
    """Rows by text; each is there once."""
    result = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    table = {row["text_id"]: row for row in result}
    assert len(table) == len(result)
    return table


def js(left, right):
    total = 0.0
    for p, q in zip(left, right, strict=True):
        total += sum(item * math.log(2 * item / (p + q)) for item in (p, q) if item > 0) / 2
    return total


@pytest.fixture
def spied(monkeypatch):
    """The weights that searches find, one batch after the other."""
    result, search = [], test.search_adversary

    def spy(*args, **options):
        result.append(search(*args, **options))
        return result[-1]

    monkeypatch.setattr(test, "search_adversary", spy)
    return result


@pytest.mark.parametrize("kind", list(SIZES))
@pytest.mark.parametrize("family", ["FLANrnn", "bert", *slowly("HANrnn", "llama", "eurobert")])
def test_the_weights_found_have_the_reported_divergence_and_output_change(family, kind, spied):
    batch = batch_of(family, kind)
    rows = rows_of(QUICK.run(batch))
    (result,) = spied
    capture, epsilon = batch.capture, {"regression": TOLERANCE, "sigmoid": 0.01}.get(kind, 0.05)
    after = batch.config.cut.rerun(capture, weights=result.weights.unsqueeze(1))[:, 0].tolist()
    groups = torch.ones(capture.shape[:2], dtype=torch.bool) if capture.groups is None else capture.groups
    effect = 0.0
    for text, count in enumerate(capture.lengths.tolist()):
        row, before = rows[text], batch.logits[text].tolist()
        assert list(row) == [name for name, _ in COLUMNS]
        assert (row["items"], row["epsilon"], row["gold"]) == (count, epsilon, None)
        assert row["prediction"] == decided(kind, before)
        moved = distance(kind, before, after[text])
        assert moved <= epsilon
        assert row["tvd"] == pytest.approx(moved, abs=1e-6)
        lines = [
            (old.tolist(), new.tolist())
            for old, new, there in zip(capture.weights[text], result.weights[text], groups[text], strict=True)
            if there
        ]
        assert row["js"] == pytest.approx(sum(js(*pair) for pair in lines) / len(lines), abs=1e-8)
        assert all(sum(new) == pytest.approx(sum(old)) for old, new in lines)
        mean = [sum(line) / len(lines) for line in zip(*(old for old, _ in lines), strict=True)]
        assert row["max_weight"] == pytest.approx(max(mean))
        assert 0 <= row["js"] <= row["js_most"] <= LN2
        assert 0 <= row["satisfied"] <= 5
        effect = max(effect, row["js"])
    assert effect > 0.05


@pytest.mark.parametrize("kind", list(SIZES))
@pytest.mark.parametrize("family", ["FLANrnn", "HANrnn"])
def test_where_the_tail_is_affine_bounds_come_from_what_each_item_says_alone(family, kind):
    """The logits with everything on one item, through the model's own tail."""
    batch = batch_of(family, kind)
    decision, capture = batch.config.decision, batch.capture
    rows, gap = rows_of(QUICK.run(batch)), 0.0
    for text, row in rows.items():
        inside = capture.mask[text]
        alone = torch.zeros(len(batch.rows), int(inside.sum()), 1, len(inside), dtype=torch.float64)
        alone[text, :, 0] = torch.eye(len(inside), dtype=torch.float64)[inside]
        corners = batch.config.cut.rerun(capture, weights=alone)[text]
        reach = divergence_range(capture.weights[text, 0, inside], corners, decision, row["epsilon"])
        assert row["js_high"] == pytest.approx(reach.high, abs=1e-9)
        assert row["js_low"] == pytest.approx(max(reach.low, row["js"]), abs=1e-9)
        assert row["js"] <= row["js_low"] + 1e-12
        assert row["js_low"] <= row["js_high"] <= row["js_most"] + 1e-12
        if kind in ("sigmoid", "regression"):
            assert row["js_low"] == row["js_high"]
        gap = max(gap, row["js_high"] - row["js"])
    assert gap > 1e-3


def test_nothing_is_known_of_other_tails():
    for row in rows_of(QUICK.run(batch_of("bert"))).values():
        assert row["js_low"] is None
        assert row["js_high"] is None
        assert row["js_most"] > 0


def test_the_affine_tail_is_the_tail(monkeypatch):
    """The same search through the model finds the same."""
    fast = rows_of(QUICK.run(batch_of("FLANrnn")))
    monkeypatch.setattr(AffineAdapter, "affine", lambda self, capture: None)
    slow = rows_of(QUICK.run(batch_of("FLANrnn")))
    for text, row in fast.items():
        assert slow[text]["js_high"] is None
        for name in ("js", "tvd", "js_most"):
            assert slow[text][name] == pytest.approx(row[name], abs=1e-7), name


@pytest.mark.parametrize("family", ["FLANrnn", "HANrnn", "bert", *slowly("eurobert")])
def test_draws_depend_on_the_row_only(family):
    numbers = [40, 7, 19, 3, 100, 12, 55, 8]
    inputs = inputs_of(model_of(family), lengths=LENGTHS, seed=2)
    together = rows_of(QUICK.run(batch_of(family, numbers=numbers, inputs=inputs)))
    apart = {}
    for text in reversed(range(len(numbers))):
        apart |= rows_of(QUICK.run(batch_of(family, numbers=[numbers[text]], inputs=one_of(inputs, text))))
    assert together.keys() == apart.keys()
    for number, row in together.items():
        for name, value in row.items():
            expected = pytest.approx(apart[number][name], abs=1e-5) if isinstance(value, float) else apart[number][name]
            assert value == expected, (number, name)
    others = rows_of(QUICK.run(batch_of(family, numbers=numbers, inputs=inputs, seed=1)))
    assert any(abs(others[key]["js"] - row["js"]) > 1e-4 for key, row in together.items())


@pytest.mark.parametrize("family", ["FLANrnn", "bert", "eurobert"])
def test_a_batch_that_is_too_large_is_taken_in_parts(family, monkeypatch):
    whole = rows_of(QUICK.run(batch_of(family)))
    monkeypatch.setattr(test, "_NUMBERS", 3 * 5 * batch_of(family).capture.weights[0].numel())
    parts = rows_of(QUICK.run(batch_of(family)))
    for number, row in whole.items():
        for name in ("js", "tvd", "js_most"):
            assert parts[number][name] == pytest.approx(row[name], abs=1e-5)


def test_protected_items_keep_their_weights(spied):
    batch = batch_of("bert", special_tokens="protect")
    special = batch.special_items
    assert special.any()
    rows = rows_of(QUICK.run(batch))
    (result,) = spied
    fixed = special.unsqueeze(1).expand_as(result.weights)
    assert torch.equal(result.weights[fixed], batch.capture.weights[fixed])
    free = rows_of(QUICK.run(batch_of("bert")))
    for text, row in rows.items():
        assert row["items"] == int((batch.capture.mask & ~special)[text].sum())
        assert row["js_most"] < free[text]["js_most"]


@pytest.mark.parametrize("kind", ["multiclass", "sigmoid"])
def test_protected_items_are_part_of_the_exact_solution(kind):
    """Special tokens of a FLAN: their share of the logits stays, and only the rest can move."""
    inputs = inputs_of(model_of("FLANrnn", kind), lengths=(6, 5), seed=2)
    chosen = frozenset({int(inputs["input_ids"][0, 1]), int(inputs["input_ids"][1, 0])})
    batch = batch_of("FLANrnn", kind, inputs=inputs, special_tokens="protect", special_ids=chosen)
    special = batch.special_items
    rows = rows_of(Adversarial(steps=300, rate=0.05).run(batch))
    for text, row in rows.items():
        weights, free = batch.capture.weights[text, 0], batch.capture.mask[text] & ~special[text]
        part = weights[free].sum()
        edited = weights.repeat(int(free.sum()), 1)
        for index, item in enumerate(free.nonzero().flatten().tolist()):
            edited[index, free] = 0
            edited[index, item] = part
        padded = torch.zeros(len(batch.rows), len(edited), 1, len(weights), dtype=torch.float64)
        padded[text, :, 0] = edited
        corners = batch.config.cut.rerun(batch.capture, weights=padded)[text]
        reach = divergence_range(weights[free] / part, corners, batch.config.decision, row["epsilon"])
        assert row["js_high"] == pytest.approx(float(part) * reach.high, abs=1e-9)
        assert row["js"] <= row["js_high"] + 1e-9


def words(*lengths):
    """Inputs of texts so short that no tokenizer makes them, with padding on the right."""
    mask = torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)
    ids = torch.arange(5, 5 + mask.numel()).view(mask.shape)
    return {"input_ids": torch.where(mask, ids, 0), "attention_mask": mask.long()}


def test_texts_of_one_item_have_no_row():
    result = rows_of(QUICK.run(batch_of("FLANrnn", inputs=words(1, 4, 1, 2))))
    assert {number: row["items"] for number, row in result.items()} == {1: 4, 3: 2}
    assert QUICK.run(batch_of("FLANrnn", inputs=words(1, 1))) == {name: [] for name, _ in COLUMNS}


def test_texts_with_nothing_but_protected_items_have_no_row():
    inputs = words(3, 4)
    protected = frozenset(inputs["input_ids"][0].tolist())
    batch = batch_of("FLANrnn", inputs=inputs, special_tokens="protect", special_ids=protected)
    assert {number: row["items"] for number, row in rows_of(QUICK.run(batch)).items()} == {1: 4}


def test_a_model_that_ignores_its_attention_lets_it_go_anywhere():
    model = copy.deepcopy(model_of("FLANrnn"))
    with torch.no_grad():
        model.classifier.weight.zero_()
    for row in rows_of(Adversarial().run(batch_of("FLANrnn", cut=af.cut(model, check=False)))).values():
        assert row["js_low"] == row["js_high"] == pytest.approx(row["js_most"], abs=1e-12)
        assert row["js"] > 0.8 * row["js_most"]
        assert row["satisfied"] == 5


def test_a_decision_that_hangs_on_one_weight_holds_it_fast(spied):
    """One word decides, and half of its weight would be as much as its absence."""
    model = af.models.from_preset("FLANnoenc", num_labels=2, vocab_size=64, embedding_size=4).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.get_input_embeddings().weight[7, 0] = 1.0
        model.classifier.weight[1, 0] = 400.0
        model.classifier.bias[1] = -400 / 4
    ids = torch.tensor([[7, 8, 9, 10]])
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    batch = batch_of("FLANnoenc", cut=af.cut(model, check=False), inputs=inputs)
    assert batch.logits.tolist() == [[0.0, 0.0]]
    row = rows_of(Adversarial().run(batch))[0]
    assert abs(float(spied[0].weights[0, 0, 0]) - 0.25) < 0.0002
    held = torch.tensor([0.25, 0.75, 0.0, 0.0])
    assert row["js_high"] == pytest.approx(js([0.25] * 4, held.tolist()), abs=1e-3)
    assert row["js_high"] < row["js_most"] - 0.02
    assert row["js"] <= row["js_high"]


ROOM = {"sigmoid 1": 0.01, "multiclass 2": 0.01, "multiclass 3": 0.05, "multilabel 1": 0.01, "multilabel 2": 0.05}


@pytest.mark.parametrize(("case", "expected"), [*ROOM.items(), ("regression 1", 0.2)])
def test_how_far_the_output_may_move(case, expected):
    kind, outputs = case.split()[0], int(case.split()[1])
    decision = Decision(kind, tolerance=0.2 if kind == "regression" else None)
    assert Adversarial().epsilon_of(decision, outputs) == expected
    assert Adversarial(epsilon=0.3).epsilon_of(decision, outputs) == 0.3
    row = next(iter(rows_of(Adversarial(epsilon=0.3, steps=1).run(batch_of("FLANnoenc"))).values()))
    assert row["epsilon"] == 0.3


def test_a_regression_needs_a_tolerance():
    with pytest.raises(InputError, match=r"Give tolerance, or the option epsilon of the test"):
        Adversarial().epsilon_of(Decision("regression"), 1)
    assert Adversarial(epsilon=2.0).epsilon_of(Decision("regression"), 1) == 2.0


def test_more_room_lets_it_go_farther():
    result = [
        rows_of(Adversarial(epsilon=item, steps=1).run(batch_of("FLANrnn", "sigmoid"))) for item in (1e-4, 0.05, 1)
    ]
    for text, row in result[0].items():
        reached = [row["js_high"], result[1][text]["js_high"], result[2][text]["js_high"]]
        assert reached == sorted(reached)
        assert reached[2] == pytest.approx(row["js_most"])
        assert reached[0] < reached[2] - 1e-3


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_coarser_numbers(dtype):
    model = copy.deepcopy(model_of("bert")).to(dtype)
    for row in rows_of(QUICK.run(batch_of("bert", cut=af.cut(model)))).values():
        assert 0 <= row["tvd"] <= row["epsilon"]
        assert 0.01 < row["js"] <= row["js_most"]


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("epsilon", 0, "the adversarial test's epsilon to be a finite number above 0, got 0"),
        ("epsilon", math.nan, "epsilon"),
        ("epsilon", "0.01", "epsilon"),
        ("candidates", 0, "the adversarial test's candidates to be a whole number of at least 1, got 0"),
        ("candidates", None, "candidates"),
        ("steps", 2.5, "steps"),
        ("rate", -1, "the adversarial test's rate to be a finite number above 0, got -1"),
        ("noise", 0, "noise"),
        ("penalty", math.inf, "penalty"),
        ("diversity", -0.1, "the adversarial test's diversity to be a finite number of at least 0, got -0.1"),
        ("near", 1.5, "near to be above 0 and at most 1; got 1.5"),
        ("near", True, "near"),
    ],
)
def test_options_that_make_no_sense_are_refused(option, value, message):
    with pytest.raises(InputError, match=message):
        Adversarial(**{option: value})
