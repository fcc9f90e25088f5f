"""Shuffled and adversarial attention, against loops and the tests' own summaries."""

import math

import numpy as np
import pytest
import torch
from scipy.spatial.distance import jensenshannon

import attnfaith as af
from attnfaith.evaluation.tests.adversarial import test as searching
from attnfaith.evaluation.tests.adversarial.test import Adversarial
from attnfaith.evaluation.tests.permutation.test import Permutation
from attnfaith.functional.counterfactual import permute, random_permutations
from attnfaith.metrics import AdversarialDivergence, PermutationDistance
from attnfaith.randomness import keyed_generator
from tests.helpers.metric_runs import INTERVALS, agree, summary_of, texts_of


def test_permutations_equal_a_loop(generator):
    before = torch.randn(30, 3, generator=generator).softmax(-1).double().numpy()
    after = [torch.randn(1 + index % 4, 3, generator=generator).softmax(-1).double().numpy() for index in range(30)]
    moved = [[sum(abs(p - q)) / 2 for p in part] for part, q in zip(after, before, strict=True)]
    flips = [[p.argmax() != q.argmax() for p in part] for part, q in zip(after, before, strict=True)]
    result = PermutationDistance(per_text=True).compute(predictions=after, references=before)
    assert result["per_text"]["median_tvd"] == pytest.approx([np.median(part) for part in moved])
    assert result["median_tvd"] == pytest.approx(np.median([np.median(part) for part in moved]))
    assert result["median_tvd_mean"] == pytest.approx(np.mean([np.median(part) for part in moved]))
    assert result["max_tvd"] == pytest.approx(np.median([max(part) for part in moved]))
    assert result["flips"] == pytest.approx(np.mean([np.mean(part) for part in flips]))
    assert result["never_changes"] == pytest.approx(np.mean([not any(part) for part in flips]))


def test_equals_the_summary_of_the_permutation_test():
    batch = texts_of()
    test = Permutation(permutations=7)
    table, summary = summary_of(test, batch)
    seed, cut, capture = batch.config.settings.seed, batch.config.cut, batch.capture
    drawn = torch.stack(
        [
            random_permutations(there, 7, keyed_generator(seed, row.number, test.name))
            for row, there in zip(batch.rows, capture.mask, strict=True)
        ]
    )
    after = cut.rerun(capture, weights=permute(capture.weights, drawn)).softmax(-1)
    chosen = table.text_id.tolist()
    assert len(chosen) == len(batch.rows) - 1
    result = PermutationDistance(**INTERVALS).compute(
        predictions=after[chosen], references=batch.logits[chosen].softmax(-1)
    )
    agree(result, summary, "median_tvd", "median_tvd_mean", "max_tvd", "never_changes", "flips")
    assert result["median_tvd"] > 0.01


def test_permuting_constant_attention_changes_nothing():
    result = PermutationDistance().compute(predictions=[[[0.7, 0.3]] * 5] * 3, references=[[0.7, 0.3]] * 3)
    assert (result["median_tvd"], result["max_tvd"], result["never_changes"]) == (0, 0, 1)


def test_a_text_without_shuffles_or_with_nan_is_undefined():
    after = [[[0.5, 0.5]], [], [[math.nan, math.nan], [0.5, 0.5]]]
    result = PermutationDistance().compute(predictions=after, references=[[0.75, 0.25]] * 3)
    assert (result["texts"], result["undefined"], result["median_tvd"]) == (3, 2, 0.25)
    assert result["never_changes"] == 1


def best(others, weights, outputs, output, epsilon):
    """The largest divergence of a candidate that counts, with scipy."""
    js = [0.0]
    for other, after in zip(others, outputs, strict=True):
        if sum(abs(after - output)) / 2 <= epsilon:
            js.append(jensenshannon(weights, other) ** 2)
    return max(js)


@pytest.mark.parametrize(("classes", "epsilon"), [(2, None), (3, None), (3, 0.2)])
def test_divergences_equal_a_loop_with_scipy(classes, epsilon, generator):
    texts = []
    for size in (2, 5, 9, 3, 30):
        output = torch.randn(classes, generator=generator)
        outputs = (output + 0.1 * torch.randn(4, classes, generator=generator)).softmax(-1).double().numpy()
        others = torch.randn(4, size, generator=generator).softmax(-1).double().numpy()
        weights = torch.randn(size, generator=generator).softmax(-1).double().numpy()
        texts.append((others, weights, outputs, output.softmax(-1).double().numpy()))
    limit = epsilon or {2: 0.01, 3: 0.05}[classes]
    expected = [best(*text, limit) for text in texts]
    columns = dict(zip(AdversarialDivergence.inputs, zip(*texts, strict=True), strict=True))
    result = AdversarialDivergence(epsilon=epsilon, per_text=True).compute(**columns)
    assert result["per_text"]["js"] == pytest.approx(expected, abs=1e-7)
    assert result["js_mean"] == pytest.approx(np.mean(expected), abs=1e-7)
    assert result["js_median"] == pytest.approx(np.median(expected), abs=1e-7)
    assert max(expected) > 0.05
    assert result["unsatisfied"] == np.mean([count == 0 for count in result["per_text"]["satisfied"]])


def test_equals_the_summary_of_the_adversarial_test(monkeypatch):
    """From the weights that the search found, and their outputs through the tail."""
    kept = []

    def search(*given, **options):
        kept.append(results := real(*given, **options))
        return results

    real = searching.search_adversary
    monkeypatch.setattr(searching, "search_adversary", search)
    batch = texts_of(kind="sigmoid")
    table, summary = summary_of(Adversarial(steps=40, rate=0.1, epsilon=0.1, near=0.3), batch)
    (outcome,), cut, capture = kept, batch.config.cut, batch.capture
    after, before = (
        torch.sigmoid(logits) for logits in (cut.rerun(capture, weights=outcome.weights.unsqueeze(1)), capture.logits)
    )
    columns = {"predictions": [], "references": [], "outputs": [], "original_output": []}
    for text in table.text_id:
        there = capture.mask[text]
        columns["predictions"].append(outcome.weights[text, :, there])
        columns["references"].append(capture.weights[text, 0, there])
        columns["outputs"].append(torch.cat((1 - after[text], after[text]), -1))
        columns["original_output"].append(torch.cat((1 - before[text], before[text]), -1))
    module = AdversarialDivergence(epsilon=0.1, near=0.3, **INTERVALS)
    result = module.compute(**columns)
    agree(result, summary, "js_mean", "js_median", "near_ln2")
    assert 0.05 < result["js_mean"] < math.log(2)
    assert 0 < result["near_ln2"] < 1


def test_only_what_is_within_epsilon_counts_and_the_identity_always_does():
    """0.51 is 0.01 from 0.5, though not in floating point."""
    weights, far = [1.0, 0.0], [[0.0, 1.0]]
    within = AdversarialDivergence(per_text=True).compute(
        predictions=[far, far, []],
        references=[weights] * 3,
        outputs=[[[0.51, 0.49]], [[0.5101, 0.4899]], []],
        original_output=[[0.5, 0.5]] * 3,
    )
    assert within["per_text"]["js"] == pytest.approx([math.log(2), 0, 0])
    assert within["near_ln2"] == pytest.approx(1 / 3)
    assert within["unsatisfied"] == pytest.approx(2 / 3)
    assert within["undefined"] == 0


def test_heads_side_by_side_have_the_mean_divergence(generator):
    first, other = torch.randn(2, 4, 6, generator=generator).softmax(-1).double()
    output = [[0.5, 0.5]]
    each = AdversarialDivergence().compute(
        predictions=other, references=first, outputs=[output] * 4, original_output=output * 4
    )
    together = AdversarialDivergence().compute(
        predictions=[other.flatten() / 4], references=[first.flatten() / 4], outputs=[output], original_output=output
    )
    assert together["js_mean"] == pytest.approx(each["js_mean"])
    assert each["js_mean"] > 0.05


def test_a_text_without_items_is_too_short():
    result = AdversarialDivergence().compute(
        predictions=[[], [[1.0]]], references=[[], [1.0]], outputs=[[], [[0.5, 0.5]]], original_output=[[0.5, 0.5]] * 2
    )
    assert (result["texts"], result["too_short"], result["undefined"]) == (2, 2, 0)
    assert math.isnan(result["js_mean"])


GOOD = {
    "predictions": [[[0.5, 0.5]]],
    "references": [[0.9, 0.1]],
    "outputs": [[[0.5, 0.5]]],
    "original_output": [[0.5, 0.5]],
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"predictions": [[[0.5, 0.2]]]}, "predictions of text 0 .* a sum of 0.7"),
        ({"references": [[0.5, 0.3, 0.2]]}, "items in every input of text 0"),
        ({"references": [[]]}, "items in every input of text 0, got 2 in predictions, 0 in references"),
        ({"outputs": [[[0.5, 0.5]] * 2]}, "candidates in every input of text 0"),
        ({"outputs": [[[0.5, 0.3, 0.2]]]}, "classes in every input of text 0"),
        ({"original_output": [[-1.0, 2.0]]}, "original_output of text 0 .* negative"),
        ({"epsilon": 2}, "epsilon to be between 0 and 1"),
        ({"near": 90}, "near to be above 0 and at most 1"),
    ],
)
def test_bad_input_is_refused(changes, message):
    AdversarialDivergence().compute(**GOOD)
    with pytest.raises(af.InputError, match=message):
        AdversarialDivergence().compute(**{**GOOD, **changes})
