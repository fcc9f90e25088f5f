"""The documentation is built, and says what the code does."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from attnfaith.adapters.self_check import TOLERANCES
from attnfaith.tiny_models import model_types

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [*DOCS.glob("*.md"), *ROOT.glob("*.md")]


@pytest.mark.slow
def test_it_builds_without_a_warning_and_lists_every_family(tmp_path):
    pytest.importorskip("sphinx", reason="the docs extra is not installed")
    source, target = tmp_path / "docs", tmp_path / "html"
    shutil.copytree(DOCS, source, ignore=shutil.ignore_patterns("generated"))
    build = "-m sphinx --quiet --fail-on-warning --keep-going --builder html".split()
    command = [sys.executable, *build, str(source), str(target)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    page = (target / "families.html").read_text(encoding="utf-8")
    listed = set(re.findall(r'<tr class="row-\w+"><td><p><code[^>]*><span class="pre">([^<]*)</span>', page))
    assert listed == set(model_types())
    assert f"of {len(model_types())} model types of Transformers" in page


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
