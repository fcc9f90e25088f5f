"""Every test on reviews whose decisive words are known: a model whose attention finds them, one that ignores it."""

import numpy as np
import pytest
import torch
from torch import nn

import attnfaith as af
from attnfaith.demo.corpus import reviews
from attnfaith.evaluation.tests.base import tests
from attnfaith.models.encoders import Encoder
from attnfaith.training import fit, recipe

pytestmark = pytest.mark.examples

HELD_OUT, VALIDATION, TRAIN = 200, 100, 1000


class Averaged(Encoder):
    """Each item carries the mean of all words: whatever attention does with such items, it reads the same."""

    def __init__(self, size):
        super().__init__()
        self.size = size

    def forward(self, items, layout):
        mean = layout.mean(items)
        return mean[layout.rows], mean


def trained(rows, *, ignored):
    """A FLAN; with its attention uniform and ignored, or as its paper has it."""
    data = [dict(row) for row in rows]
    tokenizer = af.models.WordTokenizer.train([row["text"] for row in rows], min_count=1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        dropout = {"input_dropout": 0.1, "classifier_dropout": 0.1}
        model = af.models.from_preset("FLANnoenc", num_labels=5, tokenizer=tokenizer, embedding_size=64, **dropout)
    if ignored:
        model.encoder = Averaged(64)
        nn.init.zeros_(model.attention.context.weight)
        model.attention.requires_grad_(False)
    settings = recipe("FLANnoenc") | {"learning_rate": 1e-2}
    fit(model, tokenizer, data[VALIDATION:], data[:VALIDATION], epochs=8, seed=0, **settings)
    return model, tokenizer


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """The results of all tests, of the faithful model and of the other."""
    rows = reviews(HELD_OUT + VALIDATION + TRAIN, seed=1)
    result = []
    for ignored in (False, True):
        model, tokenizer = trained(rows[HELD_OUT:], ignored=ignored)
        results = af.Evaluator(model, tokenizer).compute(
            [dict(row) for row in rows[:HELD_OUT]],
            tests=list(tests),
            rationale_column="ranges",
            n_resamples=499,
            output_dir=tmp_path_factory.mktemp("run") / "run",
            quiet=True,
        )
        result.append(results)
    return result


def value(results, test, figure, ranking="attention", other=""):
    """One figure of all texts at the final attention."""
    table = results.summary()
    rows = table[(table["test"] == test) & (table["figure"] == figure) & (table["slice"] == "all")]
    rows = rows[(rows["ranking"] == ranking) & (rows["other"] == other)]
    assert len(rows) == 1, rows
    return float(rows["value"].iloc[0])


def both(judged, *about, **more):
    """The same figure of the faithful model and of the other."""
    return [value(results, *about, **more) for results in judged]


def test_erasure(judged):
    assert judged[0].verdict.label in ("partly", "faithful")
    assert judged[1].verdict.label == "undecided"
    faithful, ignored = both(judged, "erasure", "mean_fraction")
    assert faithful < 0.15
    assert ignored > 0.99


def test_single_weight(judged):
    faithful, ignored = both(judged, "single_weight", "only_top")
    assert faithful > 0.3
    assert ignored == 0


def test_agreement(judged):
    faithful, ignored = both(judged, "agreement", "tau", other="input/leave_one_out")
    assert faithful > 0.5
    assert np.isnan(ignored)  # a uniform attention ranks nothing
    assert both(judged, "agreement", "undefined", other="input/leave_one_out") == [0, 1]


def test_permutation(judged):
    faithful, ignored = both(judged, "permutation", "median_tvd", ranking="")
    assert faithful > 0.3
    assert ignored < 1e-6
    faithful, ignored = both(judged, "permutation", "never_changes", ranking="")
    assert faithful < 0.2
    assert ignored == 1


def test_adversarial(judged):
    faithful, ignored = both(judged, "adversarial", "js_mean", ranking="")
    assert ignored > faithful + 0.1
    assert value(judged[1], "adversarial", "near_most_exact", ranking="") == 1  # whatever can be reached at all
    assert value(judged[0], "adversarial", "near_most_high", ranking="") < 1


def test_information(judged):
    first, last = (value(judged[0], "information", "mi_corrected", "all", rank) for rank in ("0", "24"))
    assert first > last + 0.15
    assert value(judged[0], "information", "weighted_kendall", "all") > 0.5
    first, last = (value(judged[1], "information", "mi_corrected", "all", rank) for rank in ("0", "24"))
    assert abs(first - last) < 0.1  # every item says the same


def test_sanity(judged):
    kept = value(judged[0], "sanity", "kept")
    assert abs(kept) < 0.3
    assert value(judged[0], "sanity", "notices") > 0.8
    assert np.isnan(value(judged[1], "sanity", "kept"))


def test_rationales(judged):
    for figure in ("comprehensiveness", "auprc", "token_f1"):
        faithful, ignored = both(judged, "rationales", figure)
        assert faithful > ignored + 0.2, figure
    assert value(judged[0], "rationales", "auprc") > value(judged[0], "rationales", "auprc", ranking="random") + 0.3


def test_in_distribution(judged):
    faithful, ignored = both(judged, "in_distribution", "unusual")
    assert ignored == 0  # what is left is the same to the classifier as the whole text
    assert faithful > 0.05
    faithful, ignored = both(judged, "in_distribution", "median_p")
    assert ignored > 0.9
    assert faithful < ignored - 0.3  # erasing moves what the classifier reads


def test_every_test_is_here():
    assert {f"test_{name}" for name in tests} <= set(globals())
