"""Figures of the in-distribution test beside loops over its rows, and what is said of them."""

import numpy as np
import pandas as pd
import pytest

from attnfaith.estimates.lookup import SummaryLookup
from attnfaith.evaluation.tests.in_distribution.p_values import p_value_table
from attnfaith.evaluation.tests.in_distribution.summary import FEW_WHOLE, SMALLEST, sentences
from attnfaith.evaluation.tests.in_distribution.test import InDistribution

KEYS = [("input", "attention"), ("input", "random"), ("input", SMALLEST)]


def made(texts=80, unusual=0.8, known=True, seed=0):
    """Rows as a run writes them; some texts never flip, and the first are shorter than any."""
    draw, rows = np.random.default_rng(seed), []
    for text in range(texts):
        about = {"text_id": text, "erase_level": "input", "items": 9, "score": 1.0}
        rows.append(about | {"length": 9, "p": draw.random(), "shorter": False})
        for level, name in KEYS:
            p = 0.001 if draw.random() < unusual else 0.05 + 0.9 * draw.random()
            flips = draw.random() < 0.9
            row = {"ranking_level": level, "ranking": name, "length": 3, "p": p if known else None, "p_adjusted": 2 * p}
            row = row | {"p_adjusted": 2 * p if known else None, "shorter": text < texts / 2}
            missing = dict.fromkeys(("length", "p", "p_adjusted", "shorter"))
            rows.append(about | row | ({} if flips else missing))
    table = pd.DataFrame(rows).astype({"shorter": "boolean", "ranking": object})
    texts_table = pd.DataFrame({"text_id": range(texts), "prediction": 0, "correct": True, "confidence": 0.9})
    return table, texts_table.assign(items=9, aside=None)


def summary_of(**options):
    table, texts = made(**options)
    tables = {"in_distribution_p": table, "texts": texts}
    return table, InDistribution().summarise(tables.__getitem__, by=None, n_resamples=99)


def told(summary, **facts):
    return list(sentences(SummaryLookup(summary, "in_distribution"), {"unit": "tokens", "hide": "pad", **facts}))


def test_figures_are_what_loops_give():
    table, summary = summary_of()
    found = summary.set_index(["figure", "ranking"])["value"]
    for _, name in KEYS:
        rows = [row for row in table.to_dict("records") if row["ranking"] == name and not pd.isna(row["length"])]
        p = [row["p"] for row in rows]
        assert found["unusual", name] == pytest.approx(sum(value <= 0.05 for value in p) / len(p))
        adjusted = [row["p_adjusted"] <= 0.05 for row in rows]
        assert found["out_of_distribution", name] == pytest.approx(sum(adjusted) / len(p))
        assert found["median_p", name] == pytest.approx(np.median(p))
        assert found["shorter_than_any", name] == pytest.approx(np.mean([bool(row["shorter"]) for row in rows]))
    assert (summary[summary["ranking"] == "attention"]["texts"] < 80).all()


@pytest.mark.parametrize(
    ("unusual", "says"),
    [
        (0.9, "most happen where the model is out of its depth"),
        (0.1, "no sign that most happen"),
        (0.5, "more texts would tell"),
    ],
)
def test_the_verdict_says_where_most_flips_happen(unusual, says):
    _, summary = summary_of(unusual=unusual)
    lines = told(summary)
    assert "(replaced by the padding token)" in lines[0]
    assert "a random order" in lines[1]
    assert "the smallest sets known" in lines[1]
    assert says in lines[2]
    assert "less is left than any text of the run has" in lines[3]


def test_a_low_share_is_no_proof():
    (line,) = [line for line in told(summary_of(unusual=0.1)[1]) if "no sign" in line]
    assert "This is no proof" in line


def test_nothing_is_concluded_from_too_few_whole_texts():
    """Of 24 texts, two in three flip on something that no text is like: after the correction none can be called so."""
    draws, rows = np.random.default_rng(0), []
    for text in range(24):
        about = {"text_id": text, "erase_level": "input", "items": 9, "removed": 6}
        rows.append(about | {"length": 9, "vector": draws.normal(size=8)})
        shift = 50.0 if text % 3 else 0.0
        row = {"ranking_level": "input", "ranking": "attention", "length": 3, "vector": draws.normal(size=8) + shift}
        rows.append(about | row)
    table = p_value_table([pd.DataFrame(rows)], combination="fisher", nearest=None).to_pandas()
    texts = made(texts=24)[1]
    tables = {"in_distribution_p": table, "texts": texts}
    summary = InDistribution().summarise(tables.__getitem__, by=None, n_resamples=99)
    found = summary.set_index(["figure", "ranking"])["value"]
    assert found["unusual", "attention"] > 0.6
    assert found["out_of_distribution", "attention"] == 0
    said = " ".join(told(summary))
    assert "this says nothing" in said
    assert "not unusual" not in said
    assert "no sign" not in said


def test_without_p_values_it_says_why():
    _, summary = summary_of(known=False)
    rows = summary[(summary["figure"] == "unusual") & (summary["ranking"] == "attention")]
    assert rows["note"].tolist() == [FEW_WHOLE]
    assert len(told(summary)) == 1
    assert "too few whole texts" in told(summary)[0]
