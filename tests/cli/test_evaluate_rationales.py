"""``attnfaith evaluate --tests rationales``: with a column of what people marked, and with one that is not there."""

import json

import attnfaith as af
from tests.helpers import commands
from tests.helpers.commands import FEW, refused, run

DECIDING = ("fine", "dull", "superb")


def marked(path):
    rows = [(text, json.dumps([int(word in DECIDING) for word in text.split()])) for text in commands.texts(20)]
    return commands.write_csv(path, rows, ("text", "marks"))


def test_marks_and_options_reach_the_test(flan, tmp_path):
    output = tmp_path / "run"
    asked = ("--tests", "rationales", "--rationale-column", "marks", "--option", "rationales.shares=0.1,0.5")
    result = run("evaluate", flan, marked(tmp_path / "a.csv"), *asked, "--output", output, *FEW)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "People marked" in result.stdout
    results = af.load_results(output)
    assert results.tests["rationales"]["shares"] == [0.1, 0.5]
    assert results.manifest["run"]["columns"]["rationale"] == "marks"
    assert len(results.table("rationales")["comprehensiveness_at"].iloc[0]) == 2
    refused(
        run("evaluate", flan, marked(tmp_path / "a.csv"), "--tests", "rationales", "--output", output),
        2,
        "columns.rationale is 'marks' there and None here",
    )


def test_what_cannot_be_is_refused(flan, tmp_path):
    data, output = marked(tmp_path / "a.csv"), ("--output", tmp_path / "run")
    asked = ("evaluate", flan, data, "--tests", "rationales")
    refused(
        run(*asked, "--rationale-column", "mark", *output),
        2,
        "no column 'mark' (--rationale-column)",
        "Did you mean 'marks'?",
    )
    refused(run(*asked, "--rationale-column", "text", *output), 2, "Row 0", "'text'", "0 or 1 for each word")
    refused(run("evaluate", flan, data, "--rationale-column", "marks", *output), 2, "Only the test 'rationales'")
    refused(run(*asked, "--option", "rationales.form=list", *output), 2, "mask, spans, words")
    assert not (tmp_path / "run").exists()
