"""What a run was made with, and what was counted: the contents of its manifest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

import attnfaith
from attnfaith.evaluation.batch import Batch, RunConfig
from attnfaith.evaluation.tests.base import Test
from attnfaith.evaluation.tests.erasure.flipping_sets import VERSION
from attnfaith.storage.run_store import Store

_PACKAGES = ("torch", "transformers", "captum", "numpy", "scipy")


def run_conditions(
    setup: RunConfig,
    tests: Sequence[Test],
    trial: Batch,
    *,
    prints: Mapping[str, str],
    columns: Mapping[str, Any],
    max_length: int | None,
    statistics: Mapping[str, Any],
    notes: Sequence[str],
) -> dict[str, Any]:
    """The manifest of a run: "run" is what must be the same to go on with it, the rest is to be known.

    Args:
        setup: of the run.
        tests: that are run.
        trial: a batch that has been through them.
        prints: fingerprints of the model and of its tokenizer.
        columns: that are read.
        max_length: at which texts are cut off.
        statistics: how intervals are made.
        notes: what a reader should know.
    """
    hiding = setup.hiding
    config = getattr(setup.cut.model, "config", None)
    items = trial.capture.items
    return {
        "attnfaith": attnfaith.__version__,
        "run": {
            **prints,
            "decision": {"kind": setup.decision.kind, "tolerance": setup.decision.tolerance},
            "columns": dict(columns),
            "tests": {test.name: test.options for test in tests},
            "flipping_set_search": VERSION,
            "rankings": {level: [str(one) for one in found] for level, found in setup.rankings.items()},
            "target": setup.target,
            "output": setup.output,
            "steps": setup.settings.steps,
            "hide": None if hiding is None else hiding.way,
            "special_tokens": setup.special_tokens,
            "protect_deciding": setup.protect_deciding,
            "max_length": max_length,
            "seed": setup.settings.seed,
        },
        "facts": {
            "model": getattr(config, "name_or_path", "") or type(setup.cut.model).__name__,
            "tail_is_affine": setup.cut.adapter.affine(trial.capture) is not None,
            "unit": {"attention": "tokens" if items is None else items.kind, "input": "tokens"},
            "decision": setup.decision.kind,
            "special_tokens": setup.special_tokens == "include" and bool(trial.special_items.any()),
            "levels": list(setup.rankings),
            "hide": None if hiding is None else hiding.way,
            "labels": [str(name) for _, name in sorted((getattr(config, "id2label", None) or {}).items())],
        },
        "statistics": dict(statistics),
        "notes": list(notes),
        "versions": {name: version(name) for name in _PACKAGES},
    }


def counts_of(store: Store) -> dict[str, Any]:
    """What a finished run is made of: rows, texts set aside and why, texts cut off, undefined scores."""
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
