"""Agreement: do attention and other rankings put the same items first? (Jain & Wallace 2019, section 4.1)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import pandas as pd
import pyarrow as pa
import torch

from attnfaith import validation
from attnfaith.adapters.self_check import tolerance_of
from attnfaith.attribution.method import ATTENTION
from attnfaith.errors import InputError, UnsupportedModelError
from attnfaith.estimates.lookup import SummaryLookup
from attnfaith.estimates.quantities import Quantities
from attnfaith.evaluation.batch import Batch
from attnfaith.evaluation.rankings import Ranking
from attnfaith.evaluation.removal import MARGIN
from attnfaith.evaluation.tests.agreement import summary as summaries
from attnfaith.evaluation.tests.base import Columns, Test, concat_columns, decision_cells, tests, to_cell
from attnfaith.functional.agreement import kendall, overlap, spearman
from attnfaith.metrics.citations import JAIN_WALLACE

PAIRS = ("all", ATTENTION)
OF_TOKENS = tuple(Ranking(name, "input") for name in summaries.MEASURES)
COLUMNS: list[tuple[str, Any]] = [
    ("text_id", pa.int64()),
    ("level", pa.string()),
    ("ranking_level", pa.string()),
    ("ranking", pa.string()),
    ("other_level", pa.string()),
    ("other", pa.string()),
    ("items", pa.int64()),
    ("tau", pa.float64()),
    ("p", pa.float64()),
    ("spearman", pa.float64()),
    ("overlap", pa.float64()),
    ("prediction", None),
    ("gold", None),
]


@tests.register("agreement")
@dataclass(frozen=True)
class Agreement(Test):
    """Rank correlation of every pair of rankings; attention and the two measures of the paper are always included.

    Attributes:
        pairs: "all", or "attention" for those that attention is one of.
        top: how many of the first items are looked at for their overlap, at most all; below 1 it is the share of the
            items, rounded up.
        alpha: p values of at most this are significant.
    """

    name: ClassVar[str] = "agreement"
    headline: ClassVar[Mapping[str, str]] = {
        "tau:input/gradient_attention_fixed": "tau with the gradient (attention held constant)",
        "tau:input/leave_one_out": "tau with leave-one-out",
    }
    metrics: ClassVar[tuple[str, ...]] = ("RankAgreement", "TopOverlap")
    citation: ClassVar[str] = JAIN_WALLACE
    question: ClassVar[str] = "Do rankings agree with each other?"
    reading: ClassVar[Mapping[str, str]] = {
        "matrix": (
            "Each cell is the mean Kendall's tau of two rankings over the texts: 1 for the same order, 0 for "
            "unrelated orders, -1 for reversed ones."
        ),
        "distributions": (
            "How many texts have which tau with attention, by predicted class. The further to the right, the more "
            "alike are the two orders; lines are means."
        ),
    }
    caveats: ClassVar[tuple[str, ...]] = (
        "Agreement says nothing about which ranking is right. Two rankings can agree and both miss what decides.",
        "In long texts most items have almost no weight, and their order is noise that lowers tau.",
        "A text where one of the rankings is constant has no tau. It is counted and left out.",
    )
    reported: ClassVar[Mapping[str, str]] = {
        **headline,
        "significant:input/gradient_attention_fixed": "tau with the gradient is significant",
        "significant:input/leave_one_out": "tau with leave-one-out is significant",
    }
    percentages: ClassVar[frozenset[str]] = frozenset(
        {"significant:input/gradient_attention_fixed", "significant:input/leave_one_out"}
    )
    pairs: str = "all"
    top: int | float = 0.1
    alpha: float = 0.05

    def __post_init__(self) -> None:
        if self.pairs not in PAIRS:
            raise InputError(f"Expected pairs to be 'all' or 'attention', got {self.pairs!r}.")
        check_top(self.top)
        validation.share(self.alpha, "alpha")

    def columns(self, outcome: pa.DataType) -> list[tuple[str, pa.DataType]]:
        """One row per text, level and pair of rankings."""
        return [(name, kind or outcome) for name, kind in COLUMNS]

    def run(self, batch: Batch) -> Columns:
        """Compare the scores of all rankings at once."""
        kept = batch.config.cache
        if self.name not in kept:  # on the trial's one text, so that what the model does not have is found only once
            kept[self.name] = {level: _supported(batch, level, listed) for level, listed in _compared(batch).items()}
        levels = kept[self.name].items()
        return concat_columns(dict(COLUMNS), (self._at(batch, level, rankings) for level, rankings in levels))

    def _at(self, batch: Batch, level: str, rankings: tuple[Ranking, ...]) -> Columns:
        """The rows of one level."""
        mask = batch.erasable(level)
        texts = (mask.sum(1) >= 2).nonzero().flatten()
        scores = torch.stack([batch.scores(item, level).double() for item in rankings], 1)[texts]
        mask, near = mask[texts], MARGIN * tolerance_of(batch.logits)
        first, second = torch.triu_indices(len(rankings), len(rankings), 1, device=mask.device)
        if self.pairs == ATTENTION:
            with_attention = [rankings[index] == Ranking(ATTENTION, level) for index in first.tolist()]
            first, second = first[with_attention], second[with_attention]
        result = kendall(scores, mask, near=near)
        figures = {
            "items": result.items,
            "tau": result.tau,
            "p": result.p,
            "spearman": spearman(scores, mask, near=near),
            "overlap": overlap(scores, mask, self.top),
        }
        chosen, count = texts.tolist(), len(first)
        decided = decision_cells(batch.config.decision, batch.logits)
        columns = {name: values[:, first, second].flatten().tolist() for name, values in figures.items()}
        firsts, seconds = ([rankings[index] for index in side.tolist()] for side in (first, second))
        columns |= {
            "text_id": [batch.rows[text].number for text in chosen for _ in range(count)],
            "level": [level] * (count * len(chosen)),
            "ranking_level": [ranking.level for ranking in firsts] * len(chosen),
            "ranking": [ranking.name for ranking in firsts] * len(chosen),
            "other_level": [ranking.level for ranking in seconds] * len(chosen),
            "other": [ranking.name for ranking in seconds] * len(chosen),
            "prediction": [decided[text] for text in chosen for _ in range(count)],
            "gold": [to_cell(batch.rows[text].label) for text in chosen for _ in range(count)],
        }
        return columns

    def quantities(self, table: Callable[[str], pd.DataFrame]) -> Iterable[Quantities]:
        """See `attnfaith.evaluation.tests.agreement.summary.quantities`."""
        return summaries.quantities(table(self.name), self.alpha)

    @classmethod
    def sentences(cls, figures: SummaryLookup, facts: Mapping[str, Any]) -> Iterator[str]:
        """The sentences for the verdict."""
        yield from summaries.sentences(figures)


def _compared(batch: Batch) -> dict[str, tuple[Ranking, ...]]:
    """The compared rankings: attention, the measures of the paper, then the others."""
    given, items = batch.config.rankings, batch.capture.items
    by_token = items is not None and items.kind == "tokens"
    levels = ("input",) if by_token and "input" in given else tuple(given)
    result = {}
    for level in levels:
        listed = [ranking for entry in (level, *(other for other in given if by_token)) for ranking in given[entry]]
        first = [Ranking(ATTENTION, level), *(OF_TOKENS if by_token or level == "input" else ())]
        result[level] = tuple(
            entry for entry in dict.fromkeys([*first, *listed]) if not (by_token and entry.repeats(level))
        )
    return result


def _supported(batch: Batch, level: str, rankings: tuple[Ranking, ...]) -> tuple[Ranking, ...]:
    """The rankings that the model supports."""
    works = []
    for ranking in rankings:
        try:
            batch.scores(ranking, level)
            works.append(ranking)
        except UnsupportedModelError as error:
            warnings.warn(f"The agreement test leaves out the ranking {ranking}: {error.message}", stacklevel=4)
    return tuple(works)


def check_top(top: Any) -> None:
    """Refuse a value that is neither a number of items nor a share."""
    if not validation.is_share(top):
        validation.whole_number(top, "top", least=1, also="a share between 0 and 1")
