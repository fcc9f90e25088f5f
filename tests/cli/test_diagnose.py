"""``attnfaith diagnose``: a small diagnosis, its report, and what is refused."""

import json

import pytest

from tests.helpers import commands
from tests.helpers.training_data import rows, small


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    model, tokenizer = small("FLANnoenc")
    model.save_pretrained(path / "flan")
    tokenizer.save_pretrained(path / "flan")
    commands.write_csv(path / "reviews.csv", [(row["text"], row["label"]) for row in rows(60)])
    return path


def diagnose(folder, *more):
    fixed = ("--tests", "seeds", "--small", "--epochs", "1", "--resamples", "20")
    return commands.run("diagnose", folder / "flan", folder / "reviews.csv", *fixed, *more)


def test_a_diagnosis_is_printed_stored_and_reported(folder):
    done = diagnose(folder, "--output", folder / "d", "--quiet")
    assert done.exit_code == 0, done.stderr
    assert "Seed variance\n  Over 2 training seeds" in done.stdout
    assert "small diagnosis" in done.stdout
    assert (folder / "d" / "report.html").is_file()
    again = commands.run("report", folder / "d", "--output", folder / "again.html")
    assert again.exit_code == 0, again.stderr
    assert "Does attention stay where it is" in (folder / "again.html").read_text()
    told = commands.strictly(diagnose(folder, "--output", folder / "d", "--json", "--quiet").stdout)
    assert told["conclusions"].keys() == {"seeds"}
    assert {row["figure"] for row in told["summary"]} >= {"jsd", "tvd"}
    assert json.dumps(told["facts"])


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--seeds", "1"), ("--seeds",)),
        (("--lambdas", "0.1,-1"), ("--lambdas",)),
        (("--lambdas", "many"), ("--lambdas",)),
        (("--tests", "unifrom"), ("uniform",)),
        (("--label-column", "stars"), ("stars",)),
        (("--from", "./no/such/model"), ("./no/such/model",)),
    ],
)
def test_wrong_arguments_are_refused(folder, tmp_path, more, words):
    commands.refused(diagnose(folder, "--output", tmp_path / "d", "--quiet", *more), 2, *words)
