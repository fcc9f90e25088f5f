"""The simulation of runs that stop at a precision: the rule and the numbers are the package's own."""

import numpy as np
import pytest

from attnfaith.estimates.lookup import SummaryLookup
from attnfaith.evaluation.sampling import FIRST, SHARD, widest_of
from attnfaith.evaluation.tests.erasure.matrix import grids
from benchmarks import stopping
from benchmarks.stopping import estimates, fixed, lookup, outcome, planted_population, stopped
from benchmarks.verdict_errors import Attention, simulate, table_of
from tests.helpers.summaries import summarise_erasure


@pytest.fixture(scope="module")
def population():
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(stopping, "LARGE", 20_000)
        patched.setattr("benchmarks.verdict_errors.LARGE", 100_000)
        yield planted_population(0.5)


def test_the_true_values_are_those_of_the_whole_population(population):
    true = estimates(population.truth, "attention")
    assert true["skill"].value == pytest.approx(0.5, abs=0.03)
    assert true["difference"].value == pytest.approx(true["attention"].value - true["random"].value)


def test_a_run_stops_where_its_intervals_are_narrow_enough_and_says_what_a_summary_says(population):
    drawn = population.draw(stopping.LIMIT, np.random.default_rng((0, 1)))
    result = stopped(population, 0.06, 199, (0, 1))
    assert FIRST <= result.texts < 1000
    assert result.texts % SHARD == 0
    assert widest_of(lookup(drawn, result.texts, 199, 1), "attention") <= 0.06
    assert outcome(population, lookup(drawn, result.texts, 199, 1), result.texts) == result
    even = fixed(population, 200, 199, (0, 2))
    assert even.texts == 200
    assert len(even.covered) == len(stopping.PRINTED)


def test_a_lookup_has_the_numbers_of_the_summary():
    table = table_of(simulate(Attention("graded", 0.4, 1.6), 60, np.random.default_rng(0)))
    (grid,) = grids(table)
    texts = table[["text_id"]].drop_duplicates().assign(aside=None)
    summary = SummaryLookup(summarise_erasure(table, texts, n_resamples=99, seed=3))
    assert estimates(lookup(grid, 60, 99, 3), "attention") == estimates(summary, "attention")


@pytest.mark.examples
def test_the_command_prints_a_table(monkeypatch, capsys):
    short = ["--repetitions", "2", "--resamples", "99", "--skills", "0", "--precisions", "0.1", "--processes", "1"]
    monkeypatch.setattr("sys.argv", ["stopping", *short])
    stopping.main()
    *_, head, rule, first, second = capsys.readouterr().out.splitlines()
    assert {row.count("|") for row in (head, rule, first, second)} == {head.count("|")}
    assert first.startswith("| planted, skill 0 | 10 | ")
    assert second.startswith("| planted, skill 0 | none | ")
