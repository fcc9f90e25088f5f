"""Probabilities without and with the top items, and marks of people, against scikit-learn and the test's summary."""

import math

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score, f1_score

import attnfaith as af
from attnfaith.evaluation.tests.rationales.test import Rationales
from attnfaith.metrics import Comprehensiveness, RationaleAgreement, Sufficiency
from tests.helpers.labelled_models import flipping_model
from tests.helpers.metric_runs import INTERVALS, SEED, STATISTICS, agree

WORDS = "good bad fine dull long short film plot cast story very not quite never the a".split()
SHARES = (0.1, 0.5)


@pytest.fixture(scope="module")
def results():
    """A run of the test on texts in which people marked words."""
    model, tokenizer = flipping_model("FLANrnn", WORDS)
    generator, data = np.random.default_rng(0), []
    for number in range(20):
        words = generator.choice(WORDS, size=2 + number % 9).tolist()
        data.append(
            {"text": " ".join(words), "marks": [int(word in ("good", "bad", "dull", "plot")) for word in words]}
        )
    data[3]["marks"] = [0] * len(data[3]["marks"])
    data[5]["marks"] = [1] * len(data[5]["marks"])
    test = Rationales(shares=SHARES)
    options = {"rationale_column": "marks", "seed": SEED, "quiet": True, "level": "attention", **STATISTICS}
    return af.Evaluator(model, tokenizer).compute(data, tests=[test], rankings=["gradient"], **options)


def rows_of(results):
    table = results.table("rationales").query("ranking == 'gradient'").sort_values("text_id").set_index("text_id")
    return table.join(results.table().set_index("text_id")["confidence"])


def test_drops_equal_the_summary_of_the_rationales_test(results):
    rows, summary = rows_of(results), results.summary()
    before = rows["confidence"].tolist()
    left = {
        name: [sure - np.array(drops) for sure, drops in zip(before, rows[f"{name}_at"], strict=True)]
        for name in ("comprehensiveness", "sufficiency")
    }
    gone = Comprehensiveness(shares=SHARES, **INTERVALS).compute(without=left["comprehensiveness"], references=before)
    names = [f"comprehensiveness{end}" for end in ("", "_at_10%", "_at_50%")]
    agree(gone, summary, *names, "aopc_comprehensiveness", ranking="gradient")
    assert gone["comprehensiveness"] > 0.01
    emptied = rows["confidence"] - rows["all_erased"]
    kept = [np.concatenate(([item], some)) for item, some in zip(emptied, left["sufficiency"], strict=True)]
    kept = Sufficiency(shares=(0, *SHARES), **INTERVALS).compute(kept=kept, references=before)
    names = [f"sufficiency{end}" for end in ("", "_at_10%", "_at_50%")]
    agree(kept, summary, *names, "aopc_sufficiency", ranking="gradient")


def marks_of(row):
    marks = np.zeros(len(row.order), dtype=int)
    for start, stop in row.rationale:
        marks[start:stop] = 1
    return marks.tolist()


@pytest.mark.parametrize("top", [None, 0.4])
def test_agreement_equals_the_summary_of_the_rationales_test(results, top):
    rows = rows_of(results)
    summary = results.summary()
    if top is not None:
        tables = {"rationales": results.table("rationales"), "texts": results.table()}
        summary = Rationales(shares=SHARES, top=top).summarise(tables.__getitem__, by=None, seed=SEED, **STATISTICS)
    scores = [(-np.argsort(row.order)).tolist() for row in rows.itertuples()]
    marks = [marks_of(row) for row in rows.itertuples()]
    result = RationaleAgreement(top=top, **INTERVALS).compute(predictions=scores, references=marks)
    whole = summary.set_index("figure")
    for name in ("rationale_share", "top_share", "without_rationale"):
        assert result[name] == pytest.approx(float(whole.loc[name, "value"])), name
    assert result["undefined"] == 1 == whole.loc["whole_rationale", "value"]
    agree(result, summary, "token_f1", "auprc", "iou_f1", ranking="gradient")
    assert 0 < result["iou_f1"] < 1


def test_agreement_equals_scikit_learn(generator):
    scores = [torch.randn(size, generator=generator).double().round(decimals=1).tolist() for size in range(3, 40)]
    marks = [(torch.rand(len(score), generator=generator) < 0.4).int().tolist() for score in scores]
    marks[2], marks[5] = [0] * len(marks[2]), [1] * len(marks[5])
    result = RationaleAgreement(top=0.3, per_text=True).compute(predictions=scores, references=marks)
    for text, (entry, gold) in enumerate(zip(scores, marks, strict=True)):
        mixed = 0 < sum(gold) < len(gold)
        expected = average_precision_score(gold, entry) if mixed else math.nan
        assert result["per_text"]["auprc"][text] == pytest.approx(expected, nan_ok=True)
        first = sorted(range(len(entry)), key=lambda item: (-entry[item], item))[: math.ceil(0.3 * len(entry) - 1e-9)]
        chosen = [int(item in first) for item in range(len(entry))]
        expected = f1_score(gold, chosen) if any(gold) else math.nan
        assert result["per_text"]["token_f1"][text] == pytest.approx(expected, nan_ok=True)
    assert (result["texts"], result["without_rationale"]) == (37, sum(not any(gold) for gold in marks))
    assert result["undefined"] == sum(all(gold) for gold in marks)
    assert result["auprc"] == pytest.approx(np.nanmean(result["per_text"]["auprc"]))


def test_masks_may_be_booleans_and_scores_may_be_missing():
    scores, marks = [[0.5, math.nan, 0.1]], [[True, True, False]]
    result = RationaleAgreement().compute(predictions=scores, references=np.array(marks))
    assert result["token_f1"] == 0.5  # what has no score comes last
    assert result["auprc"] == pytest.approx((1 + 2 / 3) / 2)


def test_probabilities_of_nan_are_undefined():
    result = Comprehensiveness(shares=[0.1, 0.5]).compute(without=[[math.nan, 0.1], [0.5, 0.25]], references=[1, 1])
    assert (result["texts"], result["undefined"]) == (2, 1)
    assert result["comprehensiveness"] == pytest.approx(0.625)
    assert result["comprehensiveness_at_50%"] == pytest.approx((0.9 + 0.75) / 2)


def test_without_nothing_kept_there_is_no_aopc():
    result = Sufficiency().compute(kept=[[0.1, 0.2, 0.3, 0.4, 0.5]], references=[0.5])
    assert result["sufficiency"] == pytest.approx(0.2)
    assert "aopc_sufficiency" not in result
    assert list(result)[3:] == [f"sufficiency_at_{share}%" for share in (1, 5, 10, 20, 50)]


@pytest.mark.parametrize(
    ("make", "given", "message"),
    [
        (Comprehensiveness, {"without": [[0.1, 0.2]], "references": [0.5]}, "to have 5 probabilities.*got 2"),
        (Comprehensiveness, {"without": [[2.0] * 5], "references": [0.5]}, "without of text 0 to be between 0 and 1"),
        (Comprehensiveness, {"predictions": [[0.1] * 5], "references": [0.5]}, "'without' is missing"),
        (Sufficiency, {"kept": [[0.1] * 5], "references": [1.5]}, "references of text 0 to be between 0 and 1"),
        (Sufficiency, {"kept": [[0.1]], "references": [1], "shares": [2]}, "shares to be numbers from 0 to 1"),
        (Sufficiency, {"kept": [[0.1]], "references": [1], "shares": [0]}, "shares to be numbers from 0 to 1"),
        (RationaleAgreement, {"predictions": [[1, 2]], "references": [[1, 2]]}, "references of text 0 to be marks"),
        (RationaleAgreement, {"predictions": [[1, 2]], "references": [[1]]}, "items in every input of text 0"),
        (RationaleAgreement, {"predictions": [[1]], "references": [[1]], "top": 0}, "top to be above 0 and at most 1"),
    ],
)
def test_bad_input_is_refused(make, given, message):
    with pytest.raises(af.InputError, match=message):
        make().compute(**given)


def test_options_may_change_for_a_call_when_all_texts_still_go_with_them():
    module = Comprehensiveness(shares=[0.1])
    assert module.compute(without=[[0.2, 0.1]], references=[1], shares=[0.1, 0.5])["texts"] == 1
    module.add(without=[0.2], reference=1)
    with pytest.raises(af.InputError, match="to have 2 probabilities"):
        module.compute(shares=[0.1, 0.5])
    assert module.compute(without=[[0.2]], references=[1])["texts"] == 1
