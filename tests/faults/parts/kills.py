"""Processes that are killed, terminated or interrupted at random moments, and evaluations that go on afterwards."""

from __future__ import annotations

import functools
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.faults import children, material
from tests.faults.children import Ended, cold, forked
from tests.faults.tally import Part, Tally, times
from tests.helpers.commands import ROOT, command, environment, files

TEXTS = 800
"""Four shards."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)


def run(scale: float, seed: int) -> Tally:
    """Cold starts, forked processes, interrupts that follow each other, and one worker of two."""
    tally, draw = Tally(), random.Random(seed)
    undisturbed()
    for number in range(times(60, scale, 2)):
        signum = SIGNALS[number % 3]
        with tally.trial(f"{signum.name} at any moment since the interpreter's start, then resumed"):
            stopped_and_resumed(signum, draw.uniform(0, 1.1 * whole_run()), starts_cold=True)
    for number in range(times(300, scale, 3)):
        signum = SIGNALS[number % 3]
        with tally.trial(f"{signum.name} while the command runs, then resumed"):
            stopped_and_resumed(signum, draw.uniform(0, 1.1 * undisturbed()[2]), starts_cold=False)
    for _ in range(times(20, scale)):
        with tally.trial("SIGKILL three times in a row, then resumed"):
            folder = material.fresh("killed")
            for _ in range(3):
                after = draw.uniform(0, undisturbed()[2])
                forked(children.evaluate, *_asked(folder), signum=signal.SIGKILL, after=after).assert_plain()
            _resumed(folder)
    for _ in range(times(12, scale)):
        with tally.trial("attnfaith --version, interrupted while modules are imported"):
            interrupted_at_import(draw.uniform(0.02, 1.2))
    if scale >= 0.05:  # two interpreters each time: 15 s
        for number in range(times(12, scale)):
            signum = (signal.SIGKILL, signal.SIGTERM)[number % 2]
            with tally.trial(f"{signum.name} to one worker of two (torchrun), then resumed"):
                one_worker_of_two(signum, draw)
    return tally


def _asked(folder: Path) -> list[str]:
    run = str(folder / "run")
    return ["evaluate", str(material.flan_folder()), material.reviews(TEXTS), "--output", run, *material.SHORT_RUN]


@functools.cache
def undisturbed() -> tuple[dict[str, bytes], str, float]:
    """The files of a run that nobody disturbs, what it prints, and how long it takes once all is imported."""
    folder = material.fresh("undisturbed")
    ended = forked(children.evaluate, *_asked(folder))
    assert ended.code == 0, ended.stderr
    return files(folder / "run"), _verdict(ended), ended.seconds


@functools.cache
def whole_run() -> float:
    """Seconds that a whole run takes from a cold start."""
    ended = cold(*_asked(material.fresh("cold")))
    assert ended.code == 0, ended.stderr
    return ended.seconds


def _verdict(ended: Ended) -> str:
    """What was printed, but for the last two lines, which name the folder."""
    return "\n".join(ended.stdout.splitlines()[:-2])


def stopped_and_resumed(signum: signal.Signals, after: float, *, starts_cold: bool) -> None:
    """Stop a run and go on with it; the end is that of an undisturbed run."""
    folder = material.fresh("stopped")
    if starts_cold:
        ended = cold(*_asked(folder), signum=signum, after=after)
    else:
        ended = forked(children.evaluate, *_asked(folder), signum=signum, after=after)
    assert not ended.hung, "it did not end after the signal"
    if ended.code == 0:  # done before the signal came
        assert _verdict(ended) == undisturbed()[1], f"another verdict: {_verdict(ended)[:200]}"
    elif signum != signal.SIGINT:
        assert ended.code == -signum, f"exit code {ended.code}: {ended.stderr[-300:]}"
        assert ended.stderr == "", f"SIGTERM or SIGKILL, and it said {ended.stderr[-300:]!r}"
    elif "attnfaith" not in ended.stderr and "Interrupted." not in ended.stderr:
        # Python itself was starting: nothing of attnfaith had run, nothing can have been written.
        assert starts_cold, f"exit code {ended.code}, and it said {ended.stderr!r}"
        assert not (folder / "run").exists(), f"exit code {ended.code} after {after:.2f} s without a word"
    else:
        ended.assert_plain()
        assert ended.code == 130, f"exit code {ended.code}: {ended.stderr[-300:]}"
        assert "Interrupted." in ended.stderr, f"not told: {ended.stderr[-300:]}"
        assert not list(folder.rglob(".*")), "an interrupted run left a file half written"
    _resumed(folder)


def _resumed(folder: Path) -> None:
    written = _written(folder).items()
    before = {name: content for name, content in written if name.endswith(".parquet") and "unfinished/" not in name}
    calm, verdict, _ = undisturbed()
    for name, content in before.items():
        assert calm.get(name) == content, f"{name} is there after the stop and is not what it should be"
    ended = forked(children.evaluate, *_asked(folder))
    ended.assert_plain()
    assert ended.code == 0, f"exit code {ended.code} when going on: {ended.stderr[-300:]}"
    assert _verdict(ended) == verdict, "another verdict than that of an undisturbed run"
    after = _written(folder)
    assert after == calm, f"differs from an undisturbed run: {sorted(set(after.items()) ^ set(calm.items()))[:1]}"[:300]
    shutil.rmtree(folder)


def _written(folder: Path) -> dict[str, bytes]:
    return files(folder / "run") if (folder / "run").exists() else {}


def interrupted_at_import(after: float) -> None:
    """An interrupt while torch and Transformers are imported is one line, never their traceback."""
    ended = cold("--version", signum=signal.SIGINT, after=after)
    if ended.code == 0 or ("attnfaith" not in ended.stderr and "Interrupted." not in ended.stderr):
        return  # too late, or before attnfaith's first line
    ended.assert_plain()
    assert (ended.code, ended.stderr) == (130, "Interrupted.\n")


def one_worker_of_two(signum: signal.Signals, draw: random.Random) -> None:
    """When one worker dies the other one ends too, and a single process finishes the run with the same bytes."""
    folder = material.fresh("workers")
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", _free_port()]
    with subprocess.Popen(
        [*launcher, *command()[1:], *_asked(folder)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment(),
        cwd=ROOT,
        start_new_session=True,
    ) as process:
        workers: list[int] = []
        try:
            _wait(lambda: len(_children(process.pid)) == 2 or process.poll() is not None)
            workers = _children(process.pid)
            assert len(workers) == 2, f"torchrun ended with {process.returncode}"
            if draw.random() < 0.7:  # while they evaluate; otherwise while they start
                begun = folder / "run" / "manifest.json"
                _wait(lambda: begun.exists() or process.poll() is not None)
                time.sleep(draw.uniform(0, 0.5))
            else:
                time.sleep(draw.uniform(0, 5))
            victim = draw.choice(workers)
            if victim in _children(process.pid):
                os.kill(victim, signum)
            process.wait(children.LIMIT)
        except subprocess.TimeoutExpired:
            raise AssertionError("torchrun hangs after one worker died") from None
        finally:
            for group in (*workers, process.pid):  # torchrun gives each worker a session of its own
                children.end_group(group)
    _resumed(folder)


def _free_port() -> str:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def _children(process: int) -> list[int]:
    try:
        return [int(item) for item in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def _wait(condition: object, limit: float = children.LIMIT) -> None:
    until = time.monotonic() + limit
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < until, "the workers did not start"
        time.sleep(0.005)


PART = Part(
    title="Stopped at any moment",
    promise="An evaluation that is killed, terminated or interrupted at any moment goes on with the same command, "
    "and ends with the same bytes in every file as one that was never disturbed. An interrupt ends with "
    "code 130 and one line. If one worker of several dies, the others end too.",
    run=run,
    slow=True,
)
