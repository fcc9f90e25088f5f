"""Runs that read some texts in a random order: which, when they stop, and that histories leave the same bytes."""

import math
from pathlib import Path

import datasets
import pandas as pd
import pytest

import attnfaith as af
from attnfaith.estimates.lookup import SummaryLookup
from attnfaith.evaluation import runner as running
from attnfaith.evaluation import sampling
from attnfaith.evaluation.sampling import Sampling, widest_of
from attnfaith.evaluation.verdict_rule import judge
from attnfaith.evaluation.verdict_text import printed_estimates
from attnfaith.functional.keyed_order import rows_at
from attnfaith.storage import manifest as manifests
from attnfaith.storage import sealed_table
from tests.helpers import commands
from tests.helpers.small_runs import QUICK, evaluator_of
from tests.helpers.stored_runs import bytes_of

ASKED = {"tests": ["erasure", "single_weight"], "rankings": ["attention", "gradient"], "quiet": True}
ROWS = 400


@pytest.fixture(scope="module")
def evaluator():
    return evaluator_of("multiclass")[0]


@pytest.fixture(scope="module")
def rows():
    """No word twice in a text: equal scores would be in an order that rounding gives them, and a batch may change."""
    texts = [" ".join(dict.fromkeys(text.split())) for text in commands.texts(ROWS)]
    return [{"text": text, "label": number % 3} for number, text in enumerate(texts)]


def computed(evaluator, rows, **options):
    return evaluator.compute(rows, **{"n_resamples": 199, **ASKED, **options})


@pytest.fixture(scope="module")
def whole(evaluator, rows):
    return computed(evaluator, rows)


@pytest.fixture(scope="module")
def reachable(whole):
    """A precision that takes about half of the texts."""
    figures = SummaryLookup(whole.summary())
    return widest_of(figures, "attention") * math.sqrt(2)


def same_texts(part, whole, name):
    """The rows of a sample are those of the whole run; other texts share their batches, in float32."""
    table, ids = whole.table(name), set(part.table()["text_id"])
    expected = table[table["text_id"].isin(ids)].reset_index(drop=True)
    pd.testing.assert_frame_equal(part.table(name), expected, rtol=1e-5, atol=1e-6)


def test_a_sample_has_the_first_texts_of_the_keyed_order_and_their_numbers_of_the_whole_run(evaluator, rows, whole):
    results = computed(evaluator, rows, max_texts=100)
    ids = results.table()["text_id"]
    assert ids.tolist() == sorted(rows_at(range(100), ROWS, 0).tolist())
    for name in ("texts", "erasure", "single_weight"):
        same_texts(results, whole, name)
    assert results.manifest["counts"]["rows"] == 100
    assert results.verdict.parts["texts"][0] == "100 of the 400 texts were read, drawn at random."
    assert "on 100 of 400 texts" in repr(results)
    assert set(computed(evaluator, rows, max_texts=100, seed=1).table()["text_id"]) != set(ids)
    for by in ("length", "confidence", "correct", "class"):
        assert len(results.summary(by=by))
    assert results.plot("erasure") is not None


def test_every_test_says_the_same_in_either_order(evaluator, rows):
    """Also those that conclude from all rows."""
    given = [*rows[:90], {"text": "", "label": 0}]
    marked = [{**row, "marks": [1, *[0] * (len(row["text"].split()) - 1)] if row["text"] else None} for row in given]
    asked = {"tests": list(QUICK.values()), "rationale_column": "marks", "n_resamples": 19, "quiet": True}
    plain = evaluator.compute(marked, **asked)
    keyed = evaluator.compute(marked, max_texts=10**6, **asked)
    assert keyed.manifest["counts"] == plain.manifest["counts"]
    assert keyed.manifest["shards"] == 2
    assert list(keyed.tables) == list(plain.tables)
    for name, table in plain.tables.items():
        pd.testing.assert_frame_equal(keyed.table(name), table, rtol=1e-5, atol=1e-6)
    assert keyed.verdict.parts["texts"][0] == "All 91 texts were read, since there are no more to draw from."


def test_it_stops_once_the_intervals_are_narrow_enough(evaluator, rows, reachable):
    results = computed(evaluator, rows, precision=reachable)
    sample = results.manifest["sample"]
    assert sample == {"precision": reachable, "max_texts": None, "texts": sample["texts"], "reached": True}
    assert sampling.FIRST < sample["texts"] < ROWS
    assert sample["texts"] % sampling.SHARD == 0
    assert widest_of(SummaryLookup(results.summary()), "attention") <= reachable
    before = computed(evaluator, rows, max_texts=sample["texts"] - 2 * sampling.SHARD)
    assert widest_of(SummaryLookup(before.summary()), "attention") > reachable
    said = results.verdict.parts["texts"][0]
    assert said.startswith(f"{sample['texts']} of the 400 texts were read, in a random order, until")
    assert f"no further than {100 * reachable:g} points" in said


def test_every_history_leaves_the_same_results(evaluator, rows, reachable, tmp_path, monkeypatch):
    """At once; after an interruption; after a coarser, a finer and a smaller request; and never is work done twice."""
    at_once = computed(evaluator, rows, precision=reachable, output_dir=tmp_path / "once")
    done, complete = [], running.Runner._complete

    def counted(self, shard, rows, progress):
        if len(done) == stop:
            raise KeyboardInterrupt
        done.append([row.number for row in rows])
        return complete(self, shard, rows, progress)

    monkeypatch.setattr(running.Runner, "_complete", counted)
    stop = 3
    with pytest.raises(KeyboardInterrupt):
        computed(evaluator, rows, precision=reachable, output_dir=tmp_path / "parts")
    stop = -1
    computed(evaluator, rows, precision=reachable, output_dir=tmp_path / "parts")
    assert len(done) == len({tuple(numbers) for numbers in done}) == at_once.manifest["shards"]
    assert bytes_of(tmp_path / "parts") == bytes_of(tmp_path / "once")
    computed(evaluator, rows, precision=0.4, output_dir=tmp_path / "coarse")
    computed(evaluator, rows, max_texts=150, output_dir=tmp_path / "coarse")  # ends inside of a shard
    computed(evaluator, rows, precision=reachable, output_dir=tmp_path / "coarse")
    assert bytes_of(tmp_path / "coarse") == bytes_of(tmp_path / "once")
    done.clear()
    everything = computed(evaluator, rows, output_dir=tmp_path / "coarse")  # neither is given
    assert everything.manifest["counts"]["rows"] == ROWS
    assert len(done) == everything.manifest["shards"] - at_once.manifest["shards"]
    done.clear()
    again = computed(evaluator, rows, precision=reachable, output_dir=tmp_path / "coarse")
    assert not done
    assert again.manifest == at_once.manifest
    assert str(again) == str(at_once)
    for name in ("texts", "erasure"):
        pd.testing.assert_frame_equal(again.table(name), at_once.table(name))
    saved = af.load_results(again.save(tmp_path / "saved"))  # without what was read besides
    assert bytes_of(tmp_path / "saved") == bytes_of(tmp_path / "once")
    assert saved.same_data(everything)
    assert saved.same_data(computed(evaluator, rows, max_texts=150))
    assert not saved.same_data(computed(evaluator, rows, max_texts=150, seed=1))


def test_what_was_read_of_other_data_is_refused(evaluator, rows, whole, tmp_path):
    computed(evaluator, rows, max_texts=100, output_dir=tmp_path / "run")
    first = int(rows_at([0], ROWS, 0)[0])
    changed = [{**row, "text": "another text"} if number == first else row for number, row in enumerate(rows)]
    with pytest.raises(af.InputError, match=rf"some of the rows .*\b{first}\b"):
        computed(evaluator, changed, max_texts=100, output_dir=tmp_path / "run")
    with pytest.raises(af.InputError, match="rows is 400 there and 399 here"):
        computed(evaluator, rows[:-1], max_texts=100, output_dir=tmp_path / "run")
    whole.save(tmp_path / "whole")
    with pytest.raises(af.InputError, match=r"order of the data.*leave out precision and max_texts"):
        computed(evaluator, rows, max_texts=100, output_dir=tmp_path / "whole")


def test_a_precision_that_the_data_cannot_give_reads_all_texts_and_says_so(evaluator, rows):
    results = computed(evaluator, rows[:150], precision=0.01)
    assert results.manifest["sample"]["texts"] == 150
    assert not results.manifest["sample"]["reached"]
    said = "All 150 texts were read, and they are too few for intervals that reach no further than 1 points"
    assert results.verdict.parts["texts"][0].startswith(said)
    few = computed(evaluator, rows, precision=0.01, max_texts=70)
    assert "70 of the 400 texts were read, drawn at random: too few" in few.verdict.parts["texts"][0]


@pytest.mark.parametrize("precision", [0, 0.5, 5, -0.05, math.nan, math.inf, "5", True, 1e-9])
def test_a_precision_that_is_no_share_is_refused(evaluator, rows, precision):
    with pytest.raises(af.InputError, match=r"precision to be a share from 0\.001 to below 0\.5 \(0\.05 for"):
        computed(evaluator, rows, precision=precision)


@pytest.mark.parametrize("most", [0, -1, 2.5, True, "9"])
def test_a_number_of_texts_that_is_none_is_refused(evaluator, rows, most):
    with pytest.raises(af.InputError, match="max_texts to be a whole number"):
        computed(evaluator, rows, max_texts=most)


def test_a_stream_and_a_run_without_the_verdicts_test_are_refused(evaluator, rows):
    stream = datasets.Dataset.from_list(rows).to_iterable_dataset()
    for asked in ({"precision": 0.05}, {"max_texts": 9}):
        with pytest.raises(af.InputError, match=r"stream, whose length is not known.*shuffle\("):
            computed(evaluator, stream, **asked)
    with pytest.raises(af.InputError, match="max_texts and part cannot be used together"):
        computed(evaluator, rows, max_texts=9, part=(1, 2))
    with pytest.raises(af.InputError, match="Add 'erasure' to tests"):
        computed(evaluator, rows, precision=0.05, tests=["single_weight"])
    assert computed(evaluator, rows, max_texts=9, tests=["single_weight"]).manifest["counts"]["rows"] == 9


def test_texts_without_a_label_and_empty_ones_count_as_read(evaluator, rows):
    given = [{**row, "label": None if number % 2 else row["label"]} for number, row in enumerate(rows)]
    given[int(rows_at([3], ROWS, 0)[0])]["text"] = ""
    results = computed(evaluator, given, max_texts=80, target="gold")
    counts = results.manifest["counts"]
    assert counts["rows"] == 80
    assert counts["aside"]["there is no label to explain"] > 20
    assert counts["texts"] + sum(counts["aside"].values()) == 80


@pytest.mark.parametrize("deviation", [0.3, 1.0, 3.0])
def test_the_rule_looks_seldom_and_reads_little_more_than_it_takes(deviation):
    """With intervals that narrow as those of means do, the least number of texts is known."""
    looks = []

    def reach(texts):
        looks.append(texts)
        return deviation / math.sqrt(texts)

    read, reached = Sampling(precision=0.02).stops(10**6, reach)
    needed = (deviation / 0.02) ** 2
    assert reached
    assert needed <= read <= max(sampling.FIRST, 1.25 * needed + sampling.SHARD)
    assert len(looks) <= 8
    assert looks == sorted(looks)


def test_intervals_that_are_not_known_go_on():
    looks = []
    read, reached = Sampling(precision=0.1).stops(1000, lambda texts: looks.append(texts) or math.nan)
    assert (read, reached) == (1000, False)
    assert looks[0] == sampling.FIRST


def test_what_has_to_be_narrow_is_what_the_verdict_prints_of_attention(whole):
    """Every interval in the sentences on attention, and the best ranking's distance from it."""
    figures = SummaryLookup(whole.summary())
    judgement = judge(figures, "attention", ("attention", "attention"))
    printed = printed_estimates(figures, "attention", judgement)
    sentences = " ".join(whole.verdict.parts[""])
    shown = [str(estimate) for estimate in printed if str(estimate) in sentences]
    assert len(shown) >= 4  # attention, random, smallest sets, skill
    assert sentences.count("[") <= len(printed)
    assert figures.get("attention", "mean_difference", ("attention", "attention"), ("attention", "gradient")) in printed


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("sample", "texts"), 200),
        (("sample", "texts"), 0),
        (("sample", "texts"), ROWS + 1),
        (("sample", "precision"), 5),
        (("sample",), None),
        (("run", "order"), "sorted"),
        (("run", "seed"), -1),
    ],
)
def test_a_forged_sample_is_refused(evaluator, rows, tmp_path, path, value):
    computed(evaluator, rows, max_texts=100, output_dir=tmp_path)
    manifest = manifests.read_manifest(tmp_path)
    part = manifest
    for name in path[:-1]:
        part = part[name]
    part[path[-1]] = value
    Path(tmp_path, manifests.NAME).write_bytes(manifests.to_bytes(manifest))
    with pytest.raises(af.StorageError):
        af.load_results(tmp_path)


def test_rows_of_texts_that_are_not_in_the_shard_are_refused(evaluator, rows, tmp_path):
    """The keyed order says which texts a shard holds."""
    results = computed(evaluator, rows, max_texts=128, output_dir=tmp_path)
    store = results._store
    assert store.shards() == [0, 1]
    first, second = (tmp_path / "texts" / f"0000{shard}.parquet" for shard in (0, 1))
    table, identity = sealed_table.read(first, None)[0], sealed_table.prove(second).identity
    second.write_bytes(sealed_table.encode(table, identity))
    with pytest.raises(af.StorageError, match="not in shard 1"):
        store.table("texts")
