"""Child processes of the fault suite: each has a time limit, and its whole process group is ended by its id.

`cold` starts an interpreter, as a user does. `forked` forks from a server that has imported everything already, which
takes 0.1 s instead of 4 s; use it where many processes are needed.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pty
import resource
import select
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.helpers.commands import ROOT, command, environment

LIMIT = 120.0
"""Seconds after which a child counts as hanging."""
_PRELOADED = """attnfaith.cli.app attnfaith.cli.json_output attnfaith.cli.terminal attnfaith.evaluation.evaluator
attnfaith.attribution.attributor attnfaith.attribution.method transformers.models.auto.modeling_auto
transformers.models.auto.tokenization_auto transformers.models.bert.modeling_bert accelerate datasets pyarrow.parquet
pandas captum tests.faults.children""".split()


@dataclass(frozen=True)
class Ended:
    """How a child ended; a negative code is the signal that ended it."""

    code: int
    stdout: str
    stderr: str
    hung: bool = False
    seconds: float = 0.0

    @property
    def exit_code(self) -> int:
        """The code, as `commands.refused` reads it."""
        return self.code

    def assert_plain(self) -> None:
        """It ended by itself, and what it said is a message and no traceback."""
        assert not self.hung, f"it did not end within {LIMIT:.0f} s: {self.stderr[-300:]}"
        assert "Traceback" not in self.stderr, f"a traceback: {self.stderr[-400:]}"


def evaluate(*arguments: Any) -> None:
    """`command_line`, with a piece after each batch, so that many are written in a short run."""
    from attnfaith.evaluation.evaluator import Evaluator

    Evaluator.piece_seconds = 0.0
    command_line(*arguments)


def command_line(*arguments: Any, file_size: int | None = None) -> None:
    """The command line in this process, as the console script starts it; no file may be larger than a limit."""
    from attnfaith import interrupts
    from attnfaith.cli.app import app

    if file_size is not None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_size, file_size))
    sys.argv = ["attnfaith", *map(str, arguments)]
    interrupts.install_for_command()
    app(prog_name="attnfaith")


def evaluate_in_terminal(file: str, *arguments: Any, typed: bytes = b"") -> None:
    """The command line in a pseudo-terminal, where something may be typed; what arrives there goes to a file."""
    process, terminal = pty.fork()
    if process == 0:
        code: Any = 1
        try:
            os.environ.update(TERM="xterm-256color", COLUMNS="100", LINES="40")
            sys.stdin = open(0, closefd=False)  # noqa: SIM115
            sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
            evaluate(*arguments)
        except SystemExit as left:
            code = left.code
        except BaseException:  # shown as the interpreter shows it
            traceback.print_exc()
        finally:
            sys.stdout.flush(), sys.stderr.flush()
            os._exit(code or 0)
    if typed:
        os.write(terminal, typed)
    message = bytearray()
    while True:
        if not select.select([terminal], [], [], LIMIT)[0]:
            break
        try:
            piece = os.read(terminal, 65536)
        except OSError:
            break
        if not piece:
            break
        message += piece
    Path(file).write_bytes(message)
    raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))


def cold(
    *arguments: Any, signum: int | None = None, after: float = 0.0, limit: float = LIMIT, program: Sequence[str] = ()
) -> Ended:
    """A command in an interpreter of its own, and a signal some seconds after its start."""
    with subprocess.Popen(
        [*(program or command()), *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        cwd=ROOT,
        start_new_session=True,
        # where the suite runs in the background interrupts are ignored, and children inherit that
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        started, hung = time.monotonic(), False
        try:
            if signum is not None:
                try:
                    process.wait(after)
                except subprocess.TimeoutExpired:
                    process.send_signal(signum)
            stdout, stderr = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            hung = True
            end_group(process.pid)
            stdout, stderr = process.communicate()
        finally:
            end_group(process.pid)
    message = (stream.decode("utf-8", "backslashreplace") for stream in (stdout, stderr))
    return Ended(process.returncode, *message, hung=hung, seconds=time.monotonic() - started)


def forked(
    function: Callable[..., Any],
    *arguments: Any,
    signum: int | None = None,
    after: float = 0.0,
    limit: float = LIMIT,
) -> Ended:
    """A function in a process that is forked from one that has imported everything; it ends as a program does."""
    return Fork(function, *arguments).ended(signum=signum, after=after, limit=limit)


def warm_context() -> Any:
    """For `multiprocessing`: processes are forked from one that has imported everything."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    return context


def run_program(program: str, *arguments: Any) -> None:
    """Run Python code in this process; what it says at its end has room, whatever limit on files it sets."""
    sys.argv = ["-c", *map(str, arguments)]
    try:
        exec(program, {"sys": sys, "os": os, "__name__": "__main__"})
    except Exception:
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        raise


class Fork:
    """A forked process that is running; `ended` waits for its end."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="faults-")
        context = warm_context()
        previous = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = str(ROOT)  # read by the server when it starts
        try:
            self.process = context.Process(target=_enter, args=(self._folder.name, function, arguments))
            self.process.start()
        finally:
            if previous is None:
                del os.environ["PYTHONPATH"]
            else:
                os.environ["PYTHONPATH"] = previous
        self._begun = Path(self._folder.name) / "begun"

    def ended(self, *, signum: int | None = None, after: float = 0.0, limit: float = LIMIT) -> Ended:
        """Wait, with a signal some seconds after the function was called."""
        process, hung = self.process, False
        until = time.monotonic() + limit
        while not self._begun.exists() and process.is_alive() and time.monotonic() < until:
            time.sleep(0.001)
        started = time.monotonic()
        if signum is not None:
            process.join(after)
            if process.is_alive():
                os.kill(process.pid, signum)
        process.join(limit)
        if process.is_alive():
            hung = True
            end_group(process.pid)
            process.join()
        else:
            end_group(process.pid)
        seconds = time.monotonic() - started
        message = [
            (Path(self._folder.name) / name).read_bytes().decode("utf-8", "backslashreplace")
            if (Path(self._folder.name) / name).exists()
            else ""
            for name in ("stdout", "stderr")
        ]
        self._folder.cleanup()
        return Ended(process.exitcode, *message, hung=hung, seconds=seconds)


def _enter(folder: str, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.environ.update({name: value for name, value in environment().items() if name.startswith(("HF_", "OMP_"))})
    for number, name in ((1, "stdout"), (2, "stderr")):
        file = os.open(os.path.join(folder, name), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(file, number)
        os.close(file)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 (lives as long as the process)
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False, errors="backslashreplace")  # noqa: SIM115
    sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115
    import torch

    torch.set_num_threads(1)
    Path(folder, "begun").touch()
    function(*arguments)


def end_group(leader: int) -> None:
    """End what is left of a process group that we started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)
