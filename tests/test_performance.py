"""The parts of ``benchmarks/performance.py`` that figures rest on; the figures are in docs/performance.md."""

import json
import time

import pytest

import attnfaith as af
from attnfaith.adapters.pass_count import count_passes
from benchmarks import many_machines, performance
from benchmarks._performance import material, page, parts, peers, point
from benchmarks._performance.measuring import Parts, measured
from benchmarks._performance.parts import PARTS, Size, exponent
from benchmarks._performance.rows import Row, keep, kept


@pytest.fixture(scope="module")
def tiny():
    return material.bert("tiny", length=8, count=3, decided=True)


def test_a_part_does_not_count_what_is_inside_it():
    costs = Parts()
    inner = costs.around(lambda: time.sleep(0.05), "inner")
    with costs("outer"):
        time.sleep(0.02)
        inner()
        inner()
    assert costs.costs["inner"].seconds >= 0.1
    assert 0.02 <= costs.costs["outer"].seconds < 0.1


@pytest.mark.filterwarnings("ignore:The scores of .* are inexact")
def test_the_parts_of_a_run_add_up_to_it(tiny):
    with count_passes() as passes:
        found = measured(tiny, n_resamples=9, steps=4)
    assert sum(cost.seconds for cost in found.parts.values()) == pytest.approx(found.seconds)
    with count_passes() as cutting:
        af.Evaluator(tiny.model, tiny.tokenizer)
    counted = sum(cost.positions for cost in found.parts.values())
    assert counted == passes.positions - cutting.positions
    assert found.positions == counted - found.parts["the dry run on one text"].positions > 0
    seconds = found.seconds - found.parts["the dry run on one text"].seconds
    assert found.throughput == pytest.approx(found.positions / seconds * found.plain / found.tokens)
    assert found.tokens == 3 * 8
    assert found.flipped == 0  # nothing flips this model
    assert found.passes == found.positions / 24
    dear = found.parts["ranking input/integrated_gradients"]
    assert dear.positions == (4 + 2) * 24  # every point of the path is a pass of every text, and so are its ends
    assert {"captures", "erasing at the input level", "smallest sets at the input level"} <= set(found.parts)
    assert "ranking input/occlusion" not in found.parts or found.parts["ranking input/occlusion"].positions == 0


def test_texts_have_the_length_that_is_said():
    for made in (material.bert("tiny", length=20, count=2), material.bert("tiny", length=5, count=2)):
        lengths = {len(made.tokenizer(text)["input_ids"]) for text in made.texts}
        assert lengths == {20} or lengths == {5}
        assert f"{lengths.pop()} tokens" in made.name


def test_exponents():
    assert exponent([1, 2, 4], [5, 5, 5]) == 0
    assert exponent([10, 100], [3, 30]) == pytest.approx(1)
    assert exponent([2, 4, 8], [4, 16, 64]) == pytest.approx(2)


def test_figures_are_kept_part_by_part_and_become_the_page(tmp_path):
    store = tmp_path / "folder" / "figures.json"
    assert list(kept(store)) == []
    missed = Row("work a", 3.0, "x plain", 2, note="slow | slower")
    keep({"default": [missed], "length": [Row("work b", None, limit=1, note="a reason")]}, "full", store)
    keep({"length": [Row("work c", 0.5, limit=0.4, least=True)]}, "small", store)
    assert list(kept(store)) == [
        ("default", "full", [missed]),
        ("length", "small", [Row("work c", 0.5, limit=0.4, least=True)]),
    ]
    text = page.written(kept(store))
    assert "| work a | 3 x plain | at most 2 | no | slow / slower |" in text
    assert "| work c | 0.5 | at least 0.4 | yes | |" in text
    assert "work b" not in text
    assert text.count("*Size: small.*") == 1
    assert text.count("*Not measured yet.*") == len(PARTS) - 2
    for part in PARTS.values():
        assert f"## {part.title}\n" in text


def test_the_command_writes_the_page_without_measuring(tmp_path, monkeypatch, capsys):
    store, written = tmp_path / "figures.json", tmp_path / "performance.md"
    keep({"processes": [Row("two processes", 1.9, "times faster", 1.8, least=True)]}, "full", store)
    monkeypatch.setattr("sys.argv", ["performance", "--store", str(store), "--page", str(written)])
    performance.main()
    assert "| two processes | 1.9 times faster | at least 1.8 | yes | |" in written.read_text(encoding="utf-8")
    monkeypatch.setattr("sys.argv", ["performance", "--only", "defualt"])
    with pytest.raises(SystemExit):
        performance.main()
    assert "there is no part defualt" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [([], ["cheap"]), (["--size", "full"], ["cheap", "costly"]), (["--only", "costly"], ["costly"])],
)
def test_dear_parts_are_measured_where_they_are_named_and_other_figures_stay(
    arguments, expected, tmp_path, monkeypatch, capsys
):
    made = {
        name: parts.Part(name, name, lambda size, name=name: iter([Row(f"new {name}", 1.0)]), dear=name == "costly")
        for name in ("cheap", "costly")
    }
    monkeypatch.setattr(performance, "PARTS", made)
    for name in ("set_verbosity_error", "disable_progress_bar"):  # they would be silent in later tests too
        monkeypatch.setattr(performance.logging, name, lambda: None)
    store = tmp_path / "figures.json"
    keep({name: [Row(f"old {name}", 2.0)] for name in made}, "usual", store)
    monkeypatch.setattr("sys.argv", ["performance", "--threads", "1", "--store", str(store), *arguments])
    performance.main()
    works = {name: rows[0].work for name, _, rows in kept(store)}
    assert works == {name: f"{'new' if name in expected else 'old'} {name}" for name in made}


def test_a_library_that_is_absent_or_fails_is_a_row_with_the_reason(tiny, monkeypatch):
    def broken(chosen):
        raise ValueError("no such model")

    works = [
        peers.Work("no-such-package", "anything", lambda chosen: [], lambda chosen: None),
        peers.Work("captum", "something", broken, lambda chosen: None),
        peers.Work("captum", "sleeping", lambda chosen: [lambda: time.sleep(0.05)], lambda chosen: lambda: None),
    ]
    monkeypatch.setattr(peers, "WORKS", works)
    monkeypatch.setattr(peers, "naive_loop", lambda chosen: iter(()))
    absent, failed, slower = peers.beside(tiny, rounds=1)
    assert (absent.value, absent.note) == (None, "not installed")
    assert failed.value is None
    assert failed.note == "it failed: ValueError: no such model"
    assert slower.value > 1
    assert slower.holds == "yes"


@pytest.mark.examples
def test_runs_in_processes_of_their_own(monkeypatch, capsys):
    chosen = {"kind": "bert", "shape": "tiny", "length": 8, "count": 3}
    few = {"rankings": ["attention"], "level": "attention", "n_resamples": 9}
    (shared,) = point.in_a_process([{"material": chosen, "shared": True, **few}], threads=1, processes=2)
    assert shared["seconds"] > 0
    monkeypatch.setattr("sys.argv", ["point", json.dumps([{"material": chosen, **few}]), "1"])
    point.main()
    (alone,) = json.loads(capsys.readouterr().out.removeprefix(point.MARK))
    assert alone["seconds"] > 0
    assert alone["passes"] >= 1
    monkeypatch.setattr("sys.argv", ["point", json.dumps([{"material": chosen, "rankigns": []}]), "1"])
    with pytest.raises(TypeError, match="unexpected keyword"):
        point.main()


@pytest.mark.examples
def test_results_are_repeated_to_a_larger_run_that_can_be_merged(tiny, tmp_path):
    rows = [{"text": text} for text in tiny.texts]
    evaluator = af.Evaluator(tiny.model, tiny.tokenizer)
    few = {"rankings": ["attention"], "level": "attention", "tests": ["erasure"], "n_resamples": 9}
    many_machines.repeated(evaluator.compute(rows, output_dir=tmp_path / "small", quiet=True, **few), 300, tmp_path)
    assert all(cost(tmp_path).seconds > 0 for cost in many_machines.STEPS.values())
    assert len(af.load_results(tmp_path / "all").table("erasure")) == 300 * 2


def test_what_a_process_of_its_own_failed_with_is_said(tmp_path, monkeypatch):
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho "such a failure: $4" >&2\nexit 1\n')
    python.chmod(0o755)
    monkeypatch.setattr(point.sys, "executable", str(python))
    with pytest.raises(RuntimeError, match="such a failure: 1"):
        point.in_a_process([{"material": {}}], threads=1)


@pytest.mark.examples
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["precision", "length", "networks"])
def test_a_part_in_its_small_form(name):
    rows = list(parts.PARTS[name].run(Size("small")))
    assert rows
    for row in rows:
        assert (row.value is None) == (bool(row.note) and row.note.startswith(("this version", "needs")))
