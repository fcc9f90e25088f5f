"""A finished run of an evaluation, damaged or forged: refused with a documented error, or nothing has changed."""

import json
import os
import time

import pytest

import attnfaith as af
from attnfaith.evaluation import runner
from attnfaith.storage.manifest import NAME, to_bytes
from tests.helpers.run_damage import KINDS, outcome, survey
from tests.helpers.small_runs import KINDS as KINDS_OF_DECISIONS
from tests.helpers.small_runs import QUICK, computed, evaluator_of

COUNT = int(os.environ.get("ATTNFAITH_MUTATIONS", "300"))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Four shards of four tables, and one that was made of all shards."""
    evaluator, data = evaluator_of("multiclass")
    folder = tmp_path_factory.mktemp("finished") / "run"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(af.Evaluator, "shard_size", 8)
        chosen = [QUICK[name] for name in ("erasure", "single_weight", "information")]
        evaluator.compute(data, tests=chosen, n_resamples=20, quiet=True, output_dir=folder)
    assert len(list(folder.rglob("*.parquet"))) == 4 * 6 + 1
    return folder


def test_no_damage_goes_unnoticed(run, tmp_path):
    result = survey(run, tmp_path / "aside", COUNT)
    assert sum(result.values()) == COUNT
    assert {kind.partition(":")[0] for kind in result} == {*KINDS}
    refused = sum(count for kind, count in result.items() if kind.endswith("refused"))
    assert refused > 0.8 * COUNT
    assert result["add: same"] > 0  # what does not belong to the run is left alone


def forged(run, folder, path, value):
    """A copy of a run with one field of its manifest changed, and a digest that is right."""
    manifest = json.loads((run / NAME).read_bytes())
    manifest = {key: part for key, part in manifest.items() if key not in ("layout", "digest")}
    part = manifest
    *parents, last = path.split(".")
    for key in parents:
        part = part[key]
    if value is ...:
        del part[last]
    else:
        part[last] = value
    folder.mkdir()
    for entry in run.iterdir():
        if entry.is_dir():
            (folder / entry.name).mkdir()
            for file in entry.iterdir():
                os.link(file, folder / entry.name / file.name)
        elif entry.name != NAME:
            os.link(entry, folder / entry.name)
    (folder / NAME).write_bytes(to_bytes(manifest))
    return folder


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("shards", 10**12, r"shards is 1000000000000; expected 4, for 30 rows in shards of 8"),
        ("rows", 10**14, r"shards is 4; expected 12500000000000, for"),
        ("statistics.n_resamples", 10**9, r"n_resamples is 1000000000; expected a whole number from 1 to 1000000"),
        ("statistics.n_resamples", True, "n_resamples is True; expected a whole number"),
        ("statistics.confidence_level", float("nan"), "confidence_level is nan; expected a number between 0 and 1"),
        ("statistics.confidence_level", 10**400, "confidence_level is 10+"),
        ("run.tests", ["erasure"], r"run\.tests is \['erasure'\]; expected an object"),
        ("run.tests", {}, "expected an object with a test at least"),
        ("run.tests.erasure", {"bounds": False, "reference": None, "new": 1}, "unknown option 'new'"),
        ("run.tests.erasure", {"bounds": False}, "option 'reference' is missing"),
        ("run.tests.erasure.bounds", "yes", r"run\.tests\.erasure\.bounds is 'yes'; expected one of the types bool"),
        ("run.tests.erasure.reference", "mine", "Expected reference of the erasure test"),
        ("run.tests.other", {}, "unknown test 'other'"),
        ("run.tests.permutation", {"permutations": 5}, "digests.shards lacks the table 'permutation'"),
        ("run.seed", "word", r"run\.seed is 'word'; expected a whole number"),
        ("run.seed", -1, r"run\.seed is -1; expected a whole number from 0"),
        ("run.model", "../../x", "expected 64 hexadecimal digits"),
        ("run.decision.kind", "majority", "expected one of 'multiclass'"),
        ("run.decision.tolerance", float("inf"), "tolerance is inf"),
        ("run.new", 1, "the key 'new' in run is unknown"),
        ("facts", ..., "'facts' is missing"),
        ("facts.unit", ..., "'unit' is missing in facts"),
        ("facts.unit", "words", "facts.unit is 'words'; expected an object"),
        ("facts.left_out", {"input": [1]}, r"facts\.left_out\.input\[0\] is 1; expected a text"),
        ("facts.left_out", {"tail": []}, "left_out has the key 'tail'"),
        ("facts.labels", ["a", 1], r"facts\.labels\[1\] is 1; expected a text"),
        ("notes", "one", "notes is 'one'; expected a list"),
        ("counts.rows", 29, "counts.rows is 29; expected 30"),
        ("counts.aside", {"empty": 3}, "expected 30 rows less 3 set aside"),
        ("counts", [], r"counts is \[\]; expected an object"),
        ("digests", ..., "it has shards and no digests; expected all of shards, counts, digests"),
        ("digests.shards", {"../texts": "0" * 64}, "the table '../texts'; expected a plain name"),
        ("digests.shards.erasure", "0" * 64, "'erasure' in .* are not those that the run was finished with"),
    ],
)
def test_a_forged_manifest(path, value, message, run, tmp_path):
    """The message names the file and the field; what was asked for is never made."""
    start = time.perf_counter()
    with pytest.raises(af.StorageError, match=message) as caught:
        af.load_results(forged(run, tmp_path / "run", path, value))
    assert time.perf_counter() - start < 5
    assert "digests.shards.erasure" in path or str(tmp_path / "run" / NAME) in str(caught.value)


def test_an_unchanged_forgery_is_the_run(run, tmp_path):
    """So the refusals above are of the fields, not of the way the copies are made."""
    assert outcome(forged(run, tmp_path / "run", "notes", json.loads((run / NAME).read_bytes())["notes"])) == outcome(
        run
    )


def test_a_run_of_an_earlier_version_says_nothing_of_rankings_left_out(run, tmp_path):
    earlier = forged(run, tmp_path / "run", "facts.left_out", ...)
    assert "left_out" not in json.loads((earlier / NAME).read_bytes())["facts"]
    assert outcome(earlier)[:3] == outcome(run)[:3]


def test_what_the_messages_advise_heals_every_file(run, tmp_path):
    """Each file in its turn is damaged, deleted, and made again by the same call: byte for byte."""
    evaluator, data = evaluator_of("multiclass")
    chosen = [QUICK[name] for name in ("erasure", "single_weight", "information")]
    calm = {path.relative_to(run): path.read_bytes() for path in run.rglob("*") if path.is_file()}
    folder = forged(run, tmp_path / "run", "notes", json.loads((run / NAME).read_bytes())["notes"])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(af.Evaluator, "shard_size", 8)
        for name in ("texts/00001.parquet", "erasure/00003.parquet", "information_by_rank.parquet", NAME):
            path = folder / name
            content = path.read_bytes()
            path.unlink()  # linked with the file of the other run, which must stay
            path.write_bytes(content[:50] + b"!" + content[51:])
            with pytest.raises(af.StorageError, match=r"Delete this file; the command that made the run"):
                af.load_results(folder)
            path.unlink()
            evaluator.compute(data, tests=chosen, n_resamples=20, quiet=True, output_dir=folder)
            assert {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.*")} == calm, name


def test_a_run_of_an_earlier_layout(run, tmp_path):
    manifest = json.loads((run / NAME).read_bytes())
    old = {key: part for key, part in manifest.items() if key not in ("layout", "digest", "digests")}
    folder = forged(run, tmp_path / "run", "notes", [])
    (folder / NAME).write_text(json.dumps(old))
    with pytest.raises(af.StorageError, match=r"written by an earlier attnfaith.* Give another output_dir"):
        af.load_results(folder)
    (folder / NAME).write_text(json.dumps({**manifest, "layout": 3}))
    with pytest.raises(af.StorageError, match="written by a newer attnfaith"):
        af.load_results(folder)


def test_a_saved_copy_keeps_its_digests_and_they_are_compared(run, tmp_path):
    results = af.load_results(run)
    copy = results.save(tmp_path / "copy")
    assert af.load_results(copy).manifest == results.manifest
    assert outcome(copy) == outcome(run)
    path = copy / "erasure" / "00002.parquet"
    content = path.read_bytes()
    path.write_bytes(content[:60] + bytes([content[60] ^ 4]) + content[61:])
    with pytest.raises(af.StorageError, match="its bytes have changed"):
        af.load_results(copy).save(tmp_path / "again")
    assert not (tmp_path / "again").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seed": -1}, "Expected seed to be a whole number of at least 0"),
        ({"n_resamples": 10**9}, "n_resamples"),
    ],
)
def test_a_run_that_could_not_be_loaded_is_refused_before_any_work(options, message, tmp_path, monkeypatch):
    evaluator, data = evaluator_of("multiclass")
    monkeypatch.setattr(runner.Runner, "run", lambda *arguments, **named: pytest.fail("it was begun"))
    with pytest.raises(af.InputError, match=message):
        evaluator.compute(data, tests=["erasure"], quiet=True, output_dir=tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("kind", KINDS_OF_DECISIONS)
def test_the_schema_takes_what_every_kind_of_run_says(kind, tmp_path):
    """All tests, with a target and columns of all sorts: the schema knows what `conditions_of` writes."""
    evaluator, data = evaluator_of(kind)
    computed(evaluator, data[:12], "erasure", "agreement", output_dir=tmp_path / "run", protect_deciding=True)
    manifest = af.load_results(tmp_path / "run").manifest
    assert manifest["run"]["decision"]["kind"] == kind
    assert manifest["counts"]["rows"] == 12


def test_a_folder_whose_name_is_not_text(tmp_path):
    """Such names come from other systems; a run in one is like any other."""
    evaluator, data = evaluator_of("multiclass")
    folder = tmp_path / os.fsdecode(b"run \xff\xfe")
    results = computed(evaluator, data, "erasure", "information", output_dir=folder)
    assert outcome(folder) == outcome(results.save(tmp_path / os.fsdecode(b"copy \xff")))
    with pytest.raises(af.InputError, match="seed is 0 there and 1 here"):
        computed(evaluator, data, "erasure", "information", output_dir=folder, seed=1)
