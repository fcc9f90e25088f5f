"""The tables of a report: each test has one, and its numbers are those of the summary."""

import pytest

import attnfaith as af
from attnfaith.estimates.lookup import SummaryLookup, decimals
from attnfaith.report.estimate_tables import test_tables as tables_of
from attnfaith.tiny_models import tiny_model
from tests.helpers import commands

OPTIONS = {"fewest": 10, "clusters": 4, "kmeans_seeds": 1, "permutations": 20}


def test_every_test_has_a_table(results):
    for test in results.ran:
        tables = tables_of(test, results)
        assert tables, test.name
        for table in tables:
            assert table.rows
            assert all(len(row) == len(table.columns) for row in table.rows)


@pytest.fixture(scope="module")
def by_head():
    tokenizer = af.models.WordTokenizer.train([" ".join(commands.WORDS)], min_count=1)
    evaluator = af.Evaluator(tiny_model("bert"), tokenizer)
    test = af.tests.Information(**OPTIONS)
    return evaluator.compute(commands.texts(40), tests=[test], rankings=["attention"], level="attention", quiet=True)


def test_information_has_a_row_for_each_head(by_head):
    (table,) = tables_of(by_head.ran[0], by_head)
    assert table.columns[0] == "attention of"
    figures = SummaryLookup(by_head.summary(), "information")
    names = {"all heads": "all"} | {f"head {head}": str(head) for head in range(4)}
    assert [row[0] for row in table.rows] == list(names)  # the tiny BERT has four
    column = table.columns.index("information at the first rank (nats)")
    for row in table.rows:
        first = figures.get("", "mi_corrected", ("attention", names[row[0]]), ("0",))
        assert first.known
        assert row[column] == decimals(first)


def test_a_model_with_one_distribution_has_one_row(results):
    (test,) = (item for item in results.ran if item.name == "information")
    (table,) = tables_of(test, results)
    assert [row[0] for row in table.rows] == ["the model"]
