"""The default rankings of a run: what was run, what is said of those left out, and what a stored run keeps of it."""

import pytest

import attnfaith as af
from attnfaith.tiny_models import tiny_model
from tests.helpers import commands
from tests.helpers import tokenizers as tokenizers

DEAR = [
    "input/rollout",
    "input/gradient_x_input",
    "input/occlusion",
    "input/omission",
    "attention/gradient",
    "attention/integrated_gradients",
    "attention/occlusion",
]
NOTE = (
    "Left out at the input level, where each costs many passes: input/rollout, input/gradient_x_input, "
    "input/occlusion, input/omission, "
    "attention/gradient, attention/integrated_gradients and attention/occlusion. "
    "Add them with rankings='all'."
)

pytestmark = pytest.mark.filterwarnings("ignore:The scores of .* are inexact")  # few steps


@pytest.fixture(scope="module")
def evaluator():
    return af.Evaluator(tiny_model("bert"), tokenizers.word_piece())


def evaluated(evaluator, count=6, **options):
    data = [{"text": text} for text in commands.texts(count)]
    return evaluator.compute(data, **{"n_resamples": 9, "steps": 2, "quiet": True, **options})


def ran(results, level="input"):
    return results.manifest["run"]["rankings"][level]


def test_what_a_run_leaves_out_by_default_is_noted_and_stored(evaluator):
    usual, same, every = (evaluated(evaluator, rankings=asked) for asked in ("default", None, "all"))
    assert ran(usual) == ran(same) == [name for name in ran(every) if name not in DEAR]
    assert set(DEAR) < set(ran(every))
    assert ran(usual, "attention") == ran(every, "attention")
    assert usual.manifest["notes"].count(NOTE) == 1
    assert usual.manifest["facts"]["left_out"] == {"attention": [], "input": DEAR}
    assert NOTE not in every.manifest["notes"]
    assert every.manifest["facts"]["left_out"] == {"attention": [], "input": []}
    tables = [found.table("erasure") for found in (usual, every)]
    shared = [
        table[(table.erase_level == "attention") | ~(table.ranking_level + "/" + table.ranking).isin(DEAR)].reset_index(
            drop=True
        )
        for table in tables
    ]
    assert shared[0].equals(shared[1])
    assert len(tables[0]) < len(tables[1])


def test_nothing_is_left_out_where_nothing_is_dear_or_named(evaluator):
    for options in ({"level": "attention"}, {"rankings": ["attention"]}, {"tests": ["permutation"]}):
        results = evaluated(evaluator, **options)
        assert NOTE not in results.manifest["notes"]
        assert not any(results.manifest["facts"]["left_out"].values())


def test_a_run_of_the_default_is_not_continued_with_more(evaluator, tmp_path):
    evaluated(evaluator, output_dir=tmp_path / "run")
    with pytest.raises(af.InputError, match="rankings"):
        evaluated(evaluator, rankings="all", output_dir=tmp_path / "run")
