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


def test_objectives(tmp_path):
    lines = [
        (row["text"], row["label"], [int(word.startswith("magn")) for word in row["text"].split()]) for row in rows(60)
    ]
    table = commands.write_csv(tmp_path / "marked.csv", lines, ("text", "label", "marks"))
    words = ["--objective", "deceptive-attention", "--option", "deceptive-attention.words=dreadful,magnificent"]
    marked = [*words[:2], "--option", "deceptive-attention.column=marks", "--option", "deceptive-attention.weight=0.5"]
    diverse = ["--objective", "diversity"]
    for folder, asked, figures in (("words", [*words, *diverse], {"impermissible_mass", "conicity"}),
                                   ("column", marked, {"impermissible_mass"})):  # fmt: skip
        result = run("train", "FLANnoenc", table, "--output", tmp_path / folder, *QUICK, *asked)
        assert result.exit_code == 0, result.output
        best = load_history(tmp_path / folder).best
        assert figures == set(best) - {"epoch", "loss", "validation_loss", "validation_accuracy"}
        assert 0 < best["impermissible_mass"] < 0.5
        assert "DeceptiveAttention" in (tmp_path / folder / "README.md").read_text()
    other = run("train", "FLANnoenc", table, "--output", tmp_path / "words", *QUICK, *words)
    refused(other, 2, "holds another training: --objective was")
    assert load_history(tmp_path / "words").best["conicity"] > 0


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (["--objective", "deceptive"], "Did you mean 'deceptive-attention'?"),
        (["--objective", "gumbel-softmax"], "There is no objective 'gumbel-softmax'"),
        (["--objective", "deceptive-attention"], "words (a list of impermissible words) or column"),
        (["--option", "diversity.weight=1"], "'diversity.weight' is of no --objective that was given"),
        (["--objective", "diversity", "--option", "diversity.wait=1"], "Did you mean 'weight'? Known: weight."),
        (["--objective", "diversity", "--option", "diversity.weight=much"], "to be a number, got 'much'"),
        (["--objective", "diversity", "--option", "diversity.weight=-1"], "Expected weight to be"),
        (["--objective", "diversity", "--option", "weight=1"], "given as objective.option=value"),
        (["--objective", "masked-fine-tuning", "--option", "masked-fine-tuning.hide=zero"], "which training does not"),
        (["--objective", "deceptive-attention", "--option", "deceptive-attention.words=zzz"], "['zzz'] occurs in"),
        (["--objective", "deceptive-attention", "--option", "deceptive-attention.column=no"], "no column 'no'"),
        (["--objective", "deceptive-attention", "--option", "deceptive-attention.column=label"], "Rename it"),
        (["--validation", "dev"], "--validation dev is no split of the data, and no file"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_objectives_that_are_refused(asked, words, table, tmp_path):
    result = run("train", "FLANnoenc", *columns(table), "--output", tmp_path / "x", *QUICK, *asked)
    refused(result, 2, words)
    assert not (tmp_path / "x").exists()


def test_a_folder_that_is_not_there(table, tmp_path):
    result = run("train", "./nothing", *columns(table), "--output", tmp_path / "x")
    refused(result, 2, "There is no folder './nothing' to load a model from")


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


@pytest.mark.examples
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
