"""Several machines under torchrun: two agents on the loopback address, one of which loses a worker."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.helpers import commands

pytestmark = [pytest.mark.examples, pytest.mark.skipif(sys.platform != "linux", reason="finds workers in /proc")]
LIMIT, SHARDS = 400, 20


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def agent(port, *arguments, errors, restarts):
    """A torchrun, as it is started on each machine."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "1"]
    launcher += ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{port}", "--rdzv-id", "test"]
    launcher += ["--max-restarts", str(restarts)]
    with errors.open("wb") as stderr:
        return subprocess.Popen(
            [*launcher, *commands.command(*arguments)[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            env=commands.environment(),
            start_new_session=True,
        )


def workers(process):
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    return []


def wait_for(condition, what):
    until = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < until, f"{what}: not in {LIMIT} s"
        time.sleep(0.01)


@contextlib.contextmanager
def two_agents(*arguments, folder, restarts):
    """Two agents, and all their workers ended at the end."""
    port = free_port()
    started, seen = [], set()
    try:
        for number in (1, 2):
            started.append(agent(port, *arguments, errors=folder / f"errors-{number}.txt", restarts=restarts))
        wait_for(lambda: all(workers(process.pid) for process in started), "the workers do not start")
        yield started
    finally:
        for process in started:
            seen |= {process.pid, *workers(process.pid)}
        for group in seen:  # torchrun gives each worker a session of its own
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGKILL)
        for process in started:
            process.wait(LIMIT)


def test_one_restart_is_enough_for_a_worker_that_dies_and_the_bytes_are_those_of_one_process(flan, tmp_path):
    data = commands.reviews(tmp_path / "reviews.csv", 256 * SHARDS, longest=30)
    asked = ("evaluate", flan, data, *commands.FEW)
    assert commands.run(*asked, "--output", tmp_path / "alone").exit_code == 0
    run = tmp_path / "run"
    with two_agents(*asked, "--output", run, folder=tmp_path, restarts=1) as agents:
        wait_for(lambda: (run / "manifest.json").exists() and any(run.glob("texts/*.parquet")), "no shard")
        victim = workers(agents[1].pid)[0]
        before = len(list(run.glob("texts/*.parquet")))
        os.kill(victim, signal.SIGKILL)
        codes = [process.wait(LIMIT) for process in agents]
    assert before < SHARDS - 2, "all was done before the worker was killed: this proves nothing"
    errors = (tmp_path / "errors-1.txt").read_text() + (tmp_path / "errors-2.txt").read_text()
    assert codes == [0, 0], errors
    assert "exitcode: -9" in errors
    assert "Traceback" not in errors
    assert commands.files(run) == commands.files(tmp_path / "alone")
