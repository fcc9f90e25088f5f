"""Every part of the fault suite in its short form; `python -m tests.faults --long` is the long one.

Parts that take long even so are run by `make test-examples`.
"""

import json

import pytest

from tests.faults import page, suite
from tests.faults.__main__ import main
from tests.faults.children import forked

PARTS = [pytest.param(name, marks=[pytest.mark.examples] if suite.part_of(name).slow else []) for name in suite.names()]


@pytest.mark.parametrize("name", PARTS)
def test_short(name):
    """In a process of its own, as in the long form: what other tests left in memory would count as a leak."""
    done = forked(suite.run_alone, name, suite.part_of(name).short, limit=900)
    assert done.code == 0, done.stderr[-2000:]
    result = json.loads(done.stdout.splitlines()[-1])
    assert sum(tried for tried, _ in result["rows"].values()) > 0
    assert not result["failures"], "\n".join(f"{what}: {problem}" for what, problem in result["failures"][:20])


def test_counts_of_parts_are_joined_into_the_page(tmp_path):
    counts = tmp_path / "counts.json"
    results = {
        "stored": {"scale": 1.0, "seed": 0, "rows": {"a file removed": [1200, 1200]}, "measures": {}, "failures": []},
        "disk": {"scale": 0.1, "seed": 0, "rows": {"full": [3, 2]}, "measures": {"operations": "41"}, "failures": []},
    }
    for name, result in results.items():
        suite.add(counts, name, result)
    assert suite.read(counts) == results
    suite.add(counts, "disk", {**results["disk"], "rows": {"full": [5, 5]}})
    text = page.written(suite.read(counts))
    assert "| a file removed | 1,200 | 1,200 |" in text
    assert "| full | 5 | 5 |" in text
    assert "1,205 trials in all; every one held." in text
    assert "Not the long form: 0.1 of its trials." in text
    assert "1 did not hold" in page.written(results)
    assert suite.part_of("stored").promise in text
    assert suite.part_of("kills").promise not in text


def test_the_command_refuses_a_part_that_is_not_there(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["tests.faults", "--only", "nothing"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert "there is no part nothing" in said
    assert json.dumps(suite.names())[1:-1].replace('"', "") in said
