"""Importing attnfaith is light, and every public name can be reached."""

import subprocess
import sys

import attnfaith

HEAVY = ("captum", "datasets", "matplotlib", "pandas", "sklearn")


def run(program: str) -> str:
    """Run a program in an interpreter of its own, where nothing has been imported yet."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def heavy_packages_after(statement: str) -> str:
    return run(f"import sys; {statement}; print(*[name for name in {HEAVY!r} if name in sys.modules])")


def test_import_is_light():
    assert heavy_packages_after("import attnfaith") == ""


def test_the_check_for_light_import_can_fail():
    assert heavy_packages_after("import attnfaith, pandas") == "pandas"


def test_import_draws_nothing_from_the_global_generators():
    program = """
import random, torch
random.seed(0), torch.manual_seed(0)
before = random.getstate(), torch.get_rng_state()
import attnfaith
print(random.getstate() == before[0], torch.equal(torch.get_rng_state(), before[1]))
"""
    assert run(program) == "True True"


def test_public_names_resolve():
    missing = [name for name in attnfaith.__all__ if not hasattr(attnfaith, name)]
    assert missing == []


def test_public_names_are_unique_and_listed():
    assert len(set(attnfaith.__all__)) == len(attnfaith.__all__)
    assert set(attnfaith.__all__) <= set(dir(attnfaith))


def test_unknown_name_is_an_attribute_error():
    assert not hasattr(attnfaith, "no_such_name")


def test_version_is_the_installed_one():
    from importlib.metadata import version

    assert attnfaith.__version__ == version("attnfaith")


def test_modules_of_estimates_and_tests_can_be_imported_first():
    names = ("estimates.lookup", "evaluation.tests.base", "evaluation.tests.erasure.plot", "metrics.estimates")
    for name in names:
        assert run(f"import attnfaith.{name}, attnfaith; print(attnfaith.tests.Erasure.name)") == "erasure"
