"""Shared set-up: no network, one thread, a fresh seed for every test, and where real data are."""

import gc
import os

# Before anything imports transformers: huggingface_hub reads these once, at import.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_DATASETS_OFFLINE"] = "1"
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import random
from pathlib import Path

import numpy as np
import pytest
import torch

from attnfaith.tiny_models import model_types
from tests.helpers.installed_families import BROKEN_IN_OLDER, NEWER_FAMILIES, is_older

SEED = 0

# The models here are tiny: threads only add overhead, and one thread adds in the same order on every machine.
torch.set_num_threads(1)

# Models are built by the thousand; looking for garbage less often saves a twentieth of the time.
gc.set_threshold(100_000, 50, 50)


def pytest_collection_finish() -> None:
    """Keep what is loaded by now out of every later look for garbage; `Trainer` looks after each evaluation."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Start every test, and the fixtures made for it, from one seed: no test depends on which ran before."""
    random.seed(SEED)
    np.random.seed(SEED)  # noqa: NPY002 (libraries under test draw from it)
    torch.manual_seed(SEED)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """On an older Transformers, skip the tests of families that it lacks or that fail in it without attnfaith."""
    if not is_older():
        return
    missing = NEWER_FAMILIES - set(model_types()) | BROKEN_IN_OLDER
    for item in items:
        values = getattr(getattr(item, "callspec", None), "params", {}).values()
        if any(isinstance(value, str) and value in missing for value in values):
            item.add_marker(pytest.mark.skip(reason="this Transformers is older than the family, or its model fails"))


@pytest.fixture
def generator() -> torch.Generator:
    """A stream of its own, for the draws a test makes itself."""
    return torch.Generator().manual_seed(SEED)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real data (its layout: docs/data.md); the test is skipped where there is none."""
    value = os.environ.get("ATTNFAITH_DATA")
    if not value:
        pytest.skip("needs real data: set ATTNFAITH_DATA to a folder laid out as docs/data.md says")
    path = Path(value)
    if not path.is_dir():
        pytest.fail(f"ATTNFAITH_DATA is {value!r}, which is not a folder")
    return path
