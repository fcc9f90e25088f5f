"""The notebooks in `examples` run, what they claim holds, and they are stored as their sources make them."""

import re

import nbformat
import pytest
from nbformat import v4

from examples import build

CLAIMS = {
    "01": """
        assert results.verdict.label in ("partly", "partly or faithful", "faithful")
        assert results.table()["correct"].mean() > 0.85 and results.verdict.level == "input"
        assert "LRP (attention level) does better" in str(results)
    """,
    "02": """
        assert history.best["validation_accuracy"] > 0.9
        assert "planted" in str(results) and results.verdict.level == "attention"
        assert "Gradient x attention does better" in str(results)
    """,
    "03": """
        assert history.best["validation_accuracy"] > 0.9 and results.verdict.level == "input"
        assert "Your ranking 'LIME' is faithful: it removes" in str(results)
        assert "Your ranking 'people' is" in str(results)
        assert "People marked" in str(results)
    """,
    "04": """
        assert "one position" in str(cut) and "better" in str(results)
        assert results.table()["correct"].mean() > 0.85 and gated_results.table()["correct"].mean() > 0.85
        assert "yours" in str(af.cut(gated, example=batch_of(test[:4]))) and gated_results.verdict.level == "attention"
    """,
    "05": """
        assert history.best["validation_accuracy"] > 0.87
        judged = set(results.table("erasure")["ranking"])
        assert {"positive_attention", "smooth_gradient", "attention", "random"} <= judged
        assert not results.table("erasure").query("ranking == 'smooth_gradient'")["undefined"].any()
    """,
    "06": """
        assert log["eval_attention_efficiency"].iloc[-1] > 0.2 and len(log) == 5
        assert log["eval_accuracy"].iloc[-1] > 0.9
    """,
    "07": """
        assert results.verdict.label in ("unfaithful or partly", "partly", "partly or faithful")
        assert len(results.tests) == 8 and history.best["validation_accuracy"] > 0.9
        assert all(results.verdict.parts[test] for test in results.tests if test != "erasure")
    """,
}
"""Checked with the variables of each notebook, after it."""
# What is registered stays registered in the kernel, so the notebooks that do that come last.
ORDER = sorted(build.SOURCES, key=lambda source: ("register_" in source.read_text(encoding="utf-8"), source.name))


def stored(source):
    return nbformat.read(source.with_suffix(".ipynb"), as_version=4)


def texts(notebook):
    """What each cell prints, and the kinds of its outputs."""
    said, kinds = [], []
    for cell in notebook.cells:
        outputs = cell.get("outputs", [])
        said.append("".join(output.get("text", "") or output["data"].get("text/plain", "") for output in outputs))
        kinds.append([(output.output_type, sorted(output.get("data", {}))) for output in outputs])
    return said, kinds


@pytest.fixture(scope="module")
def kernel():
    with build.kernel() as client:
        yield client


@pytest.mark.examples
@pytest.mark.parametrize("source", ORDER, ids=lambda source: source.stem)
def test_it_runs_and_its_claims_hold(source, kernel):
    notebook = build.notebook_of(source)
    build.run(kernel, v4.new_notebook(cells=[v4.new_code_cell("%reset -f")], metadata=notebook.metadata))
    build.run(kernel, notebook)
    claims = re.sub(r"^        ", "", CLAIMS[source.name[:2]], flags=re.MULTILINE)
    build.run(kernel, v4.new_notebook(cells=[v4.new_code_cell(claims)], metadata=notebook.metadata))
    before = stored(source)
    said, kinds = texts(notebook)
    said_before, kinds_before = texts(before)
    # The digits that a training ends with are those of one machine.
    assert kinds == kinds_before, "Run `make examples`: the outputs that are stored are of other kinds."
    same = [bool(text) == bool(text_before) for text, text_before in zip(said, said_before, strict=True)]
    assert all(same), "Run `make examples`: some cell prints something and printed nothing, or the reverse."


@pytest.mark.parametrize("source", build.SOURCES, ids=lambda source: source.stem)
def test_it_is_stored_as_its_source_says(source):
    notebook, made = stored(source), build.notebook_of(source)
    nbformat.validate(notebook)
    for cells in (notebook.cells, made.cells):
        assert cells[0].cell_type == "markdown"
        assert cells[0].source.startswith("# ")
    assert [(cell.id, cell.cell_type, cell.source) for cell in notebook.cells] == [
        (cell.id, cell.cell_type, cell.source) for cell in made.cells
    ], "Run `make examples`: the notebook is not that of its source."


@pytest.mark.parametrize("source", build.SOURCES, ids=lambda source: source.stem)
def test_what_is_stored_can_be_published(source):
    notebook = stored(source)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell.outputs]
    assert {output.output_type for output in outputs} <= {"stream", "display_data", "execute_result"}
    assert {output.name for output in outputs if output.output_type == "stream"} <= {"stdout"}
    shown = "".join(str(output.get("text", "")) + str(output.get("data", "")) for output in outputs)
    assert re.findall(r"(?:/tmp|/home|/root|/work|/Users)/\S*|\w*Warning\b", shown) == []
    assert source.with_suffix(".ipynb").stat().st_size < 300_000


def test_every_notebook_is_listed():
    listed = re.findall(r"^\| \[[^]]*\]\((\S+)\.ipynb\)", (build.FOLDER / "README.md").read_text(), re.MULTILINE)
    assert listed == [source.stem for source in build.SOURCES]
    assert {path.stem for path in build.FOLDER.glob("*.ipynb")} == set(listed)


def test_a_source_is_read_cell_by_cell(tmp_path):
    source = tmp_path / "00_x.py"
    source.write_text("# %% [markdown]\n# # Title\n#\n# ```python\n# x = 1\n# ```\n\n# %%\nx = 1\n\n\ny = 2\n# %%\nx\n")
    cells = build.notebook_of(source).cells
    assert [(cell.cell_type, cell.source) for cell in cells] == [
        ("markdown", "# Title\n\n```python\nx = 1\n```"),
        ("code", "x = 1\n\n\ny = 2"),
        ("code", "x"),
    ]
    for wrong in ("x = 1\n# %%\n", "# %% [markdown]\nx = 1\n"):
        source.write_text(wrong)
        with pytest.raises(ValueError, match=r"00_x\.py"):
            build.notebook_of(source)
