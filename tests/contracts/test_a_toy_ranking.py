"""A ranking is one function: two that are registered here are found everywhere, rightly named."""

import ast
from pathlib import Path

import pytest
import torch
from matplotlib.colors import to_hex
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import attnfaith as af
from attnfaith.attribution.display_names import display_name, role_of
from attnfaith.attribution.method import ATTENTION, CONTROL, method, methods
from attnfaith.estimates.lookup import SummaryLookup
from attnfaith.evaluation.rankings import rankings_for
from tests.helpers import commands
from tests.helpers.methods_table import methods_table
from tests.helpers.reading_figures import texts_of

ROOT = Path(__file__).parents[2]
WEIGHTS, LENGTHS = ("attention", "toy_weights"), ("input", "toy_lengths")
NAMES = {WEIGHTS: "Toy's weights", LENGTHS: "Toy's lengths"}
RUN = {"n_resamples": 99, "quiet": True, "level": "both"}


def register():
    """A ranking at each level: attention upside down, and the longest word first."""

    @af.register_method(
        WEIGHTS[1],
        level="attention",
        display_name=NAMES[WEIGHTS],
        passes=3,
        passes_per="item",
        needs="a sense of humour",
        reference="nobody",
        default_output="log_odds",
        has_completeness_gap=True,
        multiplies_by_inputs=True,
        style=("#009E73", "D"),
    )
    def toy_weights(capture, cut, target):
        values = -capture.weights.mean(1)
        return values, 1 - values.sum(1)

    @af.register_method(LENGTHS[1], level="input", display_name=NAMES[LENGTHS], signed=False)
    def toy_lengths(model, inputs, target):
        assert isinstance(model, torch.nn.Module)
        return inputs["input_ids"].double() % 3


def unregister():
    for key in (WEIGHTS, LENGTHS):
        methods.pop(key, None)


@pytest.fixture
def toys():
    register()
    yield
    unregister()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return commands.save_flan(tmp_path_factory.mktemp("model") / "flan")


@pytest.fixture(scope="module")
def flan(folder):
    return AutoModelForSequenceClassification.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="module")
def results(flan):
    """A run with both, made while they were registered."""
    register()
    try:
        data = [{"text": text} for text in commands.texts(40)]
        return af.Evaluator(*flan).compute(data, rankings=["attention", WEIGHTS[1], LENGTHS[1]], **RUN)
    finally:
        unregister()


def test_the_listing_has_them(toys):
    rows = {(row["level"], row["name"]): row for row in af.methods()}
    assert rows[WEIGHTS]["display_name"] == NAMES[WEIGHTS]
    assert (rows[WEIGHTS]["cost"], rows[WEIGHTS]["grows_with_length"]) == (
        "3 passes after attention for each item",
        True,
    )
    assert (rows[LENGTHS]["cost"], rows[LENGTHS]["grows_with_length"]) == ("unknown", False)
    assert methods[WEIGHTS].passes_for(20) == 60
    (line,) = (line for line in repr(af.methods()).splitlines() if WEIGHTS[1] in line)
    assert NAMES[WEIGHTS] in line
    assert "a sense of humour" in line


def test_the_attributor_has_them(toys, flan):
    attributor = af.Attributor(*flan, method=WEIGHTS[1])
    explanation = attributor("a fine dull film")
    assert explanation.output == "log_odds"
    assert explanation.gap == pytest.approx(2)
    assert f"{NAMES[WEIGHTS]} (attention level)" in repr(explanation)
    assert attributor.has_convergence_delta()
    assert attributor.multiplies_by_inputs
    other = af.Attributor(*flan, method=LENGTHS[1], level="input")
    assert f"{NAMES[LENGTHS]} (input level)" in repr(other("a fine dull film"))
    assert not other.has_convergence_delta()
    assert not other.multiplies_by_inputs
    assert other("a fine dull film").output == "probability"


def test_a_gap_that_is_promised_must_be_returned(flan):
    af.register_method(WEIGHTS[1], has_completeness_gap=True)(lambda capture, cut, target: capture.weights.mean(1))
    try:
        with pytest.raises(af.InputError, match="a tuple of scores and gap"):
            af.Attributor(*flan, method=WEIGHTS[1])("a fine film")
    finally:
        unregister()


def test_the_evaluator_has_them(toys, results):
    table = results.table("erasure")
    assert {key for key in (WEIGHTS, LENGTHS) if key in set(zip(table.ranking_level, table.ranking, strict=True))} == {
        WEIGHTS,
        LENGTHS,
    }
    summary = results.summary()
    assert {WEIGHTS, LENGTHS} <= set(zip(summary.ranking_level, summary.ranking, strict=True))
    verdict = str(results.verdict)
    assert NAMES[WEIGHTS] in verdict
    assert NAMES[LENGTHS] in verdict
    for name in (WEIGHTS[1], LENGTHS[1]):
        assert name not in verdict


@pytest.mark.parametrize("output", [None, "logit"])
def test_the_evaluator_explains_the_default_output_unless_another_is_given(flan, output):
    seen = set()

    @method(*WEIGHTS, default_output="log_odds")
    def toy_weights(request):
        seen.add(request.output)
        return request.scores(request.capture.weights.mean(1))

    try:
        af.Evaluator(*flan).compute([{"text": "a fine film"}], rankings=[WEIGHTS[1]], output=output, quiet=True)
    finally:
        unregister()
    assert seen == {output or "log_odds"}


def test_all_takes_them_unless_they_are_for_request(toys):
    def usual(level):
        return {str(item) for item in rankings_for(level, "all", {}, by_token=True, affine=True)}

    assert "attention/toy_weights" in usual("attention")
    assert "input/toy_lengths" in usual("input")
    unregister()
    af.register_method(WEIGHTS[1], on_request=True)(lambda capture, cut, target: capture.weights.mean(1))
    assert "attention/toy_weights" not in usual("attention")


def test_a_search_is_no_rival(toys, results):
    key = ("attention", ATTENTION)
    assert WEIGHTS in SummaryLookup(results.summary()).rivals("attention", key)
    unregister()
    af.register_method(WEIGHTS[1], role="search")(lambda capture, cut, target: capture.weights.mean(1))
    assert WEIGHTS not in SummaryLookup(results.summary()).rivals("attention", key)
    with pytest.raises(af.InputError, match="role"):
        af.register_method("another", role="control")


def test_figures_have_them(toys, results):
    for kind in ("curves", "efficiency", "wins"):
        drawn = " ".join(text for axis in results.plot("erasure", kind=kind).axes for text in texts_of(axis))
        assert NAMES[WEIGHTS] in drawn, kind
        assert NAMES[LENGTHS] in drawn, kind
    lines = {line.get_label(): line for line in results.plot("erasure", kind="curves").axes[0].lines}
    assert to_hex(lines[NAMES[WEIGHTS]].get_color()) == "#009e73"
    assert lines[NAMES[WEIGHTS]].get_marker() == "D"


def test_the_command_line_has_them(toys, folder, tmp_path):
    explained = commands.run("explain", folder, "a fine dull film", "--method", WEIGHTS[1])
    assert f"by {NAMES[WEIGHTS]} at the attention level" in explained.stdout
    wrong = commands.run("explain", folder, "a fine dull film", "--method", "toy_wieghts")
    commands.refused(wrong, 2, "Did you mean 'toy_weights'")
    data = tmp_path / "data.csv"
    commands.write_csv(data, [("a fine film", 1), ("a dull film", 0)])
    asked = commands.run("evaluate", folder, data, "--rankings", "toy_wieghts")
    commands.refused(asked, 2, "Did you mean 'toy_weights'")
    for command in ("explain", "evaluate"):
        assert "toy_weights" in " ".join(commands.run(command, "--help").stdout.replace("│", " ").split())


def test_a_ranking_that_is_gone_keeps_its_plain_name(results):
    assert WEIGHTS not in methods
    assert display_name(WEIGHTS) == "toy weights"
    assert role_of(WEIGHTS) == "ordinary"
    assert "toy weights" in str(results.verdict)


def test_the_table_of_the_documentation_is_that_of_the_registry():
    """To mend it, print `methods_table()` and paste it."""
    page = (ROOT / "docs" / "explaining.md").read_text(encoding="utf-8")
    assert methods_table() in page
    register()
    try:
        assert NAMES[WEIGHTS] in methods_table()
        assert methods_table() not in page
    finally:
        unregister()


DEFINED_BY_NAMES = {
    "demo/sentences.py": "RIVAL",
    "diagnostics/adversary/examination.py": "RANKINGS: what is compared on the model and its adversary",
    "evaluation/tests/agreement/summary.py": "MEASURES and _INSTEAD: the protocol of Jain & Wallace",
    "evaluation/tests/erasure/flipping_sets.py": "PANEL: the search",
    "evaluation/tests/single_weight/test.py": "RANKINGS: the protocol of Serrano & Smith",
    "training/faithfulness_callback.py": "BESIDE: named in what it logs",
}
"""Files outside attribution/ that name a ranking, and the constant that does; nothing else there knows any."""


def ranking_names_in(source):
    """Names of methods among a program's strings, without its docstrings; attention's name is that of a level too."""
    tree = ast.parse(source)
    statements = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    names = {name for _, name in methods} - {ATTENTION}
    return {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and node.value in names and id(node) not in statements
    }


def test_no_other_file_knows_rankings_by_name():
    package = ROOT / "attnfaith"
    sources = {str(path.relative_to(package)): path.read_text(encoding="utf-8") for path in package.rglob("*.py")}
    where = {path: ranking_names_in(source) for path, source in sources.items()}
    allowed = {path for path in where if path.startswith("attribution/")} - {"attribution/attributor.py"}
    assert {path for path in where.keys() - allowed if where[path]} == set(DEFINED_BY_NAMES)
    # of the rooms of rankings, those that hold what all share know the control's name and no other
    shared = ("method", "display_names", "explanation", "rendering", "model_loading", "embedding_gradients")
    assert {name for module in shared for name in where[f"attribution/{module}.py"]} == {CONTROL}


def test_the_check_for_names_can_fail():
    assert ranking_names_in('def run(x):\n    """Like lrp."""\n    return x == "lrp"') == {"lrp"}
    assert ranking_names_in('"lrp"') == set()
