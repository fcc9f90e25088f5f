"""``attnfaith train``: from a table to a model that ``attnfaith evaluate`` reads, also when it is killed on the way."""

import json
import os
import signal
import time

import pytest

from attnfaith.training import load_history, resumable
from tests.cli.test_option_names import PYTHON
from tests.faults.children import Fork, command_line, forked
from tests.helpers import commands
from tests.helpers.commands import FEW, error_text, refused, run
from tests.helpers.training_data import rows

QUICK = ("--epochs", "2", "--learning-rate", "0.05")


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    lines = [(row["text"], ("bad", "good")[row["label"]]) for row in rows(60)]
    return commands.write_csv(tmp_path_factory.mktemp("data") / "reviews.csv", lines, ("review", "stars"))


def columns(table):
    return (table, "--text-column", "review", "--label-column", "stars")


def test_train_then_evaluate(table, tmp_path):
    folder = tmp_path / "flan"
    result = run("train", "FLANnoenc", *columns(table), "--output", folder, "--epochs", "12", "--learning-rate", "0.05")
    assert result.exit_code == 0, result.output
    history = load_history(folder)
    accuracy = f"validation accuracy {history.best['validation_accuracy']:.3f}"
    assert accuracy in result.stdout
    assert f"The model is in '{folder}'." in result.stdout
    assert "12 of 60 texts were held out" in error_text(result)
    again = run("train", "FLANnoenc", *columns(table), "--output", folder, "--epochs", "12", "--learning-rate", "0.05")
    assert (again.exit_code, again.stdout) == (0, result.stdout)
    assert "This training is finished" in error_text(again)
    judged = run("evaluate", folder, *columns(table), "--output", tmp_path / "run", *FEW, "--rankings", "attention")
    assert judged.exit_code == 0, judged.output


def test_quiet_says_nothing_but_the_result_and_warnings(table, tmp_path):
    output = ("--output", tmp_path / "a", "--quiet")
    result = run("train", "FLANnoenc", *columns(table), *output, "--epochs", "1", "--learning-rate", "1e-9")
    assert result.exit_code == 0
    assert error_text(result).startswith("Warning: As far as 12 texts can tell, the model is no better than")
    assert "--learning-rate" in error_text(result)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (["--learning-rate", "0"], "Expected --learning-rate to be"),
        (["--epochs", "0"], "Expected --epochs to be"),
        (["--batch-size", "0"], "Expected --batch-size to be"),
        (["--warmup", "2"], "Expected --warmup"),
        (["--dataset", "sst"], "FLANnoenc has no settings of its own for the data set 'sst'"),
        (["--vectors", "nothing.txt"], "There is no file 'nothing.txt'"),
        (["--label-column", "review"], "Name it with --label-column, or for numbers give --decision regression"),
        (["--label-column", "label"], "no column 'label' (--label-column)"),
        (["--text-column", "txt"], "no column 'txt' (--text-column)"),
        (["--label-map", "nice=good"], "--label-map does not mention it"),
        (["--split", "test"], "--split train"),
        (["--min-count", "99"], "No word occurs 99 times"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_messages_name_options(asked, words, table, tmp_path):
    result = run("train", "FLANnoenc", *columns(table), "--output", tmp_path / "x", *QUICK, *asked)
    refused(result, 2, words)
    assert PYTHON.findall(error_text(result)) == []


def test_misspelt_presets_and_the_folders_of_others(table, tmp_path):
    refused(run("train", "HANrn", *columns(table), "--output", tmp_path / "x"), 2, "Did you mean 'HANrnn'")
    (tmp_path / "notes.txt").touch()
    refused(run("train", "HANrnn", *columns(table), "--output", tmp_path), 2, "holds other files ('notes.txt')")


def test_an_interrupt_says_how_to_go_on(table, tmp_path, monkeypatch):
    def stop(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(resumable.ResumableTrainer, "training_step", stop)
    result = run("train", "FLANnoenc", *columns(table), "--output", tmp_path / "x", *QUICK)
    assert result.exit_code == 130
    assert "goes on from the last checkpoint" in error_text(result)


@pytest.mark.slow
def test_a_killed_process_is_continued_to_the_same_weights(table, tmp_path):
    arguments = ["train", "FLANrnn", *columns(table), "--epochs", "20", "--batch-size", "4", "--patience", "0"]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    done = forked(command_line, *arguments, "--output", whole)
    assert done.code == 0, done.stderr
    fork = Fork(command_line, *arguments, "--output", killed)
    until = time.monotonic() + 120
    while resumable.last_checkpoint(killed / "checkpoints") is None and time.monotonic() < until:
        time.sleep(0.01)
    os.kill(fork.process.pid, signal.SIGKILL)
    assert fork.ended().code == -signal.SIGKILL
    assert not json.loads((killed / "training.json").read_text())["finished"]
    again = forked(command_line, *arguments, "--output", killed)
    assert again.code == 0, again.stderr
    assert (killed / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    assert load_history(killed).epochs == load_history(whole).epochs
    assert sorted(entry.name for entry in killed.iterdir()) == sorted(entry.name for entry in whole.iterdir())
