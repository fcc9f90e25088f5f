"""Every plot of every test, drawn from the registry, with twenty rankings at one level and at two: all can be read."""

import importlib

import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import attnfaith as af
from attnfaith.attribution.method import methods
from attnfaith.errors import InputError
from attnfaith.evaluation.tests.base import tests
from attnfaith.paper_figure import PaperFigure
from attnfaith.plots.style import PAGE
from tests.helpers import commands
from tests.helpers.reading_figures import unreadable
from tests.helpers.small_runs import ROWS, computed

MANY = 20
TALL = 18
"""Inches: two printed pages, for the eighty panels of the rationales test at two levels."""
ONLY_MANY_PANELS = {("information", "heads")}
"""There are no heads in models as small as these: `tests/evaluation/tests/information/test_runs.py` draws them."""


def _scored_at(level, number):
    """A ranking of a test's own: another order for each number, but that the last two are the same."""
    wave = min(number, MANY - 4)
    if level == "attention":

        def toy(capture, cut, target):
            weights = capture.weights.mean(1)
            return weights + 0.2 * torch.sin((1.0 + wave) * torch.arange(weights.shape[1], dtype=weights.dtype))
    else:

        def toy(model, inputs, target):
            return torch.sin((1.0 + wave) * inputs["input_ids"].double())

    return toy


@pytest.fixture(scope="module")
def toys():
    """Eighteen rankings at the attention, and ten at the input."""
    names = {"attention": [f"toy_ranking_{number}" for number in range(MANY - 2)]}
    names["input"] = [f"other_toy_{number}" for number in range(MANY // 2)]
    for level, listed in names.items():
        for number, name in enumerate(listed):
            af.register_method(name, level=level, passes=1)(_scored_at(level, number))
    yield names
    for level, listed in names.items():
        for name in listed:
            del methods[level, name]


@pytest.fixture(scope="module", params=["one level", "two levels"])
def results(request, toys, tmp_path_factory):
    """Of all tests, on a network of one level and on a Transformer."""
    folder, rows = tmp_path_factory.mktemp("model"), ROWS[:12]
    if request.param == "one level":
        commands.save_flan(folder)
        asked = {"rankings": [f"attention/{name}" for name in ("attention", "random", *toys["attention"])]}
    else:
        commands.save_bert(folder)
        few = ("attention", "random", *toys["attention"][: MANY // 2 - 2])
        asked = {"rankings": [f"attention/{name}" for name in few], "level": "both"}
        asked["rankings"] += [f"input/{name}" for name in toys["input"]]
    model, tokenizer = (kind.from_pretrained(folder) for kind in (AutoModelForSequenceClassification, AutoTokenizer))
    return computed(af.Evaluator(model, tokenizer), rows, rationale_column="marks", n_resamples=20, **asked)


KINDS = [
    (name, kind)
    for name, test in tests.items()
    for kind in importlib.import_module(f"{test.__module__.rpartition('.')[0]}.plot").PLOTS
]


@pytest.mark.parametrize(("name", "kind"), KINDS)
def test_it_can_be_read_and_takes_axes_if_it_is_one_panel(name, kind, results):
    rankings = results.table("erasure").groupby("erase_level")[["ranking_level", "ranking"]].apply(_distinct)
    assert rankings.max() == MANY
    figure = results.plot(name, kind=kind)
    assert unreadable(figure) == []
    width, height = figure.get_size_inches()
    assert width <= PAGE + 0.01
    assert height < TALL
    axis = PaperFigure.of_width(4, 4).add_subplot()
    panels = [one for one in figure.axes if one.get_label() != "<colorbar>"]
    if len(panels) > 1 or (name, kind) in ONLY_MANY_PANELS:
        with pytest.raises(InputError, match=r"panels.* Leave out "):
            results.plot(name, kind=kind, ax=axis)
        assert not axis.has_data()
    else:
        assert results.plot(name, kind=kind, ax=axis) is axis.figure
        assert axis.has_data() or axis.texts


def _distinct(rows):
    return len(rows.drop_duplicates())
