"""Every part of the fault suite in its short form; `python -m tests.faults --long` is the long one."""

import pytest

from tests.faults import suite


@pytest.mark.parametrize("name", suite.names())
def test_short(name):
    part = suite.part_of(name)
    tally = part.run(part.short, 0)
    assert tally.tried > 0
    assert not tally.failures, "\n".join(f"{what}: {problem}" for what, problem in tally.failures[:20])


@pytest.mark.slow
@pytest.mark.parametrize("name", suite.names())
def test_another_seed(name):
    part = suite.part_of(name)
    tally = part.run(part.short, 1)
    assert not tally.failures, "\n".join(f"{what}: {problem}" for what, problem in tally.failures[:20])
