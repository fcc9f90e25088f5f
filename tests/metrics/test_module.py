"""Modules as modules of ``evaluate``: added to, computed, combined, described; and what is left behind."""

import inspect
import json
import math
import subprocess
import sys
import threading

import evaluate
import numpy as np
import pytest
import torch

import attnfaith as af
from attnfaith import metrics
from attnfaith.errors import InputError
from attnfaith.estimates.quantities import Mean
from attnfaith.metrics import DecisionFlip, Metric, RankAgreement, RationaleAgreement, SingleWeight, TopOverlap
from attnfaith.metrics.estimates import TextQuantities
from attnfaith.metrics.inputs import Input

MODULES = [getattr(metrics, name) for name in metrics.__all__ if name != "Metric"]

SCORES = [[0.5, 0.3, 0.2], [0.9, 0.1], [0.1, 0.2, 0.3, 0.4]]
OTHERS = [[3.0, 1.0, 2.0], [5.0, 4.0], [1.0, 4.0, 2.0, 3.0]]
OUTPUTS = [[0.9, 0.1], [0.4, 0.6], [0.5, 0.5]]
MASKS = [[1, 0, 0], [0, 1], [0, 1, 0, 1]]
CANDIDATES = [[[0.5, 0.5], [0.9, 0.1]], [[0.4, 0.6]], []]
FIVE = [[0.1, 0.2, 0.3, 0.4, 0.5]] * 3
EXAMPLES = {
    "AdversarialDivergence": {
        "predictions": [[[0.2, 0.3, 0.5]], [[0.5, 0.5]], []],
        "references": [[0.5, 0.3, 0.2], [0.9, 0.1], [0.1, 0.2, 0.3, 0.4]],
        "outputs": [[[0.9, 0.1]], [[0.4, 0.6]], []],
        "original_output": OUTPUTS,
    },
    "Comprehensiveness": {"without": FIVE, "references": [0.9, 0.6, 0.5]},
    "DecisionFlip": {"predictions": [[0, 1, 1], [1, None], [0, 0, 0, 1]], "references": [0, 1, 0]},
    "PermutationDistance": {"predictions": CANDIDATES, "references": OUTPUTS},
    "RandomisationAgreement": {"predictions": SCORES, "references": OTHERS},
    "RankAgreement": {"predictions": SCORES, "references": OTHERS},
    "RankInformation": {"predictions": OUTPUTS, "attention": SCORES, "vectors": [[[1.0]] * len(s) for s in SCORES]},
    "RationaleAgreement": {"predictions": SCORES, "references": MASKS},
    "SingleWeight": {"predictions": OUTPUTS, "references": OUTPUTS[::-1], "others": OUTPUTS},
    "Sufficiency": {"kept": FIVE, "references": [0.9, 0.6, 0.5]},
    "TopOverlap": {"predictions": SCORES, "references": OTHERS},
}
SETTINGS = {"RankInformation": {"fewest": 4}}


def made(kind, **settings):
    return kind(**SETTINGS.get(kind.__name__, {}), **settings)


def same(first, other):
    """Equal results, NaN being like NaN."""
    return json.dumps(first) == json.dumps(other)


@pytest.mark.parametrize("kind", MODULES)
def test_added_in_pieces_one_by_one_or_at_once_it_is_the_same(kind):
    given = EXAMPLES[kind.__name__]
    module = made(kind)
    whole = module.compute(**given)
    assert whole["texts"] == 3
    for start, stop in ((0, 2), (2, 3)):
        module.add_batch(**{name: values[start:stop] for name, values in given.items()})
    assert len(module) == 3
    assert same(module.compute(), whole)
    assert len(module) == 0
    for index in range(3):
        text = {name: values[index] for name, values in given.items()}
        names = {"predictions": "prediction", "references": "reference"}
        module.add(**{names.get(name, name): value for name, value in text.items()})
    assert same(module.compute(), whole)
    for index in range(2):
        module.add(**{name: values[index] for name, values in given.items()})  # as evaluate's own examples name them
    assert same(module.compute(**{name: values[2:] for name, values in given.items()}), whole)


@pytest.mark.parametrize("kind", MODULES)
def test_results_are_numbers_that_json_can_hold(kind):
    result = made(kind, n_resamples=20).compute(**EXAMPLES[kind.__name__])
    flat = {name: value for name, value in result.items() if name not in ("by_rank", "reason")}
    assert {type(value) for value in flat.values()} <= {int, float}
    assert json.loads(json.dumps(result)).keys() == result.keys()
    for name in flat:
        if name.endswith("_low"):
            low, value, high = (flat[name[: -len("_low")] + end] for end in ("_low", "", "_high"))
            assert math.isnan(low) or low <= value <= high


@pytest.mark.parametrize("kind", MODULES)
def test_arrays_and_tensors_are_read_as_lists_are(kind):
    given = EXAMPLES[kind.__name__]
    expected = made(kind).compute(**given)

    def converted(make):
        return {
            name: [make(row) if row != [] and None not in np.ravel(row).tolist() else row for row in values]
            for name, values in given.items()
        }

    assert same(made(kind).compute(**converted(np.asarray)), expected)
    assert same(made(kind).compute(**converted(lambda row: torch.tensor(row, dtype=torch.float64))), expected)
    assert same(made(kind).compute(**{name: tuple(values) for name, values in given.items()}), expected)


@pytest.mark.parametrize("kind", MODULES)
def test_it_says_what_it_is(kind):
    module = made(kind)
    assert isinstance(module, evaluate.Metric)
    assert module.description.endswith(("?", "."))
    assert "\n" not in module.description
    for part in ("title", "author", "year"):
        assert part in module.citation
    for word in ("Args:", "Returns:", "Example:", *kind.inputs, *kind.options):
        assert word in module.inputs_description, word
    assert module.inputs_description in module.compute.__doc__
    assert list(module.features) == list(kind.inputs)
    assert module.name in repr(module)
    message = inspect.cleandoc(kind.__doc__)
    for name in module.compute(**EXAMPLES[kind.__name__]):
        assert name in message or "_at_" in name or name == "reason", name


@pytest.mark.parametrize("kind", MODULES)
def test_same_seed_same_intervals_and_the_global_generator_is_left_alone(kind):
    given, settings = EXAMPLES[kind.__name__], {"n_resamples": 50, "random_state": 5}
    state = np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()  # noqa: NPY002
    item = made(kind).compute(**given, **settings)
    assert same(item, made(kind, **settings).compute(**given))
    assert (np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()) == state  # noqa: NPY002
    plain = made(kind).compute(**given)
    assert same({name: item[name] for name in plain}, plain)


def test_options_of_a_call_hold_for_that_call_only():
    module = TopOverlap(tops=[1])
    given = EXAMPLES["TopOverlap"]
    assert "overlap_at_2" in module.compute(**given, tops=[2])
    assert "overlap_at_1" in module.compute(**given)
    with pytest.raises(af.InputError, match="tops"):
        module.compute(**given, tops=[])
    assert "overlap_at_1" in module.compute(**given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "nothing to compute from. Give predictions, references"),
        ({"predictions": [], "references": []}, "nothing to compute from"),
        ({"predictions": SCORES}, "The input 'references' is missing"),
        ({"predictions": SCORES, "references": OTHERS[:2]}, "3 of predictions, 2 of references"),
        ({"predictions": 3, "references": OTHERS}, "predictions to have an entry for each text, got 3"),
        ({"predictions": "abc", "references": OTHERS}, "predictions to have an entry for each text, got 'abc'"),
        ({"predictions": [["a"]], "references": [[1]]}, r"predictions of text 1 to be a list of numbers, got \['a'\]"),
        ({"predictions": [[[1], [1, 2]]], "references": [[1]]}, "predictions of text 1 to be a list of numbers"),
        ({"predictions": [[1]], "references": [{"a": 1}]}, "references of text 1 to be a list of numbers"),
        ({"predictions": SCORES, "references": OTHERS, "n_resamples": 0}, "n_resamples"),
        ({"predictions": SCORES, "references": OTHERS, "n_resamples": 9.5}, "n_resamples to be a whole number"),
        ({"predictions": SCORES, "references": OTHERS, "confidence_level": 95}, "confidence_level"),
        ({"predictions": SCORES, "references": OTHERS, "confidence_level": "a"}, "confidence_level"),
        ({"predictions": SCORES, "references": OTHERS, "random_state": None}, "random_state to be a whole number"),
        ({"predictions": SCORES, "references": OTHERS, "seeds": 3}, "RankAgreement does not know 'seeds'"),
    ],
)
def test_what_is_refused_leaves_nothing_behind(given, message):
    module = RankAgreement()
    module.add(prediction=[1, 2], reference=[2, 1])
    if not any(given.values()):
        assert module.compute(**given)["texts"] == 1
    with pytest.raises(af.InputError, match=message):
        module.compute(**given)
    assert len(module) == (1 if any(given.values()) else 0)
    assert module.compute(predictions=[[1, 2]], references=[[1, 2]])["texts"] == (2 if any(given.values()) else 1)


def test_messages_count_the_texts_that_were_added_before():
    module = RankAgreement()
    module.add_batch(predictions=SCORES, references=OTHERS)
    with pytest.raises(af.InputError, match="text 4"):
        module.add_batch(predictions=[[1, 2], [1]], references=[[1, 2], [1, 2]])
    assert len(module) == 3


def test_an_unknown_setting_is_refused_when_made():
    with pytest.raises(af.InputError, match="DecisionFlip does not know 'top'"):
        DecisionFlip(top=3)


# Combined


def test_rank_agreement_and_top_overlap_are_combined():
    both = evaluate.combine([RankAgreement(), TopOverlap(tops=[1, 2])])
    given = EXAMPLES["RankAgreement"]
    result = both.compute(**given)
    assert result["tau"] == RankAgreement().compute(**given)["tau"]
    assert result["overlap_at_2"] == TopOverlap(tops=[2]).compute(**given)["overlap_at_2"]
    assert result["rank_agreement_texts"] == result["top_overlap_texts"] == 3  # what both say is told apart
    for score, other in zip(SCORES, OTHERS, strict=True):
        both.add(prediction=score, reference=other)
    assert same(both.compute(), result)
    both.add_batch(**given)
    sure = both.compute(n_resamples=30, random_state=1)
    assert {"tau_low", "overlap_at_1_high"} <= set(sure)


def test_rankings_and_marks_are_combined():
    both = evaluate.combine({"marks": RationaleAgreement(), "order": RankAgreement()}, force_prefix=True)
    result = both.compute(predictions=SCORES, references=MASKS)
    assert result["marks_auprc"] == RationaleAgreement().compute(predictions=SCORES, references=MASKS)["auprc"]
    assert result["order_tau"] == RankAgreement().compute(predictions=SCORES, references=MASKS)["tau"]


@pytest.mark.parametrize("way", ["compute", "add_batch", "add"])
def test_what_goes_and_what_stays_are_combined(way):
    """Each has an input that the other has not."""
    both = evaluate.combine([metrics.Comprehensiveness(), metrics.Sufficiency()])
    given = {"references": [0.9, 0.6], "without": FIVE[:2], "kept": [[0.5] * 5] * 2}
    if way == "compute":
        result = both.compute(**given)
    else:
        for index in range(2):
            if way == "add":
                text = {name: values[index] for name, values in given.items() if name != "references"}
                both.add(reference=given["references"][index], **text)
            else:
                both.add_batch(**{name: values[index : index + 1] for name, values in given.items()})
        result = both.compute()
    assert result["comprehensiveness"] == pytest.approx(0.75 - 0.3)
    assert result["sufficiency"] == pytest.approx(0.75 - 0.5)


def test_a_module_is_combined_with_one_of_someone_else():
    class Count(evaluate.Metric):
        """Counts texts."""

        def _info(self):
            return evaluate.MetricInfo(
                description="Counts.", citation="", inputs_description="", features=DecisionFlip().features
            )

        def _compute(self, predictions, references):
            return {"counted": len(predictions)}

    result = evaluate.combine([DecisionFlip(), Count()]).compute(**EXAMPLES["DecisionFlip"])
    assert (result["texts"], result["counted"]) == (3, 3)


def test_a_setting_of_one_module_is_refused_for_the_others_with_what_to_do():
    both = evaluate.combine([RankAgreement(), TopOverlap()])
    with pytest.raises(af.InputError, match="A setting of one of several combined modules is given where that"):
        both.compute(**EXAMPLES["RankAgreement"], tops=[1])


# What is written


@pytest.mark.slow
def test_modules_are_loaded_lazily_write_nothing_and_use_no_network(tmp_path):
    program = """
import socket, sys
def refuse(*given, **options):
    raise AssertionError("network")
socket.socket.connect = refuse
import attnfaith as af
print([name for name in ("evaluate", "datasets", "pandas") if name in sys.modules], "metrics" in dir(af))
module = af.metrics.RankAgreement()
module.add(prediction=[1, 2, 3], reference=[1, 3, 2])
print(round(module.compute()["tau"], 4))
"""
    home = {"HOME": str(tmp_path), "HF_HOME": str(tmp_path / "cache"), "HF_HUB_OFFLINE": "1"}
    paths = {"PYTHONPATH": ":".join(path for path in sys.path if path)}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, env=home | paths, cwd=tmp_path
    )
    assert done.stdout.splitlines() == ["[] True", "0.3333"], done.stderr
    assert af.metrics is metrics
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_on_disk_nothing_is_left(tmp_path):
    module = SingleWeight(keep_in_memory=False, cache_dir=str(tmp_path))
    given = EXAMPLES["SingleWeight"]
    module.add_batch(**given)
    assert list(tmp_path.rglob("*.arrow"))
    assert same(module.compute(), SingleWeight().compute(**given))
    assert not list(tmp_path.rglob("*.arrow"))


def test_several_processes_share_the_texts(tmp_path):
    """Each adds its own, and the first computes; here they are threads."""
    given, result = EXAMPLES["RankAgreement"], {}

    def work(number):
        module = RankAgreement(num_process=2, process_id=number, experiment_id="shared", cache_dir=str(tmp_path))
        part = slice(0, 2) if number == 0 else slice(2, 3)
        module.add_batch(**{name: values[part] for name, values in given.items()})
        result[number] = module.compute()

    threads = [threading.Thread(target=work, args=(number,)) for number in (1, 0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert result[1] is None
    assert same(result[0], RankAgreement().compute(**given))


def test_a_module_defined_by_the_user_inherits_everything_but_its_measure():
    class Average(Metric):
        """The mean of what is given."""

        inputs = {"predictions": Input(0)}  # noqa: RUF012
        paper = "none"

        def measure(self, columns, options):
            values = np.array(columns["predictions"])
            return TextQuantities(np.isnan(values), [Mean("mean", values)])

    result = Average().compute(predictions=[1, 2, math.nan])
    assert result == {"texts": 3, "undefined": 1, "mean": 1.5}


def test_an_option_changed_after_adding_is_checked_again_and_texts_are_counted_from_0():
    module = metrics.Comprehensiveness(shares=(0.1, 0.5))
    for without in ([0.4, 0.2], [0.9, 0.3]):
        module.add(without=without, references=0.9)
    with pytest.raises(InputError, match=r"without of text 2 to have 2 probabilities"):
        module.add(without=[0.5], references=0.8)
    with pytest.raises(InputError, match=r"without of text 0 to have 1 probabilities"):
        module.compute(shares=(0.1,))


def test_near_is_a_share_up_to_1():
    given = EXAMPLES["AdversarialDivergence"]
    module = metrics.AdversarialDivergence()
    assert module.compute(**given, near=1)["near_ln2"] == 0
    for near in (0, 1.5, -0.1):
        with pytest.raises(InputError, match="near"):
            module.compute(**given, near=near)
