"""An evaluation whose results are at an address: interrupted, it goes on with what is there."""

import pytest

import attnfaith as af
from tests.helpers import commands, other_file_systems, small_runs

ADDRESS = "memory://bucket/run"


@pytest.fixture
def memory():
    with other_file_systems.in_memory() as system:
        yield system


def test_an_interrupted_run_goes_on_from_its_address(memory, tmp_path):
    evaluator, data = small_runs.evaluator_of("multiclass")
    evaluator.shard_size, stops = 8, True
    data[20] = {"text": "but but but", "label": 0}  # in the third shard
    seen = []

    def explanation(text):
        seen.append(" ".join(text.tokens))
        if stops and set(text.tokens) == {"but"}:
            raise KeyboardInterrupt
        return list(range(len(text.tokens)))

    options = {"explanations": {"mine": explanation}, "rankings": ["attention"], "n_resamples": 9, "quiet": True}
    with pytest.raises(KeyboardInterrupt):
        evaluator.compute(data, output_dir=ADDRESS, **options)
    assert {name for name in memory.find("/bucket/run") if "/texts/" in name} == {
        "/bucket/run/texts/00000.parquet",
        "/bucket/run/texts/00001.parquet",
    }
    stops = False
    seen.clear()
    results = evaluator.compute(data, output_dir=ADDRESS, **options)
    assert data[0]["text"] in seen  # by the dry run
    assert not {row["text"] for row in data[1:16]} & {*seen}
    whole = evaluator.compute(data, output_dir=tmp_path / "run", **options)
    there = {name.removeprefix("/bucket/run/"): memory.cat_file(name) for name in memory.find("/bucket/run")}
    assert there == commands.files(whole.path)
    assert results.location == ADDRESS
    assert ADDRESS in repr(results)
    assert str(af.load_results(ADDRESS)) == str(whole)
    assert results.save("memory://bucket/copy") == "memory://bucket/copy"
    assert str(af.load_results("memory://bucket/copy")) == str(whole)
