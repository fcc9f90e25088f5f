"""Equal sets of a text are run once, over all calls."""

import torch

from attnfaith.functional.known_sets import KnownSets


def test_each_set_of_a_text_is_run_once_over_all_calls():
    generator = torch.Generator().manual_seed(0)
    known, runs = KnownSets(6), []

    def value(text, row):
        return [float(text), sum(2.0**place for place, kept in enumerate(row) if kept)]

    def run(texts, keep):
        runs.extend(zip(texts.tolist(), map(tuple, keep.tolist()), strict=True))
        return torch.tensor([value(text, row) for text, row in zip(texts.tolist(), keep.tolist(), strict=True)])

    asked = set()
    for count in (1, 40, 7, 300, 5000):
        texts = torch.randint(4, (count,), generator=generator)
        keep = torch.rand(count, 6, generator=generator) < 0.5
        asked |= set(zip(texts.tolist(), map(tuple, keep.tolist()), strict=True))
        logits = known.logits(texts, keep, run)
        assert logits.tolist() == [value(*pair) for pair in zip(texts.tolist(), keep.tolist(), strict=True)]
    assert len(runs) == len(asked) == 4 * 2**6
    assert set(runs) == asked
