"""Build the manifest of a run: its options, facts about the model, and counts of texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

import attnfaith
from attnfaith.data.source import DataSource
from attnfaith.errors import InputError
from attnfaith.evaluation.batch import Batch, RunConfig
from attnfaith.evaluation.stored_texts import MOST_TEXTS
from attnfaith.evaluation.tests.base import Test
from attnfaith.evaluation.tests.erasure.flipping_sets import VERSION
from attnfaith.storage.fingerprint import fingerprint_rows
from attnfaith.storage.run_store import Store

STORED = "store_texts"
"""The entry of a run that stores single texts: of how many at most; a run that stores none has no such entry."""
_PACKAGES = ("torch", "transformers", "captum", "numpy", "scipy")


def run_manifest(
    config: RunConfig,
    tests: Sequence[Test],
    trial: Batch,
    *,
    fingerprints: Mapping[str, str],
    columns: Mapping[str, Any],
    max_length: int | None,
    statistics: Mapping[str, Any],
    notes: Sequence[str],
) -> dict[str, Any]:
    """Build the manifest. The entry "run" must be equal for a stored run to be continued; the rest is information.

    Args:
        config: the configuration of the run.
        tests: the tests of the run.
        trial: a batch on which they were tried.
        fingerprints: hashes of the model and of its tokenizer.
        columns: the columns that are read.
        max_length: the length at which texts are truncated.
        statistics: how intervals are computed.
        notes: for the reader of the results.
    """
    hiding = config.hiding
    model_config = getattr(config.cut.model, "config", None)
    items = trial.capture.items
    return {
        "attnfaith": attnfaith.__version__,
        "run": {
            **fingerprints,
            "decision": {"kind": config.decision.kind, "tolerance": config.decision.tolerance},
            "columns": dict(columns),
            "tests": {test.name: test.options for test in tests},
            "flipping_set_search": VERSION,
            "rankings": {level: [str(ranking) for ranking in rankings] for level, rankings in config.rankings.items()},
            "target": config.target,
            "output": config.output,
            "steps": config.settings.steps,
            "hide": None if hiding is None else hiding.hide,
            "special_tokens": config.special_tokens,
            "protect_deciding": config.protect_deciding,
            "max_length": max_length,
            "seed": config.settings.seed,
            **({STORED: MOST_TEXTS} if config.stored else {}),
        },
        "facts": {
            "model": getattr(model_config, "name_or_path", "") or type(config.cut.model).__name__,
            "tail_is_affine": config.cut.adapter.affine(trial.capture) is not None,
            "unit": {"attention": "tokens" if items is None else items.kind, "input": "tokens"},
            "decision": config.decision.kind,
            "special_tokens": config.special_tokens == "include" and bool(trial.special_items.any()),
            "levels": list(config.rankings),
            "hide": None if hiding is None else hiding.hide,
            "left_out": {level: [str(ranking) for ranking in rankings] for level, rankings in config.left_out.items()},
            "labels": [str(name) for _, name in sorted((getattr(model_config, "id2label", None) or {}).items())],
        },
        "statistics": dict(statistics),
        "notes": list(notes),
        "versions": {name: version(name) for name in _PACKAGES},
    }


def part_entry(part: tuple[int, int], source: DataSource, shard_size: int) -> dict[str, Any]:
    """The entry of the manifest for a part of the data, with a sample of all the data, which parts have in common.

    Args:
        part: its number, from 1, and the number of parts.
        source: all the data.
        shard_size: rows of a shard.
    """
    number, of = part
    shards = None if source.rows is None else -(-source.rows // shard_size)
    if shards is not None and of > shards:
        raise InputError(
            f"The {source.rows} rows of the data cannot be divided into {of} parts: a part has at least one shard of "
            f"{shard_size} rows, so there are at most {shards} parts."
        )
    # Reading all the data in every part would not scale. Of a stream, only the start is cheap to read.
    sampled = [0] if shards is None else sorted({0, shards // 2, shards - 1})
    rows = [row for index in sampled for row in source.shard(index, shard_size)]
    return {"number": number, "of": of, "data": fingerprint_rows(rows)}


def finish(store: Store, tests: Sequence[Test], *, seed: int, quiet: bool) -> None:
    """Finish a run whose shards are all stored, unless it is complete: tables made of all shards, counts, digests."""
    if store.complete:
        return
    for test in tests:
        for name, table in test.conclude(store, seed=seed, quiet=quiet).items():
            store.conclude(name, table)
    store.finish(counts_of(store))


def counts_of(store: Store) -> dict[str, Any]:
    """Count the rows of a finished run, texts set aside by reason, truncated texts, and undefined scores."""
    rows = truncated = undefined = 0
    aside: dict[str, int] = {}
    for batch in store.batches("texts", ["truncated", "aside"]):
        rows += len(batch)
        truncated += int((batch["truncated"] > 0).sum())
        for reason, count in batch["aside"].value_counts().items():
            aside[str(reason)] = aside.get(str(reason), 0) + int(count)
    if "erasure" in store.tables:
        for batch in store.batches("erasure", ["undefined"]):
            undefined += int(batch["undefined"].sum())
    return {
        "rows": rows,
        "texts": rows - sum(aside.values()),
        "aside": dict(sorted(aside.items())),
        "truncated": truncated,
        "undefined": undefined,
    }
