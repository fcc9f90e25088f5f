"""The documentation is complete, its links lead somewhere, and it says what the code does."""

import ast
import importlib.util
import re
import subprocess
from pathlib import Path

import pytest
import torch

from attnfaith import errors
from attnfaith.adapters.self_check import TOLERANCES
from attnfaith.evaluation.tests import tests

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
_spec = importlib.util.spec_from_file_location("check_links", DOCS / "check_links.py")
check_links = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(check_links)


def test_every_page_is_in_a_table_of_contents():
    listed = set()
    for page in DOCS.rglob("*.md"):
        text = page.read_text(encoding="utf-8")
        for entries in re.findall(r"```\{toctree\}\n(?::.*\n)*\n((?:.+\n)*)```", text):
            listed |= {(page.parent / f"{entry}.md").resolve() for entry in entries.split()}
    pages = {page for page in check_links.pages() if page.is_relative_to(DOCS)}
    assert listed == pages - {DOCS / "index.md"}


@pytest.mark.parametrize("page", check_links.pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    assert check_links.broken_links(page) == []


def test_a_broken_link_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(check_links, "ROOT", tmp_path)
    (tmp_path / "other.md").write_text("# A `title`\n\n## Twice\n\n## Twice\n")
    page = tmp_path / "page.md"
    page.write_text(
        "[a](other.md) [b](other.md#a-title) [c](other.md#twice-1) [d](https://example.org/x) `[e](nowhere.md)`\n"
        "```\n[f](nowhere.md)\n```\n[a link over\ntwo lines](gone.md)\n[g](other.md#none) [h](https:example)\n"
    )
    assert [line.rpartition(": ")[0] for line in check_links.broken_links(page)] == [
        "page.md:5: gone.md",
        "page.md:7: other.md#none",
        "page.md:7: https:example",
    ]


def test_every_test_has_a_page_with_the_same_headings():
    pages = {page.stem.replace("-", "_"): page for page in (DOCS / "tests").glob("*.md") if page.stem != "index"}
    assert pages.keys() == set(tests)
    headings = {name: re.findall(r"^## (.*)$", page.read_text(encoding="utf-8"), re.M) for name, page in pages.items()}
    assert headings == dict.fromkeys(headings, headings["erasure"])


def test_every_code_of_an_error_is_described_and_raised():
    described = re.findall(r"^### (\S+)$", (DOCS / "errors.md").read_text(encoding="utf-8"), re.M)
    assert sorted(described) == sorted(errors.CODES)
    classes = vars(errors).values()
    raised = {one.default_code for one in classes if isinstance(one, type) and issubclass(one, errors.AttnFaithError)}
    for file in (ROOT / "attnfaith").rglob("*.py"):
        for call in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in vars(errors):
                codes = [keyword.value for keyword in call.keywords if keyword.arg == "code"]
                raised |= {code.value for code in codes if isinstance(code, ast.Constant)}
    assert raised == errors.CODES.keys()


def test_the_tolerances_are_the_ones_in_use():
    rows = re.findall(r"\| (\w*float\w*) \| (\S+) \|", (DOCS / "concepts" / "cutting.md").read_text(encoding="utf-8"))
    assert {getattr(torch, name): float(value) for name, value in rows} == TOLERANCES


def test_what_is_generated_is_not_committed():
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    done = subprocess.run(["git", "check-ignore", "docs/generated/families-table.md"], cwd=ROOT, capture_output=True)
    assert done.returncode == 0
