"""Tests that train without garbage collection in Trainer: it is slow where a whole test suite is loaded."""

import gc

import pytest


@pytest.fixture(scope="package", autouse=True)
def frozen_garbage():
    gc.freeze()
    yield
    gc.unfreeze()
