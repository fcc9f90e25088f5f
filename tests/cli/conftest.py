"""Models and data that all tests of the commands share; made once."""

import math

import pytest

from attnfaith.evaluation import run_progress
from tests.helpers import commands


@pytest.fixture(autouse=True)
def no_forecast(monkeypatch):
    """So that what is on standard error does not depend on how fast the tests run."""
    monkeypatch.setattr(run_progress, "FORECAST_SECONDS", (math.inf, math.inf))


@pytest.fixture(scope="session")
def flan(tmp_path_factory):
    return commands.save_flan(tmp_path_factory.mktemp("models") / "flan")


@pytest.fixture(scope="session")
def bert(tmp_path_factory):
    return commands.save_bert(tmp_path_factory.mktemp("models") / "bert")


@pytest.fixture(scope="session")
def reviews(tmp_path_factory):
    """Twenty texts with labels."""
    return commands.reviews(tmp_path_factory.mktemp("data") / "reviews.csv", 20)


@pytest.fixture(scope="session")
def many(tmp_path_factory):
    """Five shards of them."""
    return commands.reviews(tmp_path_factory.mktemp("data") / "many.csv", 1200, longest=30)


@pytest.fixture(scope="session")
def finished(flan, reviews, tmp_path_factory):
    """A run that is done; not to be changed."""
    folder = tmp_path_factory.mktemp("runs") / "done"
    result = commands.run("evaluate", flan, reviews, "--output", folder, *commands.FEW)
    assert result.exit_code == 0, result.output
    return folder
