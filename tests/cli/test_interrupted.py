"""A run that is stopped at any moment goes on with the same command, and ends with the files of an undisturbed run."""

import os
import signal
import time
from pathlib import Path

import pytest

import attnfaith as af
from tests.faults.children import Fork, command_line
from tests.helpers import commands
from tests.helpers.commands import FEW, error_text, refused, run

SHARDS = 5


@pytest.fixture(scope="module")
def undisturbed(flan, many, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    result = run("evaluate", flan, many, "--output", folder, *FEW)
    assert result.exit_code == 0, result.stderr
    return folder, result.stdout


def stopped_at(result, arguments, signum):
    """Start a command, and send a signal as soon as a file is there."""
    fork = Fork(command_line, *arguments)
    until = time.monotonic() + 120
    while not Path(result).exists():
        assert fork.process.is_alive(), fork.ended().stderr
        assert time.monotonic() < until
        time.sleep(0.001)
    os.kill(fork.process.pid, signum)
    return fork.ended()


def test_an_interrupt_says_what_is_kept_and_the_same_command_resumes(flan, many, undisturbed, tmp_path, monkeypatch):
    from attnfaith.evaluation.runner import Runner

    whole, calls = Runner._complete, []

    def third_is_stopped(self, shard, rows, *more):
        calls.append(len(rows))
        if len(calls) == 3:
            raise KeyboardInterrupt
        whole(self, shard, rows, *more)

    asked = ("evaluate", flan, many, "--output", tmp_path / "run", *FEW)
    with monkeypatch.context() as patched:
        patched.setattr(Runner, "_complete", third_is_stopped)
        result = run(*asked)
    refused(result, 130, "Interrupted. 512 of 1,200 rows are done and kept", "the same command goes on")
    refused(run("compare", tmp_path / "run", undisturbed[0]), 2, "not complete: 2 of 5 shards", "The command that")
    refused(run(*asked, "--seed", "1"), 2, "seed is 0 there and 1 here")

    done = []
    with monkeypatch.context() as patched:
        patched.setattr(
            Runner,
            "_complete",
            lambda self, shard, rows, *more: done.append(len(rows)) or whole(self, shard, rows, *more),
        )
        result = run(*asked)
    assert result.exit_code == 0, result.stderr
    assert done == [256, 256, 176]  # what was done is not done again
    assert commands.files(tmp_path / "run") == commands.files(undisturbed[0])
    assert result.stdout.splitlines()[:-2] == undisturbed[1].splitlines()[:-2]


def test_an_interrupt_inside_a_shard_keeps_its_batches(flan, many, undisturbed, tmp_path, monkeypatch):
    from attnfaith.evaluation.runner import Runner

    columns, sizes = Runner._columns, []

    def eleventh_is_stopped(self, members):
        sizes.append(len(members))
        if len(sizes) == 11:
            raise KeyboardInterrupt
        return columns(self, members)

    asked = ("evaluate", flan, many, "--output", tmp_path / "run", *FEW)
    with monkeypatch.context() as patched:
        patched.setattr(Runner, "_columns", eleventh_is_stopped)
        result = run(*asked)
    assert sizes == [32] * 11
    refused(result, 130, "Interrupted. 320 of 1,200 rows are done and kept", "the same command goes on")
    assert list((tmp_path / "run" / "unfinished").iterdir())
    sizes.clear()
    sizes += [0] * 11  # so that nothing is stopped
    with monkeypatch.context() as patched:
        patched.setattr(Runner, "_columns", eleventh_is_stopped)
        result = run(*asked)
    assert result.exit_code == 0, result.stderr
    assert sum(sizes) == 1200 - 320
    assert commands.files(tmp_path / "run") == commands.files(undisturbed[0])
    assert result.stdout.splitlines()[:-2] == undisturbed[1].splitlines()[:-2]


def test_an_interrupt_of_a_sample_counts_the_rows_of_the_sample(flan, many, tmp_path, monkeypatch):
    from attnfaith.evaluation.runner import Runner

    columns, sizes = Runner._columns, []

    def third_is_stopped(self, members):
        sizes.append(len(members))
        if len(sizes) == 3:
            raise KeyboardInterrupt
        return columns(self, members)

    monkeypatch.setattr(Runner, "_columns", third_is_stopped)
    result = run("evaluate", flan, many, "--output", tmp_path / "run", "--max-texts", 100, *FEW)
    refused(result, 130, f"Interrupted. {sum(sizes[:2])} of 100 rows are done and kept")


def test_an_interrupt_before_anything_is_written(flan, reviews, tmp_path, monkeypatch):
    def stopped(*arguments, **named):
        raise KeyboardInterrupt

    monkeypatch.setattr("attnfaith.evaluation.evaluator.load_model", stopped)
    refused(run("evaluate", flan, reviews, "--output", tmp_path / "run"), 130, "Interrupted. Nothing was written yet.")


def test_changed_data_are_noticed_when_going_on(flan, many, undisturbed, tmp_path):
    lines = Path(many).read_text().splitlines(keepends=True)
    lines[300] = lines[300].replace(" ", " not ", 1)
    (tmp_path / "many.csv").write_text("".join(lines))
    result = run("evaluate", flan, tmp_path / "many.csv", "--output", undisturbed[0], *FEW)
    refused(result, 2, "The data have changed: rows 256 to 511", "Give another --output")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("signum", "moment"),
    [
        pytest.param(signal.SIGKILL, "manifest.json", id="killed before the first shard"),
        pytest.param(signal.SIGINT, "texts/00001.parquet", id="interrupted between shards"),
    ],
)
def test_stopped_in_the_middle_and_resumed(signum, moment, flan, many, undisturbed, tmp_path):
    asked = ("evaluate", flan, many, "--output", tmp_path / "run", *FEW)
    stopped = stopped_at(tmp_path / "run" / moment, asked, signum)
    if signum == signal.SIGKILL:
        assert stopped.code == -signal.SIGKILL
    else:
        refused(stopped, 130, "Interrupted.", "the same command goes on")
        assert not list((tmp_path / "run").rglob(".*"))  # nothing half written
    assert len(list((tmp_path / "run" / "texts").glob("*.parquet"))) < SHARDS
    with pytest.raises(af.InputError, match="not complete"):
        af.load_results(tmp_path / "run")
    resumed = run(*asked)
    assert resumed.exit_code == 0, error_text(resumed)
    assert commands.files(tmp_path / "run") == commands.files(undisturbed[0])
    assert resumed.stdout.splitlines()[:-2] == undisturbed[1].splitlines()[:-2]
