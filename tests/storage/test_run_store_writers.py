"""Several writers of one folder at once, threads or processes: the same bytes, or one wins and the others know."""

import sys
import threading
import time

import pytest

import attnfaith as af
from attnfaith.errors import InputError
from attnfaith.storage.run_store import Store
from tests.faults.children import Fork, run_program
from tests.helpers.run_damage import outcome
from tests.helpers.small_runs import QUICK, evaluator_of
from tests.helpers.stored_runs import MANIFEST, bytes_of, finished, manifest_with


def together(*calls):
    """What calls return or raise that start at the same moment, each in a thread of its own."""
    gate, ended = threading.Barrier(len(calls)), [None] * len(calls)

    def start(index):
        gate.wait()
        try:
            ended[index] = calls[index]()
        except Exception as error:
            ended[index] = error

    threads = [threading.Thread(target=start, args=(index,)) for index in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads)
    return ended


@pytest.fixture
def impatient():
    """Threads take turns much more often than usual."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize("attempt", range(5))
def test_threads_write_the_same_run(attempt, tmp_path, impatient):
    finished(tmp_path / "calm")
    orders = [None, [5, 4, 3, 2, 1, 0], None, [2, 4, 0, 1, 5, 3]]
    ended = together(*(lambda order=order: finished(tmp_path / "run", order=order) for order in orders))
    assert [item.complete for item in ended] == [True] * 4, ended
    assert bytes_of(tmp_path / "run") == bytes_of(tmp_path / "calm")
    assert not list((tmp_path / "run").rglob(".*"))
    Store.load(tmp_path / "run")


@pytest.mark.parametrize("attempt", range(5))
def test_threads_begin_different_runs(attempt, tmp_path, impatient):
    """Exactly one begins; the others are told what the folder is of, and nothing of theirs is in it."""
    manifests = [manifest_with(("run", "seed"), seed) for seed in range(4)]
    ended = together(*(lambda given=given: finished(tmp_path / "run", given) for given in manifests))
    (winner,) = (index for index, item in enumerate(ended) if isinstance(item, Store))
    for position, entry in enumerate(ended):
        if position != winner:
            assert isinstance(entry, InputError)
            assert f"seed is {winner} there and {position} here. Give another output_dir" in str(entry)
    finished(tmp_path / "calm", manifests[winner])
    assert bytes_of(tmp_path / "run") == bytes_of(tmp_path / "calm")


def test_processes_begin_different_runs(tmp_path):
    program = (
        "from pathlib import Path\nfrom attnfaith.errors import InputError\nfrom tests.helpers import stored_runs\n"
        "folder, seed = Path(sys.argv[1]), int(sys.argv[2])\n(folder / f'ready {seed}').touch()\n"
        "while not (folder / 'go').exists():\n    pass\n"
        "try:\n    stored_runs.finished(folder / 'run', stored_runs.manifest_with(('run', 'seed'), seed))\n"
        "except InputError as error:\n    print(error); sys.exit(7)"
    )
    running = [Fork(run_program, program, tmp_path, seed) for seed in range(3)]
    until = time.monotonic() + 120
    while len(list(tmp_path.glob("ready *"))) < 3:
        assert time.monotonic() < until
        time.sleep(0.001)
    (tmp_path / "go").touch()
    ended = [fork.ended() for fork in running]
    assert sorted(one.code for one in ended) == [0, 7, 7]
    winner = next(seed for seed, one in enumerate(ended) if one.code == 0)
    assert all(f"seed is {winner} there" in one.stdout for seed, one in enumerate(ended) if seed != winner)
    finished(tmp_path / "calm", manifest_with(("run", "seed"), winner))
    assert bytes_of(tmp_path / "run") == bytes_of(tmp_path / "calm")


def test_other_statistics_meanwhile_do_not_undo_the_end(tmp_path, impatient):
    """Only the statistics of a manifest may change; who changes them does not take away that the run is finished."""
    others = [{**MANIFEST, "statistics": {"n": number}} for number in range(4)]
    ended = together(*(lambda given=given: finished(tmp_path / "run", given) for given in others))
    assert all(isinstance(item, Store) for item in ended), ended
    assert Store.load(tmp_path / "run").manifest["statistics"] in [item["statistics"] for item in others]


def test_a_writer_whose_temporary_file_is_removed_makes_it_again(tmp_path):
    """As whoever finishes a run does with what another writer has in hand."""
    from attnfaith.storage import atomic_files

    index, removed = atomic_files.os.replace, []

    def robbed(made, path):
        if len(removed) < 2:
            removed.append(made)
            made.unlink()
        return index(made, path)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(atomic_files.os, "replace", robbed)
        atomic_files.put(tmp_path / "file", b"content")
    assert bytes_of(tmp_path) == {"file": b"content"}
    assert len(removed) == 2


def test_a_folder_that_another_writer_removes_is_made_again(tmp_path):
    """As the folder of pieces is removed by whoever completes the last shard."""
    from attnfaith.storage import atomic_files

    mkdir, removed = atomic_files.Path.mkdir, []

    def robbed(path, *arguments, **options):
        mkdir(path, *arguments, **options)
        if len(removed) < 2:
            removed.append(path)
            path.rmdir()

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(atomic_files.Path, "mkdir", robbed)
        atomic_files.make_folder(tmp_path / "unfinished")
    assert (tmp_path / "unfinished").is_dir()
    assert len(removed) == 2
    atomic_files.remove_leftovers(tmp_path / "gone meanwhile", include_live_writers=True)
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        atomic_files.make_folder(tmp_path / "file")


def test_threads_evaluate_into_one_folder(tmp_path):
    """Four evaluators of the same model: the same results for all, and the bytes of a run by itself."""
    chosen = [QUICK[name] for name in ("erasure", "information")]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(af.Evaluator, "shard_size", 8)
        made = [evaluator_of("multiclass") for _ in range(5)]
        calls = [
            lambda evaluator=evaluator, data=data, name=name: evaluator.compute(
                data, tests=chosen, n_resamples=20, quiet=True, output_dir=tmp_path / name
            )
            for (evaluator, data), name in zip(made, ["run"] * 4 + ["calm"], strict=True)
        ]
        calls[4]()
        ended = together(*calls[:4])
    assert all(isinstance(item, af.Results) for item in ended), ended
    assert bytes_of(tmp_path / "run") == bytes_of(tmp_path / "calm")
    assert outcome(tmp_path / "run") == outcome(tmp_path / "calm")
