import difflib

import pytest
import yaml
from huggingface_hub import EvalResult, ModelCard
from huggingface_hub.repocard_data import model_index_to_eval_results

from attnfaith.errors import InputError
from attnfaith.evaluation.card_metadata import with_results


def results(value=0.5, *, data="reviews", skill=True):
    kinds = {"attnfaith_verdict": "partly", **({"attnfaith_skill": value} if skill else {})}
    return [
        EvalResult("text-classification", data, data, kind, number, metric_args={"low": 0.25})
        for kind, number in kinds.items()
    ]


def added(metadata, new=None, **options):
    return with_results(metadata, results() if new is None else new, **{"model_name": None, "new_name": "m", **options})


OTHERS = """\
language: [en, "de"]   # two
license: 'mit'
date: 2024-01-02
odd: |
  kept   as
   it is

"""
BLOCK = f"""{OTHERS}model-index:
  - name: "flan"  # the name
    extra: kept
    results:
      - task: {{type: text-classification, name: X}}
        dataset:
            name: reviews   # ours to others
            type: reviews
        metrics:
            - type: accuracy
              value: 0.90
              verified: true
      # a comment of theirs
last: 1e-5
"""
_THEIRS = '{"task": {"type": "t"}, "dataset": {"type": "d", "name": "d"}, "metrics": []}'
FLOW = f"{OTHERS}model-index: [{{name: flan, results: [{_THEIRS}]}}]\n"
EMPTY = f"{OTHERS}model-index: [{{name: flan, results: []}}]\n"
NOTHING = f"{OTHERS}model-index:\nlast: 1"
CARDS = {"": "", "others": OTHERS, "block": BLOCK, "flow": FLOW, "empty": EMPTY, "nothing": NOTHING}


def lines_removed(before, after):
    return [line for line in difflib.ndiff(before.splitlines(), after.splitlines()) if line.startswith("-")]


@pytest.mark.parametrize("line_break", ["\n", "\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize("name", CARDS)
def test_only_ours_is_added_updated_and_left(name, line_break):
    before = CARDS[name].replace("\n", line_break)
    once = added(before, line_break=line_break)
    assert added(once, line_break=line_break) == once
    assert name in ("flow", "empty") or lines_removed(before, once) == []  # there, one line is all of it
    assert once.count("\n") == once.count(line_break)
    entry = next(model for model in yaml.safe_load(once)["model-index"] if model["name"] in ("flan", "m"))
    _, read = model_index_to_eval_results([{**entry, "results": entry["results"][-1:]}])
    assert [(one.metric_type, one.metric_value) for one in read] == [
        ("attnfaith_verdict", "partly"),
        ("attnfaith_skill", 0.5),
    ]
    kept, stated = (yaml.safe_load(text) or {} for text in (before, once))
    if kept.get("model-index"):
        assert entry["results"][:-1] == kept["model-index"][0]["results"]
    assert {key: value for key, value in stated.items() if key != "model-index"} == {
        key: value for key, value in kept.items() if key != "model-index"
    }
    # another value: one line of it changes; another data set: an entry more; back again: the same bytes
    updated = added(once, results(0.75), line_break=line_break)
    assert len(lines_removed(once, updated)) == 1
    assert added(updated, line_break=line_break) == once
    two = added(once, results(data="news"), line_break=line_break)
    assert len(yaml.safe_load(two)["model-index"][0]["results"]) == len(entry["results"]) + 1
    assert added(two, line_break=line_break) == two


def test_metrics_of_others_that_a_tool_put_into_our_entry_stay():
    """`huggingface_hub` writes all metrics on the same data into one entry."""
    theirs = EvalResult("text-classification", "reviews", "reviews", "accuracy", 0.9, metric_name="# Acc: 'x'")
    card = ModelCard("---\nlicense: mit\n---\n")
    card.data.model_name, card.data.eval_results = "m", [theirs, *results(), theirs]
    before = card.data.to_yaml()
    assert added(before) == before
    after = added(before, results(skill=False))
    metrics = yaml.safe_load(after)["model-index"][0]["results"][0]["metrics"]
    assert [metric["type"] for metric in metrics] == ["accuracy", "attnfaith_verdict", "accuracy"]
    changed = added(after, results(0.75))
    metrics = yaml.safe_load(changed)["model-index"][0]["results"][0]["metrics"]
    assert [metric["type"] for metric in metrics] == ["accuracy", "attnfaith_verdict", "accuracy", "attnfaith_skill"]
    flow = "model-index: " + str(yaml.safe_load(before)["model-index"])
    metrics = yaml.safe_load(added(flow, results(0.75, skill=False)))["model-index"][0]["results"][0]["metrics"]
    assert [metric["type"] for metric in metrics] == ["accuracy", "attnfaith_verdict", "accuracy"]


def test_one_of_several_models():
    two = "model-index:\n- name: a\n  results: []\n- name: b\n  results: []\n"
    with pytest.raises(InputError, match="model_name=: 'a', 'b'"):
        added(two)
    assert yaml.safe_load(added(two, model_name="b"))["model-index"][0] == {"name": "a", "results": []}
    assert [model["name"] for model in yaml.safe_load(added(two, model_name="c"))["model-index"]] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ("a: [", "not valid YAML"),
        ("a: \x07", "not valid YAML"),
        ("- a", "expected names and values"),
        ("model-index: 5", "expected a list of entries"),
        ("model-index: [{name: a}]", "expected a list of entries"),
        ("model-index: [" + "[" * 2000, "not valid YAML"),
        ("{license: mit}", "safely|not valid YAML"),
        ("a: &x [{name: a, results: []}]\nmodel-index: *x", "have an alias"),
    ],
)
def test_refused(metadata, message):
    with pytest.raises(InputError, match=message):
        added(metadata)


def test_names_of_any_content():
    odd = "a: b # c\u00e9 'x' \"y\" - [z] {w} !t &u *v %"
    once = added(OTHERS, results(data=odd), new_name=odd)
    assert yaml.safe_load(once)["model-index"][0]["name"] == odd
    assert added(once, results(data=odd)) == once
