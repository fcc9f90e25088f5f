"""The tables of a run on disk: what is written is read, with its types, whole or in parts."""

import time

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from attnfaith.errors import InputError
from attnfaith.storage.run_store import Store
from tests.helpers.stored_runs import MANIFEST, SIZE, finished, tables_of


def test_what_is_written_is_read(tmp_path):
    store = finished(tmp_path / "a" / "run")
    assert store.complete
    assert Store.load(tmp_path / "a" / "run").tables == ["texts", "erasure"]
    texts, erasure = store.table("texts"), store.table("erasure")
    assert texts["text_id"].tolist() == list(range(22))
    assert [list(text) for text in texts["prediction"]] == [[i, 2] for i in range(22)]
    assert texts["correct"].isna().tolist() == [i // SIZE == 1 for i in range(22)]
    assert texts["aside"][0] == "é"
    assert texts["aside"].isna().sum() == 21
    kept = [i for i in range(22) for _ in range(2) if i // SIZE != 3]
    assert erasure["text_id"].tolist() == kept
    assert erasure["ranking"].tolist() == ["attention", "random"] * (len(kept) // 2)
    assert [None if pd.isna(n) else n for n in erasure["removed"]] == [
        None if i // SIZE == 2 else i * 2**40 for i in kept
    ]
    np.testing.assert_array_equal(erasure["fraction"], [i / 3 for i in kept])
    kinds = [str(kind) for kind in erasure.dtypes]
    assert kinds in [["int64", text, "Int64", "float64"] for text in ("str", "string")]  # pandas 3 and 2
    assert str(texts["correct"].dtype) == "boolean"


def test_types_do_not_depend_on_what_is_missing(tmp_path):
    """A table whose column happens to be whole, or to be all null, has the same types."""
    types = []
    for name, shard in (("whole", 0), ("null", 2)):
        store = Store.open(tmp_path / name, {**MANIFEST, "rows": None})
        store.write(0, tables_of(shard), "")
        store.finish({})
        types.append(store.table("erasure").dtypes.to_dict())
    assert types[0] == types[1]


def test_batches_are_the_table_in_parts(tmp_path):
    store = finished(tmp_path / "run")
    for name in ("texts", "erasure"):
        pd.testing.assert_frame_equal(pd.concat(store.batches(name), ignore_index=True), store.table(name))
    assert len(list(store.batches("texts"))) == 6
    assert next(store.batches("erasure", ["fraction", "text_id"])).columns.tolist() == ["fraction", "text_id"]
    assert store.table("erasure", ["removed"]).columns.tolist() == ["removed"]
    with pytest.raises(InputError, match="no table 'erasures' in this run; there are texts, erasure"):
        store.table("erasures")


def test_many_shards(tmp_path):
    """A thousand shards in their order, also beyond the digits of their names; in seconds."""
    store = Store.open(tmp_path / "run", {"run": {}, "shard_size": 1, "rows": None})
    numbers = [*range(1000), 99_999, 100_000, 100_001]
    table = pa.table({"text_id": [0]})
    for number in numbers:
        store.write(number, {"texts": table.set_column(0, "text_id", [[number]])}, "")
    start = time.perf_counter()
    assert Store.open(tmp_path / "run", {"run": {}, "shard_size": 1, "rows": None}).shards() == numbers
    assert store.table("texts")["text_id"].tolist() == numbers
    assert time.perf_counter() - start < 10


def test_a_column_must_have_a_type_and_keep_it(tmp_path):
    store = Store.open(tmp_path / "run", MANIFEST)
    with pytest.raises(ValueError, match="column of no type"):
        store.write(0, {"texts": pa.table({"text_id": [None]})}, "")
    store.write(0, tables_of(0), "")
    again = Store.open(tmp_path / "run", MANIFEST)
    with pytest.raises(InputError, match=r"'texts' in .* has other columns"):
        again.write(1, {"texts": pa.table({"text_id": [1]})}, "")
