"""`TextCost`: how much work a text is expected to be, by its length and by what is run on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from torch import nn

from attnfaith.adapters.dummy_inputs import hidden_width
from attnfaith.evaluation.batch import RunConfig
from attnfaith.evaluation.rankings import Ranking
from attnfaith.evaluation.tests.base import Test
from attnfaith.evaluation.tests.base import tests as registered

BACKWARD = 3.0
"""A forward and backward pass, in forward passes."""


@dataclass(frozen=True)
class TextCost:
    """The expected cost of texts: `passes` and `work` for progress and the forecast, `forward` also to bound batches.

    Attributes:
        config: the configuration of the run.
        tests: the tests of the run, and those that these need (see `Test.needs`).
        operations: of one token in one forward pass, without attention.
        width: of the hidden states; None if the configuration does not say. Attention then counts as nothing.
    """

    config: RunConfig
    tests: Sequence[Test]
    operations: float
    width: int | None

    @classmethod
    def of(cls, config: RunConfig, tests: Sequence[Test]) -> TextCost:
        """The cost for a run, from the weights of its model."""
        model = config.cut.model
        weights = sum(
            parameter.numel()
            for module in model.modules()
            if not isinstance(module, nn.Embedding)
            for parameter in module.parameters(recurse=False)
        )
        needed = {name for test in tests for name in test.needs} - {test.name for test in tests}
        tests = [*tests, *(registered[name]() for name in sorted(needed))]
        return cls(config, tests, 2.0 * weights, hidden_width(model))

    def forward(self, tokens: int) -> float:
        """One forward pass of a text, in tokens; long texts cost more, since the attention grows with their square."""
        return tokens * (1.0 if self.width is None else 1.0 + tokens / (6.0 * self.width))

    def passes(self, tokens: int) -> Mapping[str, float]:
        """The expected cost of a text of so many tokens, in forward passes through the whole model, by its purpose.

        A forward and backward pass counts as `BACKWARD`. Decisions that flip early need fewer.
        """
        found = {"capture": 1.0}
        for ranking in dict.fromkeys(self._rankings):
            found[str(ranking)] = _passes_of(ranking, tokens)
        for test in self.tests:
            found[test.name] = test.passes(self.config, tokens)
        return found

    def work(self, lengths: Sequence[int]) -> float:
        """The work on the texts of a batch, in tokens of a forward pass.

        The capture pads all texts of a batch to the longest. Tests and rankings put texts of similar lengths together.
        """
        padded = len(lengths) * self.forward(max(lengths))
        return padded + sum(self.forward(tokens) * (sum(self.passes(tokens).values()) - 1.0) for tokens in lengths)

    @property
    def _rankings(self) -> Iterator[Ranking]:
        return (ranking for listed in self.config.rankings.values() for ranking in listed)

    def weight(self, label: str) -> float:
        """The cost of one counted pass, in forward passes, by its purpose."""
        return next((_backward(ranking) for ranking in self._rankings if str(ranking) == label), 1.0)


def _backward(ranking: Ranking) -> float:
    return BACKWARD if ranking.level == "input" and ranking.method.backward else 1.0


def _passes_of(ranking: Ranking, tokens: int) -> float:
    """The forward passes of a ranking; none through the tail, which costs a small part of a pass."""
    if ranking.level != "input":
        return 0.0
    return (ranking.method.passes_for(tokens) or 0.0) * _backward(ranking)
