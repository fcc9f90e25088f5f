"""The cost of very many texts on several machines, extrapolated from a measured run, and what does not scale.

python -m benchmarks.many_machines ./my-model reviews.csv
python -m benchmarks.many_machines ./my-model reviews.csv --texts 200 --sizes 1000 10000 100000

The evaluation is measured on some texts. The results are then repeated to larger and larger runs, in two parts, on
which merging and summing up are measured. Times are those of one core that does nothing else (CPU time of one thread).
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import torch

import attnfaith as af
from attnfaith.evaluation.run_manifest import finish
from attnfaith.evaluation.stored_texts import SCHEMAS
from attnfaith.storage.manifest import shards_of, unfinished
from attnfaith.storage.run_store import Store
from attnfaith.storage.table_files import TEXTS
from benchmarks._memory import peak_memory

SIZES = (1_000, 10_000, 100_000)
SHARD = af.Evaluator.shard_size
GOAL, MACHINES = 100_000_000, 100


@dataclass(frozen=True)
class Cost:
    """The cost of one step: seconds of a core, and the peak memory of the process in bytes."""

    seconds: float
    memory: int


def main() -> None:
    """Print the measured costs, and those extrapolated to many texts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="the folder of a classifier")
    parser.add_argument("data", help="its texts: csv, tsv, JSON lines or parquet")
    parser.add_argument("--texts", type=int, default=64, help="so many of them are evaluated")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="texts of the runs that are summed up")
    parser.add_argument("--goal", type=int, default=GOAL, help="texts to reckon for")
    parser.add_argument("--machines", type=int, default=MACHINES, help="machines to reckon for")
    parser.add_argument("--cores", type=int, default=1, help="cores of each machine")
    parser.add_argument("--step", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.step:
        print(json.dumps(STEPS[options.step[0]](Path(options.step[1])).__dict__))
        return
    with tempfile.TemporaryDirectory() as folder:
        seconds, results = evaluated(options, Path(folder) / "measured")
        print(f"evaluating: {seconds / options.texts:.3f} s of a core for each text ({options.texts} texts)")
        rows = []
        for size in options.sizes:
            run_folder = Path(folder) / str(size)
            repeated(results, size, run_folder)
            costs = {name: in_a_process(name, run_folder, options) for name in STEPS}
            rows.append((size, stored(run_folder / "all") / size, costs))
            print(line(*rows[-1]), flush=True)
        print(reckoned(seconds / options.texts, rows, options))


def evaluated(options: argparse.Namespace, folder: Path) -> tuple[float, af.Results]:
    """The seconds of a default evaluation, without loading the model, and its results."""
    evaluator = af.Evaluator(options.model, device="cpu")
    started = time.process_time()
    results = evaluator.compute(options.data, split=f"train[:{options.texts}]", output_dir=folder, quiet=True)
    return time.process_time() - started, results


def repeated(results: af.Results, size: int, folder: Path) -> None:
    """Write the two parts of a run of ``size`` texts, whose results are those of a small run again and again."""
    tables = {name: results._store.table(name) for name in (TEXTS, *results.tests)}
    schemas = {name: results._store.schema(name) for name in tables}
    count = len(tables[TEXTS])
    # stored texts are a fixed number, however many there are; empty tables take their place
    empty = {name: schema.empty_table() for name, schema in SCHEMAS.items()}
    first_ids = {name: table["text_id"].to_numpy() for name, table in tables.items()}
    for part in (1, 2):
        manifest = {**unfinished(results.manifest), "rows": size, "shard_size": SHARD}
        manifest["part"] = {"number": part, "of": 2, "data": "0" * 64}
        store = Store.open(folder / f"part-{part}", manifest)
        for shard in shards_of(manifest) or ():
            ids = np.arange(shard * SHARD, min((shard + 1) * SHARD, size))
            store.write(
                shard,
                empty | {name: _repeated(tables[name], first_ids[name], ids, count, schemas[name]) for name in tables},
                f"rows {shard}",
            )
        finish(store, results.ran, seed=0, quiet=True)


def _repeated(table: pd.DataFrame, text_ids: Any, ids: Any, count: int, schema: pa.Schema) -> pa.Table:
    """The rows of texts ``ids % count``, with the numbers ``ids``.

    Floats get distinct last digits: repeated values would be stored in less space than those of a real run.
    """
    starts, ends = np.searchsorted(text_ids, ids % count), np.searchsorted(text_ids, ids % count, side="right")
    rows = np.concatenate([np.arange(start, end) for start, end in zip(starts, ends, strict=True)])
    chosen = table.iloc[rows].assign(text_id=np.repeat(ids, ends - starts))
    for name in chosen.select_dtypes("float"):
        chosen[name] *= 1 + 1e-9 * np.random.default_rng(int(ids[0])).random(len(chosen))
    return pa.Table.from_pandas(chosen, schema.remove_metadata(), preserve_index=False)


def merged(folder: Path) -> Cost:
    """Merge the two parts."""
    return measured(lambda: af.merge([folder / "part-2", folder / "part-1"], folder / "all", quiet=True))


def loaded(folder: Path) -> Cost:
    """Load the whole run, and check its files."""
    return measured(lambda: af.load_results(folder / "all"))


def summed_up(folder: Path) -> Cost:
    """Make the verdict of the whole run."""
    results = af.load_results(folder / "all")
    return measured(lambda: str(results.verdict))


STEPS: dict[str, Callable[[Path], Cost]] = {"merge": merged, "load": loaded, "verdict": summed_up}


def measured(step: Callable[[], Any]) -> Cost:
    """The cost of a step."""
    gc.collect()
    started = time.process_time()
    step()
    seconds = time.process_time() - started
    return Cost(seconds, peak_memory())


def in_a_process(name: str, folder: Path, options: argparse.Namespace) -> Cost:
    """A step in a process of its own, because the highest use of memory is that of a process."""
    command = [sys.executable, "-m", "benchmarks.many_machines", options.model, options.data]
    process = subprocess.run(
        [*command, "--step", name, str(folder)],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    return Cost(**json.loads(process.stdout.splitlines()[-1]))


def stored(folder: Path) -> int:
    """The bytes of all files in a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def line(size: int, bytes_each: float, costs: dict[str, Cost]) -> str:
    """What was measured on a run of one size."""
    parts = [
        f"{name} {cost.seconds:.1f} s, {cost.seconds / size * 1e6:.0f} us a text, {cost.memory / 2**30:.1f} GiB"
        for name, cost in costs.items()
    ]
    return f"{size:,} texts: {bytes_each:.0f} bytes a text; {'; '.join(parts)}"


def exponent(sizes: Sequence[int], values: Sequence[float]) -> float:
    """The power of the number of texts with which a cost grows, from the two largest runs.

    Example:
        >>> exponent([10, 100], [5.0, 50.0])
        1.0
    """
    if len(sizes) < 2:
        return 1.0
    return float(np.log(values[-1] / values[-2]) / np.log(sizes[-1] / sizes[-2]))


def reckoned(seconds: float, rows: Sequence[tuple[int, float, dict[str, Cost]]], options: argparse.Namespace) -> str:
    """The table for many texts: a line for each step, as Markdown."""
    sizes = [size for size, _, _ in rows]
    alone = options.goal * seconds / (options.machines * options.cores)
    lines = [
        f"| {options.goal:,} texts on {options.machines} machines with {options.cores} core(s) | |",
        "|---|---|",
        f"| evaluating, on each machine | {duration(alone)} |",
        f"| results on disk | {options.goal * rows[-1][1] / 1e9:,.0f} GB |",
    ]
    for name in STEPS:
        costs = [row[2][name] for row in rows]
        power = exponent(sizes, [cost.seconds for cost in costs])
        extrapolated = costs[-1].seconds * (options.goal / sizes[-1]) ** power
        extra = [cost.memory for cost in costs]
        memory = extra[-1] + (extra[-1] - extra[0]) / max(sizes[-1] - sizes[0], 1) * (options.goal - sizes[-1])
        lines.append(
            f"| {name}, on one core (texts to the power {power:.2f}) | {duration(extrapolated)}, "
            f"{memory / 1e9:,.0f} GB |"
        )
    return "\n".join(lines)


def duration(seconds: float) -> str:
    """Seconds in the unit that suits them.

    Example:
        >>> duration(90), duration(7200), duration(864000)
        ('1.5 minutes', '2.0 hours', '10.0 days')
    """
    for unit, length in (("days", 86400), ("hours", 3600)):
        if seconds >= 2 * length or (unit == "hours" and seconds >= length):
            return f"{seconds / length:,.1f} {unit}"
    return f"{seconds / 60:,.1f} minutes"


if __name__ == "__main__":
    main()
