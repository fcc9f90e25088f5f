"""Runs that are measured in a process of their own, or in several: ``python -m benchmarks._performance.point SPECS``.

SPECS is a JSON list of specifications; what each gave is printed as JSON, by the first process only.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Sequence
from typing import Any

import torch

import attnfaith as af
from benchmarks._performance import material
from benchmarks._performance.measuring import measured

MARK = "measured: "
SHARD = 16
"""Rows of a shard, so that processes have as much to do."""


def in_a_process(specs: Sequence[dict[str, Any]], *, threads: int, processes: int = 1) -> list[dict[str, Any]]:
    """Measure in a process of its own, or in several that share the texts.

    Args:
        specs: what `of_material` takes as "material", and options of `Evaluator.compute`.
        threads: the number of threads of each process.
        processes: how many; torchrun starts them.
    """
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"] if processes > 1 else []
    command = [sys.executable, *launcher, "-m", "benchmarks._performance.point", json.dumps(list(specs)), str(threads)]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "false"}
    process = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    lines = [line for line in process.stdout.splitlines() if line.startswith(MARK)]
    if process.returncode or not lines:
        raise RuntimeError(f"{' '.join(command[:6])}: {process.stderr[-2000:]}")
    points: list[dict[str, Any]] = json.loads(lines[-1].removeprefix(MARK))
    return points


def of_material(kind: str, **options: Any) -> material.Material:
    """A material by the name of its function in `material`."""
    chosen: material.Material | None = getattr(material, kind)(**options)
    if chosen is None:
        raise RuntimeError("The real model and texts need ATTNFAITH_DATA.")
    return chosen


def main() -> None:
    """Measure each specification, and print the results."""
    specs, threads = json.loads(sys.argv[1]), int(sys.argv[2])
    torch.set_num_threads(threads)
    warnings.simplefilter("ignore")
    points = []
    for spec in specs:
        options = {name: value for name, value in spec.items() if name not in ("material", "shared")}
        chosen = of_material(**spec["material"])
        if spec.get("shared"):
            points.append({"seconds": _shared(chosen, options)})
        else:
            measurement = measured(chosen, **options)
            points.append(
                {
                    "seconds": measurement.seconds,
                    "ratio": measurement.ratio,
                    "passes": measurement.passes,
                    "peak": measurement.peak,
                    "plain": measurement.plain,
                }
            )
    if int(os.environ.get("RANK", "0")) == 0:
        print(MARK + json.dumps(points), flush=True)


def _shared(chosen: material.Material, options: dict[str, Any]) -> float:
    """Seconds of an evaluation that all processes work on, after a short one that starts them."""
    evaluator = af.Evaluator(chosen.model, chosen.tokenizer)
    evaluator.shard_size = SHARD
    rows = [{"text": text} for text in chosen.texts]
    results = [evaluator.compute(rows[:2], quiet=True, **options)]
    evaluator.processes.wait()
    start = time.perf_counter()
    results.append(evaluator.compute(rows, quiet=True, **options))
    evaluator.processes.wait()  # the first process's results hold the temporary folder that the others read
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
