"""Every family of Transformers, tried."""

import json
import re

import pytest
import transformers

from attnfaith import survey as module
from attnfaith.errors import InputError, UnsupportedModelError
from attnfaith.survey import Family, summary, survey, table_json, table_markdown
from attnfaith.tiny_models import model_types, tiny_model
from tests.helpers.installed_families import installed

LEAKS = "padding a text changes its logits .* the mask is not honoured"
UNSEEN = "No attention was seen"
NOT_TOKENS = "attends .* items where the text has 9 tokens, so its items are not the tokens"
REFUSED = {
    "canine": LEAKS,
    "convbert": LEAKS,
    "diffllama": "Several attentions could be the final one: .* layer=",
    "fnet": UNSEEN,
    "funnel": LEAKS,
    "mra": UNSEEN,
    "nystromformer": LEAKS,
    "perceiver": NOT_TOKENS,
    "reformer": UNSEEN,
    "t5gemma": LEAKS,
    "t5gemma2": NOT_TOKENS,
    "yoso": UNSEEN,
}
NOT_TRIED = {"layoutlmv2": "detectron2"}
FAMILY = Family("fnet", "FNetForSequenceClassification", "refused", reason="a | b")


@pytest.fixture(scope="module")
def everything():
    return list(survey())


@pytest.mark.families
def test_every_family_has_a_result_and_none_is_a_mistake_of_ours(everything):
    assert [family.model_type for family in everything] == model_types()
    assert [family for family in everything if family.status == "failed"] == []
    for family in everything:
        filled = (family.mechanism, family.path, family.decides, family.check)
        assert all(filled) if family.supported else not any(filled)
        assert bool(family.reason) != family.supported
        assert "\n" not in family.how


@pytest.mark.families
def test_at_least_ninety_families_are_supported_and_most_run_on_one_position(everything):
    paths = [family.path for family in everything if family.supported]
    assert len(paths) >= 90
    assert paths.count("one position") >= 100


@pytest.mark.families
@pytest.mark.skipif(not transformers.__version__.startswith("5.23."), reason="the list is that of transformers 5.23")
def test_what_is_refused_and_why(everything):
    assert len(everything) == 127
    for status, expected in (("refused", REFUSED), ("not tried", NOT_TRIED)):
        result = {family.model_type: family.reason for family in everything if family.status == status}
        assert result.keys() == expected.keys()
        assert [name for name, reason in result.items() if not re.search(expected[name], reason)] == []


@pytest.mark.families
def test_the_figures_are_far_below_the_tolerance(everything):
    checks = [family.check for family in everything if family.supported]
    assert max(max(check.identity, check.edit) for check in checks) < 1e-4
    assert min(check.effect for check in checks) > 0.05


def test_some_families(recwarn):
    result = {family.model_type: family for family in survey(installed("bert llama bart eurobert longformer"))}
    assert all(family.supported for family in result.values())
    assert [family.path for family in result.values()] == ["one position"] * (len(result) - 1) + ["full forward"]
    assert "first position" in result["bert"].decides
    assert "last token" in result["llama"].decides
    assert all("every token" in result[name].decides for name in installed("eurobert"))
    assert result["bert"].class_name == "BertForSequenceClassification"
    assert len(recwarn) == 0


def test_families_are_tried_when_requested(monkeypatch):
    tried = []
    monkeypatch.setattr(module, "tiny_model", lambda name: tried.append(name) or tiny_model(name))
    trying = survey(["fnet", "bert"])
    assert tried == []
    assert next(trying).status == "refused"
    assert tried == ["fnet"]
    assert next(trying).status == "supported"


def test_arguments_are_checked_before_anything_is_tried():
    with pytest.raises(InputError, match=r"'brt'.*Did you mean 'bert'"):
        survey(["bert", "brt"])
    with pytest.raises(InputError, match="one string"):
        survey("bert")


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (UnsupportedModelError("Too\nodd."), "refused", "Too odd."),
        (KeyError("weights"), "failed", "A mistake in attnfaith, please report it: KeyError: 'weights'"),
    ],
)
def test_errors_are_results(monkeypatch, error, status, reason):
    def cut(model):
        raise error

    monkeypatch.setattr(module, "cut", cut)
    (family,) = survey(["bert"])
    assert (family.status, family.reason, family.supported) == (status, reason, False)


def test_what_cannot_be_built_is_not_tried():
    if next(survey(["layoutlmv2"])).supported:
        pytest.skip("detectron2 is installed")
    assert next(survey(["layoutlmv2"])).status == "not tried"


def test_verbosity_is_put_back(monkeypatch):
    from transformers.utils import logging

    verbosity = logging.get_verbosity()
    monkeypatch.setattr(module, "cut", lambda model: 1 / 0)
    try:
        logging.set_verbosity_info()
        assert next(survey(["bert"])).status == "failed"
        assert logging.get_verbosity() == logging.INFO
    finally:
        logging.set_verbosity(verbosity)


def test_summary_counts_every_result():
    families = [Family("x", "X", status) for status in ("supported", "refused", "not tried", "failed", "refused")]
    assert summary(families).startswith("1 of 5 model types of Transformers")
    assert summary(families).endswith("can be cut; 2 refused; 1 not tried; 1 failed.")


def test_markdown():
    both = table_markdown([FAMILY, *survey(["bert"])])
    supported, others = both.split("\n\n")
    assert "| `bert` | `BertForSequenceClassification` | one position |" in supported
    assert others.splitlines()[2].endswith("| refused | a \\| b |")
    assert table_markdown([FAMILY]) == others


def test_json_has_no_nan():
    families = [FAMILY, *survey(["bert", "gemma3"])]
    read = json.loads(table_json(families), parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert [entry["status"] for entry in read] == ["refused", "supported", "supported"]
    assert read[0]["check"] is None
    assert 0 <= read[1]["check"]["identity"] < 1e-4


def test_json_of_a_figure_that_was_not_measured():
    from attnfaith.adapters.self_check import SelfCheck

    family = Family("x", "X", "supported", check=SelfCheck(0.0, 1.0, 0.0, float("nan"), 5))
    assert json.loads(table_json([family]))[0]["check"]["padding"] is None
