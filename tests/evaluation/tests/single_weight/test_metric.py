"""Outputs without the top item and without others, as figures of the test of single weights."""

import math

import numpy as np
import pytest
import torch
from scipy.spatial.distance import jensenshannon

import attnfaith as af
from attnfaith.evaluation.tests.single_weight.test import RANKINGS
from attnfaith.evaluation.tests.single_weight.test import SingleWeight as Test
from attnfaith.metrics import SingleWeight
from tests.helpers.metric_runs import INTERVALS, agree, summary_of, texts_of

CELLS = ("both", "only_top", "only_drawn", "neither")


def test_equals_a_loop_with_scipy(generator):
    top, whole, others = torch.randn(3, 60, 3, generator=generator).softmax(-1).double().numpy()
    expected, cells = [], dict.fromkeys(CELLS, 0)
    for first, before, other in zip(top, whole, others, strict=True):
        expected.append(jensenshannon(before, first) ** 2 - jensenshannon(before, other) ** 2)
        flips = (first.argmax() != before.argmax(), other.argmax() != before.argmax())
        cells[{(1, 1): "both", (1, 0): "only_top", (0, 1): "only_drawn", (0, 0): "neither"}[flips]] += 1
    result = SingleWeight(per_text=True).compute(predictions=top, references=whole, others=others)
    assert result["per_text"]["delta_js"] == pytest.approx(expected, abs=1e-7)
    assert result["delta_js"] == pytest.approx(np.mean(expected), abs=1e-7)
    assert result["delta_js_negative"] == np.mean(np.array(expected) < 0)
    assert {name: round(60 * result[name]) for name in CELLS} == cells
    assert min(cells.values()) > 0


@pytest.mark.parametrize("ranking", RANKINGS)
def test_equals_the_summary_of_the_test(ranking):
    """With the item that was drawn; and with all others, in expectation."""
    batch = texts_of()
    table, summary = summary_of(Test(), batch)
    without = batch.request.without_each.softmax(-1)
    top, drawn, every, before = [], [], [], []
    for row in table[table.ranking == ranking].itertuples():
        text = [item.number for item in batch.rows].index(row.text_id)
        indices = batch.capture.mask[text].nonzero().flatten().tolist()
        outputs = without[text, indices]
        top.append(outputs[row.top])
        drawn.append(outputs[row.drawn])
        every.append(outputs[[index for index in range(len(indices)) if index != row.top]])
        before.append(batch.logits[text].softmax(-1))
    result = SingleWeight(**INTERVALS).compute(predictions=top, references=before, others=drawn)
    agree(result, summary, "delta_js", "delta_js_negative", *CELLS, ranking=ranking)
    expected = SingleWeight(**INTERVALS).compute(predictions=top, references=before, others=every)
    names = {f"expected_{name}{end}": name + end for name in ("delta_js", *CELLS) for end in ("", "_low", "_high")}
    renamed = {name: expected[column] for name, column in names.items()}
    agree(renamed, summary, *(f"expected_{name}" for name in ("delta_js", *CELLS)), ranking=ranking)
    assert result["neither"] < 1


def test_an_output_that_is_not_a_number_is_undefined_and_takes_no_part():
    whole, top = [[0.9, 0.1]] * 3, [[0.1, 0.9], [math.nan, math.nan], [0.9, 0.1]]
    result = SingleWeight().compute(predictions=top, references=whole, others=whole)
    assert (result["texts"], result["undefined"]) == (3, 1)
    assert (result["only_top"], result["neither"]) == (0.5, 0.5)
    assert result["delta_js"] == pytest.approx(jensenshannon([0.9, 0.1], [0.1, 0.9]) ** 2 / 2)


def test_several_others_may_differ_in_number_from_text_to_text():
    whole = [[0.9, 0.1]] * 2
    others = [[[0.1, 0.9]], [[0.1, 0.9], [0.9, 0.1], [0.8, 0.2], [0.7, 0.3]]]
    result = SingleWeight().compute(predictions=whole, references=whole, others=others)
    assert (result["only_drawn"], result["neither"]) == (pytest.approx(1.25 / 2), pytest.approx(0.75 / 2))


@pytest.mark.parametrize(
    ("predictions", "others", "message"),
    [
        ([[0.3]], [[0.3]], "1 in predictions, 2 in references"),
        ([[2.0, -1.0]], [[0.5, 0.5]], "predictions of text 0 to be at least 0 and to add up to 1, got negative"),
        ([[0.5, 0.9]], [[0.5, 0.5]], r"add up to 1, got a sum of 1\.4\. Logits need a softmax"),
        ([[0.5, 0.5]], [[0.5, 0.3, 0.2]], "classes in every input of text 0"),
    ],
)
def test_what_are_no_probabilities_is_refused(predictions, others, message):
    with pytest.raises(af.InputError, match=message):
        SingleWeight().compute(predictions=predictions, references=[[0.5, 0.5]], others=others)


def test_one_sigmoid_output_is_given_as_two():
    with pytest.raises(af.InputError, match=r"give \[1 - p, p\]"):
        SingleWeight().compute(predictions=[[0.3]], references=[[0.3]], others=[[0.4]])
