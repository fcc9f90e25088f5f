"""``attnfaith evaluate --part`` and ``attnfaith merge``."""

import shutil

import pytest

from tests.helpers.commands import FEW, files, refused, run, strictly


@pytest.fixture(scope="module")
def parts(flan, many, tmp_path_factory):
    """Two parts of five shards."""
    folder = tmp_path_factory.mktemp("parts")
    for number in (1, 2):
        output = folder / f"run-{number}"
        result = run(
            "evaluate", flan, many, "--part", f"{number}/2", "--output", output, "--rankings", "attention", *FEW
        )
        assert result.exit_code == 0, result.output
        assert f"These results are part {number} of 2 of the data" in result.stdout
    return [folder / "run-1", folder / "run-2"]


def test_the_parts_are_joined_to_the_run_over_all_data(flan, many, parts, tmp_path):
    whole = run("evaluate", flan, many, "--output", tmp_path / "whole", "--rankings", "attention", *FEW)
    merged = run("merge", parts[1], parts[0], "--output", tmp_path / "all")
    assert merged.exit_code == 0, merged.output
    assert files(tmp_path / "all") == files(tmp_path / "whole")
    assert merged.stdout == whole.stdout.replace(str(tmp_path / "whole"), str(tmp_path / "all"))
    told = strictly(run("merge", *parts, "--output", tmp_path / "all", "--json").stdout)
    assert (told["part"], told["counts"]["rows"]) == (None, 1200)


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ("0/16", "Expected --part to be between 1/16 and 16/16, got 0/16."),
        ("17/16", "Expected --part to be between 1/16 and 16/16, got 17/16."),
        ("3", "Expected --part to be a number and of how many, such as 3/16, got '3'."),
        ("a/b", "such as 3/16, got 'a/b'."),
        ("1/0", "got 0."),
        ("-1/2", "got '-1/2'."),
        ("1/6", "cannot be divided into 6 parts"),
    ],
)
def test_a_part_that_cannot_be(part, said, flan, many, tmp_path):
    refused(run("evaluate", flan, many, f"--part={part}", "--output", tmp_path / "run"), 2, said)
    assert not (tmp_path / "run").exists()


def test_parts_that_do_not_make_one_run(parts, finished, tmp_path):
    output = ("--output", tmp_path / "all")
    refused(run("merge", parts[1], *output), 2, "Part 1 of 2 is missing")
    refused(run("merge", parts[0], *parts, *output), 2, "Part 1 of 2 is given twice", str(parts[0]))
    refused(run("merge", parts[0], finished, *output), 2, "is not a part: it was made without --part")
    (tmp_path / "empty").mkdir()
    refused(run("merge", parts[0], tmp_path / "empty", *output), 2, "is no run of attnfaith")
    refused(run("merge", *parts, "--output", parts[0] / "all"), 2, "is inside the part")
    refused(run("merge", *parts, "--output", finished), 2, "was made with other arguments")
    refused(run("merge", *output), 2, "PART")
    refused(run("merge", *parts), 2, "--output")
    assert not (tmp_path / "all").exists()


def test_parts_with_another_seed(flan, many, parts, tmp_path):
    asked = ("evaluate", flan, many, "--part", "2/2", "--rankings", "attention", "--seed", 1, *FEW)
    assert run(*asked, "--output", tmp_path / "run-2").exit_code == 0
    refused(
        run("merge", parts[0], tmp_path / "run-2", "--output", tmp_path / "all"),
        2,
        f"The parts are not of one run: seed is 0 in {str(parts[0])!r} and 1 in",
    )


def test_a_damaged_part(parts, tmp_path):
    shutil.copytree(parts[1], tmp_path / "run-2")
    file = tmp_path / "run-2" / "erasure" / "00001.parquet"
    file.write_bytes(file.read_bytes()[:-100])
    refused(run("merge", parts[0], tmp_path / "run-2", "--output", tmp_path / "all"), 3, str(file))
