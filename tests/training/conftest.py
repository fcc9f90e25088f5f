"""Trainer collects garbage before it begins: slow where a whole test suite is loaded, and all of it would be kept."""

import gc

import pytest


@pytest.fixture(scope="package", autouse=True)
def frozen_garbage():
    gc.freeze()
    yield
    gc.unfreeze()
