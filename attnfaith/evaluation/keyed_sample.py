"""Read texts in the keyed random order until they are enough for the precision that was asked for."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from attnfaith.data.source import DataSource
from attnfaith.evaluation.processes import Processes
from attnfaith.evaluation.run_options import RunOptions
from attnfaith.evaluation.run_progress import RunProgress
from attnfaith.evaluation.runner import Runner
from attnfaith.evaluation.sampling import widest
from attnfaith.storage.run_store import Store
from attnfaith.storage.table_files import TEXTS


def read_sample(
    runner: Runner,
    source: DataSource,
    store: Store,
    progress: RunProgress,
    options: RunOptions,
    processes: Processes,
) -> dict[str, Any]:
    """Run the tests on texts in the keyed order until the rule of `sampling` says that they are enough.

    Args:
        runner: runs the tests on some of the texts.
        source: of the texts.
        store: where the results are stored.
        progress: of the run.
        options: of the run; its ``sampling`` has the rule.
        processes: which share the texts.

    Returns:
        What the manifest says of the sample.
    """
    read = 0

    def reach(texts: int) -> float:
        nonlocal read
        runner.run_sampled(source, store, progress, start=read, stop=texts, index=processes.index, of=processes.count)
        read = texts
        processes.wait()
        if options.sampling.precision is None:
            return math.nan
        store.fetch()
        store.read_only({"texts": texts})
        # One process decides for all: what others see of a common folder may be older.
        return float(processes.agreed(_widest(runner, store, options) if processes.index == 0 else None))

    assert source.rows is not None
    return options.sampling.record(*options.sampling.stops(source.rows, reach))


def _widest(runner: Runner, store: Store, options: RunOptions) -> float:
    """How far the ends of the verdict's intervals are from its estimates, of the texts that were read."""
    (erasure,) = (test for test in runner.tests if test.name == "erasure")
    texts = store.table(TEXTS)

    def summarise(table: pd.DataFrame) -> pd.DataFrame:
        tables = {erasure.name: table, TEXTS: texts}
        return erasure.summarise(tables.__getitem__, by=None, seed=options.seed, **options.statistics)

    return widest(
        store.table(erasure.name),
        summarise,
        tail_is_affine=store.manifest["facts"]["tail_is_affine"],
        confidence_level=options.confidence_level,
    )
