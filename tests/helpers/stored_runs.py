"""A small made-up run on disk: its manifest, its tables, and how it is written, here or in another process."""

import json
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from attnfaith.storage.run_store import Store

SIZE = 4
MANIFEST = {
    "run": {
        "model": {"fingerprint": "ab", "labels": ["bad", "good"]},
        "seed": 0,
        "threshold": float("nan"),
        "top": None,
    },
    "shard_size": SIZE,
    "rows": 22,
    "versions": {"torch": "2"},
}
COUNTS = {"texts": 22, "by reason": {"empty": 1}}
TEXTS = pa.schema(
    [
        pa.field("text_id", pa.int64(), nullable=False),
        pa.field("prediction", pa.list_(pa.int64())),
        pa.field("correct", pa.bool_()),
        pa.field("aside", pa.string()),
    ]
)
ERASURE = pa.schema(
    [
        pa.field("text_id", pa.int64(), nullable=False),
        pa.field("ranking", pa.string()),
        pa.field("removed", pa.int64()),
        pa.field("fraction", pa.float64()),
    ]
)


def tables_of(shard, rows=22):
    """Made-up results of a shard; its columns are all null in one, and its erasure is empty in another."""
    ids = range(shard * SIZE, min(shard * SIZE + SIZE, rows))
    texts = [
        {"text_id": i, "prediction": [i, 2], "correct": None if shard == 1 else i % 2 == 0, "aside": None if i else "é"}
        for i in ids
    ]
    erasure = [
        {"text_id": i, "ranking": ranking, "removed": None if shard == 2 else i * 2**40, "fraction": i / 3}
        for i in ids
        for ranking in ("attention", "random")
        if shard != 3
    ]
    return {"texts": pa.Table.from_pylist(texts, TEXTS), "erasure": pa.Table.from_pylist(erasure, ERASURE)}


SCHEMAS = {"texts": TEXTS, "erasure": ERASURE}


def half_of(shard):
    """The results of the first two texts of a shard, as a piece has them."""
    return {name: table.filter(pc.less(table["text_id"], shard * SIZE + 2)) for name, table in tables_of(shard).items()}


def finished(directory, manifest=MANIFEST, order=None):
    """A run that is finished, or continued; a piece of each shard is written before the shard is."""
    store = Store.open(directory, manifest)
    for shard in order or range(6):
        if not store.done(shard):
            whole, rows_hash = tables_of(shard), f"rows {shard}"
            kept = store.pieces(shard, SCHEMAS, rows_hash, whole["texts"]["text_id"].to_pylist())
            assert kept in ([], [half_of(shard)])
            if not kept:
                store.write_piece(shard, half_of(shard), rows_hash)
            store.write(shard, whole, rows_hash)
    store.finish(COUNTS)
    return store


def bytes_of(directory):
    return {str(p.relative_to(directory)): p.read_bytes() for p in sorted(Path(directory).rglob("*")) if p.is_file()}


def manifest_with(path, value):
    manifest = json.loads(json.dumps(MANIFEST))
    *parents, last = path
    part = manifest
    for name in parents:
        part = part[name]
    if value is ...:
        del part[last]
    else:
        part[last] = value
    return manifest


def command(program, *arguments):
    """A program to be run in a process of its own, where this module is there as ``stored_runs``."""
    start = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parents[2])!r}); from tests.helpers import stored_runs\n"
    )
    return [sys.executable, "-c", start + program, *map(str, arguments)]
