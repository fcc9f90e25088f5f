"""What is published: the files of the archives, the versions they admit, the citation and the forms for issues."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version

import attnfaith

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
KINDS = {".css", ".j2", ".js", ".py", ".typed"}
"""What a package of attnfaith holds: code, templates, styles and the marker of type checkers."""


def files_of(target):
    """The paths in an archive, as the build configuration says; nothing is built."""
    builders = pytest.importorskip("hatchling.builders." + target, reason="hatchling builds the archives")
    builder = getattr(builders, f"{target.capitalize()}Builder")(str(ROOT))
    return {file.distribution_path for file in builder.recurse_included_files()}


def files_of_the_package():
    paths = (path for path in (ROOT / "attnfaith").rglob("*") if path.is_file())
    return {str(path.relative_to(ROOT)) for path in paths if path.suffix != ".pyc"}


def test_the_wheel_is_the_package_and_nothing_else():
    files = files_of("wheel")
    assert files == files_of_the_package()
    assert {Path(file).suffix for file in files} <= KINDS
    assert {"attnfaith/py.typed", "attnfaith/evaluation/verdict.txt.j2"} <= files


def test_the_source_archive_has_what_builds_the_wheel_and_what_readers_look_for():
    files = files_of("sdist")
    assert {file for file in files if file.startswith("attnfaith/")} == files_of_the_package()
    others = {file for file in files if not file.startswith("attnfaith/")} - {".gitignore"}
    added_by_the_builder = {"LICENSE", "README.md", "pyproject.toml"}
    assert others - added_by_the_builder == {"CHANGELOG.md", "CITATION.cff", "SECURITY.md", "constraints.txt"}


def requirements(lines):
    return {requirement.name: requirement for requirement in map(Requirement, lines)}


def pins(name):
    """The exact versions of a constraints file."""
    lines = (line.partition("#")[0].strip() for line in (ROOT / name).read_text(encoding="utf-8").splitlines())
    pinned = requirements(line for line in lines if line)
    assert {str(pin.specifier)[:2] for pin in pinned.values()} == {"=="}
    return {name: Version(str(pin.specifier)[2:]) for name, pin in pinned.items()}


def lower_bounds():
    bounds = {name: str(bound.specifier) for name, bound in requirements(PROJECT["dependencies"]).items()}
    assert all(re.fullmatch(r">=[\d.]+", bound) for bound in bounds.values())
    return {name: Version(bound[2:]) for name, bound in bounds.items()}


def test_every_lower_bound_is_a_version_that_is_tested():
    oldest = pins("constraints-oldest.txt")
    assert {name: oldest.get(name) for name in lower_bounds()} == lower_bounds()


def test_the_pinned_versions_are_admitted():
    newest = pins("constraints.txt")
    assert {name: newest[name] for name, bound in lower_bounds().items() if newest[name] < bound} == {}
    extras = [line for lines in PROJECT["optional-dependencies"].values() for line in lines]
    assert [name for name, bound in requirements(extras).items() if newest[name] not in bound.specifier] == []


def test_the_citation_is_of_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= set(citation)  # what the format requires
    assert citation["authors"] == PROJECT["authors"]
    assert (citation["version"], citation["license"]) == (attnfaith.__version__, PROJECT["license"])


FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.stem)
def test_a_form_for_issues_is_one_that_github_shows(form):
    content = yaml.safe_load(form.read_text(encoding="utf-8"))
    if form.stem == "config":
        assert content["blank_issues_enabled"] is True
        return
    assert {"name", "description", "body"} <= set(content)
    fields = [field for field in content["body"] if field["type"] != "markdown"]
    assert {field["type"] for field in fields} <= {"checkboxes", "dropdown", "input", "textarea"}
    assert all(field["attributes"]["label"] for field in fields)
    assert len({field["id"] for field in fields}) == len(fields)
    assert any("attnfaith --version" in str(field["attributes"]) for field in fields)
