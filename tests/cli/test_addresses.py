"""Commands that read data and write runs at addresses."""

from pathlib import Path

import pytest

from tests.helpers import other_file_systems
from tests.helpers.commands import FEW, files, refused, run, strictly
from tests.helpers.other_file_systems import UNREACHABLE

OPTIONS = ("--rankings", "attention", *FEW)


@pytest.fixture
def memory():
    with other_file_systems.in_memory() as system:
        yield system


def test_data_and_results_at_addresses(memory, flan, reviews, tmp_path):
    memory.pipe_file("/bucket/reviews.csv", Path(reviews).read_bytes())
    plain = run("evaluate", flan, reviews, "--output", tmp_path / "run", *OPTIONS)
    there = run("evaluate", flan, "memory://bucket/reviews.csv", "--output", "memory://bucket/run", *OPTIONS)
    assert there.exit_code == 0, there.output
    assert there.stdout == plain.stdout.replace(str(tmp_path / "run"), "memory://bucket/run")
    assert "is in the memory of this command: nothing is left of it when the command ends" in there.stderr
    assert "memory" not in plain.stderr
    sent = {name.removeprefix("/bucket/run/"): memory.cat_file(name) for name in memory.find("/bucket/run")}
    assert sent == files(tmp_path / "run")
    again = run("evaluate", flan, reviews, "--output", "memory://bucket/run", *OPTIONS, "--json")
    assert strictly(again.stdout)["path"] == "memory://bucket/run"
    compared = run("compare", "memory://bucket/run", tmp_path / "run")
    assert compared.exit_code == 0, compared.output
    assert "made with the same model and settings" in compared.stdout


def test_parts_at_addresses(memory, flan, many, tmp_path):
    for number in (1, 2):
        output = f"memory://bucket/run-{number}"
        assert run("evaluate", flan, many, "--part", f"{number}/2", "--output", output, *OPTIONS).exit_code == 0
    merged = run("merge", "memory://bucket/run-1", "memory://bucket/run-2", "--output", tmp_path / "all")
    assert merged.exit_code == 0, merged.output
    run("evaluate", flan, many, "--output", tmp_path / "run", *OPTIONS)
    assert files(tmp_path / "all") == files(tmp_path / "run")


def test_what_cannot_be_reached(memory, flan, reviews, tmp_path):
    nowhere = f"{UNREACHABLE}://bucket/x"
    with other_file_systems.without_access():
        refused(run("evaluate", flan, reviews, "--output", nowhere), 3, "NoCredentialsError: Unable to locate", nowhere)
        refused(run("evaluate", flan, nowhere, "--output", tmp_path / "run"), 2, "NoCredentialsError", nowhere)
        refused(run("compare", nowhere, nowhere), 3, "NoCredentialsError")
        refused(run("merge", nowhere, nowhere, "--output", tmp_path / "run"), 3, "NoCredentialsError")
    refused(run("evaluate", flan, "nowhere://x/y.csv", "--output", tmp_path / "run"), 2, "Protocol not known: nowhere")
    refused(run("evaluate", flan, "memory://x/y.csv", "--output", tmp_path / "run"), 2, "no file 'memory://x/y.csv'")
    assert not (tmp_path / "run").exists()
