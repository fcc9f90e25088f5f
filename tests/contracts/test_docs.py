"""The documentation is built, and says what the code does."""

import re
import subprocess
from pathlib import Path

import pytest
import torch

from attnfaith.adapters.self_check import TOLERANCES

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [*DOCS.glob("*.md"), *ROOT.glob("*.md")]


def test_every_page_is_in_the_table_of_contents():
    listed = set(re.search(r"```\{toctree\}.*?\n\n(.*?)```", (DOCS / "index.md").read_text(), re.DOTALL)[1].split())
    assert listed == {page.stem for page in DOCS.glob("*.md")} - {"index"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_to_files_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not link.startswith("http") and not (page.parent / link).exists()] == []


def test_the_tolerances_are_the_ones_in_use():
    rows = re.findall(r"\| (\w*float\w*) \| (\S+) \|", (DOCS / "cutting.md").read_text(encoding="utf-8"))
    assert {getattr(torch, name): float(value) for name, value in rows} == TOLERANCES


def test_what_is_generated_is_not_committed():
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    done = subprocess.run(["git", "check-ignore", "docs/generated/families-table.md"], cwd=ROOT, capture_output=True)
    assert done.returncode == 0
