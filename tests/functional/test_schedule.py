"""The schedule: every step of short texts, a bounded number of steps of long ones."""

import itertools

import torch

from attnfaith.functional.schedule import FIRST, LATER, LONG, schedule_of


def steps_of(last, *, long):
    return [step for step in schedule_of(torch.tensor([last]), torch.tensor([long]))[0].tolist() if step]


def test_short_texts_have_every_step():
    for last in (1, 2, LONG - 1, LONG):
        assert steps_of(last, long=False) == list(range(1, last + 1))


def test_long_texts_have_a_bounded_number_that_ends_with_the_last():
    for last in (LONG, LONG + 1, 100, 127, 512, 1024, 4096):
        steps = steps_of(last, long=True)
        assert steps == sorted(set(steps))
        assert steps[: FIRST + 1] == [*range(1, FIRST + 1), steps[FIRST]]
        assert steps[-1] == last
        assert len(steps) <= FIRST + LATER <= 64
        gaps = [right - left for left, right in itertools.pairwise(steps)]
        assert max(gaps) <= last / 10  # nothing is skipped by more than a tenth of the text


def test_texts_of_one_batch_do_not_matter_to_each_other():
    lasts, long = torch.tensor([30, 200, 64, 1000]), torch.tensor([False, True, False, True])
    together = schedule_of(lasts, long)
    for text, last in enumerate(lasts.tolist()):
        assert [step for step in together[text].tolist() if step] == steps_of(last, long=bool(long[text]))
