"""Single weights, against loops over items and draws."""

import copy
import math
from collections import Counter

import pytest
import torch

import attnfaith as af
from attnfaith.attribution.method import methods
from attnfaith.errors import InputError
from attnfaith.evaluation.rankings import Ranking
from attnfaith.evaluation.tests.erasure.test import Erasure
from attnfaith.evaluation.tests.single_weight.test import COLUMNS, RANKINGS, SingleWeight
from tests.helpers.comparing import inputs_of
from tests.helpers.removal_batches import LENGTHS, SIZES, TOLERANCE, batch_of, model_of, one_of, slowly, table
from tests.helpers.slow_erasure import Slow, decided, flipped

NUMBERS = ("delta_js", "delta_attention", "expected_delta_js", "expected_drawn_flips")


def softmax(row):
    top = max(row)
    return [math.exp(value - top) / sum(math.exp(other - top) for other in row) for value in row]


def kl(left, right):
    return sum(p * math.log(p / q) for p, q in zip(left, right, strict=True) if p > 0)


def js(left, right):
    middle = [(p + q) / 2 for p, q in zip(left, right, strict=True)]
    return (kl(left, middle) + kl(right, middle)) / 2


def divergence(kind, before, after):
    if kind == "regression":
        return abs(before[0] - after[0])
    if kind == "multiclass":
        return js(softmax(before), softmax(after))
    pairs = [js(softmax([0.0, old]), softmax([0.0, new])) for old, new in zip(before, after, strict=True)]
    return sum(pairs) / len(pairs)


def rows_of(columns):
    result = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    by_key = {(row["text_id"], row["ranking"]): row for row in result}
    assert len(by_key) == len(result)
    return by_key


@pytest.mark.parametrize("reference", ["paper", "released-code"])
@pytest.mark.parametrize("kind", list(SIZES))
@pytest.mark.parametrize("family", ["FLANrnn", "bert", *slowly("HANrnn", "llama")])
def test_equals_erasing_every_item_by_itself(family, kind, reference):
    batch = batch_of(family, kind, lengths=(3, *LENGTHS))
    rows, slow = rows_of(SingleWeight(reference=reference).run(batch)), Slow(batch, "attention")
    weights = batch.capture.weights.mean(1).tolist()
    flips, effect = 0, 0.0
    for text, count in enumerate(batch.capture.lengths.tolist()):
        if count < 2:
            assert not [key for key in rows if key[0] == text]
            continue
        before = batch.logits[text].tolist()
        after = [slow.logits(text, [item]) for item in range(count)]
        moved = [divergence(kind, before, entry) for entry in after]
        flip = [flipped(kind, before, entry, TOLERANCE) for entry in after]
        for name in RANKINGS:
            row = rows[text, name]
            assert list(row) == [column for column, _ in COLUMNS]
            ends = [order[0] for order in slow.orders(Ranking(name, "attention"), text)]
            top = max(ends, key=lambda item: moved[item])
            drawn = row["drawn"]
            assert (row["items"], row["top"], row["gold"]) == (count, top, None)
            assert row["prediction"] == decided(kind, before)
            assert 0 <= drawn < count
            assert drawn != top or reference == "released-code"
            pool = [item for item in range(count) if item != top or reference == "released-code"]
            expected = {
                "delta_js": moved[top] - moved[drawn],
                "delta_attention": weights[text][top] - weights[text][drawn],
                "expected_delta_js": moved[top] - sum(moved[item] for item in pool) / len(pool),
                "expected_drawn_flips": sum(flip[item] for item in pool) / len(pool),
            }
            for key in NUMBERS:
                assert row[key] == pytest.approx(expected[key], rel=1e-6, abs=1e-9), key
            assert (row["top_flips"], row["drawn_flips"]) == (flip[top], flip[drawn])
            assert not row["marginal"]
            flips += any(flip)
        effect = max(effect, *moved)
    assert effect > 1e-4  # far above what is allowed for rounding
    assert flips > 0 or (family, kind) == ("bert", "sigmoid")


@pytest.mark.parametrize("kind", list(SIZES))
@pytest.mark.parametrize("family", ["FLANrnn", "bert"])
def test_the_top_item_flips_exactly_where_erasure_stops_at_its_first_removal(family, kind):
    """Both tests start from the same item: a label that is absent, or a regression, turns the scores round."""
    both = {"attention": tuple(Ranking(name, "attention") for name in ("random", *RANKINGS))}
    first = absent = differing = 0
    for seed in range(3):
        inputs = inputs_of(model_of(family, kind), lengths=(3, 4, *LENGTHS, 3, 5), seed=seed)
        batch = batch_of(family, kind, rankings=both, inputs=inputs, numbers=list(range(len(LENGTHS) + 4)))
        erased, single = table(Erasure().run(batch)), rows_of(SingleWeight().run(batch))
        for (text, name), row in single.items():
            removed = erased[text, "attention", name, "attention"]["removed"]
            assert row["top_flips"] == (removed == 1), (text, name)
            first += removed == 1
            scores = batch.scores(Ranking(name, "attention"), "attention")[text, : row["items"]]
            differing += name != "attention" and row["top"] != int(scores.argmax())
            absent += kind == "multilabel" and float(batch.logits[text].max()) <= 0
    assert first > 5
    assert (differing > 5) == (kind in ("multilabel", "regression"))
    assert (absent > 5) == (kind == "multilabel")


def test_a_label_that_is_explained_on_request_is_turned_round_where_it_is_absent():
    """Target and presence are of each text: the same ranking is turned in one text and not in the next."""
    batch = batch_of("FLANrnn", "multilabel", target=1)
    signs = [1 if on else -1 for on in (batch.logits[:, 1] > 0).tolist()]
    assert set(signs) == {1, -1}
    for (text, name), row in rows_of(SingleWeight().run(batch)).items():
        scores = methods["attention", name].run(batch.request).values[text, : row["items"]].tolist()
        sign = 1 if name == "attention" else signs[text]
        assert sign * scores[row["top"]] == max(sign * score for score in scores)


def draws(reference, seeds, lengths=(5, 5, 3)):
    """How often each item was drawn, by text and ranking; and the tops."""
    counts, tops = {}, {}
    for seed in range(seeds):
        rows = rows_of(SingleWeight(reference=reference).run(batch_of("FLANnoenc", lengths=lengths, seed=seed)))
        for key, row in rows.items():
            counts.setdefault(key, Counter())[row["drawn"]] += 1
            tops.setdefault(key, set()).add(row["top"])
    return counts, tops


def test_the_paper_draws_from_the_others_and_the_released_code_from_all():
    """Many seeds: every share is within five standard deviations of what it must be."""
    seeds = 80
    for reference in ("paper", "released-code"):
        counts, tops = draws(reference, seeds)
        for (text, ranking), seen in counts.items():
            count, (top,) = (5, 5, 3)[text], tops[text, ranking]
            pool = count if reference == "released-code" else count - 1
            assert (top in seen) == (reference == "released-code")
            assert len(seen) == pool
            spread = math.sqrt(seeds * (1 / pool) * (1 - 1 / pool))
            assert all(abs(times - seeds / pool) < 5 * spread for times in seen.values())


@pytest.mark.parametrize("reference", ["paper", "released-code"])
def test_the_expectation_is_the_mean_over_all_draws(reference):
    """Every item that can be drawn is, in some seed; their plain mean is what is said of each of them."""
    seen, seen_values = {}, {}
    for seed in range(40):
        rows = rows_of(SingleWeight(reference=reference).run(batch_of("FLANnoenc", lengths=(4, 5), seed=seed)))
        for key, row in rows.items():
            seen.setdefault(key, {})[row["drawn"]] = (row["delta_js"], row["drawn_flips"])
            seen_values.setdefault(key, set()).add((row["expected_delta_js"], row["expected_drawn_flips"]))
    for key, values in seen.items():
        ((expected_js, expected_flips),) = seen_values[key]
        assert len(values) == (4, 5)[key[0]] - (reference == "paper")
        assert sum(js for js, _ in values.values()) / len(values) == pytest.approx(expected_js, abs=1e-12)
        assert sum(flip for _, flip in values.values()) / len(values) == pytest.approx(expected_flips, abs=1e-12)


@pytest.mark.parametrize("family", ["FLANrnn", "HANrnn", "bert"])
def test_draws_depend_on_the_row_and_the_ranking_only(family):
    numbers = [40, 7, 19, 3, 100, 12, 55, 8]
    inputs = inputs_of(model_of(family), lengths=LENGTHS, seed=2)
    together = rows_of(SingleWeight().run(batch_of(family, numbers=numbers, inputs=inputs)))
    apart = {}
    for text in reversed(range(len(numbers))):
        apart |= rows_of(SingleWeight().run(batch_of(family, numbers=[numbers[text]], inputs=one_of(inputs, text))))
    assert together.keys() == apart.keys()
    for key, row in together.items():
        for name, value in row.items():
            expected = pytest.approx(apart[key][name], abs=1e-9) if isinstance(value, float) else apart[key][name]
            assert value == expected, (key, name)
    others = rows_of(SingleWeight().run(batch_of(family, numbers=numbers, inputs=inputs, seed=1)))
    assert any(others[key]["drawn"] != row["drawn"] for key, row in together.items())


def test_protected_items_are_neither_the_top_nor_drawn():
    batch = batch_of("bert", special_tokens="protect")
    special = batch.special_items
    assert special.any()
    for reference in ("paper", "released-code"):
        for seed in range(5):
            batch = batch_of("bert", special_tokens="protect", seed=seed)
            for (text, _), row in rows_of(SingleWeight(reference=reference).run(batch)).items():
                assert row["items"] == int((batch.capture.mask & ~special)[text].sum())
                assert not special[text, [row["top"], row["drawn"]]].any()


def test_the_top_is_counted_among_the_texts_own_items():
    """With padding on the left, an item's number is not its position."""
    right = batch_of("bert", inputs=inputs_of(model_of("bert"), lengths=(9, 5), seed=2))
    left = batch_of("bert", inputs=inputs_of(model_of("bert"), lengths=(9, 5), seed=2, side="left"))
    assert not left.capture.mask[1, 0]
    for (text, name), row in rows_of(SingleWeight().run(left)).items():
        scores = methods["attention", name].run(left.request).values[text][left.capture.mask[text]].tolist()
        assert row["top"] == scores.index(max(scores))
        assert 0 <= row["drawn"] < (9, 5)[text]
        if text == 0:
            assert row["top"] == rows_of(SingleWeight().run(right))[text, name]["top"]


def test_a_reference_that_does_not_exist_is_refused():
    with pytest.raises(InputError, match="'paper' or 'released-code'"):
        SingleWeight(reference="released code")


def test_a_tie_on_either_side_is_marginal():
    """One bias moved until erasing the top item leaves a tie, whichever ranking has it on top."""
    model = copy.deepcopy(model_of("FLANrnn"))
    inputs = inputs_of(model, lengths=(6, 7), seed=2)
    capture = af.cut(model).capture(**inputs)
    slow = Slow(batch_of("FLANrnn", cut=af.cut(model), inputs=inputs), "attention")
    top = int(capture.weights[0, 0].argmax())
    after = slow.logits(0, [top])
    chosen = decided("multiclass", capture.logits[0].tolist())
    rest = max((value, index) for index, value in enumerate(after) if index != chosen)
    with torch.no_grad():
        model.classifier.bias[rest[1]] += after[chosen] - rest[0] - 1e-13
    rows = rows_of(SingleWeight().run(batch_of("FLANrnn", cut=af.cut(model), inputs=inputs)))
    assert rows[0, "attention"]["marginal"]
    assert not any(row["marginal"] for (text, _), row in rows.items() if text == 1)
