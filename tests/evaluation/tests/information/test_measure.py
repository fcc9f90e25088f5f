"""What the information test measures, on samples whose information is known."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.metrics import mutual_info_score

from attnfaith.evaluation.tests.base import schema_of
from attnfaith.evaluation.tests.information.measure import SAME, UNMET
from attnfaith.evaluation.tests.information.test import BY_RANK, COLUMNS, Information
from attnfaith.storage.run_store import Store


def stored(folder, vectors, logits, *, weights=None, lengths=None, kind="multiclass", predictions=None, group="all"):
    """A run as it stands on disk: vectors [n, K, D], logits [n, C]; lengths [n] of K or less."""
    count, ranks = vectors.shape[:2]
    lengths = [ranks] * count if lengths is None else lengths
    weights = np.tile(np.arange(ranks, 0, -1.0), (count, 1)) if weights is None else weights
    weights = weights / weights.sum(1, keepdims=True)
    predictions = logits.argmax(1).tolist() if predictions is None else predictions
    kinds = {"multilabel": pa.list_(pa.int64()), "regression": pa.float64()}
    columns = [("text_id", pa.int64()), ("prediction", kinds.get(kind, pa.int64())), ("aside", pa.string())]
    schemas = schema_of(columns), schema_of(COLUMNS)
    store = Store.open(folder, {"run": {"decision": {"kind": kind}}, "shard_size": 100, "rows": count})
    for shard, start in enumerate(range(0, count, 100)):
        texts = range(start, min(start + 100, count))
        lines = [(text, rank) for text in texts for rank in range(min(lengths[text], ranks))]
        rows = {
            "text_id": [text for text, _ in lines],
            "group": [group] * len(lines),
            "rank": [rank for _, rank in lines],
            "items": [lengths[text] for text, _ in lines],
            "logits": [None if rank else logits[text].tolist() for text, rank in lines],
            "weight": [weights[text, rank] for text, rank in lines],
            "vector": [vectors[text, rank].astype(np.float32) for text, rank in lines],
        }
        about = {"text_id": list(texts), "prediction": [predictions[text] for text in texts], "aside": None}
        about["aside"] = [None] * len(texts)
        tables = {"texts": pa.table(about, schemas[0]), "information": pa.table(rows, schemas[1])}
        store.write(shard, tables, "rows")
    store.finish({})
    return store


def measured(store, *, seed=0, **options):
    return Information(**options).conclude(store, seed=seed, quiet=True)[BY_RANK].to_pandas()


def variables(count=1500, classes=3, seed=0):
    """The output, and three variables that say all, something and nothing of it."""
    draw = np.random.default_rng(seed)
    output = draw.integers(0, classes, count)
    some = np.where(draw.random(count) < 0.6, output, draw.integers(0, 12, count))
    none = draw.integers(0, 12, count)
    return output, np.stack([output, some, none], axis=1)


def as_vectors(values, dimensions=6, seed=9):
    """Each value a vector of its own."""
    table = np.random.default_rng(seed).normal(size=(int(values.max()) + 1, dimensions))
    return table[values]


def as_logits(output):
    return np.eye(int(output.max()) + 1)[output] * 3.0


def test_known_information_is_found_at_each_rank(tmp_path):
    output, codes = variables()
    table = measured(stored(tmp_path / "run", as_vectors(codes), as_logits(output)), clusters=40, kmeans_seeds=2)
    assert table.shape[0] == 2 * 3
    for (_, rank), rows in table.groupby(["kmeans_seed", "rank"]):
        (row,) = rows.to_dict("records")
        exact = mutual_info_score(codes[:, rank], output)
        assert row["mi"] == pytest.approx(exact, abs=1e-9)
        assert row["corrected"] == pytest.approx(row["mi"] - np.mean(row["null"]), abs=1e-12)
        assert (row["null_mean"], row["null_sd"]) == pytest.approx((np.mean(row["null"]), np.std(row["null"])))
        assert (row["null_low"], row["null_high"]) == pytest.approx(tuple(np.percentile(row["null"], [2.5, 97.5])))
        assert row["mean_weight"] == pytest.approx([3 / 6, 2 / 6, 1 / 6][rank])
        assert (row["samples"], row["clusters"], row["outputs"]) == (1500, 40, 3)
        assert row["output_entropy"] == pytest.approx(mutual_info_score(output, output))
        assert (row["ranks_by_length"], row["ranks_by_weight"]) == (3, 3)
        assert len(row["null"]) == len(row["halves"]) == 200
    first = table[table.kmeans_seed == 0].set_index("rank")
    assert first.mi[0] == pytest.approx(first.output_entropy[0])
    assert first.mi[0] > first.mi[1] + 0.3 > first.mi[2] + 0.4
    assert first.mi[2] > 0.005, "as measured, what says nothing says something"
    assert abs(first.corrected[2]) < 0.005


def test_where_each_cluster_must_have_two_vectors_the_number_says_so(tmp_path):
    """Twelve vectors, each often there: all numbers from 50 on come to the same twelve clusters."""
    output, codes = variables()
    store = stored(tmp_path / "run", as_vectors(codes), as_logits(output))
    assert set(measured(store, kmeans_seeds=1).clusters) == {200}
    assert set(measured(store, kmeans_seeds=1, clusters="paper").clusters) == {50}
    alone = as_vectors(codes)
    alone[7, 1] = 1000.0
    table = measured(stored(tmp_path / "other", alone, as_logits(output)), kmeans_seeds=1)
    assert set(table.clusters) == {50}
    assert set(table.note) == {UNMET}
    assert table.set_index("rank").singletons.tolist() == [0, 1, 0]


def test_every_rank_has_the_same_texts(tmp_path):
    """Texts with fewer than k items are left out at every rank; k is the 10th percentile of the lengths."""
    draw = np.random.default_rng(0)
    count, ranks = 600, 8
    lengths = draw.choice([2, 3, 4, 6, 8], count, p=[0.04, 0.04, 0.3, 0.3, 0.32]).tolist()
    output = draw.integers(0, 3, count)
    codes = draw.integers(0, 9, (count, ranks))
    codes[:, 3] = output
    weights = np.sort(draw.dirichlet(np.ones(ranks), count))[:, ::-1]
    store = stored(tmp_path / "run", as_vectors(codes), as_logits(output), lengths=lengths, weights=weights)
    table = measured(store, clusters=20, kmeans_seeds=1)
    there = [text for text in range(count) if lengths[text] >= 4]
    assert table["rank"].tolist() == [0, 1, 2, 3]
    assert set(table.samples) == {len(there)}
    assert set(table.ranks_by_length) == {4}
    for rank in range(4):
        assert table.mi[rank] == pytest.approx(mutual_info_score(codes[there, rank], output[there]), abs=1e-9)
        assert table.mean_weight[rank] == pytest.approx(weights[there, rank].mean())
    longer = measured(store, clusters=20, kmeans_seeds=1, ranks=6)
    assert longer["rank"].tolist() == list(range(6))
    assert set(longer.samples) == {sum(length >= 6 for length in lengths)}


def test_ranks_without_attention_are_not_looked_at(tmp_path):
    output, codes = variables(400)
    weights = np.tile([1.0, 0.1, 1e-9], (400, 1))
    table = measured(stored(tmp_path / "run", as_vectors(codes), as_logits(output), weights=weights), clusters=12)
    assert set(table["rank"]) == {0, 1}
    assert set(table.ranks_by_weight) == {2}


@pytest.mark.parametrize("kind", ["multiclass", "sigmoid", "regression", "multilabel"])
def test_outputs_are_clustered_where_there_is_one_number_to_them(tmp_path, kind):
    """Five well-kept groups of the number are five outputs; a softmax does not see what is added to both logits."""
    draw = np.random.default_rng(0)
    output = draw.integers(0, 5, 500)
    number = np.array([-6.0, -2.5, -0.5, 2.0, 7.0])[output] + 0.01 * draw.normal(size=500)
    shift = 50 * draw.normal(size=500)
    logits = {"multiclass": np.stack([shift, shift + number], 1), "multilabel": draw.normal(size=(500, 2))}
    sets = [[], [0], [1], [0, 1], [1, 2]]
    predictions = {"multilabel": [sets[item] for item in output], "regression": number.tolist()}
    store = stored(
        tmp_path / "run",
        as_vectors(np.stack([output, draw.integers(0, 5, 500)], 1)),
        logits.get(kind, number[:, None]),
        kind=kind,
        predictions=predictions.get(kind, (number > 0).astype(int).tolist()),
    )
    table = measured(store, clusters=10)
    assert set(table.outputs) == {5}
    entropy = mutual_info_score(output, output)
    assert table[table["rank"] == 0].mi.tolist() == pytest.approx([entropy] * 5)
    assert table[table["rank"] == 1].corrected.abs().max() < 0.02


def test_too_few_texts_are_refused_with_the_reason(tmp_path):
    output, codes = variables(99)
    store = stored(tmp_path / "run", as_vectors(codes), as_logits(output))
    table = measured(store)
    assert table.mi.isna().all()
    assert set(table.note) == {"99 texts of 3 items or more are too few: 100 are needed"}
    assert table.mean_weight.tolist() == pytest.approx([3 / 6, 2 / 6, 1 / 6]), "what is known is said"
    assert measured(store, fewest=99, clusters=12).mi.notna().all()
    assert set(measured(store, fewest=99).clusters) == {49}, "half of the texts at most"
    assert "0 texts of 5 items" in measured(store, ranks=5).note[0]


def test_one_output_for_all_texts_is_refused_with_the_reason(tmp_path):
    _, codes = variables(200)
    table = measured(stored(tmp_path / "run", as_vectors(codes), np.tile([2.0, 0.0, 1.0], (200, 1))))
    assert table.mi.isna().all()
    assert set(table.note) == {SAME}


def test_no_text_at_all_is_no_row(tmp_path):
    store = stored(tmp_path / "run", np.zeros((3, 2, 4)), np.zeros((3, 3)), lengths=[0, 0, 0])
    assert len(measured(store)) == 0


def test_of_many_texts_some_are_drawn_by_the_seed(tmp_path):
    output, codes = variables(900)
    store = stored(tmp_path / "run", as_vectors(codes), as_logits(output))
    tables = [measured(store, most_texts=300, clusters=12, kmeans_seeds=1, seed=seed) for seed in (0, 0, 1)]
    assert set(tables[0].samples) == {300}
    pd.testing.assert_frame_equal(tables[0], tables[1])
    assert not np.allclose(tables[0].mi, tables[2].mi)


def test_seeds_decide_and_each_clustering_has_its_own(tmp_path):
    draw = np.random.default_rng(0)
    output = draw.integers(0, 3, 300)
    vectors = draw.normal(size=(300, 3, 4)) + output[:, None, None]
    store = stored(tmp_path / "run", vectors, as_logits(output))
    first, same, other = (measured(store, seed=seed, clusters=25) for seed in (0, 0, 1))
    pd.testing.assert_frame_equal(first, same)
    assert not np.allclose(first.mi, other.mi)
    by_seed = first.pivot_table(index="rank", columns="kmeans_seed", values="mi")
    assert all(len(set(row)) > 1 for row in by_seed.to_numpy().tolist())
    fewer = measured(store, clusters=25, kmeans_seeds=2)
    pd.testing.assert_frame_equal(fewer, first[first.kmeans_seed < 2].reset_index(drop=True))


@pytest.mark.parametrize("rule", [None, "paper"])
def test_a_number_of_clusters_given_equals_the_same_number_chosen(tmp_path, rule):
    """Equal settings, equal numbers: at every start, and the chosen number is what the rule promises."""
    draw = np.random.default_rng(0)
    output = draw.integers(0, 3, 400)
    clumps = draw.normal(size=(90, 3)) * 5
    near = clumps[output[:, None] * 30 + draw.integers(0, 30, (400, 3))]
    vectors = near + 0.3 * draw.normal(size=near.shape)
    store = stored(tmp_path / "run", vectors, as_logits(output))
    chosen = measured(store, clusters=rule, kmeans_seeds=2)
    (number,) = set(chosen.clusters)
    assert set(chosen.note) == {""}
    assert 50 <= number < 200
    asked = measured(store, clusters=int(number), kmeans_seeds=2)
    pd.testing.assert_frame_equal(chosen, asked)
    assert chosen[chosen.kmeans_seed == 0].singletons.tolist() == [0, 0, 0]
    assert len(set(chosen.mi)) == 6
    more = measured(store, clusters=int(number) + 1, kmeans_seeds=1)
    assert rule == "paper" or more.singletons.sum() > 0, "the largest number that will do"
