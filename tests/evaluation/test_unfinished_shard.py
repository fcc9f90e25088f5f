"""A run that is killed inside a shard: only the batches since the last piece are run again."""

import pytest
import torch

import attnfaith as af
from attnfaith.evaluation import evaluator as evaluator_module
from attnfaith.evaluation.profile import Profile
from attnfaith.evaluation.runner import Runner
from attnfaith.evaluation.unfinished_shard import UnfinishedShard
from tests.helpers.commands import WORDS, files

LONG = [{"text": " ".join(WORDS[(index * 7 + place * 3) % len(WORDS)] for place in range(512))} for index in range(40)]


class Killed(BaseException):
    """Stands for a kill: nothing is written after it."""


@pytest.fixture(scope="module")
def flan():
    tokenizer = af.models.WordTokenizer.train([" ".join(WORDS)], min_count=1)
    torch.manual_seed(0)
    return af.models.from_preset("FLANnoenc", num_labels=2, tokenizer=tokenizer), tokenizer


@pytest.fixture
def run(flan, monkeypatch):
    """Runs in batches of four texts of 512 tokens, each of which takes eight seconds of a clock; perhaps killed."""
    clock = lambda: clock.now  # noqa: E731
    clock.now = 0.0
    monkeypatch.setattr(evaluator_module, "Profile", lambda: Profile(clock))
    columns = Runner._columns

    def call(folder, *, stop=None, error=Killed, data=LONG, batch_size=4):
        ran = []

        def one_batch(self, members):
            if len(ran) == stop:
                raise error
            ran.append([row.number for row, _ in members])
            clock.now += 8
            return columns(self, members)

        options = {"label_column": None, "rankings": ["attention"], "n_resamples": 9, "quiet": True}
        with monkeypatch.context() as patched:
            patched.setattr(Runner, "_columns", one_batch)
            if error is Killed:
                patched.setattr(UnfinishedShard, "__exit__", lambda self, *error: None)
            evaluator = af.Evaluator(*flan)
            trial = len(ran)
            assert trial == 0
            if stop is None:
                evaluator.compute(data, output_dir=folder, batch_size=batch_size, **options)
            else:
                with pytest.raises(error):
                    evaluator.compute(data, output_dir=folder, batch_size=batch_size, **options)
        return ran

    return call


@pytest.mark.parametrize("stop", [1, 2, 5, 9])
def test_killed_on_long_texts_only_the_batches_since_the_last_piece_are_run_again(stop, run, tmp_path):
    """A batch takes 8 s and a piece is due after 20 s at most: there is one after every two batches."""
    whole = run(tmp_path / "calm")
    assert len(whole) == 10
    before = run(tmp_path / "run", stop=stop)
    after = run(tmp_path / "run")
    assert before == whole[:stop]
    assert after == whole[stop - stop % 2 :]
    assert files(tmp_path / "run") == files(tmp_path / "calm")


def test_after_an_interrupt_nothing_is_run_again(run, tmp_path):
    whole = run(tmp_path / "calm")
    run(tmp_path / "run", stop=3, error=KeyboardInterrupt)
    assert run(tmp_path / "run") == whole[3:]
    assert files(tmp_path / "run") == files(tmp_path / "calm")


def test_killed_again_and_again(run, tmp_path):
    run(tmp_path / "calm")
    ran = [len(run(tmp_path / "run", stop=3)) for _ in range(4)]
    assert ran == [3] * 4
    assert len(run(tmp_path / "run")) == 10 - 4 * 2
    assert files(tmp_path / "run") == files(tmp_path / "calm")


def test_with_another_batch_size_what_is_done_stays_done(run, tmp_path):
    before = run(tmp_path / "run", stop=4)
    after = run(tmp_path / "run", batch_size=7)
    assert sorted(row for batch in (*before, *after) for row in batch) == list(range(40))


def test_pieces_of_other_data_are_refused(run, tmp_path):
    run(tmp_path / "run", stop=4)
    with pytest.raises(af.InputError, match="The data have changed: rows 0 to 39"):
        run(tmp_path / "run", data=[{"text": "fine"}, *LONG[1:]])


def test_a_text_that_is_set_aside_is_in_a_piece(run, tmp_path):
    data = [*LONG[:30], {"text": ""}, *LONG[30:]]
    run(tmp_path / "calm", data=data)
    run(tmp_path / "run", stop=4, data=data)
    run(tmp_path / "run", data=data)
    assert files(tmp_path / "run") == files(tmp_path / "calm")
    assert af.load_results(tmp_path / "run").table()["aside"].notna().sum() == 1


def test_batches_are_bounded_in_work(flan, monkeypatch):
    """Long texts go in small batches, whatever was asked for; so many operations at most, but one text at least."""
    sizes = []
    columns = Runner._columns
    monkeypatch.setattr(
        Runner, "_columns", lambda self, members: sizes.append((self, members)) or columns(self, members)
    )
    data = [*LONG, *({"text": "a fine film"} for _ in range(64))]
    options = {"label_column": None, "rankings": ["attention"], "n_resamples": 9, "quiet": True}
    for most in (400_000, 1):
        sizes.clear()
        monkeypatch.setattr("attnfaith.evaluation.runner.OPERATIONS", most)
        af.Evaluator(*flan).compute(data, **options)
        runner = sizes[0][0]
        for _, members in sizes:
            longest = max(len(text.ids) for _, text in members)
            assert len(members) == 1 or len(members) * runner.operations(longest) <= most
        assert sum(len(members) for _, members in sizes) == len(data)
    assert {len(members) for _, members in sizes} == {1}
