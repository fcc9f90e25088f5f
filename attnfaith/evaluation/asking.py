"""The same texts and rankings, asked of another model than the one that is judged."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor

from attnfaith.adapters.rows import choose_inputs
from attnfaith.attribution.controls import keyed_generator
from attnfaith.errors import NumericalError, UnsupportedModelError
from attnfaith.evaluation.batch import Batch
from attnfaith.evaluation.randomised import Other
from attnfaith.evaluation.rankings import Ranking


class Twin(Batch):
    """Some texts of a batch through another model; what is explained is still what the original one decides.

    Random rankings draw anew: with the same draw they would agree with themselves, whatever the model.

    Args:
        batch: the texts, through the original model.
        other: the model.
        texts: places in the batch.
    """

    def __init__(self, batch: Batch, other: Other, texts: Sequence[int]) -> None:
        settings = batch.setup.settings
        again = keyed_generator(settings.seed, "sanity", other.layer, other.depth).initial_seed()
        setup = replace(batch.setup, cut=other.cut, settings=replace(settings, seed=again), hiding=None, kept={})
        self._places = torch.tensor(texts, device=batch.capture.mask.device)
        self._original = batch
        inputs = choose_inputs(batch.inputs, len(batch.rows), self._places)
        super().__init__(setup, [batch.rows[text] for text in texts], [batch.encoded[text] for text in texts], inputs)

    @cached_property
    def target(self) -> Tensor:
        """As of the original."""
        return self._original.target[self._places]


@dataclass(frozen=True)
class Answer:
    """A ranking's scores of the texts of a batch.

    Attributes:
        values: ``[B, N]``, NaN where there are none.
        reasons: for each text why there are none; empty where there are.
    """

    values: Tensor
    reasons: list[str]


def answers(batch: Batch, others: Sequence[Other], rankings: Sequence[Ranking]) -> list[Answer]:
    """What each ranking scores the items of a batch, at its own level, when other models are asked.

    Args:
        batch: the texts, through the original model.
        others: the models; each text is asked of one of them, see `turn_of`.
        rankings: registered ones; those that a user brings ask no model.
    """
    before = [batch.scores(ranking, ranking.level) for ranking in rankings]
    found = [Answer(torch.empty_like(one, dtype=torch.float64), [""] * len(one)) for one in before]
    for turn, other in enumerate(others):
        texts = [place for place, row in enumerate(batch.rows) if turn_of(row.number, len(others)) == turn]
        asked = _asked(batch, other, rankings, [one.shape[1] for one in before], texts) if texts else ()
        for answer, part in zip(found, asked, strict=False):
            answer.values[texts] = part.values
            for text, reason in zip(texts, part.reasons, strict=True):
                answer.reasons[text] = reason
    return found


def turn_of(number: int, count: int) -> int:
    """Which of so many models a text is asked of; by chance, but always the same.

    Example:
        >>> [turn_of(number, 3) for number in range(8)]
        [0, 1, 0, 1, 2, 1, 2, 2]
    """
    return keyed_generator("turn", number).initial_seed() % count


def _asked(
    batch: Batch, other: Other, rankings: Sequence[Ranking], widths: Sequence[int], texts: Sequence[int]
) -> list[Answer]:
    """In halves where some text has no finite numbers, so that the others keep theirs."""
    if other.problem:
        return [Answer(_nothing(batch, len(texts), width), [other.problem] * len(texts)) for width in widths]
    try:
        twin = Twin(batch, other, texts)
        return [_scored(twin, ranking, width) for ranking, width in zip(rankings, widths, strict=True)]
    except NumericalError:
        if len(texts) == 1:
            why = ["its numbers in the other model are not finite"]
            return [Answer(_nothing(batch, 1, width), why) for width in widths]
    halves = [_asked(batch, other, rankings, widths, part) for part in _halves(texts)]
    return [
        Answer(torch.cat([one.values, two.values]), [*one.reasons, *two.reasons])
        for one, two in zip(*halves, strict=True)
    ]


def _scored(twin: Twin, ranking: Ranking, width: int) -> Answer:
    count = len(twin.rows)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a path of gradients is long in a random model helps nobody
            values = twin.scores(ranking, ranking.level).double()
    except UnsupportedModelError as error:
        return Answer(_nothing(twin, count, width), [str(error).split(". ")[0]] * count)
    return Answer(F.pad(values, (0, width - values.shape[1])), [""] * count)  # few texts may have fewer sentences


def _halves(texts: Sequence[int]) -> tuple[Sequence[int], Sequence[int]]:
    return texts[: len(texts) // 2], texts[len(texts) // 2 :]


def _nothing(batch: Batch, count: int, width: int) -> Tensor:
    return torch.full((count, width), torch.nan, dtype=torch.float64, device=batch.logits.device)
