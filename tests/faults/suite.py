"""The parts by name, how they are run in processes of their own, and the counts that they leave."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.faults.tally import Part, Tally
from tests.helpers.commands import ROOT

FOLDER = Path(__file__).parent / "parts"


def names() -> list[str]:
    """The parts: the modules in the folder ``parts``."""
    return sorted(path.stem for path in FOLDER.glob("[a-z]*.py"))


def part_of(name: str) -> Part:
    """A part by its name."""
    return importlib.import_module(f"tests.faults.parts.{name}").PART


def run(name: str, scale: float, seed: int) -> dict[str, Any]:
    """Run one part in this process; returns its counts as JSON."""
    tally: Tally = part_of(name).run(scale, seed)
    return {
        "scale": scale,
        "seed": seed,
        "rows": tally.rows,
        "measures": tally.measures,
        "failures": tally.failures,
    }


def run_alone(name: str, scale: float, seed: int = 0) -> None:
    """Run one part in a process of its own, and print its counts; what the part prints goes to standard error."""
    os.environ.update(
        HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", HF_HUB_DISABLE_TELEMETRY="1", TOKENIZERS_PARALLELISM="false"
    )
    import torch
    from transformers.utils import logging

    torch.set_num_threads(1)  # as tests/conftest.py does
    logging.disable_progress_bar()
    print(json.dumps(run(name, scale, seed)))


def run_all(chosen: list[str], scales: dict[str, float], seed: int, counts: Path, jobs: int) -> bool:
    """Run parts in processes of their own, ``jobs`` at a time; each one's counts go into the file when it ends.

    Returns:
        Whether every part ran to its end and every trial held.
    """
    waiting, running, good = list(chosen), {}, True
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                name = waiting.pop(0)
                arguments = ["--only", name, "--scale", repr(scales[name]), "--seed", str(seed), "--child"]
                running[name] = subprocess.Popen(
                    [sys.executable, "-m", "tests.faults", *arguments], stdout=subprocess.PIPE, cwd=ROOT, text=True
                )
                print(f"{name}: started, scale {scales[name]:g}", flush=True)
            for name, process in list(running.items()):
                try:
                    output, _ = process.communicate(timeout=1 if len(running) > 1 else None)
                except subprocess.TimeoutExpired:
                    continue
                del running[name]
                if process.returncode:
                    print(f"{name}: did not run to its end (exit code {process.returncode})", flush=True)
                    good = False
                    continue
                result = json.loads(output.splitlines()[-1])
                add(counts, name, result)
                tried = sum(row[0] for row in result["rows"].values())
                print(f"{name}: {tried:,} trials, {len(result['failures']):,} failures", flush=True)
                for what, problem in result["failures"][:40]:
                    print(f"    {what}: {problem}", flush=True)
                good = good and not result["failures"]
    finally:
        for process in running.values():
            process.kill()
            process.wait()
    return good


def read(counts: Path) -> dict[str, Any]:
    """The counts that were kept so far."""
    return json.loads(counts.read_text(encoding="utf-8")) if counts.exists() else {}


def add(counts: Path, name: str, result: dict[str, Any]) -> None:
    """Put the counts of a part into the file, in place of older ones of the same part."""
    counts.parent.mkdir(parents=True, exist_ok=True)
    joined = {**read(counts), name: result}
    counts.write_text(json.dumps(joined, indent=1) + "\n", encoding="utf-8")
