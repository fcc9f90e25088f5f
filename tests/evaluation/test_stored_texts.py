"""What a run stores of single texts: against full passes one set at a time, and whatever the run's history."""

import json
import math

import numpy as np
import pandas as pd
import pytest
import torch

import attnfaith as af
from attnfaith.adapters.pass_count import count_passes
from attnfaith.attribution.method import methods
from attnfaith.errors import InputError
from attnfaith.evaluation import stored_texts
from attnfaith.evaluation.runner import Runner
from attnfaith.evaluation.stored_texts import STEPS, TEXTS, Trail, tables_of
from attnfaith.evaluation.tests.erasure.test import Erasure
from attnfaith.functional.keyed_order import rows_at
from tests.helpers import commands
from tests.helpers.removal_batches import batch_of, ranked, slowly
from tests.helpers.slow_erasure import RANKINGS, Slow, flipped
from tests.helpers.small_runs import ROWS, computed, evaluator_of


def slow_outputs(kind, logits):
    """From a row of logits to what is shown: in plain arithmetic."""
    if kind == "regression":
        return logits[:1]
    if kind == "multilabel":
        return [1 / (1 + math.exp(-value)) for value in logits]
    values = [0.0, *logits] if kind == "sigmoid" else logits
    total = sum(map(math.exp, values))
    return [math.exp(value) / total for value in values]


@pytest.mark.parametrize(
    ("family", "kind"),
    [
        ("bert", "multiclass"),
        ("FLANrnn", "sigmoid"),
        ("HANrnn", "multiclass"),
        *[pytest.param("bert", kind, marks=pytest.mark.slow) for kind in ("multilabel", "regression", "sigmoid")],
        *[pytest.param(*family.values, "multiclass", marks=pytest.mark.slow) for family in slowly("gpt2", "t5")],
    ],
)
def test_every_stored_output_is_that_of_a_full_pass_without_the_items(family, kind):
    rankings = RANKINGS if not family.startswith("HAN") else {"input": RANKINGS["input"]}
    batch = batch_of(family, kind, rankings=rankings, stored=[0, 2, 3, 5])
    erasure = pd.DataFrame(Erasure().run(batch)).set_index(["erase_level", "ranking", "text_id"])
    rows = tables_of(batch)[STEPS].to_pylist()
    seen, sets, effect = set(), 0, 0.0
    for row in rows:
        level, text = row["erase_level"], row["text_id"]
        slow = Slow(batch, level)
        items = slow.items[text]
        before = slow_outputs(kind, batch.logits[text].tolist())
        assert row["items"] == len(slow.erasable(text))
        assert row["steps"][0] == 0
        outputs = np.array(row["outputs"]).reshape(len(row["steps"]), len(row["classes"]))
        assert row["classes"] == list(range(len(before)))
        flips = []
        for step, stored in zip(row["steps"], outputs, strict=True):
            removed = [items[item] for item in row["removed"][:step]]
            logits = slow.logits(text, removed) if step else batch.logits[text].tolist()
            assert stored.tolist() == pytest.approx(slow_outputs(kind, logits), rel=1e-6, abs=1e-7), row
            flips.append(flipped(kind, batch.logits[text].tolist(), logits, batch.config.decision.tolerance))
            effect = max(effect, max(abs(a - b) for a, b in zip(stored, before, strict=True)))
        if row["ranking"] is None:
            sets += 1
            assert flips == [False, True]
            others = erasure.loc[(level, slice(None), text), :]
            assert len(row["removed"]) == row["steps"][1] == others["minimum_high"].iloc[0]
            continue
        table = erasure.loc[level, row["ranking"], text]
        seen.add((level, row["ranking"], text))
        end = int(table["removed"]) if row["flips"] else slow.last(text)
        assert row["steps"] == list(range(end + 1))
        assert len(row["removed"]) == end == len(set(row["removed"]))
        assert flips == [*[False] * end, row["flips"]] if row["flips"] else not any(flips)
        assert row["flips"] is not bool(table["censored"])
        check_scores(batch, row, items)
    assert seen == {key for key in erasure.index if key[2] in (0, 2, 3, 5)}
    assert sets >= 2
    assert effect > 0.01


def check_scores(batch, row, items):
    method = methods[row["ranking_level"], row["ranking"]]
    scores = method.run(batch.request).values[row["text_id"]].tolist()
    if len(scores) < len(items) or row["ranking_level"] != row["erase_level"]:
        return
    own = [scores[item] for item in items]
    assert row["largest"] == pytest.approx(max(map(abs, own)))
    assert row["scores"] == pytest.approx([1000 * score / row["largest"] for score in own], abs=0.51)


def test_the_sample_is_the_beginning_of_the_keyed_order_for_parts_and_any_shards(tmp_path, monkeypatch):
    monkeypatch.setattr(stored_texts, "MOST_TEXTS", 12)
    evaluator, data = evaluator_of("multiclass")
    evaluator.shard_size = 8
    whole = computed(evaluator, data, "erasure", seed=5, output_dir=tmp_path / "whole")
    expected = sorted(rows_at(range(12), len(data), 5).tolist())
    assert whole.table(TEXTS)["text_id"].tolist() == expected
    assert whole.table(TEXTS)["text"].tolist() == [data[number]["text"] for number in expected]
    parts = [computed(evaluator, data, "erasure", seed=5, part=(n, 2), output_dir=tmp_path / f"{n}") for n in (1, 2)]
    merged = af.merge([part.path for part in parts], tmp_path / "merged", quiet=True)
    assert commands.files(merged.path) == commands.files(whole.path)
    evaluator.shard_size = 256
    other = computed(evaluator, data, "erasure", seed=5)
    sampled = computed(evaluator, data, "erasure", seed=5, max_texts=20)
    for results in (other, sampled):
        assert results.table(TEXTS)["text_id"].tolist() == expected
        same_within_rounding(results.table(STEPS), whole.table(STEPS))
    stream = computed(evaluator, iter_of(data), "erasure", seed=5)
    assert stream.table(TEXTS)["text_id"].tolist() == list(range(12))


def iter_of(data):
    import datasets

    return datasets.Dataset.from_list(data).to_iterable_dataset()


def test_texts_one_by_one_are_stored_as_texts_in_a_batch():
    evaluator, _ = evaluator_of("multiclass")
    data = [{"text": row["text"]} for row in ROWS]  # no word twice: equal scores would be in the order of rounding
    single, batched = (computed(evaluator, data, "erasure", batch_size=size) for size in (1, 16))
    same_within_rounding(single.table(STEPS), batched.table(STEPS))
    pd.testing.assert_frame_equal(single.table(TEXTS), batched.table(TEXTS))


def same_within_rounding(left, right):
    exact = ["text_id", "erase_level", "ranking_level", "ranking", "items", "flips"]
    pd.testing.assert_frame_equal(left[exact], right[exact])
    for name in ("removed", "steps", "classes"):
        assert [list(line) for line in left[name]] == [list(line) for line in right[name]]
    for one, other in zip(left["outputs"], right["outputs"], strict=True):
        assert list(one) == pytest.approx(list(other), abs=1e-5)


@pytest.mark.parametrize("family", ["bert", *slowly("gpt2")])
def test_storing_texts_costs_no_pass(family):
    passes, tables = [], []
    for stored in ((), range(8)):
        batch = batch_of(family, rankings=RANKINGS, stored=stored)
        with count_passes() as count:
            rows = Erasure().run(batch)
        passes.append(count)
        tables.append(pd.DataFrame(rows))
        assert bool(batch.stored_steps) is bool(stored)
    assert passes[0] == passes[1]
    assert passes[0].rows > 8
    pd.testing.assert_frame_equal(*tables, check_exact=True)


def test_storing_texts_changes_no_figure():
    evaluator, data = evaluator_of("multiclass")
    runs = {}
    for stored in (True, False):
        runs[stored] = computed(evaluator, data, store_texts=stored)
    assert set(runs[True].tables) - set(runs[False].tables) == {TEXTS, STEPS}
    for name in runs[False].tables:
        pd.testing.assert_frame_equal(runs[True].table(name), runs[False].table(name), check_exact=True)


def test_a_run_without_texts_holds_none(tmp_path):
    evaluator, data = evaluator_of("multiclass")
    results = computed(evaluator, data, "erasure", store_texts=False, output_dir=tmp_path / "run")
    assert "store_texts" not in results.manifest["run"]
    for name in results.tables:
        cells = {cell for cell in results.table(name).to_numpy().ravel() if isinstance(cell, str)}
        assert not cells & {row["text"] for row in data}, name
    with pytest.raises(InputError, match="There is no table 'stored_texts'"):
        results.table(TEXTS)
    with pytest.raises(InputError, match=r"store_texts is .* there and .* here"):
        computed(evaluator, data, "erasure", output_dir=tmp_path / "run")


def test_a_killed_run_stores_the_same_bytes(tmp_path, monkeypatch):
    evaluator, data = evaluator_of("multiclass")
    evaluator.shard_size, evaluator.piece_seconds = 16, 0.0
    whole = computed(evaluator, data, "erasure", batch_size=4, output_dir=tmp_path / "whole")
    calls = []
    columns = Runner._columns

    def stopped(runner, members):
        calls.append(1)
        if len(calls) in (3, 6):
            raise KeyboardInterrupt
        return columns(runner, members)

    monkeypatch.setattr(Runner, "_columns", stopped)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            computed(evaluator, data, "erasure", batch_size=4, output_dir=tmp_path / "killed")
    resumed = computed(evaluator, data, "erasure", batch_size=4, output_dir=tmp_path / "killed")
    assert commands.files(resumed.path) == commands.files(whole.path)


def test_what_is_stored_of_a_text_is_bounded(monkeypatch):
    monkeypatch.setattr(stored_texts, "MOST_CHARACTERS", 9)
    evaluator, _ = evaluator_of("multiclass")
    results = computed(evaluator, [{"text": "fine plot thin", "label": 1}] * 30, "erasure", label_column=None)
    row = results.table(TEXTS).iloc[0]
    assert (row["text"], row["left_out"]) == ("fine plot", 5)
    assert list(row["starts"]), list(row["ends"]) == ([0, 5, 9], [4, 9, 9])


def test_of_many_steps_the_first_the_last_and_some_between_are_stored():
    lengths = (10, 500, 65, 64)
    rows, steps = (torch.cat(parts) for parts in zip(*(numbered(*each) for each in enumerate(lengths)), strict=True))
    shuffled = torch.randperm(len(rows))
    trail = Trail.of(rows[shuffled], steps[shuffled], steps[shuffled].double().unsqueeze(1)).thinned()
    assert torch.equal(trail.outputs[:, 0], trail.steps.double())
    by_row = [trail.steps[trail.rows == row].tolist() for row in range(4)]
    assert [len(part) for part in by_row] == [11, 26, 26, 65]
    for length, part in zip(lengths, by_row, strict=True):
        assert part == sorted(part)
        assert (part[:5], part[-2:]) == ([0, 1, 2, 3, 4], [length - 1, length])


def numbered(row, length):
    return torch.full((length + 1,), row), torch.arange(length + 1)


def test_of_many_classes_those_that_the_decision_is_between_are_stored():
    inputs = torch.arange(7.0).unsqueeze(0)
    batch = batch_of("bert", rankings={"attention": ranked("attention/attention")}, stored=[0], labels=[2] + [None] * 7)
    batch.capture = type(batch.capture)(batch.capture.weights, batch.capture.mask, inputs.expand(8, 7), None)
    after = torch.nn.functional.one_hot(torch.tensor([4, 6]), 7).double()
    chosen = stored_texts.classes_of(batch, torch.tensor([0, 1]), after)
    assert [row.nonzero().flatten().tolist() for row in chosen] == [[2, 4, 6], [6]]


def test_tokens_and_items_are_where_they_are_in_the_text():
    evaluator, _ = evaluator_of("multiclass")
    results = computed(evaluator, ROWS, "erasure", label_column=None)
    texts = results.table(TEXTS)
    assert len(texts) == len(ROWS) - 1  # one is empty, and set aside
    for _, row in texts.iterrows():
        words = [row["text"][int(a) : int(b)] for a, b in zip(row["starts"], row["ends"], strict=True)]
        assert words == row["text"].split() == ROWS[row["text_id"]]["text"].split()
        assert json.loads(row["names"]) == [None] * len(words)
        assert list(row["item_starts"]) == list(range(len(words)))
