"""The simulation behind the verdict's error rates: its law against permutations, its truth against the package."""

import itertools

import numpy as np
import pandas as pd
import pytest

from benchmarks import verdict_errors
from benchmarks.verdict_errors import (
    FAITHFUL,
    LENGTHS,
    UNFAITHFUL,
    Attention,
    Outcome,
    is_wrong,
    judged,
    line,
    planted,
    simulate,
    table_of,
)
from tests.faults.children import warm_context
from tests.helpers.summaries import summarise_erasure


@pytest.mark.parametrize(("items", "deciding", "needed"), [(6, 1, 1), (6, 3, 2), (5, 5, 3), (7, 3, 3)])
def test_a_random_order_needs_what_it_needs_over_all_permutations(items, deciding, needed):
    """Negative hypergeometric: every order of the items, counted."""
    stops = [sorted(order)[needed - 1] + 1 for order in itertools.permutations(range(items), deciding)]
    expected = np.bincount(stops, minlength=items + 1) / len(stops)
    count, rng = 200_000, np.random.default_rng(0)
    parts = (np.full(count, number) for number in (items, needed, deciding))
    result = np.bincount(verdict_errors.steps(*parts, np.zeros(count), rng), minlength=items + 1) / count
    assert np.abs(result - expected).max() < 5 * np.sqrt(0.25 / count)


@pytest.mark.parametrize("strength", [-1.0, 1.5])
def test_a_strong_ranking_draws_items_by_their_weights(strength):
    """Item by item with loops, each with the chance of its weight among those that are left."""
    items, deciding, needed, count, rng = 8, 3, 2, 4000, np.random.default_rng(0)
    slow = []
    for _ in range(count):
        left, stop, missing = [np.exp(strength)] * deciding + [1.0] * (items - deciding), 0, needed
        kinds = [True] * deciding + [False] * (items - deciding)
        while missing:
            chosen = rng.choice(len(left), p=np.array(left) / sum(left))
            left.pop(chosen)
            missing -= kinds.pop(chosen)
            stop += 1
        slow.append(stop)
    parts = (np.full(50 * count, number) for number in (items, needed, deciding))
    fast = verdict_errors.steps(*parts, np.full(50 * count, strength), rng)
    assert abs(np.mean(slow) - fast.mean()) < 5 * np.std(slow) / np.sqrt(count)
    assert abs(fast.mean() - verdict_errors.steps(*_same(items, needed, deciding), np.zeros(count), rng).mean()) > 0.5


def _same(*numbers, count=4000):
    return (np.full(count, number) for number in numbers)


@pytest.mark.parametrize("shape", verdict_errors.SHAPES)
@pytest.mark.parametrize("skill", [-0.1, 0.387, 0.8, 1.0])
def test_the_planted_skill_is_the_packages_own(shape, skill, monkeypatch):
    """The definition of efficiency and skill is the package's, on the table as it is judged."""
    monkeypatch.setattr(verdict_errors, "LARGE", 200_000)
    attention, true = planted(shape, skill)
    assert true == pytest.approx(skill, abs=0.006)
    simulated = simulate(attention, 3000, np.random.default_rng(3))
    assert LENGTHS[0] <= simulated.items.min() < simulated.items.max() <= LENGTHS[-1]
    assert (simulated.removed["random"] == 0).sum() > (simulated.smallest == 0).sum() > 50, "some never flip"
    for sizes in simulated.removed.values():
        assert (sizes[sizes > 0] >= simulated.smallest[sizes > 0]).all()
        assert (sizes <= simulated.items).all()
    texts = pd.DataFrame({"text_id": np.arange(3000), "aside": None})
    summary = summarise_erasure(table_of(simulated), texts, n_resamples=99).set_index(["figure", "ranking"])
    for ranking in ("attention", "random"):
        assert summary.loc[("efficiency", ranking), "value"] == pytest.approx(simulated.efficiency(ranking))
    assert summary.loc[("skill", "attention"), "value"] == pytest.approx(simulated.skill)
    assert simulated.skill == pytest.approx(true, abs=0.06)


def test_the_sizes_a_text_is_judged_by_depend_on_the_text():
    """Lengths matter to both rankings, so their figures go together, as they do in real runs."""
    simulated = simulate(Attention("graded", 0.4, 1.6), 20_000, np.random.default_rng(0))
    flips = (simulated.smallest > 0) & (simulated.removed["random"] > 0) & (simulated.removed["attention"] > 0)
    shares = [simulated.smallest[flips] / simulated.removed[name][flips] for name in ("attention", "random")]
    assert np.corrcoef(shares)[0, 1] > 0.05


@pytest.mark.parametrize(("skill", "label"), [(0.0, "unfaithful"), (0.65, "partly"), (1.0, "faithful")])
def test_many_texts_are_judged_as_they_were_planted(skill, label, monkeypatch):
    monkeypatch.setattr(verdict_errors, "LARGE", 200_000)
    attention, true = planted("graded", skill)
    result = [judged(attention, 1000, 199, (0, 1, number)) for number in range(3)]
    assert [item.label for item in result] == [label] * 3
    assert [item.better for item in result] == [skill > 0] * 3 or skill == 0
    assert all(item.low - 0.05 <= true <= item.high + 0.05 for item in result)
    assert result == [judged(attention, 1000, 199, (0, 1, number)) for number in range(3)], "a seed is a run"


def test_a_label_is_wrong_where_it_names_no_range_that_holds_the_truth():
    assert not is_wrong("partly", UNFAITHFUL)
    assert is_wrong("unfaithful", UNFAITHFUL)
    assert is_wrong("unfaithful or partly", FAITHFUL)
    assert not is_wrong("partly or faithful", FAITHFUL)
    assert not is_wrong("unfaithful or partly", -0.1)
    assert is_wrong("faithful", 0.79)
    assert not is_wrong("undecided", 2.0)


def test_a_row_counts_labels_errors_coverage_and_the_planned_test():
    outcomes = [Outcome("unfaithful", 0.1, 0.4, True), Outcome("partly", 0.55, 0.7, True)]
    outcomes += [Outcome("undecided", 0.2, 0.9, False)] * 2
    row = line(0.387, 0.387, 25, outcomes, ["unfaithful", "partly", "faithful", "undecided"])
    assert row == "| 0.387 | 25 | 25 | 25 |  | 50 | 25 | 75 | 50 |"


@pytest.mark.slow
def test_the_command_prints_a_table(monkeypatch, capsys):
    short = ["--repetitions", "1", "--resamples", "99", "--texts", "25", "--skills", "0", "1"]
    monkeypatch.setattr("sys.argv", ["verdict_errors", *short])
    monkeypatch.setattr(verdict_errors, "get_context", lambda method: warm_context())
    verdict_errors.main()
    *_, head, rule, first, second = capsys.readouterr().out.splitlines()
    assert head.startswith("| true skill | texts | unfaithful | ")
    assert {row.count("|") for row in (head, rule, first, second)} == {head.count("|")}
    assert first.startswith("| 0 | 25 | ")
    assert second.startswith("| 1 | 25 | ")
