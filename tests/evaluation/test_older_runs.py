"""Runs that were written before an option and its column existed."""

import json

import pandas as pd
import pyarrow as pa

import attnfaith as af
from attnfaith.storage.run_store import Store
from tests.helpers.small_runs import computed, evaluator_of

FINISHED = ("shards", "counts", "digests")


def without_resolution(results, directory):
    """The run as it was stored before erasing had a resolution."""
    manifest = json.loads(json.dumps(results.manifest))
    counts = manifest["counts"]
    del manifest["run"]["tests"]["erasure"]["resolution"]
    store = Store.open(directory, {name: value for name, value in manifest.items() if name not in FINISHED})
    schemas = results._schemas()
    tables = {
        name: pa.Table.from_pandas(results.table(name), schema, preserve_index=False)
        for name, schema in schemas.items()
    }
    tables["erasure"] = tables["erasure"].drop_columns("resolution")
    store.write(0, tables, "rows")
    store.finish(counts)
    return directory


def test_a_run_from_before_the_resolution_loads_with_the_same_numbers(tmp_path):
    results = computed(*evaluator_of("multiclass"), "erasure")
    older = af.load_results(without_resolution(results, tmp_path / "older"))
    assert older.tests["erasure"]["resolution"] == "exact"
    assert "resolution" not in older.table("erasure")
    pd.testing.assert_frame_equal(older.summary(), results.summary())
    assert str(older.verdict) == str(results.verdict)
    assert len(older.curves()) == len(results.curves())
